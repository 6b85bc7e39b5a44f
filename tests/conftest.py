"""Shared by the tests that cross two parts of the project."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import margins
from agents import CLIENT, LINKS, NAMES, PEERS, SERVER, SWALLOW, Agents, inside, ip
from built import IMTCP, ROOT
from running_kernel import running_kernel as running_kernel


@pytest.fixture(autouse=True)
def met(record_property: Callable[[str, object], None]) -> Iterator[None]:
    """The bounds that a test met are in its report."""
    yield
    if taken := margins.taken():
        record_property(margins.PROPERTY, taken)


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


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    """Agents; one that a failed test leaves would keep the next from reading the events."""
    agents = Agents(tmp_path)
    yield agents
    for agent in agents.started:
        agent.kill()
        agent.wait()


@pytest.fixture
def peers(tmp_path: Path) -> Path:
    file = tmp_path / "peers"
    file.write_text("\n".join(PEERS))
    return file


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
