#!/usr/bin/env python3
"""Counts the functions and files that one ACK and one send visit, for each control.

The calls are those of clang's LLVM IR before any pass, so that nothing is inlined yet: each
definition is a function of the sources, each ``call`` an edge.  A control's programs are the
members of its ``struct tcp_congestion_ops``.  An ACK runs ``pkts_acked`` and ``cong_avoid``, a send
``min_tso_segs``, a loss ``ssthresh`` and ``set_state``.  Everything reachable from these counts,
whichever way a branch goes. Wrappers made by BPF_PROG and the kernel's helpers do not.

``scripts/visited.py [--of FILE.bpf.c ...] [--list CONTROL] [--without FUNCTION ...]``

``--without imtcp_meas_judge imtcp_meas_conclude imtcp_publish`` is the ACK that ends no stream.
"""

import argparse
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OBJECTS = ("imtcp.bpf.c", "imtcp_modes.bpf.c", "imtcp_paper.bpf.c", "imtcp_nocc.bpf.c")
#: Members of struct tcp_congestion_ops (bpf/imtcp_kernel.h), in its order.
MEMBERS = (
    "flags", "ssthresh", "cong_avoid", "set_state", "undo_cwnd", "pkts_acked", "min_tso_segs",
    "init", "release", "name",
)  # fmt: skip
EVENTS = {
    "ACK": ("pkts_acked", "cong_avoid"),
    "send": ("min_tso_segs",),
    "loss": ("ssthresh", "set_state"),
}
DEFINED = re.compile(r"^define .*?@([\w.]+)\(.*!dbg !(\d+)")
CALLED = re.compile(r"\bcall\b[^@]*@([\w.]+)\(")
CONTROL = re.compile(r"^@(\w+) = .*%struct\.tcp_congestion_ops \{(.*)\}")
SUBPROGRAM = re.compile(r"^!(\d+) = distinct !DISubprogram\(.*?file: !(\d+)")
FILE = re.compile(r'^!(\d+) = !DIFile\(filename: "([^"]+)"')
#: The prefix that BPF_PROG gives a program's body.
BODY = "____"


@dataclass(frozen=True)
class Sources:
    """One object's functions, calls and controls."""

    files: dict[str, str]
    calls: dict[str, set[str]]
    programs: dict[str, dict[str, str]]

    def visited(self, control: str, event: str, without: set[str]) -> set[str]:
        """The functions that the event's programs reach, but not by way of those without."""
        found: set[str] = set()
        left = [self.programs[control][member] for member in EVENTS[event]]
        while left:
            name = left.pop()
            if name in found or name in without or name not in self.files:
                continue
            found.add(name)
            left.extend(self.calls[name])
        return {name for name in found if not name.startswith(BODY)}


def intermediate(source: str) -> str:
    """The source as LLVM IR that no pass has touched."""
    clang = os.environ.get("BPF_CLANG", "clang-19")
    command = [clang, "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Icore/include", "-Ibpf"]
    command += ["-Xclang", "-disable-llvm-passes", "-emit-llvm", "-S", f"bpf/{source}", "-o", "-"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def read(text: str) -> Sources:
    """The functions, calls and controls of an object's IR."""
    described: dict[str, str] = {}
    calls: dict[str, set[str]] = {}
    programs: dict[str, dict[str, str]] = {}
    file_of: dict[str, str] = {}
    names: dict[str, str] = {}
    inside = ""
    for line in text.splitlines():
        if match := DEFINED.match(line):
            inside, described[match[1]] = match[1], match[2]
            calls[inside] = set()
        elif line == "}":
            inside = ""
        elif inside and (match := CALLED.search(line)):
            calls[inside].add(match[1])
        elif match := CONTROL.match(line):
            values = [value.split()[-1].lstrip("@") for value in match[2].split(", ")]
            programs[match[1]] = dict(zip(MEMBERS, values, strict=False))
        elif match := SUBPROGRAM.match(line):
            file_of[match[1]] = match[2]
        elif match := FILE.match(line):
            names[match[1]] = match[2]
    files = {name: names[file_of[number]] for name, number in described.items()}
    return Sources(files, calls, programs)


def show(controls: dict[str, Sources], without: set[str]) -> None:
    """A table: functions and files of each event."""
    print(f"{'control':16}" + "".join(f"{event + ': functions, files':>26}" for event in EVENTS))
    for control, sources in controls.items():
        row = f"{control:16}"
        for event in EVENTS:
            functions = sources.visited(control, event, without)
            row += f"{len(functions):>20}, {len({sources.files[f] for f in functions}):>4}"
        print(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--of", nargs="+", default=OBJECTS, metavar="FILE.bpf.c")
    parser.add_argument("--list", metavar="CONTROL", help="the functions of this control's events")
    parser.add_argument("--without", nargs="+", default=[], metavar="FUNCTION")
    args = parser.parse_args()
    without = set(args.without)
    controls: dict[str, Sources] = {}
    for source in args.of:
        sources = read(intermediate(source))
        controls |= dict.fromkeys(sources.programs, sources)
    if not args.list:
        show(controls, without)
        return
    sources = controls[args.list]
    for event in EVENTS:
        for name in sorted(sources.visited(args.list, event, without)):
            print(f"{event:5} {sources.files[name]:40} {name}")


if __name__ == "__main__":
    main()
