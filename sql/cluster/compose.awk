# Puts the install script of pgfairq_cluster together from its fragments.
#
#   \include FILE     the file, whose functions are in the library pgfairq
#   \functions FILE   the functions and procedures of schema fairq in FILE, which
#                     are an application's: of the same names and arguments here,
#                     and in C with cluster_ in their names
#   \comments FILE    the comments of FILE on what there is here, each a line
#
# So an application's function is declared in one place, for a node and a proxy.

function fail(what) {
	print FILENAME ": " what > "/dev/stderr"
	exit failed = 1
}

# Print a line, and note what it creates.
function put(line,    words) {
	print line
	if (line ~ /^CREATE /) {
		sub(/^CREATE (OR REPLACE )?(UNIQUE )?/, "", line)
		split(line, words, /[ (;]/)
		there[words[1], words[words[2] == "CLASS" ? 3 : 2]] = 1
	}
}

function include(file,    line, got) {
	while ((got = (getline line < file)) > 0) {
		sub(/'MODULE_PATHNAME'/, "'$libdir/pgfairq'", line)
		put(line)
	}
	if (got < 0)
		fail("cannot read " file)
	close(file)
}

# Statements of FILE, which empty lines part.
function functions(file,    line, statement, got) {
	while ((got = (getline line < file)) > 0) {
		if (line == "") {
			one_function(statement)
			statement = ""
		} else
			statement = statement (statement == "" ? "" : "\n") line
	}
	if (got < 0)
		fail("cannot read " file)
	one_function(statement)
	close(file)
}

function one_function(statement) {
	if (statement !~ /^CREATE OR REPLACE (FUNCTION|PROCEDURE) fairq\./)
		return
	if (!sub(/'MODULE_PATHNAME', 'fairq_/, "'MODULE_PATHNAME', 'fairq_cluster_", statement))
		fail("not in C: " statement)
	put(statement "\n")
}

function comments(file,    line, words, kind, name, got) {
	while ((got = (getline line < file)) > 0) {
		split(line, words, " ")
		kind = words[3]
		name = words[words[4] == "CLASS" || words[4] == "FAMILY" ? 5 : 4]
		if (kind == "COLUMN") {
			sub(/\.[^.]*$/, "", name)
			kind = (("TYPE", name) in there) ? "TYPE" : (("VIEW", name) in there) ? "VIEW" : "TABLE"
		}
		if (words[1] == "COMMENT" && ((kind, name) in there || words[4] == "FAMILY"))
			print line
	}
	if (got < 0)
		fail("cannot read " file)
	close(file)
}

BEGIN { print "\\echo Use \"CREATE EXTENSION pgfairq_cluster\" to load this file. \\quit\n" }
/^\\include / { include($2); next }
/^\\functions / { functions($2); next }
/^\\comments / { comments($2); next }
{ put($0) }
END { exit failed }
