"""Kernel modules of an unpacked Debian kernel package, in dependency order."""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterable
from pathlib import Path

#: Names as in modprobe; a trailing ``*`` matches every module with that prefix. Missing modules are
#: skipped: they are built in, or this series lacks them.
WANTED = (
    "veth",
    "dummy",
    "ifb",
    "tun",
    "sch_cake",
    "sch_codel",
    "sch_fq",
    "sch_fq_codel",
    "sch_htb",
    "sch_ingress",
    "sch_netem",
    "sch_pie",
    "sch_prio",
    "sch_red",
    "sch_sfq",
    "sch_tbf",
    "cls_basic",
    "cls_bpf",
    "cls_flower",
    "cls_fw",
    "cls_matchall",
    "cls_u32",
    "act_bpf",
    "act_gact",
    "act_mirred",
    "act_police",
    "act_skbedit",
    "inet_diag",
    "tcp_*",
)
_SUFFIX = re.compile(r"\.ko(\.xz)?$")
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


def _name(path: Path) -> str:
    return _SUFFIX.sub("", path.name).replace("-", "_")


def read(path: Path) -> bytes:
    """A module's unpacked ELF file."""
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def dependencies(elf: bytes) -> list[str]:
    """Names of the modules on which this one depends, from its ``.modinfo``."""
    match = _DEPENDS.search(elf)
    names = match[1].decode().split(",") if match else []
    return [name.replace("-", "_") for name in names if name]


def in_order(tree: Path, wanted: Iterable[str] = WANTED) -> dict[str, bytes]:
    """Modules below `tree` by name, each after its dependencies."""
    found = {_name(p): p for p in sorted(tree.rglob("*.ko*")) if _SUFFIX.search(p.name)}
    ordered: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in ordered or name not in found:
            return
        elf = read(found[name])
        for needed in dependencies(elf):
            add(needed)
        ordered[name] = elf

    for pattern in wanted:
        if pattern.endswith("*"):
            for name in sorted(n for n in found if n.startswith(pattern[:-1])):
                add(name)
        else:
            add(pattern)
    return ordered
