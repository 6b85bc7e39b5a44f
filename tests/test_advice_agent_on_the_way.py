"""Between `imtcp-agent feed` and its service: proxies, slow lines, and other users."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agents import (
    ALONE,
    AWAY,
    PINGS,
    Agents,
    free_port,
    history,
    put_into,
    service,
    unix_s,
    wait_until,
)
from built import ADVICE

PAGE = "<html><head><title>400 The plain HTTP request was sent to HTTPS port</title></head></html>"
PROBLEM = "application/problem+json"


@contextmanager
def answering(
    status: int, kind: str, body: str, *, late_s: int = 0, port: int = 0
) -> Iterator[str]:
    """Something that answers every request with this, by a clock that is late; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response_only(status)
            head = {"Server": "nginx/1.22.1", "Content-Type": kind, "Connection": "close"}
            head |= {"Date": formatdate(time.time() - late_s, usegmt=True)}
            for name, value in (head | {"Content-Length": str(len(body.encode()))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [(400, "text/html", PAGE), (413, "text/html", PAGE), (400, "application/json", "{}")],
)
def test_a_refusal_that_is_not_the_services_own_condemns_no_batch(
    agents: Agents, peers: Path, tmp_path: Path, status: int, kind: str, body: str
) -> None:
    port, log, db = free_port(), tmp_path / "log", tmp_path / "history.db"
    put_into(agents.spool)
    with log.open("w") as stderr:
        with answering(status, kind, body, port=port) as url:
            agent = agents.start(url, *PINGS, "--peers", peers, stderr=stderr)
            told = f"HTTP status {status} by nginx/1.22.1 ({kind})"
            wait_until("it says who answered", lambda: "nginx" in log.read_text())
            time.sleep(4)  # it tries again
            assert agents.waiting() and not list(agents.spool.glob("*.refused"))
            assert log.read_text().count(told) == 1, log.read_text()
        with service(db, agents.tokens, port):
            wait_until("the batch has come", lambda: not agents.waiting(), 30)
            agents.end(agent)
            assert history(db)


def test_a_refusal_of_the_service_puts_a_batch_aside(
    agents: Agents, peers: Path, tmp_path: Path
) -> None:
    put_into(agents.spool)
    log = tmp_path / "log"
    body = json.dumps({"title": "Bad Request", "status": 400, "detail": "this is no report"})
    with log.open("w") as stderr, answering(400, PROBLEM, body) as url:
        agent = agents.start(url, *PINGS, "--peers", peers, stderr=stderr)
        wait_until("it is put aside", lambda: bool(list(agents.spool.glob("*.refused"))))
        agents.end(agent)
    assert "it refuses a batch: this is no report" in log.read_text()


def test_a_proxys_error_page_does_not_set_the_agents_clock(
    agents: Agents, peers: Path, tmp_path: Path
) -> None:
    port, log, db = free_port(), tmp_path / "log", tmp_path / "history.db"
    put_into(agents.spool)
    with log.open("w") as stderr:
        with answering(502, "text/html", PAGE, late_s=7200, port=port) as url:
            agent = agents.start(url, *PINGS, "--peers", peers, stderr=stderr)
            wait_until("it waits", lambda: "batches wait" in log.read_text())
        # A captive portal answers in JSON, and is no service either.
        with answering(200, "application/json", "{}", late_s=7200, port=port):
            time.sleep(4)
        with service(db, agents.tokens, port):
            wait_until("the batch has come", lambda: not agents.waiting(), 30)
            agents.end(agent)
            newest = history(db)[-1]
    assert time.time() - unix_s(newest) < 60, newest
    assert "clock" not in log.read_text()


class SlowLine:
    """Leads to a port of this machine, with so many bit/s on the way there."""

    def __init__(self, port: int, bps: int) -> None:
        self.to, self.bytes_per_s = port, bps // 8
        self.listener = socket.socket()
        # A larger buffer would take a whole report at once.
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                there = socket.create_connection(("127.0.0.1", self.to))
                for args in [(client, there, self.bytes_per_s), (there, client, 10**9)]:
                    threading.Thread(target=carry, args=args, daemon=True).start()


def carry(source: socket.socket, sink: socket.socket, bytes_per_s: int) -> None:
    with suppress(OSError):
        while data := source.recv(min(bytes_per_s // 20, 65536)):
            time.sleep(len(data) / bytes_per_s)
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def test_a_large_batch_gets_through_a_slow_line(
    agents: Agents, peers: Path, tmp_path: Path
) -> None:
    log, db = tmp_path / "log", tmp_path / "history.db"
    # 160 kB: 20 s on the way, more than the service waits for one request.
    put_into(agents.spool, records=1800)
    with log.open("w") as stderr, service(db, agents.tokens) as url:
        line = SlowLine(int(url.rsplit(":", 1)[1]), bps=64_000)
        agent = agents.start(line.url, *ALONE, "--ping", "86400", "--peers", peers, stderr=stderr)
        wait_until("the batch has come", lambda: not agents.waiting(), 60)
        agents.end(agent)
        line.listener.close()
    assert len(history(db)) == 1800
    assert "batches wait" not in log.read_text()


def test_what_a_service_answers_commands_no_terminal() -> None:
    # \x1b in JSON, and U+009B, which serde_json writes as it is.
    detail = "no\x1b]0;title\x07\x9b2J\nimtcp: all is well"
    advise = [ADVICE, "ask", "192.0.2.7", "--url"]
    for kind in (PROBLEM, "a\x9b2J"):
        with answering(404, kind, json.dumps({"detail": detail}, ensure_ascii=False)) as url:
            done = subprocess.run([*advise, url], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1 and done.stderr.removesuffix("\n").isprintable()
    advice = {"verdict": "unknown", "congestion_control": "on", "mode": "bg", "because": detail}
    advice |= dict.fromkeys(["at", "next_advice_at", "valid_until"], "2026-03-20T14:25:00Z")
    with answering(200, "application/json", json.dumps(advice, ensure_ascii=False)) as url:
        told = subprocess.run([*advise, url, "--json"], capture_output=True, text=True, check=True)
    assert told.stdout.removesuffix("\n").isprintable(), told.stdout
    assert json.loads(told.stdout)["because"] == detail


@pytest.mark.parametrize(
    ("pipe", "more"),
    [("followed-logs", ["--log", "/dev/null"]), ("peers", ["--peers-from-service"])],
)
def test_a_pipe_in_the_spool_does_not_stop_the_agent_at_its_start(
    agents: Agents, tmp_path: Path, pipe: str, more: list[str]
) -> None:
    agents.spool.mkdir()
    os.mkfifo(agents.spool / pipe)
    said = tmp_path / "said"
    with said.open("w") as stdout:
        agent = agents.start(AWAY, *PINGS, *more, stdout=stdout)
        wait_until("it has started", lambda: "sending results" in said.read_text())
        agents.end(agent)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives a directory away")
def test_a_spool_of_another_user_is_refused(agents: Agents, peers: Path) -> None:
    agents.spool.mkdir()
    os.chown(agents.spool, 65534, 65534)
    command = agents.command(AWAY, *PINGS, "--peers", peers)
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1
    assert "belongs to another user (uid 65534)" in done.stderr
