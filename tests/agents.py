"""Agents of the advice service for end-to-end tests, and what they measure."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

import pytest

from built import ADVICE, AGENT, IMTCP

TOKEN = "a-token-for-the-tests"
CLIENT, SERVER = "10.97.0.1", "10.97.0.2"
NAMES = {name: f"imtcp-agent-{os.getpid()}-{name}" for name in "amb"}
#: 50 Mbit/s and a round trip of 20 ms. The delay line stands in for netem, which not every
#: kernel has; without a delay there is no room for streams.
LINKS = """
link add va netns {a} type veth peer name left netns {m}
link add vb netns {b} type veth peer name right netns {m}
-n {m} link set left up
-n {m} link set right up
-n {a} link set va up
-n {b} link set vb up
-n {a} address add {client}/24 dev va
-n {b} address add {server}/24 dev vb
"""
SWALLOW = f"""
import socket
server = socket.create_server(("{SERVER}", 5001))
while True:
    stream, _ = server.accept()
    while stream.recv(1 << 20):
        pass
    stream.close()
"""
SEND = f"""
import socket
stream = socket.create_connection(("{SERVER}", 5001))
stream.sendall(bytes(30_000_000))
stream.shutdown(1)
stream.recv(1)
"""


def ip(line: str) -> None:
    subprocess.run(["ip", *line.split()], check=True)


def inside(name: str, *command: str) -> list[str]:
    return ["nsenter", f"--net=/run/netns/{NAMES[name]}", *command]


#: Nobody listens there: batches stay in the spool.
AWAY = "http://127.0.0.1:1"
#: For connections in the network namespace of the sender.
IN_A = ["--netns", f"/run/netns/{NAMES['a']}"]
#: For the tests alone: needs neither root nor programs in the kernel.
ALONE = ["--no-connections"]
#: An agent that needs nothing but itself. After 5 s there is about a result each second.
PEERS = [f"127.0.0.{host}" for host in range(1, 6)]
PINGS = [*ALONE, "--ping", "5"]


def transfer() -> None:
    """Sends until something was measured: the delay line has to share a busy machine's cores."""
    run = [IMTCP, "run", "--json", "--", "python3", "-c", SEND]
    for _ in range(6):
        done = subprocess.run(inside("a", *run), check=True, capture_output=True, text=True)
        if json.loads(done.stderr.splitlines()[-1])["avail_mean_bps"]:
            return
    pytest.skip("nothing was measured: this machine is too busy for the delay line")


def wait_until(what: str, holds: Callable[[], bool], most_s: float = 15) -> None:
    deadline = time.monotonic() + most_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {most_s} s: {what}"
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def service(db: Path, tokens: Path, port: int = 0) -> Iterator[str]:
    """The advice service; its URL."""
    command = [ADVICE, "serve", "--db", db, "--listen", f"127.0.0.1:{port}"]
    with subprocess.Popen(
        [*command, "--token-file", tokens], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        url = next(word for word in process.stdout.readline().split() if word.startswith("http"))
        try:
            yield url.rstrip("/,")
        finally:
            process.terminate()


def history(db: Path) -> list[dict[str, str]]:
    """The service's records on disk, oldest first."""
    export = [ADVICE, "export", "--db", db]
    text = subprocess.run(export, check=True, capture_output=True, text=True).stdout
    return sorted(csv.DictReader(text.splitlines()), key=lambda record: record["time"])


def unix_s(record: dict[str, str]) -> float:
    return datetime.fromisoformat(record["time"]).timestamp()


def put_into(spool: Path, records: int = 1) -> None:
    """A batch that an older imtcp left: nobody knows by whose clock."""
    spool.mkdir(parents=True)
    now = datetime.now(UTC)
    times = [(now - timedelta(seconds=age)).isoformat() for age in range(records)]
    all_of_it = [{"dst": PEERS[0], "time": time, "available_bps": 1} for time in times]
    (spool / "0.json").write_text(json.dumps({"batch": str(spool), "records": all_of_it}))


class Agents:
    """Starts agents, with a spool and a token file that they share."""

    def __init__(self, scratch: Path) -> None:
        self.spool, self.tokens = scratch / "spool", scratch / "tokens"
        self.tokens.write_text(TOKEN)
        self.tokens.chmod(0o600)
        self.started: list[subprocess.Popen[bytes]] = []

    def command(self, url: str, *more: str | Path) -> list[str]:
        command = [AGENT, "feed", "--url", url, "--token-file", self.tokens]
        command += ["--spool", self.spool, "--interval", "1", "--every", "0", "--source", "here"]
        return [str(part) for part in [*command, *more]]

    def start(
        self,
        url: str,
        *more: str | Path,
        stdout: IO[str] | None = None,
        stderr: IO[str] | None = None,
        env: dict[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        agent = subprocess.Popen(self.command(url, *more), stdout=stdout, stderr=stderr, env=env)
        self.started.append(agent)
        return agent

    def start_in(
        self,
        name: str,
        url: str,
        *more: str | Path,
        stderr: IO[str] | None = None,
        env: dict[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """In the network of that name."""
        command = inside(name, *self.command(url, *more))
        command[0] = shutil.which(command[0]) or command[0]
        self.started.append(subprocess.Popen(command, stderr=stderr, env=env))
        return self.started[-1]

    def waiting(self) -> list[Path]:
        """The batches in the spool, oldest first; its lock stays there and is none."""
        return sorted(self.spool.glob("*.json"))

    def records(self) -> list[dict[str, object]]:
        """The records of the batches that wait, oldest first."""
        batches = [json.loads(path.read_text()) for path in self.waiting()]
        return [record for batch in batches for record in batch["records"]]

    @staticmethod
    def end(agent: subprocess.Popen[bytes]) -> None:
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(20) == 0
