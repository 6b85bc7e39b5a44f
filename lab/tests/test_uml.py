"""The fast guests: their promises, and their agreement with stock kernels."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from imtcp_lab.job import GuestCrashed, Job, JobResult, JobTimeout
from imtcp_lab.vm import FAST, UmlRunner
from imtcp_lab.vm.uml import SHARED
from test_vm_determinism import TRAFFIC, same, sent_bytes
from vm_guests import runner as stock

pytestmark = pytest.mark.vm


def runner(**settings: float) -> UmlRunner:
    """A runner; skips the test if the kernel is missing."""
    stock(FAST)
    return UmlRunner(**settings)


def guests(parent: int) -> list[int]:
    """Process ids of the guests' kernels that `parent` runs; each leads a session of its processes.

    Other tests run guests on this machine at the same time.
    """
    return _listed("--parent", str(parent), "-f", "kernels/uml@")


def held(guest: int) -> list[int]:
    """Process ids of a guest: its kernel, and the processes that the kernel runs."""
    return _listed("--session", str(guest))


def _listed(*which: str) -> list[int]:
    listed = subprocess.run(["pgrep", *which], capture_output=True, text=True)
    return [int(pid) for pid in listed.stdout.split()]


def test_time_that_nobody_uses_costs_nothing():
    started, seen = time.monotonic(), []
    runner().run(Job("sleep 1000", limit_virtual_s=2000), seen.append).check()
    assert time.monotonic() - started < 60
    assert seen == sorted(seen)
    assert 999 <= seen[-1] <= 1001


def test_two_runs_of_real_traffic_are_equal_to_the_byte_on_a_busy_machine():
    quiet = runner().run(Job(TRAFFIC, seed=5)).check()
    assert 10e6 < sent_bytes(quiet) < 14.6e6
    stop = threading.Event()
    burners = [threading.Thread(target=_burn, args=(stop,)) for _ in range(2)]
    for burner in burners:
        burner.start()
    try:
        with ThreadPoolExecutor(2) as pool:
            jobs = [Job(TRAFFIC, seed=5), Job(TRAFFIC, seed=5)]
            both: list[JobResult] = list(pool.map(runner().run, jobs))
    finally:
        stop.set()
        for burner in burners:
            burner.join()
    same(quiet, both[0].check())
    same(quiet, both[1].check())


def _burn(stop: threading.Event) -> None:
    while not stop.is_set():
        sum(range(10000))


def test_another_seed_is_another_sample():
    first, second = (runner().run(Job(TRAFFIC, seed=seed)).check() for seed in (1, 2))
    assert first.files["random.txt"] != second.files["random.txt"]


def test_it_carries_what_a_stock_kernel_carries():
    fast, slow = runner().run(Job(TRAFFIC, seed=5)).check(), stock().run(Job(TRAFFIC, seed=5))
    assert sent_bytes(fast) == pytest.approx(sent_bytes(slow.check()), rel=0.03)


def test_it_has_every_congestion_control_of_the_stock_kernel_and_ours():
    script = "imtcp up >&2 && cat /proc/sys/net/ipv4/tcp_available_congestion_control"
    fast, slow = (each.run(Job(script)).check() for each in (runner(), stock()))
    wanted = set(slow.log.splitlines()[-1].split())
    assert {"imtcp_bg", "imtcp_paper", "lp", "nv", "bbr"} <= wanted
    assert wanted <= set(fast.log.splitlines()[-1].split())


def test_a_warm_up_is_before_the_job_and_one_that_fails_is_told():
    job = Job("cat /tmp/warm", warmup="sleep 7; echo warm >/tmp/warm")
    assert runner().run(job).check().log == "warm\n"
    with pytest.raises(GuestCrashed, match="stopped") as caught:
        runner().run(Job("true", warmup="no-such-program"))
    assert "the warm-up failed" in caught.value.console


def test_a_job_that_uses_up_its_virtual_time_says_so():
    with pytest.raises(JobTimeout, match="2 virtual seconds") as caught:
        runner().run(Job("echo before; sleep 1000", limit_virtual_s=2))
    assert "before" in caught.value.console


def test_a_job_that_computes_for_ever_is_ended_for_its_clock_stands():
    with pytest.raises(GuestCrashed, match="hangs"):
        runner(stall_s=5).run(Job("while :; do :; done"))


def test_a_guest_that_is_killed_is_told_and_leaves_nothing():
    killed = []

    def kill(_: float) -> None:
        for guest in guests(os.getpid()):
            killed.append(guest)
            os.kill(guest, signal.SIGKILL)

    with pytest.raises(GuestCrashed, match="SIGKILL"):
        runner().run(Job("while :; do sleep 1; done", limit_virtual_s=1e9), kill)
    _gone(killed[0])


def _gone(guest: int) -> None:
    deadline = time.monotonic() + 5
    while held(guest):
        assert time.monotonic() < deadline, "a guest's processes outlive it"
        time.sleep(0.05)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_command_leaves_no_process(how, tmp_path: Path):
    runner()
    script = tmp_path / "endless.sh"
    script.write_text("while :; do :; done\n")
    command = [sys.executable, "-m", "imtcp_lab.cli", "vm", "run", "--kernel", "uml", str(script)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not (found := guests(process.pid)) or len(held(found[0])) < 3:
        assert time.monotonic() < deadline, "no guest was started"
        time.sleep(0.05)
    guest = found[0]
    shared = Path(f"/proc/{guest}/cwd").readlink()
    assert shared.name.startswith(SHARED)
    process.send_signal(how)
    process.communicate(timeout=20)
    assert process.returncode == (-9 if how == signal.SIGKILL else 130)
    _gone(guest)
    if how == signal.SIGKILL:
        # The next guest removes the remains of this one, but not those that another guest uses.
        runner().run(Job("true"))
    assert not shared.exists()


def test_large_results_and_inputs_come_through_whole():
    data = bytes(range(256)) * 8192
    result = runner().run(Job('cp data "$OUT/copy"', {"data": data})).check()
    assert result.files["copy"] == data
