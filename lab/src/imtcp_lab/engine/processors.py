"""A processor for each guest.

QEMU in virtual time has two threads that wait for each other thousands of times a second.  On one
processor each wait is a switch; on two it wakes an idle processor, which takes longer.  The results
are the same.

Each processor has a lock file, so that two laboratories on one machine choose different ones.
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from imtcp_lab.engine import paths

_SYSFS = Path("/sys/devices/system/cpu")


def by_core(processors: Iterable[int], sysfs: Path = _SYSFS) -> list[int]:
    """The first thread of each core, then the second threads; fast cores before slow ones."""

    def read(processor: int, name: str) -> int:
        with suppress(OSError, ValueError):
            return int((sysfs / f"cpu{processor}" / name).read_text())
        return 0

    threads: Counter[tuple[int, int]] = Counter()
    order = []
    for processor in sorted(processors):
        core = (
            read(processor, "topology/physical_package_id"),
            read(processor, "topology/core_id"),
        )
        speed = read(processor, "cpufreq/cpuinfo_max_freq")
        order.append((threads[core], -speed, processor))
        threads[core] += 1
    return [processor for _, _, processor in sorted(order)]


def _directory() -> Path:
    return paths.cache() / "processors"


def _try_lock(processor: int) -> int | None:
    """The descriptor of the lock, or None if another process holds this processor."""
    _directory().mkdir(parents=True, exist_ok=True)
    path = _directory() / str(processor)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


@contextmanager
def one(*, always: bool = False) -> Iterator[int | None]:
    """Binds this thread, and programs that it starts, to one processor.

    If no processor is free, they run anywhere, unless `always` demands one.
    """
    allowed = os.sched_getaffinity(0)
    mine, lock = None, None
    for processor in by_core(allowed):
        lock = _try_lock(processor)
        if lock is not None:
            mine = processor
            break
    if mine is None and always:
        mine = sorted(allowed)[os.getpid() % len(allowed)]
    try:
        if mine is not None:
            os.sched_setaffinity(0, {mine})
        yield mine
    finally:
        if mine is not None:
            os.sched_setaffinity(0, allowed)
        if lock is not None:
            os.close(lock)
