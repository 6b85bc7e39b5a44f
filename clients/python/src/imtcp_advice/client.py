# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Asks an advice service, and reports to it."""

from __future__ import annotations

import functools
import http.client
import ipaddress
import json
import math
import os
import socket
import ssl
import urllib.parse
import uuid
import warnings
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypedDict

from . import exchange
from .answer import Advice, left_out_of_receipt, stored_of_receipt, text
from .times import parse_time


class ServiceError(Exception):
    """The service did not answer, or refused; the text says what to do."""


class RecordsLeftOutWarning(UserWarning):
    """The service stored a batch without some of its records."""


class TokenInClearWarning(UserWarning):
    """The token crosses a network unencrypted: whoever reads it there can use it."""


class _RecordOfPath(TypedDict):
    dst: str
    #: With its offset, as RFC 3339 or as a datetime with a zone.
    time: str | datetime


class Record(_RecordOfPath, total=False):
    """A measurement of a path.

    A record of bandwidth has `available_bps`. A record of an active test has `rtt_us`, `loss` or
    `throughput_bps` instead.
    """

    hop: str
    source: str
    available_bps: int
    capacity_bps: int
    rtt_us: int
    loss: float
    throughput_bps: int
    congested: bool
    validity_pct: int


class AdviceService:
    """A service at a URL.

    No question takes longer than `timeout_s`, looking up the name and connecting included. The
    client asks the service itself: it follows no redirection and uses no proxy, whatever
    HTTP_PROXY or HTTPS_PROXY say.
    """

    def __init__(self, url: str, token: str | None = None, timeout_s: float = 2.0) -> None:
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        self._parts = _parts(self.url)
        self._headers = {"Connection": "close", "User-Agent": "imtcp-advice"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {_checked_token(token)}"
            if self._parts.scheme == "http" and not _is_loopback(self._parts.hostname or ""):
                message = f"the token goes to {self.url} unencrypted: use https"
                warnings.warn(message, TokenInClearWarning, stacklevel=2)

    def ask(
        self, dst: str, remaining_bytes: float | None = None, at: datetime | str | None = None
    ) -> Advice:
        """Advice for a transfer to `dst`, as of `at` if that is given.

        `at` is a datetime with a zone, or text of RFC 3339, `remaining_bytes` a whole number;
        ValueError if they are neither. ServiceError if there is no advice.
        """
        query = {"dst": dst}
        if remaining_bytes is not None:
            query["bytes"] = str(_whole(remaining_bytes))
        if at is not None:
            query["at"] = _moment_text(at)
        answer = self._request("/v1/advice?" + urllib.parse.urlencode(query, errors="replace"))
        try:
            return Advice.from_answer(answer)
        except (KeyError, TypeError, ValueError) as e:
            raise ServiceError(f"{self.url} gives no advice: is it an imtcp service?") from e

    def advice(self, dst: str, remaining_bytes: float | None = None) -> Advice:
        """Advice for a transfer to `dst`; without an answer the safe default.

        So a transfer can go on whether the service is slow, away or wrong.
        """
        try:
            return self.ask(dst, remaining_bytes)
        except ServiceError as e:
            return Advice(because=str(e))

    def report(
        self, records: Iterable[Record | Mapping[str, Any]], batch: str | None = None
    ) -> int:
        """Adds records; returns how many were new. Sent again under its id, a batch counts once.

        A service that keeps no more paths leaves records out: `RecordsLeftOutWarning`.
        """
        sent = list(records)
        body = {"batch": batch or str(uuid.uuid4()), "records": sent}
        receipt = self._request("/v1/reports", json.dumps(body, default=_time_text).encode())
        try:
            left_out = left_out_of_receipt(receipt)
            if left_out:
                warnings.warn(f"{self.url} {left_out}", RecordsLeftOutWarning, stacklevel=2)
            return stored_of_receipt(receipt, len(sent))
        except (KeyError, TypeError, ValueError) as e:
            raise ServiceError(f"{self.url} gives no receipt: is it an imtcp service?") from e

    def _request(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        """What the JSON says. The caller finds out whether it is an object, as it should be."""
        try:
            status, answer = self._exchange(path, body).wait(self.timeout_s)
        # Before Python 3.10 socket.timeout is not a TimeoutError.
        except (TimeoutError, socket.timeout) as e:
            message = f"{self.url} does not answer within {self.timeout_s:g} s"
            raise ServiceError(message) from e
        except ssl.SSLCertVerificationError as e:
            named = os.environ.get("SSL_CERT_FILE")
            hint = "the variable SSL_CERT_FILE may name a file with its certificate"
            if named and not Path(named).exists():
                hint = f"SSL_CERT_FILE names {named}, which is not there"
            raise ServiceError(f"{self.url} cannot be trusted: {e.verify_message}; {hint}") from e
        except (OSError, ValueError) as e:
            raise ServiceError(f"{self.url} does not answer: {e}") from e
        except http.client.HTTPException as e:
            message = f"{self.url} gives no whole answer in HTTP: is it an imtcp service?"
            raise ServiceError(message) from e
        if len(answer) > exchange.MOST_ANSWER_BYTES:
            message = f"{self.url} answers with more than {exchange.MOST_ANSWER_BYTES} bytes"
            raise ServiceError(message + ": is it an imtcp service?")
        if not 200 <= status < 300:
            raise ServiceError(_detail(status, answer))
        try:
            parsed: dict[str, Any] = json.loads(answer)
        except (ValueError, RecursionError) as e:
            message = f"{self.url} does not answer in JSON: is it an imtcp service?"
            raise ServiceError(message) from e
        return parsed

    def _exchange(self, path: str, body: bytes | None) -> exchange.Exchange:
        is_https = self._parts.scheme == "https"
        kind = http.client.HTTPSConnection if is_https else http.client.HTTPConnection
        connect = functools.partial(kind, self._parts.netloc, timeout=self.timeout_s)
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = "application/json"
        return exchange.Exchange(connect, self._parts.path + path, body, headers)


def _parts(url: str) -> urllib.parse.SplitResult:
    try:
        parts = urllib.parse.urlsplit(url)
        # urlsplit looks at the port only when somebody asks for it.
        is_fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        if is_fine and "@" not in parts.netloc:
            return parts
    except ValueError:
        pass
    raise ValueError(f"{url!r} is no URL of a service: write http://… or https://…")


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _checked_token(token: str) -> str:
    """Without the line's end that a file gives it. An error never shows the token."""
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable():
        raise ValueError("the token is empty, or has characters that no header can carry")
    return token


def _time_text(value: object) -> str:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.isoformat()
    if isinstance(value, datetime):
        raise ValueError(f"{value} has no zone: a time without one is no moment")
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")


def _whole(remaining_bytes: float) -> int:
    """Of 16e9, too."""
    if not isinstance(remaining_bytes, (int, float)):
        kind = type(remaining_bytes).__name__
        raise TypeError(f"remaining_bytes is no {kind}: give a number of bytes, as 16e9")
    whole = int(remaining_bytes) if math.isfinite(remaining_bytes) else -1
    if whole != remaining_bytes or whole < 0:
        raise ValueError(f"remaining_bytes={remaining_bytes!r}: give a whole number of 0 or more")
    return whole


def _moment_text(at: object) -> str:
    if not isinstance(at, (datetime, str)):
        raise TypeError(f"at is no {type(at).__name__}: give a datetime with a zone, or RFC 3339")
    if isinstance(at, datetime):
        return _time_text(at)
    try:
        return parse_time(at).isoformat()
    except ValueError as e:
        message = f"at={at!r}: give a datetime with a zone, or RFC 3339, as 2026-03-20T14:25:00Z"
        raise ValueError(message) from e


def _detail(status: int, answer: bytes) -> str:
    try:
        return text(json.loads(answer)["detail"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return f"HTTP status {status}, not in the service's words: is a proxy before it?"
