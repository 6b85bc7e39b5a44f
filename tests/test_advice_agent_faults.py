"""`imtcp-agent feed` while clocks are wrong, disks are full and programs are unloaded."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from agents import (
    AWAY,
    IMTCP,
    IN_A,
    PINGS,
    SERVER,
    Agents,
    free_port,
    history,
    put_into,
    service,
    transfer,
    unix_s,
    wait_until,
)

FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))


class WallClock:
    """The wall clock of programs that are started with `env`, but for ping."""

    def __init__(self, scratch: Path) -> None:
        self.file = scratch / "ahead"
        # It compares its clock with the kernel's, and writes no summary where they differ.
        programs = scratch / "programs"
        programs.mkdir()
        ping = programs / "ping"
        ping.write_text(f'#!/bin/sh\nunset LD_PRELOAD\nexec {shutil.which("ping")} "$@"\n')
        ping.chmod(0o755)
        self.env = os.environ | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "LD_PRELOAD": str(FAKETIME[-1]),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set_ahead_by(self, seconds: int) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(f"{seconds:+d}")
        new.rename(self.file)


@pytest.fixture
def wall_clock(tmp_path: Path) -> WallClock:
    if not FAKETIME:
        pytest.skip("needs libfaketime (Debian: apt install faketime)")
    return WallClock(tmp_path)


def test_results_of_an_agent_whose_clock_is_wrong_and_jumps_have_the_services_time(
    agents: Agents, peers: Path, wall_clock: WallClock, tmp_path: Path
) -> None:
    port, log, db = free_port(), tmp_path / "log", tmp_path / "history.db"
    wall_clock.set_ahead_by(3600)
    began = time.time()
    with log.open("w") as stderr:
        url = f"http://127.0.0.1:{port}"
        more = ["--peers", peers]
        agent = agents.start(url, *PINGS, *more, stderr=stderr, env=wall_clock.env)
        wait_until("a first result waits", lambda: len(agents.waiting()) == 1, 30)
        # NTP sets the clock back, beyond the time when the first result was made.
        wall_clock.set_ahead_by(-7800)
        wait_until("a second result waits", lambda: len(agents.waiting()) >= 2, 30)
        with service(db, agents.tokens, port):
            wait_until("both have come", lambda: len(history(db)) >= 2, 60)
            wall_clock.set_ahead_by(0)
            count = len(history(db))
            wait_until("another one has come", lambda: len(history(db)) > count, 30)
            agents.end(agent)
            records = history(db)
    times = [unix_s(record) for record in records]
    # A `Date` has whole seconds.
    assert began - 2 < times[0] and times[-1] < time.time() + 2, (began, records)
    assert all(0 < after - before < 30 for before, after in pairwise(times))
    said = log.read_text()
    behind = r"clock is 2h \d+m behind the service's: records are sent with the service's time"
    assert len(re.findall(behind, said)) == 1, said
    assert said.count("this host's clock and the service's agree again") == 1, said
    assert said.count("clock") == 2, said


def test_an_agent_whose_clock_is_years_off_waits_until_it_is_set(
    agents: Agents, peers: Path, wall_clock: WallClock, tmp_path: Path
) -> None:
    log, db = tmp_path / "log", tmp_path / "history.db"
    put_into(agents.spool)
    wall_clock.set_ahead_by(-20 * 365 * 86_400)
    with log.open("w") as stderr, service(db, agents.tokens) as url:
        more = ["--peers", peers]
        agent = agents.start(url, *PINGS, *more, stderr=stderr, env=wall_clock.env)
        told = "behind the service's: one of them is wrong, and batches wait until it is set"
        wait_until("it waits", lambda: told in log.read_text(), 30)
        time.sleep(1.5)
        assert agents.waiting() and not history(db)
        wall_clock.set_ahead_by(0)
        wait_until("all has come", lambda: not agents.waiting(), 30)
        assert history(db)
        agents.end(agent)
    assert log.read_text().count(told) == 1


class SmallDisk:
    """A disk of 1 MB, in a mount namespace of its own."""

    def __init__(self, dir: Path) -> None:
        self.dir = dir
        dir.mkdir()
        mount = f"mount -t tmpfs -o size=1m tmpfs {dir} && echo mounted && exec sleep infinity"
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", mount], stdout=subprocess.PIPE, text=True
        )
        assert self.holder.stdout
        if self.holder.stdout.readline() != "mounted\n":
            pytest.skip("needs a mount namespace (root)")
        self.inside = Path(f"/proc/{self.holder.pid}/root{dir}")

    def enter(self) -> list[str]:
        return ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt"]

    def fill(self) -> None:
        with (self.inside / "filler").open("wb", buffering=0) as filler:
            while True:
                try:
                    filler.write(bytes(4096))
                except OSError:
                    return

    def free(self) -> None:
        (self.inside / "filler").unlink()

    def make_read_only(self, spool: Path) -> None:
        """Over the spool itself: a file system with an open file cannot be made read-only."""
        for how in (["--bind", spool], ["-o", "remount,bind,ro"]):
            subprocess.run([*self.enter(), "mount", *how, spool], check=True)

    def make_writable(self, spool: Path) -> None:
        subprocess.run([*self.enter(), "umount", spool], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    if os.geteuid() != 0:
        pytest.skip("a mount namespace needs root")
    disk = SmallDisk(tmp_path / "disk")
    yield disk
    disk.holder.kill()
    disk.holder.wait()


def test_an_agent_goes_on_while_its_disk_is_full_or_read_only_and_loses_nothing(
    agents: Agents, peers: Path, disk: SmallDisk, tmp_path: Path
) -> None:
    port, log, db = free_port(), tmp_path / "log", tmp_path / "history.db"
    url = f"http://127.0.0.1:{port}"
    agents.spool = disk.dir / "spool"
    with log.open("w") as stderr:
        command = agents.command(url, *PINGS, "--peers", peers)
        agent = subprocess.Popen([*disk.enter(), *command], stderr=stderr)
        agents.started.append(agent)
        agents.spool = disk.inside / "spool"
        wait_until("a result waits", lambda: len(agents.waiting()) == 1, 30)

        disk.fill()
        full = "No space left on device (os error 28); results wait in memory"
        wait_until("it says that the disk is full", lambda: full in log.read_text(), 30)
        time.sleep(2)  # two intervals more
        disk.free()
        well = "the spool can be written again; 0 results were lost"
        wait_until("it says that the disk is well", lambda: well in log.read_text(), 30)
        wait_until("the result is on the disk", lambda: len(agents.waiting()) >= 2, 30)

        disk.make_read_only(disk.dir / "spool")
        read_only = "Read-only file system (os error 30); results wait in memory"
        wait_until("it says that the disk is read-only", lambda: read_only in log.read_text(), 30)
        waited = len(agents.records())
        with service(db, agents.tokens, port):
            wait_until("what waits has come", lambda: len(history(db)) == waited, 30)
            wait_until("it says so", lambda: "it is not sent again" in log.read_text())
            disk.make_writable(disk.dir / "spool")
            wait_until("all has come", lambda: log.read_text().count(well) == 2, 30)
            wait_until("nothing waits", lambda: not agents.waiting(), 30)
            assert len(history(db)) > waited
            agents.end(agent)
    rounds = Counter(record["dst"] for record in history(db))
    assert max(rounds.values()) - min(rounds.values()) <= 1, "none is missing in between"
    said = log.read_text()
    for once in [full, read_only, "it is not sent again"]:
        assert said.count(once) == 1, said


def test_an_agent_whose_messages_nobody_can_read_goes_on(
    agents: Agents, peers: Path, tmp_path: Path
) -> None:
    port, running = free_port(), []
    reader, writer = os.pipe()
    os.close(reader)
    spools = [tmp_path / "full", tmp_path / "closed"]
    for spool, log in zip(spools, ["/dev/full", writer], strict=True):
        put_into(spool)
        agents.spool = spool
        with open(log, "w") as out:  # noqa: PTH123 (one is a descriptor)
            more = [f"http://127.0.0.1:{port}", *PINGS, "--peers", peers]
            running.append(agents.start(*more, stdout=out, stderr=out))
    time.sleep(2)  # they say that the service does not answer
    with service(tmp_path / "history.db", agents.tokens, port):
        for spool in spools:
            wait_until(f"{spool} is sent", lambda: not list(spool.glob("*.json")))  # noqa: B023
        for agent in running:
            agents.end(agent)


def test_after_down_and_up_and_an_upgrade_a_running_agent_goes_on(
    link: None, loaded: None, agents: Agents, tmp_path: Path
) -> None:
    log = tmp_path / "log"

    def sends_more() -> None:
        count = len(agents.records())
        transfer()
        wait_until("more results wait", lambda: len(agents.records()) > count)

    with log.open("w") as stderr:
        agent = agents.start(AWAY, *IN_A, stderr=stderr)
        time.sleep(0.5)
        sends_more()
        subprocess.run([IMTCP, "down"], check=True)
        told = "imtcp is not up: `sudo imtcp up` loads it; no results until then"
        wait_until("it says that nothing is loaded", lambda: told in log.read_text())
        time.sleep(2)
        subprocess.run([IMTCP, "up"], check=True)
        wait_until("it says that it goes on", lambda: "results come again" in log.read_text())
        sends_more()
        # So quickly that the agent sees but other maps; then the same maps and other programs.
        for command in (["down"], ["up"], ["up", "--force"]):
            subprocess.run([IMTCP, *command], check=True)
        sends_more()
        agents.end(agent)
    assert all(record["dst"] == SERVER for record in agents.records())
    said = log.read_text()
    assert said.count(told) <= 2 and said.count("no results until then") <= 2, said
