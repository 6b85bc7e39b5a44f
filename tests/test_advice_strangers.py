"""The advice service under load by clients that have no token: it goes on, in bounded memory."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from built import ADVICE

ROOT = Path(__file__).resolve().parent.parent
TOKEN = "a-token-for-the-tests"

# 4096 connections of 30 kB are 120 MB; here are 600, with some for the allocator.
MOST_GROWTH_KB = 48 * 1024
# Two runtime workers, four lookups, four readers and a writer of SQLite, and some to spare.
MOST_THREADS = 40
SECONDS = 6


class Service:
    def __init__(self, process: subprocess.Popen, port: int) -> None:
        self.process, self.port = process, port

    def status(self, key: str) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"^{key}:\s+(\d+)", text, re.MULTILINE)[1])

    def healthz(self) -> float:
        """Seconds until it answers."""
        began = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
        connection.close()
        return time.monotonic() - began


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKEN)
    tokens.chmod(0o600)
    command = [ADVICE, "serve", "--db", tmp_path / "history.db", "--no-ping"]
    command += ["--listen", "127.0.0.1:0", "--token-file", tokens]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout
        port = int(re.search(r":(\d+)/", process.stdout.readline())[1])
        yield Service(process, port)
        process.terminate()


def send(port: int, head: str, body: bytes, patience: float) -> None:
    """One request; what is answered does not matter."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as s:
        s.settimeout(patience)
        s.sendall(head.encode())
        s.sendall(body)
        while s.recv(65536):
            pass


def head(first: str, length: int, more: str = "") -> str:
    return f"{first} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{more}\r\n"


def report(port: int) -> None:
    send(port, head("POST /v1/reports", 4_000_000), b"x" * 4_000_000, 3)


def report_with_a_wrong_token(port: int) -> None:
    wrong = "Authorization: Bearer another-token-than-ours\r\n"
    send(port, head("POST /v1/reports", 4_000_000, wrong), b"x" * 4_000_000, 3)


def begin_and_stay(port: int) -> None:
    send(port, head("POST /RPC2", 16_000, "Content-Type: text/xml\r\n"), b"<" * 8_000, 3)


def say_nothing(port: int) -> None:
    send(port, "", b"", 3)


def ask_for_a_name(port: int) -> None:
    name = f"host-{time.monotonic_ns()}.example"
    call = (
        "<methodCall><methodName>EnableGetNetInfo</methodName><params><param><value>"
        f"{name}</value></param></params></methodCall>"
    ).encode()
    send(port, head("POST /RPC2", len(call), "Content-Type: text/xml\r\n"), call, 3)


def nest_deep(port: int) -> None:
    # 14 kB, so that the length is right.
    body = b"<methodCall>" + b"<array><data><value>" * 700
    send(port, head("POST /RPC2", len(body), "Content-Type: text/xml\r\n"), body, 3)


@pytest.mark.parametrize(
    "stranger",
    [
        report,
        report_with_a_wrong_token,
        begin_and_stay,
        say_nothing,
        ask_for_a_name,
        nest_deep,
    ],
    ids=lambda stranger: stranger.__name__.replace("_", "-"),
)
def test_strangers_take_neither_memory_nor_threads_nor_the_health_of_the_service(
    service: Service, stranger: Callable[[int], None]
) -> None:
    service.healthz()
    before_kb = service.status("VmRSS")
    until = time.monotonic() + SECONDS
    # More than one client on this machine may hold, and held open as long as they can.
    held = []
    if stranger is say_nothing:
        held = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(600)]

    def attack() -> None:
        while time.monotonic() < until:
            stranger(service.port)

    attackers = [threading.Thread(target=attack) for _ in range(60)]
    for attacker in attackers:
        attacker.start()
    slowest, most_kb, most_threads = 0.0, 0, 0
    while time.monotonic() < until:
        slowest = max(slowest, service.healthz())
        most_kb = max(most_kb, service.status("VmRSS"))
        most_threads = max(most_threads, service.status("Threads"))
        time.sleep(0.05)
    for attacker in attackers:
        attacker.join()
    for one in held:
        one.close()
    assert service.process.poll() is None, "the service has ended"
    assert most_kb - before_kb < MOST_GROWTH_KB, f"{most_kb - before_kb} kB more"
    assert most_threads < MOST_THREADS
    # Sixty threads of the attackers share the processors with it.
    assert slowest < 3, f"/healthz took {slowest:.2f} s"
