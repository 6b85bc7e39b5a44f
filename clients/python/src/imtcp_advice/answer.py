# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Turns a service's JSON into advice, and refuses JSON that is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .times import parse_time

#: How long the safe default holds before it is worth asking again.
RETRY_S = 60.0
#: The greatest unsigned integer of 64 bits: the service counts in these.
MOST_COUNT = (1 << 64) - 1


@dataclass(frozen=True)
class Advice:
    """Advice until it is time to ask again. None: not known.

    Without arguments it is the safe default: congestion control on, nothing known.
    """

    congestion_control: bool = True
    #: The mode of `imtcp run`.
    mode: str = "bg"
    available_bps: int | None = None
    available_low_bps: int | None = None
    available_high_bps: int | None = None
    rtt_us: int | None = None
    buffer_bytes: int | None = None
    #: How long the remaining bytes take at `available_bps`, if the question told them.
    transfer_s: float | None = None
    #: Seconds from the answer on until the next advice is due. Ask again at the sooner one of
    #: `ask_again_s` and `valid_s`: an unknown verdict is valid for a minute only.
    ask_again_s: float = RETRY_S
    #: Seconds from the answer on for which this advice holds.
    valid_s: float = RETRY_S
    because: str = ""
    #: The whole answer, with everything it was computed from.
    answer: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_answer(cls, answer: dict[str, Any]) -> Advice:
        """KeyError, TypeError or ValueError if a part is missing or not as it should be."""
        at = parse_time(text(answer["at"]))
        next_advice_at = parse_time(text(answer["next_advice_at"]))
        valid_until = parse_time(text(answer["valid_until"]))
        return cls(
            congestion_control=_word(answer["congestion_control"], "on", "off") == "on",
            mode=_word(answer["mode"], "bg", "measure"),
            available_bps=_count_or_none(answer["available_bps"]),
            available_low_bps=_count_or_none(answer["available_low_bps"]),
            available_high_bps=_count_or_none(answer["available_high_bps"]),
            rtt_us=_count_or_none(answer["rtt_us"]),
            buffer_bytes=_count_or_none(answer["buffer_bytes"]),
            transfer_s=_seconds_or_none(answer.get("transfer_s")),
            ask_again_s=max(1.0, (next_advice_at - at).total_seconds()),
            valid_s=max(0.0, (valid_until - at).total_seconds()),
            because=text(answer["because"]),
            answer=answer,
        )


def stored_of_receipt(receipt: Mapping[str, Any], sent: int) -> int:
    """How many of the records sent were new; the same errors as `Advice.from_answer`."""
    return _count(receipt["stored"], most=sent)


def left_out_of_receipt(receipt: Mapping[str, Any]) -> str:
    """Says which records the service left out; empty if none. The same errors as above."""
    # An older service does not tell.
    if "refused" not in receipt or receipt["refused"] is None:
        return ""
    return f"left out {_count(receipt['refused'])} records: {text(receipt['because'])}"


def text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _word(value: object, *known: str) -> str:
    if value not in known:
        raise ValueError("no word that is known here")
    return text(value)


def _count(value: object, most: int = MOST_COUNT) -> int:
    # True is an int too.
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError("no count")
    return value


def _seconds_or_none(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise ValueError("no time")
    return float(value)


def _count_or_none(value: object) -> int | None:
    return None if value is None else _count(value)
