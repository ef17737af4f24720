#!/bin/sh
# How make check counts what its suites print (test/scripts/results.awk); prints TAP.
#
# To see it fail: count a test that is skipped, or to be done, as one that passed; leave a
# program that prove finds broken out.
set -eu

cd "$(dirname "$0")/../.."
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cat >"$directory/tap.log" <<'TAP'
ok 1 - passed
ok 2 - skipped # skip for a reason
ok 3 - passed, with \# skip in its name
ok 4 # SKIP without a name
ok 5 - to be done # TODO
not ok 6 - to be done # TODO
not ok 7 - failed
ok 8
1..8
test passed    ... ok           12 ms
test failed    ... FAILED        1 ms
test/t/broken.pl (Wstat: 7424 Tests: 95 Failed: 0)
test/t/failed.pl (Wstat: 256 Tests: 95 Failed: 1)
TAP
echo '1..0 # SKIP nothing to test with' >"$directory/whole.pl"
counted=$(awk -v LABEL=tap -v SKIPS="$directory/skips" -v FAILURES="$directory/failures" \
	-f test/scripts/results.awk "$directory/tap.log" "$directory/whole.pl")
skips=$(cat "$directory/skips")
failures=$(cat "$directory/failures")
status=0

is() { # is NUMBER NAME WHAT WANTED
	if [ "$3" = "$4" ]; then
		echo "ok $1 - $2"
	else
		status=1
		echo "not ok $1 - $2"
		printf '%s\n' "is:" "$3" "should be:" "$4" | sed 's/^/# /'
	fi
}
is 1 "what passed, failed and was skipped" "$counted" "4 3 3"
is 2 "each skip with its reason" "$skips" "tap: skipped: for a reason
tap: without a name
tap: whole.pl: nothing to test with"
is 3 "each failure" "$failures" "tap: not ok 7 - failed
tap: failed
tap: test/t/broken.pl (Wstat: 7424 Tests: 95 Failed: 0)"
echo 1..3
exit $status
