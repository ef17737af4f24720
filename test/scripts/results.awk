# Counts what pg_regress 15 ("test x ... ok") and later ones (TAP), prove and other
# programs that print TAP say: "passed failed skipped". What is to be done (# TODO) is none
# of these. A test that is skipped, with its reason, goes to the file SKIPS, and one that
# failed to the file FAILURES, if these are given.
#
# -v LABEL=SUITE and the file's name say where such a test is: what prove left of each
# program is in a file of its own.

function skip(what) {
	skipped++
	if (SKIPS != "") print what >>SKIPS
}

function fail(what,   program) {
	failed++
	program = FILENAME
	sub(/.*\//, "", program)
	if (FAILURES != "") print LABEL ": " (program ~ /\.pl$/ ? program ": " : "") what >>FAILURES
}

/^test +[^ ]+ +\.\.\. +ok( |$)/     { passed++ }
/^test +[^ ]+ +\.\.\. +FAILED/      { fail($2) }
/^ok [0-9]+( +[-#].*)?$/ {
	if (tolower($0) ~ /[^\\]# todo/) next
	if (tolower($0) !~ /[^\\]# skip/) { passed++; next }
	line = $0
	sub(/^ok [0-9]+ *(- *)?/, "", line)
	at = match(tolower(line), /# skip/)
	reason = substr(line, at + 6)
	sub(/^[^ ]* */, "", reason)
	name = substr(line, 1, at - 1)
	sub(/ +$/, "", name)
	skip(LABEL ": " (name == "" ? "" : name ": ") reason)
}
/^not ok [0-9]+( +-.*)?$/ && tolower($0) !~ /[^\\]# todo/   { fail($0) }
# a whole program
tolower($0) ~ /^1\.\.0 *# *skip/ {
	reason = $0
	sub(/^1\.\.0 *# *[A-Za-z]+ */, "", reason)
	program = FILENAME
	sub(/.*\//, "", program)
	skip(LABEL ": " program ": " reason)
}
/^test\/.*\(Wstat: .* Failed: 0\)$/ { fail($0) } # prove: broke off, or not the tests it planned
END { print passed + 0, failed + 0, skipped + 0 }
