"""Builds the small C programs of ``lab/guest`` into ``target/lab``."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from imtcp_lab.engine import paths
from imtcp_lab.engine.lock import locked
from imtcp_lab.job import LabError, MissingPrerequisite

#: Static: the guest has no C library, and in namespaces the programs run on any host's.
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-static", "-s")


def build(name: str) -> Path:
    """Compiles ``lab/guest/<name>.c`` if its source or the flags changed."""
    source = paths.checkout() / "lab" / "guest" / f"{name}.c"
    compiler = shutil.which(os.environ.get("CC", "cc"))
    program = paths.target() / "lab" / name
    stamp = program.with_suffix(".stamp")
    digest = hashlib.sha256(source.read_bytes() + repr(FLAGS).encode()).hexdigest()
    with locked(program.with_suffix(".lock")):
        if program.is_file() and stamp.is_file() and stamp.read_text() == digest:
            return program
        if compiler is None:
            raise MissingPrerequisite("no C compiler: apt-get install gcc libc6-dev")
        fresh = program.with_suffix(".new")
        done = subprocess.run(
            [compiler, *FLAGS, "-o", fresh, source],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise LabError(f"{source.name} does not compile", done.stderr)
        fresh.replace(program)
        stamp.write_text(digest)
    return program
