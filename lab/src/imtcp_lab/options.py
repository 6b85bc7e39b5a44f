"""Options that several commands share."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from imtcp_lab.vm import KERNELS
from imtcp_lab.vm.runner import DEFAULT_KERNEL


def out_directory(text: str) -> Path:
    """The path of an option. An empty one, as from a shell's unset variable, is an error: it would
    mean the current directory."""
    if not text:
        raise argparse.ArgumentTypeError("is empty: write . for the directory you are in")
    if Path(text).is_file():
        raise argparse.ArgumentTypeError(f"{text} is a file, and not a directory")
    return Path(text)


#: The help text contains the default, because an inherited option has none (run.py).
_DECLARED: dict[str, dict[str, Any]] = {
    "--first-seed": {"type": int, "default": 1, "help": "the seeds count from here (1)"},
    "--kernel": {
        "choices": KERNELS,
        "default": DEFAULT_KERNEL,
        "help": f"the guest's kernel: a series, or uml, which is fast ({DEFAULT_KERNEL})",
    },
    "--jobs": {
        "type": int,
        "default": os.cpu_count() or 1,
        "help": "guests at once (one per processor)",
    },
    "--json": {"action": "store_true", "help": "print rows as JSON"},
    "--fresh": {"action": "store_true", "help": "run again what is saved already"},
    "--redraw": {
        "action": "store_true",
        "help": "from saved results, whatever made them: run nothing",
    },
}


def add_options(parser: argparse.ArgumentParser, *names: str) -> list[argparse.Action]:
    """Adds the options of these names, such as ``--kernel``; returns their actions."""
    return [parser.add_argument(name, **_DECLARED[name]) for name in names]
