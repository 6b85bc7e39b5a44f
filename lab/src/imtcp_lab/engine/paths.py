"""Paths of the checkout, the builds and the cache."""

from __future__ import annotations

import os
from pathlib import Path

from imtcp_lab.job import MissingPrerequisite

#: A path that only a checkout has.
MARK = Path("lab", "guest", "agent.c")


def checkout() -> Path:
    """The project's root: ``$IMTCP_ROOT``, or a parent of this file or of the cwd."""
    named = os.environ.get("IMTCP_ROOT")
    if named:
        root = Path(named).resolve()
        if not (root / MARK).is_file():
            raise MissingPrerequisite(f"IMTCP_ROOT is {named}, which is no checkout of imtcp")
        return root
    for start in (Path(__file__).resolve(), Path.cwd() / "x"):
        for directory in start.parents:
            if (directory / MARK).is_file():
                return directory
    raise MissingPrerequisite(
        "the imtcp checkout is not found: run from inside it, or set IMTCP_ROOT"
    )


def target() -> Path:
    """The directory of built files."""
    return checkout() / "target"


def programs() -> Path:
    """The directory of imtcp and imtcp-load: ``$IMTCP_PROGRAMS``, or ``target/release``."""
    named = os.environ.get("IMTCP_PROGRAMS")
    return Path(named).resolve() if named else target() / "release"


#: How to get the programs if they are missing.
BUILD_FIRST = "run make build first (or make demo, and set IMTCP_PROGRAMS=target/demo)"


def cache() -> Path:
    """The directory of kernels and snapshots: ``$XDG_CACHE_HOME/imtcp-lab``, created if missing."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    directory = Path(base) / "imtcp-lab"
    directory.mkdir(parents=True, exist_ok=True)
    return directory
