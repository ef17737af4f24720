#!/usr/bin/env python3
"""Every place that names the version of a release, and whether they agree.

    packaging/versions.py [CHECKOUT]

META.json is the one that leads. Prints each place with its version, and fails if one
names another version, or none.
"""

import json
import os
import re
import sys

# file: what stands around the version. A folder that is not there is no part yet.
PLACES = {
    "META.json": r'\A\{\n\t"name": "pgfairq",(?:\n.*)*?\n\t"version": "([^"]+)"',
    "pgfairq.control": r"^default_version *= *'([^']+)'",
    "pgfairq_cluster.control": r"^default_version *= *'([^']+)'",
    "CHANGELOG.md": r"^## (\d+\.\d+\.\d+)",
    "README.md": r"^\*\*State\*\*: version ([\d.]+\d)",
    "packaging/debian/changelog": r"\Apgfairq \(([^)]+)-\d+\)",
    "packaging/cnpg/cluster.yaml": r"reference: \S+/pgfairq:([^-\s]+)-\d+-",
    "packaging/cnpg/database.yaml": r'version: "([^"]+)"',
    "clients/python/pyproject.toml": r'^version = "([^"]+)"',
    "clients/node/package.json": r'^  "version": "([^"]+)"',
    "clients/node/package-lock.json": r'^  "version": "([^"]+)"',
    "clients/ruby/lib/active_job/fairq/version.rb": r'^ *VERSION = "([^"]+)"',
}


def provided(checkout):
    """The versions that META.json names besides its own."""
    with open(os.path.join(checkout, "META.json"), encoding="utf-8") as file:
        for name, extension in json.load(file)["provides"].items():
            yield f"META.json: provides.{name}", extension["version"]
            yield f"META.json: provides.{name}.file", re.search(r"--(.*)\.sql$", extension["file"])[1]


def places(checkout):
    for path, pattern in PLACES.items():
        full = os.path.join(checkout, path)
        if not os.path.exists(os.path.dirname(full)):
            continue
        try:
            with open(full, encoding="utf-8") as file:
                found = re.search(pattern, file.read(), re.M)
        except FileNotFoundError:
            found = None
        yield path, found[1] if found else None
    yield from provided(checkout)


def main():
    checkout = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    there = list(places(checkout))
    version = there[0][1]
    wrong = [path for path, found in there if found != version or not found]
    for path, found in there:
        print(f"{found or '(none)':10} {path}{'' if found == version else f' <- not {version}'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
