"""How src and cluster are built, checked on a tree that has been compiled; prints TAP.

    house.py TREE

- Includes and calls go down the tables of layers in src/README.md and cluster/README.md,
  never up. Calls are read from the object files: what they define and need. Between the
  two libraries there are none: what one has for the other is in src/engine.h.
- The libraries export what the server calls, and nothing else; also what the SQL of
  released versions names, which pg_upgrade creates with later libraries.
- Lines, functions and files keep to the lengths below.
- Comments, README.md, those of src and cluster and the pages of doc name a backend or a
  transaction as such, not as a person, and have no word of a mechanism that is gone. No
  comment begins with "The same", which cannot be read alone.

To see it fail: include "sql/arguments.h" in src/shmem/lanes.c, or call something of
it, there or in cluster; leave the version script out of src/library.mk; call a function otherwise that
test/upgrade names; write a longer line; write "Lane locked." over a function; write of what
nobody does, or of a feed; move a row of the table of layers.
"""
import glob
import os
import re
import subprocess
import sys

COLUMNS, COMMENT_COLUMNS, FILE_LINES, FUNCTION_LINES, PARAMETERS, WORDS = 100, 80, 700, 80, 6, 30

# Words that comments and pages do without: they are said of persons.
PERSONS = re.compile(r"\b(somebody|nobody|his|him|himself|he)\b", re.I)

# Words of mechanisms that are gone: src/README.md has those that took their places.
RETIRED = re.compile(r"\b(replenish\w*|feeds?|starv(?:ed|ing)|unwritten|treaps?)\b", re.I)

# What an Assert says, and is checked.
CONTRACT = re.compile(r"(?:[.:?!]|/\*)\s+((?:The )?(?:Partition|Creation lock|Entry|Lane|Table|Directory|Lock|List|Place)"
                      r"(?: is)? (?:locked|held)(?: exclusively)?)\.")

# The libraries, and symbols that each has of its own.
ENGINE, PROXY = "pgfairq.so", "cluster/pgfairq_cluster.so"
BOTH = ("Pg_magic_func", "_PG_init")

# What is beyond, and why: "file: function()" or a file.
ALLOWED = {
    "src/worker/database_hooks.c: process_utility()": "the server's hook has these parameters",
    "src/common/compat.h: fairq_heap_update()": "as heap_update() of the server",
}

tests = []
allowed = set()


def none(what, found):
    """A test: there is nothing that should not be."""
    names = {line: re.match(r"[^ ]+: \w+\(\)|[^:]+", line)[0] for line in found}
    allowed.update(name for name in names.values() if name in ALLOWED)
    found = [line for line in found if names[line] not in ALLOWED]
    tests.append(not found)
    print("%s %d - %s" % ("not ok" if found else "ok", len(tests), what))
    for line in sorted(found):
        print("# " + line)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def layers():
    """The files of the tables of layers, in their order: first those of a proxy."""
    rows = [(above + folder, names) for page, above in (("cluster/README.md", ""), ("src/README.md", "src/"))
            for folder, names in re.findall(r"^\| `(\w+)/`[^|]* \| ([^|]*) \|", read(page), re.M)]
    return ["%s/%s" % (folder, name) for folder, names in rows for name in re.findall(r"`(\w+\.c)`", names)]


def tree_files(pattern):
    return [path for folder in ("src", "cluster") for path in glob.glob(folder + pattern, recursive=True)]


def upwards(pairs, order):
    """Pairs of paths whose first one is behind the second one; what has no place there is before all."""
    return ["%s -> %s" % (a, b) for a, b in pairs if order.get(a, -1) > order.get(b, -1)]


def calls():
    """(user, definer) of object files, by symbols, but for what both libraries have."""
    defined, needed = {}, []
    for path in tree_files("/**/*.o"):
        if not os.path.exists(path[:-2] + ".c"):
            continue
        output = subprocess.run(["nm", path], stdout=subprocess.PIPE, check=True, text=True).stdout
        for words in map(str.split, output.splitlines()):
            if words[-2] in "TDBRC" and words[-1] not in BOTH:
                defined[words[-1]] = path
            elif words[-2] == "U":
                needed.append((path, words[-1]))
    return {(user[:-2] + ".c", defined[symbol][:-2] + ".c") for user, symbol in needed if symbol in defined}


def symbols(library):
    output = subprocess.run(["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE,
                            check=True, text=True).stdout
    return [line.split()[2] for line in output.splitlines()]


def exported(library, workers):
    ours = re.compile(r"Pg_magic_func|_PG_init|(pg_finfo_)?fairq_\w+|" + workers)
    return ["%s: %s" % (library, symbol) for symbol in symbols(library) if not ours.fullmatch(symbol)]


def retired():
    """What a script of a released version names and its library has not. A proxy's that does not
    name the library of a node is of when there was no other."""
    there = {library: set(symbols(library)) for library in (ENGINE, PROXY)}
    scripts = sorted(glob.glob("test/upgrade/pgfairq*--*.sql"))
    named = []
    for script in scripts:
        own = PROXY if "'$libdir/pgfairq'" in read(script) else ENGINE
        named += [(script, own if place == "MODULE_PATHNAME" else ENGINE, symbol)
                  for place, symbol in re.findall(r"'(MODULE_PATHNAME|\$libdir/pgfairq)', '(\w+)'", read(script))]
    if len(named) < 60 * len(scripts) or not scripts:
        return ["test/upgrade: no scripts that name functions"]
    return ["%s: %s" % (script, symbol) for script, library, symbol in named
            if not {symbol, "pg_finfo_" + symbol} <= there[library]]


def too_long(sources):
    """(lines, lines of comments, files, functions, parameters)"""
    lines, wide, files, functions, parameters = [], [], [], [], []
    for path in sources:
        text = read(path)
        rows = text.split("\n")
        if len(rows) - 1 > FILE_LINES:
            files.append("%s: %d lines" % (path, len(rows) - 1))
        for number, row in enumerate(rows, 1):
            # The text of a message stays in one piece, to be found.
            if len(row.expandtabs(4)) > COLUMNS and '"' not in row:
                lines.append("%s:%d: %d columns" % (path, number, len(row.expandtabs(4))))
            if len(row.expandtabs(4)) > COMMENT_COLUMNS and re.match(r"\s*(/\*|\* )", row):
                wide.append("%s:%d: %d columns" % (path, number, len(row.expandtabs(4))))
        for match in re.finditer(r"^([a-z]\w*)\(([^;{]*?)\)\n\{\n(.*?)^\}", text, re.M | re.S):
            length = match[0].count("\n") + 1
            if length > FUNCTION_LINES:
                functions.append("%s: %s() has %d lines" % (path, match[1], length))
            count = match[2].count(",") + 1
            if count > PARAMETERS:
                parameters.append("%s: %s() has %d parameters" % (path, match[1], count))
    return lines, wide, files, functions, parameters


def comments(path):
    """(line, text) of the comments of a file."""
    text = read(path)
    for match in re.finditer(r"/\*.*?\*/", text, re.S):
        yield text.count("\n", 0, match.start()) + 1, re.sub(r"\s*\n\s*\*?\s*", " ", match[0])


def wordings(sources):
    """(of persons, beginning with "The same", for an Assert, retired)"""
    persons, same, contracts, retired_words = [], [], [], []
    for path in sources:
        for line, text in comments(path):
            persons += ["%s:%d: %s" % (path, line, word) for word in PERSONS.findall(text)]
            retired_words += ["%s:%d: %s" % (path, line, word) for word in RETIRED.findall(text)]
            if re.match(r"/\*\W*the same\b", text, re.I):
                same.append("%s:%d" % (path, line))
            contracts += ["%s:%d: %s" % (path, line, words) for words in CONTRACT.findall(text)]
    return persons, same, contracts, retired_words


def prose(path):
    """The lines of a page with their numbers, without code and the addresses of links."""
    text = re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), read(path), flags=re.M | re.S)
    text = re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", text)
    return enumerate(text.split("\n"), 1)


def words_of_pages(words):
    pages = ["README.md", "src/README.md", "cluster/README.md"] + sorted(glob.glob("doc/*.md"))
    return ["%s:%d: %s" % (path, line, word)
            for path in pages for line, text in prose(path) for word in words.findall(text)]


def glossary():
    """What the words of src/README.md are, each with its file."""
    section = read("src/README.md").split("\n## Words\n")[1].split("\n## ")[0]
    return ["src/README.md: %s" % word for word in re.findall(r"^\| (.*?) \|", section, re.M)][1:]


def main():
    os.chdir(sys.argv[1])
    sources = tree_files("/**/*.[ch]")
    includes = [(path, place) for path in sources
                for name in re.findall(r'^#include "(.*)"', read(path), re.M)
                for place in ("src/" + name, name) if os.path.exists(place) and place != "src/engine.h"]
    pairs = calls()
    if len(includes) < 100 or len(pairs) < 100:
        print("Bail out! This is no tree of ours that has been built.")
        return 1
    table = layers()
    folders = {path: number for number, path in enumerate(dict.fromkeys(map(os.path.dirname, table)))}
    none("the table of layers has each file once", sorted(set(glob.glob("src/*/*.c") + glob.glob("cluster/*.c")) ^ set(table)) +
         ["%s is there twice" % path for path in set(table) if table.count(path) > 1])
    none("includes go down the folders", upwards([tuple(map(os.path.dirname, pair)) for pair in includes], folders))
    none("calls go down the table of layers", upwards(pairs, {path: number for number, path in enumerate(table)}))
    none("no library calls the other one by a symbol",
         ["%s -> %s" % pair for pair in pairs if len({path.split("/")[0] for path in pair}) > 1])
    none("the libraries export only what the server calls",
         exported(ENGINE, "(launcher|database_worker|queue_reader)_main") + exported(PROXY, "node_probe_main"))
    none("they have every function that the SQL of a released version names", retired())
    lines, wide, files, functions, parameters = too_long(sources)
    none("no line is wider than %d columns" % COLUMNS, lines)
    none("no comment is wider than %d columns" % COMMENT_COLUMNS, wide)
    none("no file has more than %d lines" % FILE_LINES, files)
    none("no function has more than %d lines" % FUNCTION_LINES, functions)
    none("no function has more than %d parameters" % PARAMETERS, parameters)
    persons, same, contracts, retired_words = wordings(sources)
    none("comments speak of backends and transactions, not of persons", persons)
    none("pages speak of sessions, workers and roles, not of persons", words_of_pages(PERSONS))
    none("no comment and no page has a word that is retired", retired_words + words_of_pages(RETIRED))
    none("the glossary has at most %d words" % WORDS, glossary()[WORDS:])
    none("no comment begins with \"The same\"", same)
    none("which lock is held is said by an Assert", contracts)
    none("what is allowed is there", ["%s is within the bounds" % name for name in ALLOWED if name not in allowed])
    print("1..%d" % len(tests))
    return 0 if all(tests) else 1


if __name__ == "__main__":
    sys.exit(main())
