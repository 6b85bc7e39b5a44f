"""The Python client against the real service, against none, and against what is none."""

from __future__ import annotations

import contextlib
import json
import math
import re
import socket
import ssl
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import imtcp_advice.exchange
import pytest
from imtcp_advice import AdviceService, ServiceError, TokenInClearWarning

from advice_service import WRITE_TOKEN, running_service

DST = "192.0.2.7"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with running_service(tmp_path) as url:
        yield url


def test_what_is_reported_is_advised_upon(url: str) -> None:
    service, now = AdviceService(url, WRITE_TOKEN), datetime.now(UTC)
    minutes = [now - timedelta(days=day) + timedelta(minutes=m) for day in range(1, 5)
               for m in range(60)]  # fmt: skip
    records = [
        {"dst": DST, "time": at.isoformat(), "available_bps": 80_000_000,
         "capacity_bps": 100_000_000, "rtt_us": 20_000}
        for at in [*minutes, now]
    ]  # fmt: skip
    assert service.report(records, "batch-1") == 241
    assert service.report(records, "batch-1") == 0
    advice = service.advice(DST, 1_000_000_000)
    assert not advice.congestion_control
    assert (advice.available_bps, advice.buffer_bytes) == (80_000_000, 250_000)
    assert 0 < advice.valid_s <= 601 < advice.ask_again_s
    assert (advice.transfer_s, advice.answer["transfer_s"]) == (100, 100)
    then = service.ask(DST, at=now - timedelta(days=3))
    assert then.congestion_control
    assert then.answer["reason"] == "too_few_days"


def test_records_beyond_what_the_service_keeps_are_warned_of(tmp_path: Path) -> None:
    now = datetime.now(UTC).isoformat()
    records = [{"dst": dst, "time": now, "available_bps": 1} for dst in (DST, "192.0.2.8")]
    with running_service(tmp_path, "--most-paths", "1") as url:
        service = AdviceService(url, WRITE_TOKEN)
        with pytest.warns(imtcp_advice.RecordsLeftOutWarning, match="left out 1 records: "):
            assert service.report(records) == 1


def test_without_service_the_answer_is_the_safe_default() -> None:
    service = AdviceService("http://127.0.0.1:1")
    advice = service.advice(DST)
    assert advice.congestion_control
    assert advice.available_bps is None
    assert "does not answer" in advice.because
    with pytest.raises(ServiceError, match="does not answer"):
        service.ask(DST)


def test_a_refusal_says_what_to_do(url: str) -> None:
    with pytest.raises(ServiceError, match="neither an address"):
        AdviceService(url).ask("a b")
    with pytest.raises(ServiceError, match="token"):
        AdviceService(url).report([])
    with pytest.raises(ValueError, match="no URL"):
        AdviceService("localhost:8750")
    with pytest.raises(ValueError, match="no URL"):
        AdviceService("http://localhost:a-port")
    with pytest.raises(ValueError, match="no URL"):
        AdviceService("http://user:password@localhost")


@pytest.mark.parametrize("fraction", ["", ".5", ".25", ".000001", ".999999999", ".120"])
def test_a_time_with_any_fraction_of_a_second_is_read(fraction: str) -> None:
    until = ADVICE | {"valid_until": f"2026-01-01T00:05:00{fraction}Z"}
    with serving(http(until)) as url:
        valid_s = AdviceService(url).ask(DST).valid_s
    assert valid_s == pytest.approx(300 + float("0" + fraction), abs=1e-6)


def test_a_record_may_have_a_datetime_with_a_zone(url: str) -> None:
    service, now = AdviceService(url, WRITE_TOKEN), datetime.now(UTC)
    record = {"dst": DST, "available_bps": 5}
    assert service.report([{**record, "time": now}]) == 1
    with pytest.raises(ValueError, match="has no zone"):
        service.report([{**record, "time": now.replace(tzinfo=None)}])
    with pytest.raises(ValueError, match="has no zone"):
        service.ask(DST, at=now.replace(tzinfo=None))


def test_a_question_may_be_as_of_a_text_and_what_is_no_moment_is_refused_in_words(url: str) -> None:
    service = AdviceService(url)
    assert service.ask(DST, at="2026-03-20T14:25:00+01:00").answer["at"] == "2026-03-20T13:25:00Z"
    for wrong in ("2026-11-27 12:00", "2026-11-27T12:00:00", "now"):
        with pytest.raises(ValueError, match="give a datetime with a zone, or RFC 3339, as 2026-"):
            service.ask(DST, at=wrong)
    with pytest.raises(TypeError, match="at is no int: give a datetime with a zone"):
        service.ask(DST, at=1774016700)  # type: ignore[arg-type]


def test_an_amount_that_is_no_whole_number_is_an_error_of_the_caller(url: str) -> None:
    """And no safe default for ever: an advice without an answer looks like one."""
    service = AdviceService(url)
    assert service.ask(DST, remaining_bytes=16e9).answer
    for wrong in (-5, 0.5, math.nan, math.inf):
        with pytest.raises(ValueError, match="give a whole number of 0 or more"):
            service.advice(DST, remaining_bytes=wrong)
    with pytest.raises(TypeError, match="is no str: give a number of bytes, as 16e9"):
        service.advice(DST, remaining_bytes="16G")  # type: ignore[arg-type]


# --- proxies and tokens ---


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(http({"detail": "this is the proxy"}, "502 Bad Gateway")) as proxy:
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"]:
            monkeypatch.setenv(name, proxy)
            monkeypatch.setenv(name.lower(), proxy)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        with serving(http(ADVICE)) as url:
            assert AdviceService(url).ask(DST).mode == "measure"


def test_a_token_that_would_cross_a_network_in_the_clear_gets_a_warning() -> None:
    for elsewhere in ["http://192.0.2.1:8750", "http://advice.example", "http://[2001:db8::1]"]:
        with pytest.warns(TokenInClearWarning, match="unencrypted: use https") as caught:
            AdviceService(elsewhere, WRITE_TOKEN)
        assert caught[0].filename == __file__
        assert WRITE_TOKEN not in str(caught[0].message)


def test_a_token_that_stays_on_the_machine_or_is_encrypted_gets_none() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for host in ["127.0.0.1", "127.9.9.9:1", "localhost", "[::1]:1", "[::ffff:127.0.0.1]"]:
            AdviceService(f"http://{host}", WRITE_TOKEN)
        AdviceService("https://advice.example", WRITE_TOKEN)
        AdviceService("http://advice.example")


def test_a_token_as_a_file_gives_it_works_and_a_wrong_one_is_not_shown(url: str) -> None:
    assert AdviceService(url, f"{WRITE_TOKEN}\n").report([]) == 0
    for wrong in ["", " ", "secret\r\nHost: x", "gehe\u00efm-secret"]:
        with pytest.raises(ValueError, match="no header can carry") as e:
            AdviceService(url, wrong)
        assert "secret" not in str(e.value)


def test_a_destination_that_is_no_text_is_refused_in_words(url: str) -> None:
    with pytest.raises(ServiceError, match="neither an address"):
        AdviceService(url).ask("\udcff")


def test_without_a_thread_the_answer_is_the_safe_default(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(imtcp_advice.exchange.Exchange, "start", no_thread)
    advice = AdviceService("http://127.0.0.1:1").advice(DST)
    assert advice.congestion_control
    assert "can't start new thread" in advice.because


# --- services that are none ---

ADVICE = {
    "at": "2026-01-01T00:00:00Z", "congestion_control": "off", "mode": "measure",
    "available_bps": 80_000_000, "available_low_bps": 0, "available_high_bps": None,
    "rtt_us": 20_000, "buffer_bytes": None, "because": "the test says so",
    "next_advice_at": "2026-01-01T00:10:00Z", "valid_until": "2026-01-01T00:05:00Z",
}  # fmt: skip
COUNTS = ["available_bps", "available_low_bps", "available_high_bps", "rtt_us", "buffer_bytes"]


def http(body: bytes | dict, status: str = "200 OK", *headers: str) -> bytes:
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, "", ""]).encode() + body


@contextlib.contextmanager
def serving(
    answers: bytes | Callable[[socket.socket], None], tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """The URL of a service that answers each question with these bytes, or as it likes."""

    def answer(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            if not callable(answers):
                # All of the question, for what is unread when it closes would become a reset.
                while connection.recv(1 << 16)[-4:] != b"\r\n\r\n":
                    pass
                connection.sendall(answers)
                return
            if tls:
                connection = tls.wrap_socket(connection, server_side=True)
            answers(connection)
            connection.close()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        host = "https://localhost" if tls else "http://127.0.0.1"
        yield f"{host}:{listener.getsockname()[1]}"
        # close() alone leaves accept() waiting.
        listener.shutdown(socket.SHUT_RDWR)


def refused(url: str, why: str) -> None:
    """`ask` says why, `advice` gives the safe default with the same words."""
    service = AdviceService(url)
    with pytest.raises(ServiceError, match=re.escape(why)):
        service.ask(DST)
    advice = service.advice(DST)
    assert (advice.congestion_control, advice.mode, advice.available_bps) == (True, "bg", None)
    assert why in advice.because


def test_an_answer_as_it_should_be_is_taken() -> None:
    with serving(http(ADVICE)) as url:
        advice = AdviceService(url).ask(DST)
    assert (advice.congestion_control, advice.mode) == (False, "measure")
    assert (advice.available_bps, advice.available_low_bps, advice.rtt_us) == (
        80_000_000,
        0,
        20_000,
    )
    assert (advice.available_high_bps, advice.buffer_bytes) == (None, None)
    assert (advice.ask_again_s, advice.valid_s) == (600, 300)
    assert advice.answer == ADVICE


NO_HTTP = "gives no whole answer in HTTP: is it an imtcp service?"
NO_JSON = "does not answer in JSON: is it an imtcp service?"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WRONG = {
    "nothing": (b"", "does not answer"),
    "another protocol": (b"220 ftp.example.org ready\r\n", NO_HTTP),
    "noise": (bytes(range(256)) * 300, NO_HTTP),
    "no number of a chunk": (CHUNKED + b"many\r\n{}", NO_HTTP),
    "half a chunk": (CHUNKED + b"ff\r\n{}", NO_HTTP),
    "many headers": (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 5000 + b"\r\n", NO_HTTP),
    "a page": (http(b"<!doctype html>"), NO_JSON),
    "no text": (http(b"\xff\xfe\xfd"), NO_JSON),
    "half an answer": (http(ADVICE)[:-1], NO_JSON),
    "deep JSON": (http(b"[" * 100_000), NO_JSON),
    "a long number": (http(b"9" * 10_000), NO_JSON),
    "an error in words": (http({"detail": "no such path"}, "404 Not Found"), "no such path"),
    "an error in numbers": (http({"detail": 5}, "404 Not Found"), "HTTP status 404"),
    "an error as a page": (http(b"<!doctype html>", "502 Bad Gateway"), "HTTP status 502"),
    "an error in deep JSON": (http(b"[" * 100_000, "500 Oh"), "HTTP status 500"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_answer_is_an_error_in_words(name: str) -> None:
    answer, why = WRONG[name]
    with serving(answer) as url:
        refused(url, why)


@pytest.mark.parametrize(
    "nonsense",
    [
        *([], None, 5, "advice", {}),
        *({"at": wrong} for wrong in [5, None, "soon", "2026-01-01T00:00:00"]),
        *({key: 5} for key in ["next_advice_at", "valid_until", "because"]),
        *({"mode": wrong} for wrong in ["fast", "BG", None, 1, ["bg"]]),
        *({"congestion_control": wrong} for wrong in ["perhaps", "Off", None, False, {}]),
        *({key: wrong} for key in COUNTS for wrong in [-1, True, "5"]),
        *({"rtt_us": wrong} for wrong in [0.5, float("inf"), float("nan"), 1 << 64, [1]]),
    ],
    ids=str,
)
def test_an_answer_that_makes_no_sense_is_no_advice(nonsense: object) -> None:
    body = ADVICE | nonsense if nonsense and isinstance(nonsense, dict) else nonsense
    with serving(http(json.dumps(body).encode())) as url:
        refused(url, f"{url} gives no advice: is it an imtcp service?")


@pytest.mark.parametrize("missing", [*COUNTS, "at", "mode", "because", "valid_until"])
def test_an_answer_with_a_part_missing_is_no_advice(missing: str) -> None:
    with serving(http({k: v for k, v in ADVICE.items() if k != missing})) as url:
        refused(url, "gives no advice")


def test_an_answer_that_is_too_long_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = json.dumps(ADVICE).encode()
    monkeypatch.setattr(imtcp_advice.exchange, "MOST_ANSWER_BYTES", len(answer))
    with serving(http(answer)) as url:
        assert AdviceService(url).ask(DST).mode == "measure"
    # Cut, each would be advice.
    for long in (http(answer + b" "), CHUNKED + b"%x\r\n%s \r\n" % (len(answer) + 1, answer)):
        with serving(long) as url:
            refused(url, f"answers with more than {len(answer)} bytes")


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Moved", "308 Moved"])
def test_a_redirection_is_refused(status: str) -> None:
    asked = []

    def elsewhere(connection: socket.socket) -> None:
        asked.append(connection.recv(1 << 16))
        connection.sendall(http(ADVICE))

    with serving(elsewhere) as there, serving(http(b"", status, f"Location: {there}/")) as url:
        refused(url, f"HTTP status {status[:3]}")
    assert not asked


@pytest.mark.parametrize(
    "receipt",
    [{}, [], None, 5, *({"stored": wrong} for wrong in ["1", None, True, -1, 1.5, 2])],
    ids=str,
)
def test_a_receipt_that_makes_no_sense_is_an_error(receipt: object) -> None:
    def answer(connection: socket.socket) -> None:
        asked = b""
        while b'"records"' not in asked:
            asked += connection.recv(1 << 16)
        connection.sendall(http(json.dumps(receipt).encode()))

    record = {"dst": DST, "time": "2026-01-01T00:00:00Z", "available_bps": 5}
    with serving(answer) as url, pytest.raises(ServiceError, match="gives no receipt"):
        AdviceService(url).report([record])


# --- services that are slow ---

DRIP_S = 0.1
TIMEOUT_S = 0.5
#: What a busy machine adds. A service that drips does so for longer.
SLACK_S = 2.5


def dripping(start: bytes) -> Callable[[socket.socket], None]:
    def drip(connection: socket.socket) -> None:
        connection.sendall(start)
        for _ in range(int((TIMEOUT_S + 2 * SLACK_S) / DRIP_S)):
            time.sleep(DRIP_S)
            connection.sendall(b" ")

    return drip


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    """The TLS context of a service on localhost, and the certificate for its clients."""
    home = tmp_path_factory.mktemp("tls")
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost", "-keyout", home / "key", "-out", home / "crt"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(home / "crt", home / "key")
    return context, home / "crt"


def gives_up_in_time(url: str) -> None:
    threads, start = threading.active_count(), time.monotonic()
    advice = AdviceService(url, timeout_s=TIMEOUT_S).advice(DST)
    took_s = time.monotonic() - start
    assert TIMEOUT_S <= took_s < TIMEOUT_S + SLACK_S
    assert advice.because == f"{url} does not answer within 0.5 s"
    # Nothing goes on behind its back while the service drips. One thread is the service's.
    while threading.active_count() > threads + 1:
        assert time.monotonic() < start + TIMEOUT_S + SLACK_S, threading.enumerate()
        time.sleep(0.02)


SLOW = {
    "status": b"",
    "headers": b"HTTP/1.1 200 OK\r\na:",
    "body": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
    "body to the end": b"HTTP/1.0 200 OK\r\n\r\n",
    "chunk": CHUNKED + b"fff\r\n",
}


@pytest.mark.parametrize("part", SLOW)
def test_a_service_that_drips_holds_nobody_for_longer_than_the_timeout(part: str) -> None:
    with serving(dripping(SLOW[part])) as url:
        gives_up_in_time(url)


@pytest.mark.parametrize("part", SLOW)
def test_nor_does_one_behind_tls(
    part: str, tls: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    context, certificate = tls
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with serving(dripping(SLOW[part]), context) as url:
        gives_up_in_time(url)


def test_a_greeting_of_tls_that_drips_is_not_waited_for() -> None:
    """The beginning of a long record."""
    with serving(dripping(b"\x16\x03\x03\x3f\xff\x02")) as url:
        gives_up_in_time(url.replace("http://", "https://"))


def test_a_slow_lookup_of_the_name_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def lookup(*_: object, **__: object) -> list:
        over.wait(TIMEOUT_S + 2 * SLACK_S)
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    start = time.monotonic()
    advice = AdviceService("http://service.example", timeout_s=TIMEOUT_S).advice(DST)
    assert time.monotonic() - start < TIMEOUT_S + SLACK_S
    over.set()
    assert "does not answer within 0.5 s" in advice.because


def test_a_service_behind_tls_is_asked(
    tls: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(http(ADVICE))

    context, certificate = tls
    with serving(answer, context) as url:
        untrusted = AdviceService(url).advice(DST).because
        assert "cannot be trusted" in untrusted and "SSL_CERT_FILE" in untrusted
        monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent.pem")
        missing = AdviceService(url).advice(DST).because
        assert "SSL_CERT_FILE names /nonexistent.pem, which is not there" in missing
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert AdviceService(url).ask(DST).mode == "measure"
