# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Asks an imtcp advice service; one file, nothing but the standard library.

    from imtcp_advice import AdviceService

    service = AdviceService("http://127.0.0.1:8750")
    advice = service.advice("192.0.2.7", remaining_bytes=16_000_000_000)
    print(advice.congestion_control, advice.available_bps, advice.ask_again_s)

The service slow, away or wrong: `advice` is the safe default (congestion control on, nothing
known), so that a transfer can always go on. `ask` raises `ServiceError` instead.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

#: How long the safe default holds before it is worth asking again.
RETRY_S = 60.0
MOST_ANSWER_BYTES = 16 << 20


class ServiceError(Exception):
    """The service did not answer, or refused; the text says what to do."""


@dataclass(frozen=True)
class Advice:
    """What to do until it is time to ask again. None: not known."""

    congestion_control: bool = True
    #: The mode of `imtcp run`.
    mode: str = "bg"
    available_bps: int | None = None
    available_low_bps: int | None = None
    available_high_bps: int | None = None
    rtt_us: int | None = None
    buffer_bytes: int | None = None
    #: Seconds from the answer on.
    ask_again_s: float = RETRY_S
    valid_s: float = RETRY_S
    because: str = ""
    #: The whole answer, with everything it was computed from.
    answer: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_answer(cls, answer: dict[str, Any]) -> Advice:
        at = _time(answer["at"])
        return cls(
            # Whatever is not plainly "off" is on.
            congestion_control=answer["congestion_control"] != "off",
            mode=answer["mode"],
            available_bps=answer["available_bps"],
            available_low_bps=answer["available_low_bps"],
            available_high_bps=answer["available_high_bps"],
            rtt_us=answer["rtt_us"],
            buffer_bytes=answer["buffer_bytes"],
            ask_again_s=max(1.0, (_time(answer["next_advice_at"]) - at).total_seconds()),
            valid_s=max(0.0, (_time(answer["valid_until"]) - at).total_seconds()),
            because=answer["because"],
            answer=answer,
        )


class AdviceService:
    def __init__(self, url: str, token: str | None = None, timeout_s: float = 2.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r} is no URL of a service: write http://… or https://…")
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ask(
        self, dst: str, remaining_bytes: int | None = None, at: datetime | None = None
    ) -> Advice:
        """Advice for a transfer to `dst`, as of `at` where that is given (with its zone)."""
        query = {"dst": dst}
        if remaining_bytes is not None:
            query["bytes"] = str(remaining_bytes)
        if at is not None:
            query["at"] = at.isoformat()
        answer = self._request("/v1/advice?" + urllib.parse.urlencode(query))
        try:
            return Advice.from_answer(answer)
        except (KeyError, TypeError, ValueError) as e:
            raise ServiceError(f"{self.url} gives no advice: is it an imtcp service?") from e

    def advice(self, dst: str, remaining_bytes: int | None = None) -> Advice:
        """The same, but the safe default when there is none to be had."""
        try:
            return self.ask(dst, remaining_bytes)
        except ServiceError as e:
            return Advice(because=str(e))

    def report(self, records: Iterable[dict[str, Any]], batch: str | None = None) -> int:
        """Adds records; returns how many were new. Sent again under its id, a batch counts once.

        A record has `dst`, `time` and `available_bps`; one of an active test has `rtt_us`, `loss`
        or `throughput_bps` instead of the last.
        """
        body = {"batch": batch or str(uuid.uuid4()), "records": list(records)}
        receipt = self._request("/v1/reports", json.dumps(body).encode())
        return int(receipt["stored"])

    def _request(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        request = urllib.request.Request(self.url + path, body, self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as answer:
                return json.loads(answer.read(MOST_ANSWER_BYTES))
        except urllib.error.HTTPError as e:
            raise ServiceError(_detail(e)) from e
        except (OSError, ValueError) as e:
            raise ServiceError(f"{self.url} does not answer: {e}") from e


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(MOST_ANSWER_BYTES))["detail"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"HTTP status {error.code}"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
