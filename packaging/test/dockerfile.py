"""As much of Dockerfiles as those of packaging/ use: stages, with their instructions."""

import re


class Stage:
    def __init__(self, base, name):
        self.base, self.name, self.instructions = base, name, []

    def all(self, word):
        return [rest for instruction, rest in self.instructions if instruction == word]


def parse(text):
    """(arguments before the first stage, stages); an unknown instruction is an error."""
    lines = re.sub(r"\\\n", " ", "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#")))
    arguments, stages = {}, []
    for line in filter(None, map(str.strip, lines.splitlines())):
        word, rest = re.fullmatch(r"([A-Z]+) +(.*)", line).groups()
        if word not in ("ARG", "FROM", "RUN", "COPY", "USER"):
            raise ValueError(f"unknown instruction: {line}")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append(Stage(expand(base, arguments), name))
        elif stages:
            stages[-1].instructions.append((word, rest))
        else:
            name, _, value = rest.partition("=")
            arguments[name] = value
    return arguments, stages


def expand(text, arguments):
    return re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], text)
