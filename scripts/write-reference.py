#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Write the generated parts of docs/reference/ from what the command says of itself.

A part stands between the lines `<!-- generated: NAME -->` and `<!-- end -->`; the rest of a page is
written by hand. With --check it writes nothing; the exit code says whether all parts are current.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference"

#: Commands with options that a reader looks up here; the others have few, or pages of their own.
WITH_OPTIONS = ("run", "attach", "watch")
#: Options of nearly every command: the page names them before the tables.
SAID_ONCE = {"-h, --help", "--json"}

PART = re.compile(r"(<!-- generated: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
COMMAND = re.compile(r"^  (\w+) +(.+)$", re.MULTILINE)
OPTION = re.compile(r"^ +((?:-\w, +)?--[\w-]+(?: <[\w=]+>)?) +(.+)$", re.MULTILINE)
#: As `m=` in the manual: what it is, its range, its default and its modes.
PARAMETER = re.compile(
    r"(.+?), (?:between (.+) and (.+)|((?:[\w-]+, )*[\w-]+ or [\w-]+)) \((\w[\w.]*)\); (.+)"
)


class Command:
    """The built command."""

    def __init__(self, program: str) -> None:
        self.program = program

    def help(self, *names: str) -> str:
        run = [self.program, *names, "--help"]
        text = subprocess.run(run, capture_output=True, text=True, check=True, env={}).stdout
        return re.sub(r"\n {15,}", " ", text)

    def commands(self, *names: str) -> list[tuple[str, str]]:
        listed = self.help(*names).split("\nCommands:\n")[1].split("\n\n")[0]
        return [(name, what) for name, what in COMMAND.findall(listed) if name != "help"]

    def values(self, option: str) -> list[tuple[str, str]]:
        """The possible values of an option of `run`, by its manual: name and text."""
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run([self.program, "man", directory], capture_output=True, check=True)
            manual = (Path(directory) / "imtcp-run.1").read_text()
        text = manual.replace("\\-", "-").replace("\\*(Aq", "'")
        block = text.split(f"\\fB{option}\\fR")[1].split("\n.TP\n")[0]
        listed = re.findall(r"^\.IP \\\(bu 2\n([\w-]+)=?: (.+)$", block, re.MULTILINE)
        if not listed:
            raise SystemExit(f"write-reference: the manual lists no values of {option}")
        return listed


def code(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split(", "))


def commands(imtcp: Command, _before: str) -> str:
    rows = [f"| `imtcp {name}` | {what} |" for name, what in imtcp.commands()]
    for program in ("imtcp-advice", "imtcp-agent"):
        other = Command(str(Path(imtcp.program).with_name(program)))
        rows += [f"| `{program} {name}` | {what} |" for name, what in other.commands()]
    return "\n".join(["| command | what it does |", "|---|---|", *rows])


def options(imtcp: Command, _before: str) -> str:
    sections = []
    for name in WITH_OPTIONS:
        text = imtcp.help(name)
        rows = [
            f"| `{re.sub(' +', ' ', option)}` | {what} |"
            for option, what in OPTION.findall(text)
            if option not in SAID_ONCE
        ]
        [usage] = re.findall(r"^Usage: +(.+)$", text, re.MULTILINE)
        head = [f"### {name}", "", f"`{usage}`", "", "| option | what it does |", "|---|---|"]
        sections.append("\n".join([*head, *rows]))
    return "\n\n".join(sections)


def modes(imtcp: Command, before: str) -> str:
    """The cells after the second are written by hand and stay."""
    rest = dict(re.findall(r"^\| `([\w-]+)` \| [^|]+ \| (.+) \|$", before, re.MULTILINE))
    rows = [
        f"| `{name}` | {what} | {rest.get(name, '')} |" for name, what in imtcp.values("--mode")
    ]
    head = ["| `--mode` | what it does | congestion control | source |", "|---|---|---|---|"]
    return "\n".join([*head, *rows])


def parameters(imtcp: Command, before: str) -> str:
    """The cells after the fifth are written by hand and stay."""
    row = re.compile(r"^\| (`\w+` \| [^|]+) \|(?: [^|]* \|){3} (.+) \|$", re.MULTILINE)
    rest = dict(row.findall(before))
    rows = []
    for name, text in imtcp.values("--param"):
        for one in text.split(" | "):
            parsed = PARAMETER.fullmatch(one)
            if parsed is None:
                raise SystemExit(f"write-reference: cannot read the manual's {name}: {one}")
            what, least, most, names, default, of = parsed.groups()
            span = (
                f"{least} … {most}" if least else ", ".join(map(code, re.split(", | or ", names)))
            )
            key = f"`{name}` | {code(of)}"
            rows.append(f"| {key} | {span} | {default} | {what} | {rest.get(key, '')} |")
    head = "| name | modes | range | default | what it is | effect | source |"
    return "\n".join([head, "|---|" + "---|" * 6, *rows])


PARTS: dict[str, Callable[[Command, str], str]] = {
    "commands": commands,
    "options": options,
    "modes": modes,
    "parameters": parameters,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--imtcp", default=str(ROOT / "target" / "release" / "imtcp"))
    arguments = parser.parse_args()
    imtcp = Command(arguments.imtcp)
    stale = []
    for page in sorted(REFERENCE.glob("*.md")):
        before = page.read_text()
        after = PART.sub(lambda m: f"{m[1]}\n{PARTS[m[2]](imtcp, m[3])}\n\n{m[4]}", before)
        if after == before:
            continue
        stale.append(str(page.relative_to(ROOT)))
        if not arguments.check:
            page.write_text(after)
    if arguments.check and stale:
        print(f"not current: {', '.join(stale)}: run scripts/write-reference.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
