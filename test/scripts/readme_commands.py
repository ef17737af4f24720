#!/usr/bin/env python3
"""Runs the examples of a page (README.md, doc/*.md), in order, and reports in TAP.

An example is a fenced block in sql, python, js, ruby, go, java or sh with a
comment on the line above the fence:

    <!-- test: NAME -->         runs it; it must succeed
    <!-- no-test: REASON -->    does not
    <!-- output -->             is no example, but what the last one must have
                                printed: these lines, in this order, among others

A block in one of these languages must have one of the two, so that no example
goes untested without a reason. A page may have no examples.

Where and as whom an example connects is left to PGHOST, PGDATABASE and so on;
Java's driver, which does not look there, has JDBC_URL. Each block has a process
of its own, all share the database. Go and Java are compiled first, against
Debian's packages of their drivers.
"""

import os
import re
import subprocess
import sys
import tempfile

LANGUAGES = {
    "sql": "sql", "postgresql": "sql", "pgsql": "sql",
    "python": "python", "py": "python",
    "js": "js", "javascript": "js", "mjs": "mjs",
    "ruby": "ruby", "rb": "ruby", "go": "go", "java": "java",
    "sh": "sh", "bash": "sh", "shell": "sh",
}
ENDINGS = {"python": "py", "ruby": "rb"}
TIME_LIMIT = 60
TIME_LIMIT_OF_COMPILERS = 240
JDBC = "/usr/share/java/postgresql.jar"

FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})\s*([A-Za-z0-9_+-]*)[^`]*$")
MARKER = re.compile(r"^\s*<!--\s*(test|no-test|output)(?::\s*(.*?))?\s*-->\s*$")


class Block:
    def __init__(self, line, language, verb, name):
        self.line = line
        self.language = language
        self.verb = verb
        self.name = name
        self.text = []


def blocks_of(lines):
    """The fenced blocks, each with the marker on the line above it."""
    block = None
    stray = []
    previous = ""
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\n")
        if block is None:
            fence = FENCE.match(line)
            if fence:
                indent, closing, language = len(fence[1]), fence[2], fence[3].lower()
                marker = MARKER.match(previous)
                verb, name = (marker[1], marker[2] or "") if marker else (None, "")
                block = Block(number, LANGUAGES.get(language, language), verb, name)
            elif MARKER.match(previous):
                stray.append(number - 1)
        elif line.strip() and line.strip() == closing[0] * len(line.strip()) and len(line.strip()) >= len(closing):
            yield block
            block = None
        else:
            block.text.append(line[indent:] if line[:indent].isspace() else line)
        previous = line if block is None else ""
    if block is not None:
        raise SystemExit(f"Bail out! the block in line {block.line} has no end")
    if stray:
        raise SystemExit(f"Bail out! no block below the comment in line {stray[0]}")


def command_for(language, path):
    directory = os.path.dirname(path)
    return {
        "sql": ["psql", "-X", "-v", "ON_ERROR_STOP=1", "-f", path],
        "python": [sys.executable, path],
        "js": ["node", path],
        "mjs": ["node", path],
        "ruby": ["ruby", path],
        "go": [path + ".program"],
        "java": ["java", "-cp", f"{directory}:{JDBC}", os.path.basename(path).removesuffix(".java")],
        "sh": ["bash", "-eu", "-o", "pipefail", path],
    }[language]


def compiler_for(language, path):
    directory = os.path.dirname(path)
    sockets = os.path.join(os.path.dirname(os.path.abspath(__file__)), "UnixSocketFactory.java")
    return {
        "go": ["go", "build", "-o", path + ".program", path],
        "java": ["javac", "-cp", JDBC, "-d", directory, sockets, path],
    }.get(language)


def environment(directory):
    """Where Go finds Debian's packages, and JDBC the server, which has a socket file and no port."""
    socket = os.path.join(os.environ.get("PGHOST", ""), f".s.PGSQL.{os.environ.get('PGPORT', '5432')}")
    return dict(
        os.environ, GO111MODULE="off", GOPATH="/usr/share/gocode", GOCACHE=os.environ.get("GOCACHE", os.path.join(directory, "go")),
        JDBC_URL=f"jdbc:postgresql://localhost/{os.environ.get('PGDATABASE', '')}?user={os.environ.get('PGUSER', '')}"
                 f"&sslmode=disable&socketFactory=UnixSocketFactory&socketFactoryArg={socket}")


def offer_node_packages(directory):
    """An import, other than require, does not look in NODE_PATH."""
    for packages in os.environ.get("NODE_PATH", "").split(":"):
        if os.path.isdir(os.path.join(packages, "pg")):
            os.symlink(packages, os.path.join(directory, "node_modules"))
            return


def offer_clients(directory):
    """Pages call them by their paths in the checkout."""
    checkout = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    os.symlink(os.path.join(checkout, "clients"), os.path.join(directory, "clients"))


def run(block, directory):
    """The output of a block and whether it succeeded."""
    suffix = ENDINGS.get(block.language, block.language)
    text = "\n".join(block.text)
    if suffix == "js" and re.search(r"^import\b", text, re.MULTILINE):
        suffix = "mjs"
    # javac wants a file of the class's name
    named = re.search(r"^public class (\w+)", text, re.MULTILINE) if suffix == "java" else None
    path = os.path.join(directory, f"{named[1] if named else f'line{block.line}'}.{suffix}")
    with open(path, "w", encoding="utf-8") as out:
        out.write(text + "\n")
    output = ""
    compiler = compiler_for(block.language, path)
    try:
        for command, limit in (compiler, TIME_LIMIT_OF_COMPILERS), (command_for(block.language, path), TIME_LIMIT):
            if command is None:
                continue
            done = subprocess.run(command, cwd=directory, env=environment(directory), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit)
            output += done.stdout.decode("utf-8", "replace")
            if done.returncode:
                return output, False
        return output, True
    except subprocess.TimeoutExpired as late:
        return output + (late.stdout or b"").decode("utf-8", "replace") + f"\nnot finished after {late.timeout:g} s", False
    except OSError as error:
        return str(error), False


def missing_line(wanted, output):
    """The first of the wanted lines that is not in the output after the one
    before it, however they are spaced; None if all are."""
    lines = iter(" ".join(line.split()) for line in output.splitlines())
    for line in wanted:
        line = " ".join(line.split())
        if line and line not in lines:  # goes on behind the line it finds
            return line
    return None


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: readme_commands.py FILE.md")
    path = sys.argv[1]
    title = os.path.basename(path)
    with open(path, encoding="utf-8") as file:
        lines = file.readlines()
    blocks = list(blocks_of(lines))

    count = failed = 0
    names = set()
    output = ""
    with tempfile.TemporaryDirectory() as directory:
        offer_node_packages(directory)
        offer_clients(directory)
        for block in blocks:
            where = f"{title}:{block.line} {block.language}"
            problem = None
            if block.verb == "output":
                count += 1
                line = missing_line(block.text, output)
                failed += line is not None
                print(f"{'not ok' if line else 'ok'} {count} - {title}:{block.line} output", flush=True)
                if line:
                    print(f"#   not printed, or not in this order: {line}", flush=True)
                continue
            if block.verb is None:
                if block.language not in LANGUAGES.values():
                    continue
                problem = "no <!-- test: NAME --> or <!-- no-test: REASON --> on the line above"
            elif not block.name:
                problem = f"the comment above gives no {'name' if block.verb == 'test' else 'reason'}"
            elif block.verb == "test" and block.language not in LANGUAGES.values():
                problem = f"no way to run '{block.language}'"
            elif block.verb == "test" and block.name in names:
                problem = f"there is another test '{block.name}'"

            count += 1
            if block.verb == "no-test" and problem is None:
                print(f"ok {count} - {where} # SKIP {block.name}", flush=True)
                continue
            if problem is None:
                names.add(block.name)
                output, succeeded = run(block, directory)
            else:
                output, succeeded = problem, False
            if not succeeded:
                failed += 1
            print(f"{'ok' if succeeded else 'not ok'} {count} - {where} {block.name}".rstrip(), flush=True)
            for line in output.rstrip().splitlines():
                print(f"#   {line}", flush=True)
    print(f"1..{count}")
    # A page may have no examples, but then none that says it is one.
    return 1 if failed or (not count and any(MARKER.match(line) for line in lines)) else 0


if __name__ == "__main__":
    sys.exit(main())
