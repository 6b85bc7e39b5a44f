"""Jobs in the VM: their environment, their results, and their failures."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from imtcp_lab.hosts import LINUX, OF_2003
from imtcp_lab.job import GuestCrashed, Job, JobTimeout, LabError
from imtcp_lab.topology import Dumbbell
from imtcp_lab.vm import FAST, KERNELS, VmRunner, kernels
from vm_guests import runner

pytestmark = pytest.mark.vm


def guests(parent: int) -> list[int]:
    """Process ids of the QEMUs below `parent`."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,comm=", "--ppid", str(parent)], capture_output=True, text=True
    )
    rows = [line.split(None, 1) for line in listed.stdout.splitlines()]
    return [int(pid) for pid, name in rows if name.startswith("qemu")]


def wait_for_guest(parent: int, timeout_s: float = 60) -> int:
    """Process id of the QEMU that `parent` starts."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if found := guests(parent):
            return found[0]
        time.sleep(0.02)
    raise AssertionError("no guest was started")


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_job_gets_its_files_and_seed_and_gives_back_what_it_leaves(kernel):
    script = """
        set -e
        cat sub/in.txt
        echo "seed $SEED" >&2
        mkdir "$OUT/deep"
        sub/run.sh >"$OUT/deep/made.txt"
        : >"$OUT/empty"
        uname -r >"$OUT/release"
        exit 3
    """
    files = {"sub/in.txt": b"hello\n", "sub/run.sh": b"#!/bin/sh\necho made\n"}
    result = runner(kernel).run(Job(script, files, seed=17))
    assert result.exit_code == 3
    assert result.log == "hello\nseed 17\n"
    assert result.files["deep/made.txt"] == b"made\n"
    assert result.files["empty"] == b""
    release = result.files["release"].decode().strip()
    assert release.startswith("6.12." if kernel == FAST else f"{kernel}.")
    assert result.environment["kernel"] == release
    assert result.environment["runner"] == ("uml" if kernel == FAST else "vm")
    with pytest.raises(LabError, match="code 3"):
        result.check()


@pytest.mark.parametrize("series", kernels.SERIES)
def test_the_guest_has_the_qdiscs_controls_and_file_systems_of_experiments(series):
    script = """
        set -e
        ip link add d0 type dummy
        ip link add v0 type veth peer name v1
        ip link add i0 type ifb
        for kind in netem\\ delay\\ 1ms fq fq_codel cake prio htb pfifo; do
            tc qdisc add dev d0 root $kind
            tc qdisc del dev d0 root
        done
        tc qdisc add dev d0 root tbf rate 1mbit burst 10k limit 10k
        tc qdisc replace dev d0 root red limit 100k avpkt 1000
        tc qdisc add dev d0 clsact
        tc qdisc add dev v0 root handle 1: prio
        tc filter add dev v0 parent 1: protocol ip u32 match ip dport 80 0xffff flowid 1:1
        tc filter add dev v0 parent 1: protocol ip flower action skbedit priority 1
        tc filter add dev v0 parent 1: protocol ip matchall action mirred egress redirect dev i0
        cat /proc/sys/net/ipv4/tcp_available_congestion_control
        test -e /sys/kernel/btf/vmlinux
        grep -q '^cgroup2 /sys/fs/cgroup ' /proc/mounts
        grep -q '^bpf /sys/fs/bpf ' /proc/mounts
    """
    result = runner(series).run(Job(script)).check()
    for control in ("reno", "cubic", "bbr", "lp", "vegas", "nv", "cdg", "illinois", "westwood"):
        assert control in result.log.split()


def test_progress_tells_virtual_seconds_in_rising_order():
    vm = runner()
    seen: list[float] = []
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    vm.run(Job("sleep 20"), seen.append).check()
    assert seen == sorted(seen)
    assert 19 <= seen[-1] <= 20.5
    # An idle guest costs almost nothing: under 5 s of a core for 20 virtual seconds.
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 5


def test_a_job_that_uses_up_its_virtual_time_is_killed_and_says_so():
    with pytest.raises(JobTimeout, match="2 virtual seconds") as caught:
        runner().run(Job("echo before; while :; do :; done", limit_virtual_s=2))
    assert "before" in caught.value.console


def test_a_missing_program_fails_the_script_and_not_the_laboratory():
    result = runner().run(Job("no-such-program"))
    assert result.exit_code == 127
    assert "not found" in result.log


def test_a_panic_of_the_guest_is_told_with_its_console():
    with pytest.raises(GuestCrashed) as caught:
        runner().run(Job("echo about to crash; sleep 1; echo c >/proc/sysrq-trigger; sleep 9"))
    assert "sysrq" in caught.value.console.lower()
    assert "about to crash" in caught.value.console
    assert not guests(os.getpid())


def test_a_killed_qemu_is_told():
    vm = runner()

    def kill(_: float) -> None:
        os.kill(guests(os.getpid())[0], signal.SIGKILL)

    with pytest.raises(GuestCrashed, match="SIGKILL"):
        vm.run(Job("while :; do :; done", limit_virtual_s=10000), kill)
    assert not guests(os.getpid())


def test_a_guest_without_a_sign_of_life_is_ended():
    runner()

    def stop(_: float) -> None:
        os.kill(guests(os.getpid())[0], signal.SIGSTOP)

    with pytest.raises(GuestCrashed, match="hangs"):
        VmRunner(stall_s=8).run(Job("while :; do :; done", limit_virtual_s=10000), stop)
    assert not guests(os.getpid())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_command_leaves_no_process_and_no_file(how, tmp_path: Path):
    runner()
    script = tmp_path / "endless.sh"
    script.write_text("while :; do :; done\n")
    command = [sys.executable, "-m", "imtcp_lab.cli", "vm", "run", "--limit", "10000", str(script)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    guest = wait_for_guest(process.pid)
    time.sleep(0.5)
    process.send_signal(how)
    process.communicate(timeout=20)
    assert process.returncode == (-9 if how == signal.SIGKILL else 130)
    deadline = time.monotonic() + 5
    while Path(f"/proc/{guest}").exists():
        assert time.monotonic() < deadline, "QEMU outlives the command"
        time.sleep(0.02)
    assert [path.name for path in tmp_path.iterdir()] == ["endless.sh"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_is_told_and_leaves_no_partial_snapshot(tmp_path: Path, monkeypatch):
    runner()
    small = tmp_path / "cache"
    small.mkdir()
    kept = kernels.get("6.12").tree.parent
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", small], check=True)
    try:
        (small / "imtcp-lab").mkdir()
        (small / "imtcp-lab" / "kernels").symlink_to(kept)
        monkeypatch.setenv("XDG_CACHE_HOME", str(small))
        with pytest.raises(LabError, match=r"snapshot cannot be written.*No space"):
            VmRunner().run(Job("true"))
        left = list((small / "imtcp-lab" / "snapshots").iterdir())
        assert [path.name for path in left] == ["locks"]
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.parametrize(
    ("hosts", "asked_again", "packet_bytes"), [(LINUX, True, 1500), (OF_2003, False, 1000)]
)
def test_hosts_have_the_timeouts_and_packets_that_are_set(hosts, asked_again, packet_bytes):
    send = "ns bg timeout 2.5 imtcp-load bulk-client --cc reno --duration 2 --to"
    # No host answers there, so the kernel repeats the handshake after the first timeout.
    script = f"""{Dumbbell(hosts=hosts).script()}
        ip -n rt route add blackhole 10.77.0.0/16
        {send} 10.77.0.1:5001 || true
        ns bg grep ^TcpExt: /proc/net/netstat >"$OUT/netstat"
        ns rx imtcp-load bulk-server --listen 10.9.0.2:5001 --out "$OUT/bulk.csv" &
        {send} 10.9.0.2:5001 || true
        kill $!
        ip -n rx -s -j link show rx0 >"$OUT/link.json"
    """
    files = runner().run(Job(script, seed=1)).check().files
    names, numbers = (line.split() for line in files["netstat"].decode().splitlines())
    counted = dict(zip(names, numbers, strict=True))
    assert (int(counted["TCPSynRetrans"]) > 0) == asked_again
    came = json.loads(files["link.json"])[0]["stats64"]["rx"]
    # With Ethernet's header. The connection's first and last packets are small.
    assert came["bytes"] / came["packets"] == pytest.approx(packet_bytes + 14, rel=0.02)


def test_a_warm_up_is_done_once_before_the_jobs():
    runner()
    vm = VmRunner()
    warmup = "sleep 7; cut -d. -f1 /proc/uptime >/tmp/warm"
    job = Job("cat /tmp/warm; cut -d. -f1 /proc/uptime", warmup=warmup)
    first, second = vm.run(job).check(), vm.run(job).check()
    assert first == second
    warm, begun = map(int, first.log.split())
    assert warm >= 7
    assert begun - warm <= 1


def test_a_warm_up_that_fails_is_told():
    runner()
    with pytest.raises(GuestCrashed, match="stopped") as caught:
        VmRunner().run(Job("true", warmup="no-such-program"))
    assert "the warm-up failed" in caught.value.console


def test_large_results_and_inputs_come_through_whole():
    data = bytes(range(256)) * 8192
    result = runner().run(Job('cp data "$OUT/copy"', {"data": data})).check()
    assert result.files["copy"] == data
