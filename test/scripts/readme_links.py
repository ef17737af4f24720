#!/usr/bin/env python3
"""Checks the pages of a checkout against each other and its files; in TAP.

- Links within and between pages lead to a file, and to a heading of it.
- README.md leads to each page of doc, and has 350 lines at most.
- A page that a test, a script or the source names is there, with the heading.
- Each test is named in the table of test/README.md, and each name is a test.
- A paragraph has five sentences at most; in README.md and doc a sentence has 40
  words at most, in the cells of tables, too. Code in backquotes is one word.

Pages are README.md, those of doc, and the other .md files that are not results.

usage: readme_links.py CHECKOUT
"""

import glob
import os
import re
import sys

FENCE = re.compile(r"^```\w*\n.*?^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"\bdoc/[\w-]+\.md(?:#[\w-]+)?")
README_LINES = 350
SENTENCES = 5
WORDS = 40
LONGER = {"doc/dashboard.md": 2}  # sentences that may be longer, of a page that is still to be gone over

failed = count = 0


def ok(wrong, name):
    global failed, count
    count += 1
    failed += bool(wrong)
    print(f"{'not ok' if wrong else 'ok'} {count} - {name}")
    for note in wrong:
        print(f"#   {note}")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def headings(text):
    """The names by which links lead to the headings of a page, as GitHub makes them."""
    there = {}
    for heading in re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.M):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "]", heading).lower()).replace(" ", "-")
        there[name] = there.get(name, -1) + 1
    return {name if not again else f"{name}-{again}" for name, last in there.items() for again in range(last + 1)}


def leads_nowhere(link, directory, anchors):
    """Whether a link of a page in a directory leads to no file, or to no heading of it."""
    path, _, heading = link.partition("#")
    target = os.path.normpath(os.path.join(directory, path))
    if not os.path.exists(target):
        return True
    return bool(heading) and heading not in anchors.get(target, ())


def check_links(pages, anchors):
    for page, text in pages.items():
        wrong = []
        for link in LINK.findall(FENCE.sub("", text)):
            if link.startswith("#"):
                link = os.path.basename(page) + link
            if not re.match(r"https?:", link) and leads_nowhere(link, os.path.dirname(page), anchors):
                wrong.append(link)
        ok(sorted(set(wrong)), f"links of {page} lead somewhere")


def check_readme(pages):
    linked = {link.partition("#")[0] for link in LINK.findall(pages["README.md"])}
    ok([page for page in pages if page.startswith("doc/") and page not in linked], "README.md leads to each page of doc")
    lines = pages["README.md"].count("\n")
    ok([f"{lines} lines"] if lines > README_LINES else [], f"README.md has {README_LINES} lines at most")


def check_named(anchors):
    wrong = []
    for path in glob.glob("**", recursive=True):
        if "node_modules/" in path:
            continue
        if os.path.isfile(path) and path.endswith((".c", ".h", ".sql", ".py", ".pl", ".pm", ".sh", ".spec", "Makefile", ".json")):
            for name in NAMED.findall(read(path)):
                if leads_nowhere(name, "", anchors):
                    wrong.append(f"{path}: {name}")
    ok(wrong, "pages that tests, scripts and sources name are there")


def check_tests(text):
    there = {"sql": {os.path.basename(path) for path in glob.glob("test/sql/*.sql")},
             "specs": {os.path.basename(path) for path in glob.glob("test/specs/*.spec")},
             "t": {os.path.basename(path) for path in glob.glob("test/t/*.pl")},
             "load": {os.path.basename(path) for path in glob.glob("test/load/*.py")} |
                     {"fuzz/" + os.path.basename(path) for path in glob.glob("test/fuzz/*.*")}}
    lines = [line.strip("|").split("|") for line in text.partition("\n| subject |")[2].splitlines() if line.startswith("|")]
    for column, directory in enumerate(("sql", "specs", "t", "load"), 1):
        stems = {os.path.splitext(name)[0] for name in there[directory]}
        named = set(re.findall(r"`([^`]+)`", " ".join(line[column] for line in lines)))
        ok([f"not in test/README.md: {name}" for name in sorted(stems - named)] +
           [f"only in test/README.md: {name}" for name in sorted(named - stems)] + ([] if stems else ["no tests"]),
           f"the tests in test/{directory} are in the table of test/README.md")


def sentences(paragraph):
    text = re.sub(r"`[^`]*`", "x", LINK.sub("]", " ".join(paragraph.split())))
    return [part for part in re.split(r"(?<=[.!?])[)*]* +(?=[A-Z*(\[x])", text) if part]


def paragraphs(text):
    """Those of a page: items of lists and rows of tables are some; headings and comments are none."""
    for paragraph in re.split(r"\n\s*\n|\n(?=- |\d+\. |\||#|<!--)", FENCE.sub("\n", text)):
        if not paragraph.lstrip().startswith(("#", "<!--")):
            yield paragraph


def is_row(paragraph):
    return paragraph.lstrip().startswith("|")


def check_paragraphs(pages):
    for page, text in pages.items():
        if page != "src/README.md":
            wrong = []
            for paragraph in paragraphs(text):
                if not is_row(paragraph) and len(sentences(paragraph)) > SENTENCES:
                    wrong.append(f"{len(sentences(paragraph))}: {' '.join(paragraph.split())[:80]} …")
            ok(wrong, f"paragraphs of {page} have {SENTENCES} sentences at most")


def check_sentences(pages):
    for page, text in pages.items():
        if page == "README.md" or page.startswith("doc/"):
            wrong = []
            for paragraph in paragraphs(re.sub(r"(?<=.)<!--.*?-->", "", text)):
                for part in re.split(r"(?<!\\)\|", paragraph) if is_row(paragraph) else [paragraph]:
                    for sentence in sentences(part):
                        count_of_words = len([word for word in sentence.split() if re.search(r"\w", word)])
                        if count_of_words > WORDS:
                            wrong.append(f"{count_of_words}: {sentence[:80]} …")
            ok(wrong if len(wrong) > LONGER.get(page, 0) else [], f"sentences of {page} have {WORDS} words at most")


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: readme_links.py CHECKOUT")
    os.chdir(sys.argv[1])
    pages = {path: read(path) for path in sorted(glob.glob("**/*.md", recursive=True))
             if not path.startswith(("test/bench/results/", "test/.node/")) and "node_modules/" not in path}
    anchors = {path: headings(text) for path, text in pages.items()}
    check_links(pages, anchors)
    check_readme(pages)
    check_named(anchors)
    check_tests(pages["test/README.md"])
    check_paragraphs(pages)
    check_sentences(pages)
    print(f"1..{count}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
