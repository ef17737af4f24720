"""The table of doc/clients.md: what it says of each promise and library.

It is what the suite holds the libraries to, so it cannot say more than they do. A word that is
weaker than "yes" is the scenario's: see there.

Seen to fail: a word that no scenario has, a row less, another column, a cell less, "yes" in P3 for
a library that has "at least once" in P1, a heading of conformance.md that is missing.
"""

import re

from scenarios import AT_LEAST_ONCE, YES

HEADING = "## What each of them promises"


class Table:
    def __init__(self, page):
        """page: the text of doc/clients.md"""
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in _table_below(page, HEADING)]
        self.libraries = rows[0][1:]
        self.words = {}     # {(promise, library): word}
        self.titles = {}    # {promise: what the row says}
        for title, *cells in rows[2:]:
            name = re.match(r"\[(P\d+)\]", title)
            assert name and len(cells) == len(self.libraries), f"doc/clients.md: not a row of a promise: {title}"
            self.titles[name[1]] = title
            for library, cell in zip(self.libraries, cells):
                self.words[name[1], library] = re.sub(r"<sup>.*?</sup>", "", cell).strip()

    def word(self, scenario, library):
        return self.words.get((scenario.name, library.name), YES)

    def is_exact(self, library):
        """Whether what a handler writes and the acknowledgement are one transaction: the first row says so."""
        return self.words.get(("P1", library.name)) != AT_LEAST_ONCE

    def faults(self, scenarios, libraries, page):
        """What it has and the suite has not, or the other way round. page: the text of conformance.md"""
        found = []
        names = [library.name for library in libraries]
        if self.libraries != names:
            found.append(f"its columns are {self.libraries}, the libraries are {names}")
        if list(self.titles) != list(scenarios):
            found.append(f"its rows are {list(self.titles)}, the promises are {list(scenarios)}")
        for scenario in scenarios.values():
            title = f"{scenario.name}: {scenario.title}"
            if f"### {title}\n" not in page:
                found.append(f"clients/conformance.md has no heading '### {title}'")
            if not self.titles.get(scenario.name, "").endswith(f") {scenario.title}"):
                found.append(f"the row of {scenario.name} says otherwise than '{scenario.title}'")
            for library in libraries:
                word = self.word(scenario, library)
                # one library is exact, or it is not: in all promises that say "each effect once"
                exact = AT_LEAST_ONCE not in scenario.words or (word != AT_LEAST_ONCE) == self.is_exact(library)
                if word not in scenario.words or not exact:
                    found.append(f"{scenario.name}, {library.name}: {word!r} is not what the suite has")
        return found


def _table_below(page, heading):
    assert heading in page, f"doc/clients.md has no heading '{heading}'"
    lines = page.split(heading, 1)[1].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|"))
    table = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        table.append(line)
    return table
