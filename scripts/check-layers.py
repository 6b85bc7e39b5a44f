#!/usr/bin/env python3
"""Checks who may know whom (docs/explanation/architecture.md), and that each file has a licence.

Between parts:

- core knows nobody. bpf and core's tests know core.
- imtcp-common knows nobody. imtcp-bpf knows bpf's shared header.
- imtcp-client and imtcp-logs know neither BPF nor a program; imtcp-advice knows no BPF.
- imtcp knows neither the service nor its wire: it runs the program that does.
- proftpd speaks to the service over the wire alone.
- The laboratory runs built programs, and nothing imports it.

Within a Rust crate: the modules of a directory use each other in no circle.
- A reader can then read each crate from the bottom up.
- A directory stands for all modules below it.
- A module and the modules below it may use each other: they are one part. Tests may use all.
"""

import re
import subprocess
import sys
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOAD = ROOT / "lab/load/src"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
#: Headers that each C part may include, by the beginning of the path.
C_MAY_INCLUDE = {
    "core/include/": ("imtcp/", "types.h", "fixed.h", "params.h", "filter.h", "delay.h", "stream.h",
                      "gap.h", "meas", "control.h", "facts.h", "estimate.h", "flow.h", "paper_",
                      "cc_", "stdint.h"),
    "bpf/": ("imtcp/", "imtcp_", "bpf/", "stdint.h"),
    "proftpd/": ("mod_imtcp.h", "imtcp_arrived.h", "conf.h", "privs.h", "curl/", "json-c/",
                 "linux/", "netinet/", "sys/", "ctype.h", "stdbool.h", "time.h"),
}  # fmt: skip
#: Dependencies within the workspace, by crate.
CRATES_MAY_USE = {
    "imtcp-common": set(),
    "imtcp-bpf": {"imtcp-common"},
    "imtcp": {"imtcp-bpf", "imtcp-common"},
    "imtcp-client": {"imtcp-common"},
    "imtcp-logs": {"imtcp-common", "imtcp-client"},
    "imtcp-advice": {"imtcp-common", "imtcp-client", "imtcp-logs"},
    "imtcp-agent": {"imtcp-common", "imtcp-bpf", "imtcp-client", "imtcp-logs"},
    "imtcp-test-support": {"imtcp", "imtcp-bpf", "imtcp-common"},
    "imtcp-load": set(),
}
WITH_LICENCE = (".c", ".h")
#: A path in Rust: where it begins, the names that follow, and whether a tree in braces does.
RUST_PATH = re.compile(r"\b(crate|self|super(?:::super)*)((?:::\w+)*)(::(?={))?")
RUST_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
#: A module's place below its crate's root: `cmd/run/line.rs` is ("cmd", "run", "line").
Module = tuple[str, ...]
IMPORTS_LAB = re.compile(r"^\s*(from|import) imtcp_lab", re.MULTILINE)


def tracked() -> list[str]:
    out = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    return out.stdout.split("\n")[:-1]


def c_faults(files: list[str]) -> list[str]:
    faults = []
    for name in files:
        for part, allowed in C_MAY_INCLUDE.items():
            if name.startswith(part) and name.endswith((".c", ".h")):
                for header in INCLUDE.findall((ROOT / name).read_text()):
                    if not header.startswith(allowed):
                        faults.append(f"{name}: may not include {header}")
    return faults


def crate_faults() -> list[str]:
    faults = []
    for manifest in [*ROOT.glob("crates/*/Cargo.toml"), ROOT / "lab/load/Cargo.toml"]:
        # Tests are free to use anything.
        text = manifest.read_text().split("\n[dev-dependencies]")[0]
        name = re.search(r'^name *= *"([^"]+)"', text, re.MULTILINE)[1]
        if name not in CRATES_MAY_USE:
            faults.append(f"{manifest.relative_to(ROOT)}: {name} is not in scripts/check-layers.py")
            continue
        for other in CRATES_MAY_USE:
            used = re.search(rf"^{re.escape(other)}\b *(=|\.)", text, re.MULTILINE)
            if other != name and used and other not in CRATES_MAY_USE[name]:
                faults.append(f"{manifest.relative_to(ROOT)}: {name} may not use {other}")
    return faults


def leaves(tree: str) -> list[Module]:
    """The paths of a tree that a text begins with: `{a, b::{c, d}}` has a, b::c and b::d."""
    found, outer, path = [], [], ()
    for token in re.findall(r"\w+|[{},]", tree):
        if token == "{":
            outer.append(path)
        elif token in "},":
            found.append(path)
            path = outer[-1] if token == "," else outer.pop()
            if not outer:
                break
        else:
            path += (token,)
    return found


def modules_of(root: Path) -> dict[Module, str]:
    """The modules of the crate with this root and their code, without tests."""
    modules: dict[Module, str] = defaultdict(str)
    for file in root.rglob("*.rs"):
        name = file.relative_to(root).with_suffix("").parts
        # A program below src/bin is a crate of its own.
        if name[0] != "bin" and name[-1] != "tests":
            code = file.read_text().split("\n#[cfg(test)]\nmod ")[0]
            is_directory = name[-1] in ("lib", "main", "mod")
            modules[name[:-1] if is_directory else name] += RUST_COMMENT.sub("", code)
    return modules


def used_by(module: Module, modules: dict[Module, str]) -> set[Module]:
    used = set()
    code = modules[module]
    for path in RUST_PATH.finditer(code):
        begin, names, has_tree = path.groups()
        above = {"crate": 0, "self": len(module)}.get(begin, len(module) - begin.count("super"))
        for leaf in leaves(code[path.end() :]) if has_tree else [()]:
            name = (*module[:above], *names.split("::")[1:], *leaf)
            # The end of a path is a type or a function.
            used.add(next(name[:i] for i in range(len(name), -1, -1) if name[:i] in modules))
    return used


def circle_faults() -> list[str]:
    faults = []
    for root in [*ROOT.glob("crates/*/src"), *ROOT.glob("crates/*/src/bin/*"), LOAD]:
        modules = modules_of(root)
        uses: dict[Module, set[Module]] = defaultdict(set)
        for module in modules:
            for other in used_by(module, modules):
                pairs = enumerate(zip(module, other, strict=False))
                first = next((i for i, (mine, its) in pairs if mine != its), None)
                # None: one is above the other.
                if first is not None:
                    uses[module[: first + 1]].add(other[: first + 1])
        try:
            TopologicalSorter(uses).prepare()
        except CycleError as error:
            circle = " uses ".join("::".join(module) for module in reversed(error.args[1]))
            remedy = "move what both ends need into a module that both use"
            faults.append(f"{root.relative_to(ROOT)}: modules in a circle: {circle}: {remedy}")
    return faults


def other_faults(files: list[str]) -> list[str]:
    faults = []
    for name in files:
        if name.endswith(WITH_LICENCE) and "SPDX-License-Identifier" not in (ROOT / name).read_text(
            errors="replace"
        ):
            faults.append(f"{name}: no SPDX-License-Identifier")
        outside = name.endswith(".py") and not name.startswith(("lab/", "tests/"))
        if outside and IMPORTS_LAB.search((ROOT / name).read_text()):
            faults.append(f"{name}: nothing outside of lab and tests imports the laboratory")
    return faults


def main() -> int:
    files = [name for name in tracked() if (ROOT / name).is_file()]
    faults = c_faults(files) + crate_faults() + circle_faults() + other_faults(files)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
