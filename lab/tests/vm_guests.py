"""Runners for the tests: a kernel that this machine cannot get is a skip that says why."""

from __future__ import annotations

import os
from functools import cache

import pytest

from imtcp_lab.job import MissingPrerequisite
from imtcp_lab.vm import VmRunner

#: Set in CI, where a missing kernel must not pass unnoticed.
REQUIRED = os.environ.get("IMTCP_REQUIRE_VM") == "1"


@cache
def _prepared(series: str) -> VmRunner | str:
    runner = VmRunner(kernel=series)
    try:
        runner.prepare()
    except MissingPrerequisite as error:
        if REQUIRED:
            raise
        return str(error)
    return runner


def runner(series: str = "6.12") -> VmRunner:
    """A runner with its snapshot ready, or skip the test."""
    prepared = _prepared(series)
    if isinstance(prepared, str):
        pytest.skip(prepared)
    return prepared
