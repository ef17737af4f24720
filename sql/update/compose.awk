# Puts an update script together.
#
#   \include FILE     the file as it is
#   \replace FILE     what an install script has that can be run again: its
#                     functions, procedures and views, each with OR REPLACE, and
#                     its comments
#
# So a function is declared in one place, for a new database and an updated one.
# Tables, types, triggers and privileges are not in it: they are there, the last
# as the administrator has them. What is new of them, or changed, the update says
# itself, before the line.

function fail(what) {
	print FILENAME ": " what > "/dev/stderr"
	exit failed = 1
}

function include(file,    line, got) {
	while ((got = (getline line < file)) > 0)
		print line
	if (got < 0)
		fail("cannot read " file)
	close(file)
}

# A statement ends with the line that ends with ";", unless that is in a body,
# between $$ and $$. The comment above it goes along.
function replace(file,    line, got, above, inside, taken, body, found) {
	while ((got = (getline line < file)) > 0) {
		if (!inside && line ~ /^--/) {
			above = above line "\n"
			continue
		}
		if (!inside && (line == "" || line ~ /^\\/)) {
			above = ""
			continue
		}
		if (!inside) {
			inside = 1
			taken = sub(/^CREATE (OR REPLACE )?FUNCTION /, "CREATE OR REPLACE FUNCTION ", line) ||
				sub(/^CREATE (OR REPLACE )?PROCEDURE /, "CREATE OR REPLACE PROCEDURE ", line) ||
				sub(/^CREATE (OR REPLACE )?VIEW /, "CREATE OR REPLACE VIEW ", line) || line ~ /^COMMENT ON /
			found += taken
			if (taken)
				printf "%s%s", line ~ /^CREATE / ? "\n" : "", above
			above = ""
		}
		if (taken)
			print line
		body += gsub(/\$\$/, "", line)
		if (body % 2 == 0 && line ~ /;$/)
			inside = 0
	}
	if (got < 0 || !found)
		fail("no functions in " file)
	if (inside)
		fail("a statement without an end in " file)
	close(file)
}

/^\\include / { include($2); next }
/^\\replace / { replace($2); next }
{ print }
END { exit failed }
