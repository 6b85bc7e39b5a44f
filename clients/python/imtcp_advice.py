# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Asks an imtcp advice service; one file, nothing but the standard library.

    from imtcp_advice import AdviceService

    service = AdviceService("http://127.0.0.1:8750")
    advice = service.advice("192.0.2.7", remaining_bytes=16_000_000_000)
    print(advice.congestion_control, advice.available_bps, advice.ask_again_s)

The service slow, away or wrong: `advice` is the safe default (congestion control on, nothing
known), so that a transfer can always go on. `ask` raises `ServiceError` instead. Neither takes
longer than `timeout_s`, looking up the name and connecting included. The service is asked itself:
redirections are refused, and a proxy of the environment is not used.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import socket
import threading
import urllib.parse
import uuid
from collections.abc import Callable, Iterable
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
    #: Seconds from the answer on: until the next advice is due, and how long this one holds. Ask
    #: again after the shorter one: what is unknown holds for a minute, with the next far away.
    ask_again_s: float = RETRY_S
    valid_s: float = RETRY_S
    because: str = ""
    #: The whole answer, with everything it was computed from.
    answer: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_answer(cls, answer: dict[str, Any]) -> Advice:
        """KeyError, TypeError or ValueError where a part is missing or not as it should be: half
        an answer is worth none."""
        at = _time(answer["at"])
        return cls(
            congestion_control=_word(answer["congestion_control"], "on", "off") == "on",
            mode=_word(answer["mode"], "bg", "measure"),
            available_bps=_count_or_none(answer["available_bps"]),
            available_low_bps=_count_or_none(answer["available_low_bps"]),
            available_high_bps=_count_or_none(answer["available_high_bps"]),
            rtt_us=_count_or_none(answer["rtt_us"]),
            buffer_bytes=_count_or_none(answer["buffer_bytes"]),
            ask_again_s=max(1.0, (_time(answer["next_advice_at"]) - at).total_seconds()),
            valid_s=max(0.0, (_time(answer["valid_until"]) - at).total_seconds()),
            because=_text(answer["because"]),
            answer=answer,
        )


class AdviceService:
    def __init__(self, url: str, token: str | None = None, timeout_s: float = 2.0) -> None:
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        self._parts = _parts(self.url)
        self._headers = {"Connection": "close"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

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
        sent = list(records)
        body = {"batch": batch or str(uuid.uuid4()), "records": sent}
        receipt = self._request("/v1/reports", json.dumps(body).encode())
        try:
            return _count(receipt["stored"], most=len(sent))
        except (KeyError, TypeError, ValueError) as e:
            raise ServiceError(f"{self.url} gives no receipt: is it an imtcp service?") from e

    def _request(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        """What the JSON says; that it is an object is for who takes it apart to find out."""
        try:
            status, answer = self._exchange(path, body).wait(self.timeout_s)
        except TimeoutError as e:
            text = f"{self.url} does not answer within {self.timeout_s:g} s"
            raise ServiceError(text) from e
        except (OSError, ValueError) as e:
            raise ServiceError(f"{self.url} does not answer: {e}") from e
        except http.client.HTTPException as e:
            text = f"{self.url} gives no whole answer in HTTP: is it an imtcp service?"
            raise ServiceError(text) from e
        if len(answer) > MOST_ANSWER_BYTES:
            text = f"{self.url} answers with more than {MOST_ANSWER_BYTES} bytes"
            raise ServiceError(text + ": is it an imtcp service?")
        if not 200 <= status < 300:
            raise ServiceError(_detail(status, answer))
        try:
            return json.loads(answer)
        except (ValueError, RecursionError) as e:
            text = f"{self.url} does not answer in JSON: is it an imtcp service?"
            raise ServiceError(text) from e

    def _exchange(self, path: str, body: bytes | None) -> _Exchange:
        kind = http.client.HTTPConnection
        if self._parts.scheme == "https":
            kind = http.client.HTTPSConnection
        connect = functools.partial(kind, self._parts.netloc, timeout=self.timeout_s)
        return _Exchange(connect, self._parts.path + path, body, self._headers)


class _Exchange(threading.Thread):
    """A question and its answer, in a thread, which can be left alone when the time is up: nothing
    ends the lookup of a name, and a socket's own timeout begins again with each byte."""

    def __init__(
        self,
        connect: Callable[[], http.client.HTTPConnection],
        path: str,
        body: bytes | None,
        headers: dict[str, str],
    ) -> None:
        super().__init__(daemon=True)
        self._connect = connect
        self._question = "GET" if body is None else "POST", path, body, headers
        self._socket: socket.socket | None = None
        self._over = False
        self._answer: tuple[int, bytes] | Exception = TimeoutError()

    def wait(self, seconds: float) -> tuple[int, bytes]:
        """The status and the body, one byte over the limit at most."""
        self.start()
        try:
            self.join(seconds)
        finally:
            answer = self._answer
            self._over = True
            if self._socket:
                # Closed where the answer is there.
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run(self) -> None:
        try:
            # Made here, for it reads the system's certificates, which may take its time.
            with contextlib.closing(self._connect()) as connection:
                connection.connect()
                # The connection forgets it with the answer's head, when the body is yet to come.
                self._socket = connection.sock
                if self._over:
                    return
                connection.request(*self._question)
                with connection.getresponse() as answer:
                    self._answer = answer.status, answer.read(MOST_ANSWER_BYTES + 1)
        except Exception as e:
            self._answer = e


def _parts(url: str) -> urllib.parse.SplitResult:
    try:
        parts = urllib.parse.urlsplit(url)
        # The port is only looked at when it is asked for.
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    except ValueError:
        pass
    raise ValueError(f"{url!r} is no URL of a service: write http://… or https://…")


def _detail(status: int, answer: bytes) -> str:
    try:
        return _text(json.loads(answer)["detail"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return f"HTTP status {status}"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _word(value: object, *known: str) -> str:
    if value not in known:
        raise ValueError("no word that is known here")
    return value


def _count(value: object, most: int = (1 << 64) - 1) -> int:
    # True is an int too.
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError("no count")
    return value


def _count_or_none(value: object) -> int | None:
    return None if value is None else _count(value)


def _time(value: object) -> datetime:
    return datetime.fromisoformat(_text(value).replace("Z", "+00:00"))
