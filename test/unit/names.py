"""Names in words that lead nowhere, after what they name was renamed or removed; prints TAP.

    names.py TREE

Looked at are comments of src and of tests, and the pages beside them:

- function() is one of ours, or of the server's headers; a word with an underscore is in
  some source, script or test, or the name of a file;
- a source file, by name and ending, is there;
- test/mutation/subjects names sources and tests that are there, and every source.

To see it fail: rename a function of src that the head of a test names; name a test in
test/mutation/subjects that is not there.
"""
import glob
import os
import re
import subprocess
import sys

# What is no name of ours, and where.
ALLOWED = {
    "src/README.md: NN_subject": "a pattern",
    "test/moving/test_graphile.py: is_available": "a column of graphile-worker",
    "src/README.md: DLANE_WINDOW": "an option of the compiler",
    "src/README.md: DUSE_ASSERT_CHECKING": "an option of the compiler",
    "cluster/route_look.c: rows_of_VIEW": "a pattern",
    "test/t/engine_fair_order.pl: served_alice": "in a formula",
    "test/t/engine_fair_order.pl: served_bob": "in a formula",
}

DOCSTRING = r'(?ms:^[ \t]*""".*?""")'
NO_CODE = (".md", ".out", ".csv", ".o", ".bc", ".so", ".svg", ".png")
tests = []
allowed = set()


def none(what, found):
    """A test: there is nothing that should not be."""
    allowed.update(name for _, name in found if name in ALLOWED)
    found = [place for place, name in found if name not in ALLOWED]
    tests.append(not found)
    print("%s %d - %s" % ("not ok" if found else "ok", len(tests), what))
    for place in sorted(found):
        print("# " + place)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def comments(path):
    """(line, text) of the comments of a file; all of a page."""
    text = read(path)
    if path.endswith(".md"):
        pattern = r"(?s).+"
    elif path.endswith((".c", ".h")):
        pattern = r"(?s)/\*.*?\*/"
    else:
        pattern = DOCSTRING + r"|(?m:(?:^[ \t]*(?:#|--|//).*\n)+)"
    for match in re.finditer(pattern, text):
        yield text.count("\n", 0, match.start()) + 1, match[0]


def code(path):
    """A file without its comments."""
    text = read(path)
    if path.endswith((".c", ".h")):
        return re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return re.sub(DOCSTRING + r"|(?m:^[ \t]*(?:#|--|//).*$)", "", text)


def files():
    for folder, folders, names in os.walk("."):
        folders[:] = [name for name in folders if name not in (".git", ".node", "node_modules", "results", "tmp_check")]
        for name in names:
            yield os.path.relpath(os.path.join(folder, name))


def words(paths):
    return {word for path in paths for word in re.findall(r"\w+", code(path))}


def server_words():
    include = subprocess.run([os.environ.get("PG_CONFIG", "pg_config"), "--includedir-server"],
                             stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
    return {word for path in glob.glob(include + "/**/*.h", recursive=True) for word in re.findall(r"\w+(?=\()", read(path))}


def looked_at(path):
    if path.startswith(("test/upgrade/", "test/bench/")):
        return False
    return path.startswith(("src/", "cluster/", "test/", "doc/development.md", "sql/README.md")) and path.endswith((".c", ".h", ".pl", ".pm", ".py", ".sql", ".spec", ".sh", ".md"))


def main():
    os.chdir(sys.argv[1])
    paths = list(files())
    here = os.path.join("test", "unit", "names.py")
    known = words(path for path in paths if not path.endswith(NO_CODE) and path != here)
    known |= {os.path.splitext(os.path.basename(path))[0] for path in paths}
    server = server_words()
    there = {os.path.basename(path) for path in paths}
    names, sources = [], []
    seen = 0
    for path in filter(looked_at, paths):
        for line, text in comments(path):
            def place(match):
                return "%s:%d: %s" % (path, line + text.count("\n", 0, match.start()), match[1])
            # A part of one letter is an index of mathematics.
            for match in re.finditer(r"\b([a-zA-Z]\w*(?:(?<=\w)_[a-zA-Z0-9]{2,})\b|[a-zA-Z]\w+(?=\(\)))", text):
                seen += 1
                name = match[1]
                if name not in known and "fairq_" + name not in known and name not in server:
                    names.append((place(match), "%s: %s" % (path, name)))
            for match in re.finditer(r"(?<![\w/.<-])([a-z_0-9]{3,}\.[ch])\b", text):
                if match[1] not in there:
                    sources.append((place(match), "%s: %s" % (path, match[1])))
    if seen < 1000 or len(server) < 1000:
        print("Bail out! This is no tree of ours, or there are no headers of a server.")
        return 1
    none("comments and pages name what is there", names)
    none("they name source files that are there", sources)
    sys.path.insert(0, "test/mutation")
    import mutants
    none("test/mutation/subjects names sources and tests that are there, and all sources",
         [("test/mutation/subjects: " + line, "") for line in mutants.subjects(".")[1]])
    none("what is allowed is there", [(name, "") for name in ALLOWED if name not in allowed])
    print("1..%d" % len(tests))
    return 0 if all(tests) else 1


if __name__ == "__main__":
    sys.exit(main())
