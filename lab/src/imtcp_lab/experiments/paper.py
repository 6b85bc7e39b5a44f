"""A table or figure of a paper: its place, its result, and the verdict on ours.

A verdict rests on claims.  Each claim is a sentence of the paper's result that our rows support or
not.  All hold: *reproduced*; none holds: *not reproduced*; otherwise *differs*.  Claims are of
order, and of size where the paper has numbers.  ``choices`` says what we shortened and what the
paper leaves open; ``reason`` says why ours differs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import le
from typing import Any, TypeVar

from imtcp_lab.stats import ensemble

Rows = Sequence[Mapping[str, Any]]
T = TypeVar("T")

#: Measurements before [IM §4.5] have no pause between them.
WITHOUT_PAUSE = ("pause=0",)
#: Stands for imtcp's own, adaptive value among the values of a parameter.
ADAPTS = "adapts"

REPRODUCED = "reproduced"
DIFFERS = "differs"
NOT_REPRODUCED = "not reproduced"


@dataclass(frozen=True)
class Claim:
    """A sentence with our numbers, and whether they support it."""

    text: str
    holds: bool
    #: Number of seeds whose rows alone support the sentence, and number of all seeds.
    seeds_held: int = 0
    seeds: int = 0

    @property
    def told(self) -> str:
        """The sentence, and how many seeds differ from it."""
        if self.seeds_held == (self.seeds if self.holds else 0):
            return self.text
        return f"{self.text} [holds in {self.seeds_held} of {self.seeds} seeds by themselves]"


@dataclass(frozen=True)
class Verdict:
    """The result of all claims."""

    claims: tuple[Claim, ...]

    @property
    def word(self) -> str:
        """One of the three words."""
        held = sum(claim.holds for claim in self.claims)
        if held == len(self.claims):
            return REPRODUCED
        return DIFFERS if held else NOT_REPRODUCED

    @property
    def records(self) -> list[dict[str, Any]]:
        """The claims as plain data."""
        return [asdict(claim) for claim in self.claims]

    @property
    def told(self) -> str:
        """The claims, one per line."""
        return "\n".join(f"  {'yes' if c.holds else 'no ':3}  {c.told}" for c in self.claims)


@dataclass(frozen=True)
class Paper:
    """The part of a paper that an experiment reproduces."""

    #: The paper by its key, and the place in it.
    source: str
    #: The paper's result, in our words.
    expected: str
    #: Our choices where the paper says nothing, and what we shortened.
    choices: str
    judge: Callable[[Rows], Sequence[Claim]]
    #: (rows, theme) → PNG with the paper's axes; needs only stored rows.
    draw: Callable[[Rows, Any], bytes]
    #: Why ours differs, as far as we know.
    reason: str = ""

    def verdict(self, rows: Rows) -> Verdict:
        """The verdict on these rows: on all seeds together, and on each alone."""
        seeds = values(rows, "seed")
        each = [self.judge([row for row in rows if row["seed"] == seed]) for seed in seeds]
        return Verdict(
            tuple(
                replace(claim, seeds_held=sum(c.holds for c in same), seeds=len(seeds))
                for claim, *same in zip(self.judge(rows), *each, strict=True)
            )
        )

    def why(self, verdict: Verdict) -> str:
        """The reason, or that none is known yet; a remark if ours does not differ."""
        if self.reason or verdict.word == REPRODUCED:
            return self.reason
        return "Why it differs is not found yet."


def pick(args: argparse.Namespace, full: T, quick: T) -> T:
    """The sweep, or the coarse one of ``--quick``."""
    return quick if args.quick else full


def mean(rows: Rows, key: str, **where: object) -> float:
    """Mean over the rows that have these values; NaN without rows."""
    kept = [r for r in rows if all(r.get(k) == v for k, v in where.items())]
    return ensemble(r.get(key) for r in kept).mean


def values(rows: Rows, key: str) -> list[Any]:
    """The different values of a column, in ascending order."""
    return sorted({row[key] for row in rows})


def below(
    name: str, value: float, whose: str, bound: float, digits: int = 2, unit: str = ""
) -> Claim:
    """``name`` is at most ``bound``, the value of ``whose``; both in ``unit``."""
    told, most = (_number(v, digits) + unit for v in (value, bound))
    return Claim(f"{name} {told} (wanted: at most {most}, {whose})", value <= bound)


def more_than_one(text: str, found: Sequence[float]) -> Claim:
    """Every value of a sweep is above 1, by a clear margin."""
    return at_each(f"{text} more than 1 by a twentieth", found, holds=LESS * min(found) >= 1)


def near(
    name: str, value: float, paper: float, within: float, unit: str = "", digits: int = 2
) -> Claim:
    """``name`` is within ``within`` of the paper's value; all in ``unit``."""
    told = _number(value, digits) + unit
    return Claim(
        f"{name} {told} (wanted: within {within:.2g} of the paper's {paper:g})",
        abs(value - paper) <= within,
    )


def at_each(text: str, found: Sequence[float], *, holds: bool, digits: int = 2) -> Claim:
    """A claim about every value of a sweep; the text lists the values in order."""
    return Claim(f"{text}: {', '.join(_number(value, digits) for value in found)}", holds)


def grows(text: str, found: Sequence[float], digits: int = 2) -> Claim:
    """The value never falls in the sweep, and is greater at its end."""
    holds = all(map(le, found, found[1:])) and found[0] <= LESS * found[-1]
    return at_each(text, found, holds=holds, digits=digits)


#: "Less" means less by a twentieth: a smaller difference is chance.
LESS = 0.95


def less(name: str, value: float, whose: str, other: float, digits: int = 2) -> Claim:
    """``name`` is less than ``other``, the value of ``whose``, by a clear margin."""
    told, than = (_number(v, digits) for v in (value, other))
    return Claim(
        f"{name} {told} (wanted: at least 5 % less than {than}, {whose})", value <= LESS * other
    )


def _number(value: float, digits: int) -> str:
    return "(not measured)" if math.isnan(value) else f"{value:.{digits}f}"
