"""Guests for the tests. If a kernel is not available, the test is skipped with the reason."""

from __future__ import annotations

import os
from functools import cache

import pytest

from imtcp_lab import vm
from imtcp_lab.job import MissingPrerequisite

#: CI sets this, because a missing kernel must not go unnoticed there.
REQUIRED = os.environ.get("IMTCP_REQUIRE_VM") == "1"


@cache
def _prepared(kernel: str) -> vm.VmRunner | vm.UmlRunner | str:
    # The build takes minutes.
    if kernel == vm.FAST and not vm.is_built() and not REQUIRED:
        return "the fast guests' kernel is not built (lab vm build --kernel uml)"
    runner = vm.guests_of(kernel)
    try:
        runner.prepare()
    except MissingPrerequisite as error:
        if REQUIRED:
            raise
        return str(error)
    return runner


def runner(kernel: str = vm.DEFAULT_KERNEL) -> vm.VmRunner | vm.UmlRunner:
    """A runner that is ready; otherwise skips the test."""
    prepared = _prepared(kernel)
    if isinstance(prepared, str):
        pytest.skip(prepared)
    return prepared
