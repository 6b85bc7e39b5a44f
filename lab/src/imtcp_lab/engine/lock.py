"""Locks between processes and threads, released by the kernel when a holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock file `path` exclusively; waits until it is free."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Each caller has its own descriptor, so that flock also excludes threads.
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
