"""Bounds on what has chance in it, and how far from them a test's own samples are.

A guest does the same each time, so a test that passed passes again.  With other bytes of a program
it is another sample.  scripts/test-seeds.py takes twenty of each, and its table says how many of
their deviations each bound is away.
"""

from __future__ import annotations

import json

#: Names them in a report of JUnit's form.
PROPERTY = "margins"

#: (what, value, bound) of the test that runs.
_met: list[tuple[str, float, float]] = []


def at_most(what: str, value: float, most: float) -> None:
    """`value` may be `most`, and no more; `what` is its own in the test."""
    _met.append((f"{what} ≤", float(value), float(most)))
    assert value <= most, (what, value, most)


def at_least(what: str, value: float, least: float) -> None:
    """`value` may be `least`, and no less; `what` is its own in the test."""
    _met.append((f"{what} ≥", float(value), float(least)))
    assert value >= least, (what, value, least)


def within(what: str, value: float, least: float, most: float) -> None:
    """`value` is between the two."""
    at_least(what, value, least)
    at_most(what, value, most)


def taken() -> str:
    """The bounds that were met since the last call, as JSON; empty if none was."""
    told = json.dumps(_met) if _met else ""
    _met.clear()
    return told
