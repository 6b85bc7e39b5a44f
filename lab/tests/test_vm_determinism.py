"""The VM's promise: equal jobs give equal bytes."""

from __future__ import annotations

import multiprocessing
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

from imtcp_lab.job import Job, JobResult
from imtcp_lab.vm import VmRunner, kernels
from vm_guests import runner

pytestmark = pytest.mark.vm

#: One CUBIC flow for 2 s at 50 Mbit/s, 10 ms each way. The results are the flow's statistics with
#: their times, and counters of the qdisc and of the kernel.
TRAFFIC = """\
set -e
ip netns add a
ip netns add b
ip -n a link add va type veth peer name vb netns b
for n in a b; do
	ip -n $n link set lo up
	ip -n $n link set v$n up
done
ip -n a addr add 10.0.0.1/24 dev va
ip -n b addr add 10.0.0.2/24 dev vb
tc -n a qdisc add dev va root netem rate 50mbit delay 10ms limit 100
tc -n b qdisc add dev vb root netem delay 10ms
ip netns exec a sysctl -q -w net.ipv4.tcp_congestion_control=cubic
# Only busybox is needed: iperf3 is not on every machine.
# (An end of its input would make the receiver hang up.)
mkfifo open
ip netns exec b nc -l -p 5000 <open >/dev/null &
exec 3>open
sleep 0.2
(while sleep 0.25; do ip netns exec a ss -tin; cat /proc/uptime; done) >"$OUT/ss.txt" &
ip netns exec a timeout 2 sh -c 'cat /dev/zero | nc 10.0.0.2 5000' || :
ip netns exec a cat /proc/net/netstat /proc/net/snmp >"$OUT/counters.txt"
tc -n a -s qdisc show dev va >"$OUT/qdisc.txt"
head -c 16 /dev/urandom | od -An -tx1 >"$OUT/random.txt"
cat /proc/uptime /proc/interrupts >"$OUT/time.txt"
date +%s
"""


def same(first: JobResult, second: JobResult) -> None:
    """Fails with the name of the file that differs."""
    assert set(first.files) == set(second.files)
    for name in first.files:
        assert first.files[name] == second.files[name], f"{name} differs"
    assert first == second


def sent_bytes(result: JobResult) -> int:
    """Bytes that netem let through at the bottleneck."""
    words = result.files["qdisc.txt"].decode().split()
    return int(words[words.index("Sent") + 1])


@cache
def undisturbed(series: str = "6.12") -> JobResult:
    """A run on a quiet machine, the reference for the others."""
    return runner(series).run(Job(TRAFFIC, seed=5)).check()


def _burn(stop: threading.Event) -> None:
    while not stop.is_set():
        sum(range(10000))


@pytest.mark.parametrize("series", kernels.SERIES)
def test_two_runs_of_real_traffic_are_equal_to_the_byte_on_a_busy_machine(series):
    quiet = undisturbed(series)
    # About 50 Mbit/s for 2 s: real traffic, not two equal failures.
    assert 10e6 < sent_bytes(quiet) < 14.6e6
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    burners = [context.Process(target=_burn, args=(stop,), daemon=True) for _ in range(2)]
    for burner in burners:
        burner.start()
    try:
        busy = runner(series).run(Job(TRAFFIC, seed=5)).check()
    finally:
        stop.set()
        for burner in burners:
            burner.join()
    same(quiet, busy)


def test_another_seed_is_another_sample():
    first, second = undisturbed(), runner().run(Job(TRAFFIC, seed=2)).check()
    assert first.files["random.txt"] != second.files["random.txt"]
    assert first.files["counters.txt"] != second.files["counters.txt"]


def test_parallel_runs_do_not_disturb_each_other():
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(runner().run, [Job(TRAFFIC, seed=5), Job(TRAFFIC, seed=5)]))
    same(undisturbed(), together[0].check())
    same(undisturbed(), together[1].check())


def test_a_new_snapshot_of_the_same_guest_gives_the_same_bytes():
    runner()
    # Its own snapshot, because other tests use the usual ones meanwhile.
    vm = VmRunner()
    job = Job(TRAFFIC, seed=3, warmup="true # only for this test")
    before = vm.run(job).check()
    saved = vm.prepare(job.warmup)
    shutil.rmtree(saved.path)
    again = vm.prepare(job.warmup)
    # The machine must not have changed: somebody may have built another imtcp meanwhile.
    if again.environment["initramfs_sha256"] != saved.environment["initramfs_sha256"]:
        pytest.skip("the programs in the guest changed while the test ran")
    assert again.environment["guest_sha256"] == saved.environment["guest_sha256"]
    same(before, vm.run(job).check())
