"""`imtcp agent`: from a connection's measurements to the history of its path."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

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


def wait_until(what: str, holds: Callable[[], bool], most_s: float = 15) -> None:
    deadline = time.monotonic() + most_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {most_s} s: {what}"
        time.sleep(0.1)


class Agents:
    """Starts agents, with a spool and a token file that they share."""

    def __init__(self, scratch: Path) -> None:
        self.spool, self.tokens = scratch / "spool", scratch / "tokens"
        self.tokens.write_text(TOKEN)
        self.tokens.chmod(0o600)
        self.started: list[subprocess.Popen[bytes]] = []

    def command(self, url: str, *more: str | Path) -> list[str]:
        command = [IMTCP, "agent", "--url", url, "--token-file", self.tokens]
        command += ["--spool", self.spool, "--interval", "1", "--every", "0", "--source", "here"]
        return [str(part) for part in [*command, *more]]

    def start(self, url: str, *more: str | Path) -> subprocess.Popen[bytes]:
        self.started.append(subprocess.Popen(self.command(url, *more)))
        return self.started[-1]

    def start_in(
        self,
        name: str,
        url: str,
        *more: str | Path,
        stderr: TextIO | None = None,
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
        assert bool(agents.waiting()) == any_wait, listed


def test_results_reach_the_service_once_also_when_it_was_away(
    link: None, loaded: None, agents: Agents, tmp_path: Path
) -> None:
    db = tmp_path / "history.db"

    away = agents.start(AWAY)
    time.sleep(0.5)
    transfer()
    agents.end(away)
    results = agents.records()
    assert results, agents.waiting()
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
        wait_until("the spool is empty", lambda: not agents.waiting())
        transfer()
        agents.end(here)
        assert not agents.waiting()
        service.terminate()
    export = [IMTCP, "advice", "export", "--db", db]
    rows = subprocess.run(export, check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(rows) - 1 > len(results)


@pytest.fixture
def reachable(tmp_path: Path) -> Iterator[Path]:
    """Two hosts on one link: a with a file of peers that lists b, where iperf3 serves."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    peers = tmp_path / "peers"
    peers.write_text(f"{SERVER}\n")
    a, b = NAMES["a"], NAMES["b"]
    server: subprocess.Popen[bytes] | None = None
    try:
        ip(f"netns add {a}")
        ip(f"netns add {b}")
        ip(f"link add va netns {a} type veth peer name vb netns {b}")
        for name, device, address in [(a, "va", CLIENT), (b, "vb", SERVER)]:
            ip(f"-n {name} address add {address}/24 dev {device}")
            ip(f"-n {name} link set {device} up")
            ip(f"-n {name} link set lo up")
        tc = "qdisc add dev va root tbf rate 20mbit burst 16k limit 250k"
        subprocess.run(["tc", "-n", a, *tc.split()], check=True)
        serve = inside("b", "iperf3", "-s")
        server = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        yield peers
    finally:
        if server:
            server.kill()
            server.wait()
        for name in (a, b):
            subprocess.run(["ip", "netns", "del", name], check=False)


#: Of the tests alone: neither root nor programs in the kernel.
ALONE = ["--no-connections"]


def test_pings_and_throughput_of_listed_peers_reach_the_service_as_tests_and_not_as_bandwidth(
    reachable: Path, agents: Agents, tmp_path: Path
) -> None:
    db = tmp_path / "history.db"
    tests = ["--peers", reachable, "--ping", "5", "--iperf3", "10", "--iperf3-bytes", "2000000"]
    # The agent has the network of a, and its service has it too.
    serve = [IMTCP, "advice", "serve", "--db", db, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        inside("a", *map(str, serve), "--token-file", str(agents.tokens)),
        stdout=subprocess.PIPE,
        text=True,
    ) as service:
        assert service.stdout
        url = re.search(r"http://\S+/", service.stdout.readline())[0]
        agent = agents.start_in("a", url, *ALONE, *tests)

        def history() -> list[dict[str, object]]:
            ask = f"{url}v1/history?dst={SERVER}"
            get = f"import urllib.request as r; print(r.urlopen('{ask}').read().decode())"
            done = subprocess.run(
                inside("a", "python3", "-c", get), capture_output=True, text=True, check=False
            )
            return json.loads(done.stdout)["tests"] if done.returncode == 0 else []

        wanted = {"here/ping", "here/iperf3"}
        wait_until(
            "both tests are in the history", lambda: {t["source"] for t in history()} == wanted, 60
        )
        agents.end(agent)
        told = history()
        service.terminate()
    ping = next(t for t in told if t["source"] == "here/ping")
    iperf3 = next(t for t in told if t["source"] == "here/iperf3")
    assert ping["loss"] == 0 and 0 < ping["rtt_us"] < 100_000, ping
    assert ping["throughput_bps"] is None and iperf3["rtt_us"] is None
    # 2 MB on a line of 20 Mbit/s, whose bucket lets the first 16 kB pass at once.
    assert 10e6 < iperf3["throughput_bps"] < 21e6, iperf3

    def imtcp(*command: object) -> str:
        line = [IMTCP, *map(str, command)]
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout

    export = imtcp("advice", "export", "--db", db)
    rows = list(csv.DictReader(export.splitlines()))
    assert {row["source"] for row in rows} == wanted
    assert all(row["available_bps"] == "" and row["low_bps"] == "" for row in rows)
    again = tmp_path / "again.db"
    (tmp_path / "export.csv").write_text(export)
    imtcp("advice", "import", "--db", again, tmp_path / "export.csv")
    assert imtcp("advice", "export", "--db", again) == export
    # No bandwidth: nothing to predict from, and nothing predicted.
    assert "0 of 0" in imtcp("advice", "backtest", "--db", db)


def test_what_tests_cost_is_said_before_the_first_and_a_budget_below_it_is_refused(
    tmp_path: Path,
) -> None:
    peers = tmp_path / "peers"
    peers.write_text("192.0.2.7\n192.0.2.8\n")
    agent = [IMTCP, "agent", "--no-connections", "--url", AWAY, "--spool", tmp_path / "spool"]
    agent += ["--peers", peers, "--ping", "60", "--iperf3", "3600"]
    refused = subprocess.run(
        [*agent, "--test-budget", "1000000"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert "--test-budget is 1.00 MB: test less often" in refused.stderr
    with subprocess.Popen([*agent, "--json"], stdout=subprocess.PIPE, text=True) as said:
        assert said.stdout
        text = ""
        while not text.endswith("}\n") or text.count("{") != text.count("}"):
            text += said.stdout.readline()
        said.send_signal(signal.SIGINT)
    assert said.returncode == 0
    ping, iperf3 = json.loads(text)["tests"]
    assert (ping["most_bytes_a_test"], ping["most_bytes_a_day"]) == (840, 2 * 840 * 1440)
    assert iperf3["most_bytes_a_day"] == 2 * 24 * iperf3["most_bytes_a_test"]
    assert not any((tmp_path / "spool").glob("*.json"))


def test_a_silent_peer_is_a_loss_and_what_cannot_be_tested_is_told_once(
    reachable: Path, agents: Agents, tmp_path: Path
) -> None:
    # The server; nobody in its network; no way there.
    reachable.write_text(f"{SERVER}\n10.97.0.77\n10.99.0.1\n")
    log = tmp_path / "log"
    tests = ["--peers", reachable, "--ping", "5", "--iperf3", "10", "--iperf3-port", "5999"]
    with log.open("w") as stderr:
        agent = agents.start_in("a", AWAY, *ALONE, *tests, stderr=stderr)
        wait_until(
            "each was pinged twice",
            lambda: sum(r["dst"] == "10.97.0.77" for r in agents.records()) >= 2,
            60,
        )
        wait_until("iperf3 was refused", lambda: "iperf3 -s -p 5999" in log.read_text(), 60)
        agents.end(agent)
    records = agents.records()
    assert {r["dst"] for r in records} == {SERVER, "10.97.0.77"}
    assert all(r["loss"] == 1 and "rtt_us" not in r for r in records if r["dst"] != SERVER)
    assert all(r["source"] == "here/ping" for r in records)
    said = log.read_text()
    for what in [
        "ping to 10.97.0.77: nothing came back; stored as a loss of 100 %",
        "ping to 10.99.0.1: told nothing: ping: connect: Network is unreachable",
        f"iperf3 to {SERVER}: told nothing: unable to connect to server: Connection refused",
    ]:
        assert said.count(what) == 1, said


#: Instead of the program: does as it says, and tells that it was there.
FAKE = "#!/bin/sh\necho $$ >>{pids}\n{does}\n"


def test_programs_that_are_missing_hang_or_write_rubbish_leave_no_record_and_the_agent_goes_on(
    reachable: Path, agents: Agents, tmp_path: Path
) -> None:
    log, programs, pids = tmp_path / "log", tmp_path / "bin", tmp_path / "pids"
    programs.mkdir()
    tests = ["--peers", reachable, "--ping", "5"]

    def fake(does: str) -> None:
        (programs / "ping.new").write_text(FAKE.format(pids=pids, does=does))
        (programs / "ping.new").chmod(0o755)
        (programs / "ping.new").rename(programs / "ping")

    with log.open("w") as stderr:
        path = {"PATH": str(programs)}
        agent = agents.start_in("a", AWAY, *ALONE, *tests, stderr=stderr, env=path)
        missing = "imtcp: ping: not installed (Debian: apt install iputils-ping)"
        wait_until("ping is missed", lambda: missing in log.read_text(), 30)
        fake("echo '5 packets transmitted, many received'")
        rubbish = f"ping to {SERVER}: told nothing: it wrote no summary"
        wait_until("it wrote rubbish", lambda: rubbish in log.read_text(), 30)
        fake("exec /bin/sleep 1000")
        hangs = f"ping to {SERVER}: did not end within 8 s and was ended"
        wait_until("it was ended", lambda: hangs in log.read_text(), 60)
        count = len(pids.read_text().split())
        wait_until("it hangs again", lambda: len(pids.read_text().split()) > count, 30)
        # Ctrl-C in the middle of a test.
        agent.send_signal(signal.SIGINT)
        assert agent.wait(20) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids.read_text().split())
    assert agents.records() == []
