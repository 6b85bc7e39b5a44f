"""A fixture for the tests here and in lab/tests that load what is the whole machine's."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

#: The controls' names are global on a kernel: whoever loads them here holds this, as the tests
#: of crates/imtcp do.
LOCK = Path("/run/imtcp-tests.lock")


@pytest.fixture
def running_kernel() -> Iterator[None]:
    """The running kernel's congestion controls, for one test at a time."""
    if os.geteuid() != 0:
        pytest.skip("loading into the running kernel needs root")
    with LOCK.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
