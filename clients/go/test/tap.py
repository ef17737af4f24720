"""What `go test -json` says, as TAP. A test that is skipped is a failure here: what the suite
needs is installed by its needs.sh.

    go test -json ... | tap.py NAME
"""
import json
import sys


def main(suite):
    outputs, number, failed = {}, 0, 0
    rest = []       # of a compiler, or of a package that ended without its tests
    for line in sys.stdin:
        try:
            event = json.loads(line)
        except ValueError:
            rest.append(line)
            continue
        test, action = event.get("Test"), event.get("Action")
        if action == "output":
            (rest if test is None else outputs.setdefault(test, [])).append(event["Output"])
        if action not in ("pass", "fail", "skip") or (test is not None and "/" in test):
            continue
        if test is None:
            if action != "fail" or failed:
                continue
            test, outputs[test] = event["Package"], rest
        passed = action == "pass"
        number, failed = number + 1, failed + (not passed)
        print(f"{'ok' if passed else 'not ok'} {number} - {suite}: {test}", flush=True)
        for text in [] if passed else outputs.get(test, []):
            print("# " + text.rstrip("\n"), flush=True)
    if not number:
        print(f"not ok 1 - {suite}: no test has run")
        print("# " + "# ".join(rest))
    return 1 if failed or not number else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
