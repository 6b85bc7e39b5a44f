"""`imtcp agent`: from a connection's measurements to the history of its path."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
IMTCP = os.environ.get("IMTCP_BIN", str(ROOT / "target" / "release" / "imtcp"))
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


@pytest.fixture
def link(tmp_path: Path, running_kernel: None) -> Iterator[None]:
    """A sender in a, a server in b that swallows what it gets, the delay between them."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler for the delay line")
    line = tmp_path / "delayline"
    source = ROOT / "lab" / "guest" / "delayline.c"
    subprocess.run([compiler, "-O2", "-o", line, source], check=True)
    started: list[subprocess.Popen[bytes]] = []
    try:
        for name in NAMES.values():
            ip(f"netns add {name}")
        for text in LINKS.format(**NAMES, client=CLIENT, server=SERVER).strip().split("\n"):
            ip(text)
        tc = "qdisc add dev va root tbf rate 50mbit burst 16k limit 250k"
        subprocess.run(["tc", "-n", NAMES["a"], *tc.split()], check=True)
        delay = inside("m", str(line), "--delay-us", "10000", "left", "right")
        started.append(subprocess.Popen(delay))
        started.append(subprocess.Popen(inside("b", "python3", "-c", SWALLOW)))
        time.sleep(0.5)
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()
        for name in NAMES.values():
            subprocess.run(["ip", "netns", "del", name], check=False)


@pytest.fixture
def loaded(running_kernel: None) -> Iterator[None]:
    """The programs are loaded; afterwards only if they were before."""
    here_before = Path("/sys/fs/bpf/imtcp").exists()
    subprocess.run([IMTCP, "up"], check=True)
    yield
    if not here_before:
        subprocess.run([IMTCP, "down"], check=True)


def transfer() -> None:
    """Sends until something was measured: the delay line has to share a busy machine's cores."""
    run = [IMTCP, "run", "--json", "--", "python3", "-c", SEND]
    for _ in range(6):
        done = subprocess.run(inside("a", *run), check=True, capture_output=True, text=True)
        if json.loads(done.stderr.splitlines()[-1])["avail_mean_bps"]:
            return
    pytest.skip("nothing was measured: this machine is too busy for the delay line")


def wait_until(what: str, holds: object) -> None:
    deadline = time.monotonic() + 15
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"not within 15 s: {what}"
        time.sleep(0.1)


class Agents:
    """Starts agents, with a spool and a token file that they share."""

    def __init__(self, scratch: Path) -> None:
        self.spool, self.tokens = scratch / "spool", scratch / "tokens"
        self.tokens.write_text(TOKEN)
        self.tokens.chmod(0o600)
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, url: str, *more: str | Path) -> subprocess.Popen[bytes]:
        command = [IMTCP, "agent", "--url", url, "--token-file", self.tokens]
        command += ["--spool", self.spool, "--interval", "1", "--every", "0", "--source", "here"]
        self.started.append(subprocess.Popen([*command, *more]))
        return self.started[-1]

    @staticmethod
    def end(agent: subprocess.Popen[bytes]) -> None:
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(20) == 0


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    """Agents; one that a failed test leaves would keep the next from reading the events."""
    agents = Agents(tmp_path)
    yield agents
    for agent in agents.started:
        agent.kill()
        agent.wait()


#: Nobody listens there: batches stay in the spool.
AWAY = "http://127.0.0.1:1"


def test_of_listed_peers_alone_results_are_sent(
    link: None, loaded: None, agents: Agents, tmp_path: Path
) -> None:
    for listed, any_wait in [("192.0.2.7 # another", False), (SERVER, True)]:
        peers = tmp_path / "peers"
        peers.write_text(f"{listed}\n")
        agent = agents.start(AWAY, "--peers", peers)
        time.sleep(0.5)
        transfer()
        agents.end(agent)
        assert any(agents.spool.iterdir()) == any_wait, listed


def test_results_reach_the_service_once_also_when_it_was_away(
    link: None, loaded: None, agents: Agents, tmp_path: Path
) -> None:
    spool, db = agents.spool, tmp_path / "history.db"

    away = agents.start(AWAY)
    time.sleep(0.5)
    transfer()
    agents.end(away)
    waiting = [json.loads(path.read_text()) for path in spool.iterdir()]
    results = [record for batch in waiting for record in batch["records"]]
    assert results, waiting
    assert all(r["dst"] == SERVER and r["source"] == "here" for r in results)
    assert all(5e6 < r["available_bps"] < 1e8 for r in results)
    assert all(20_000 <= r["rtt_us"] < 500_000 for r in results)

    serve = [IMTCP, "advice", "serve", "--db", db, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [*serve, "--token-file", agents.tokens], stdout=subprocess.PIPE, text=True
    ) as service:
        assert service.stdout
        url = re.search(r"http://\S+/", service.stdout.readline())[0]
        here = agents.start(url)
        wait_until("the spool is empty", lambda: not any(spool.iterdir()))
        transfer()
        agents.end(here)
        assert not any(spool.iterdir())
        service.terminate()
    export = [IMTCP, "advice", "export", "--db", db]
    rows = subprocess.run(export, check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(rows) - 1 > len(results)
