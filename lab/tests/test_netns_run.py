"""Jobs in namespaces of the running kernel, and the delay line between interfaces."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from imtcp_lab.engine.lock import locked
from imtcp_lab.job import Job, JobTimeout
from imtcp_lab.netns import NetnsRunner, has_netem, probe, runner

# A job's end removes everything loaded since its start, even by other tests.
pytestmark = [pytest.mark.netns, pytest.mark.usefixtures("running_kernel")]

#: Hosts a and b, with the delay line in m between them.
DELAYED = """\
set -e
for n in a b m; do
	ip netns add $n
	ip -n $n link set lo up
done
ip -n a link add va type veth peer name left netns m
ip -n b link add vb type veth peer name right netns m
ip -n m link set left up
ip -n m link set right up
ip -n a link set va up
ip -n b link set vb up
ip -n a addr add 10.0.0.1/24 dev va
ip -n b addr add 10.0.0.2/24 dev vb
nsenter --net=/run/netns/m imtcp-delayline @OPTIONS@ left right &
sleep 0.3
"""


def leftovers() -> set[str]:
    """Work directories, control groups, mounts and namespaces that jobs left.

    While this holds the lock, no other job runs on this machine.
    """
    with locked(runner.LOCK):
        return _found() | {
            line
            for line in Path("/proc/self/mounts").read_text().splitlines()
            if runner.PREFIX in line
        }


def _found() -> set[str]:
    group = probe.cgroup2_mount()
    places = [Path(tempfile.gettempdir()), Path("/run/netns"), *([group] if group else [])]
    return {
        str(path)
        for place in places
        if place.is_dir()
        for path in place.iterdir()
        if path.name.startswith((runner.PREFIX, "imtcp-lab-test-"))
    }


def test_a_job_gets_its_files_and_seed_and_gives_back_what_it_leaves():
    script = """
        cat sub/in.txt
        echo "seed $SEED" >&2
        mkdir "$OUT/deep"
        echo made >"$OUT/deep/made.txt"
        exit 3
    """
    result = NetnsRunner().run(Job(script, {"sub/in.txt": b"hello\n"}, seed=17))
    assert result.exit_code == 3
    assert result.log == "hello\nseed 17\n"
    assert dict(result.files) == {"deep/made.txt": b"made\n"}
    assert result.environment["kernel"] == os.uname().release


def test_a_job_sees_only_its_own_network_and_processes():
    script = "ls /sys/class/net; ls /run/netns | wc -l; ps -A -o comm= | wc -l"
    log = NetnsRunner().run(Job(script)).check().log.split()
    assert log[0] == "lo"
    assert log[1] == "0"
    assert int(log[2]) < 10


def test_pins_and_control_groups_are_where_they_are_in_the_vm():
    script = """
        set -e
        grep -q ' /sys/fs/bpf bpf ' /proc/mounts
        grep -q ' /sys/fs/cgroup cgroup2 ' /proc/mounts
        mkdir /sys/fs/bpf/imtcp-test
        mkdir -p /sys/fs/cgroup"$(sed -n s/^0:://p /proc/self/cgroup)"/inner
        ip netns add imtcp-lab-test-x
        sleep 1000 &
    """
    NetnsRunner().run(Job(script)).check()
    assert not Path("/sys/fs/bpf/imtcp-test").exists()
    assert not leftovers()


def test_a_job_that_takes_too_long_is_killed_and_says_so():
    with pytest.raises(JobTimeout, match="1 seconds") as caught:
        NetnsRunner().run(Job("echo before; sleep 4321", limit_virtual_s=1))
    assert "before" in caught.value.console
    assert not leftovers()
    running = subprocess.run(["ps", "-A", "-o", "args="], capture_output=True, text=True)
    assert "sleep 4321" not in running.stdout.splitlines()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_leaves_nothing(how, tmp_path: Path):
    script = tmp_path / "endless.sh"
    script.write_text("echo $$ >/dev/null; ip netns add imtcp-lab-test-y; sleep 4322\n")
    command = [sys.executable, "-m", "imtcp_lab.cli", "netns", "run", str(script)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)
    # The command may have to wait for another job on this machine.
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob(f"{runner.PREFIX}*")):
        assert time.monotonic() < deadline, "the job does not start"
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(how)
    assert process.wait(20) == 130
    assert [path.name for path in tmp_path.iterdir()] == ["endless.sh"]
    assert not leftovers()


def test_whether_netem_exists_is_known():
    assert isinstance(has_netem(), bool)
    assert probe.has_qdisc("pfifo")
    assert not probe.has_qdisc("no-such-discipline")


def round_trips_ms(options: str) -> list[float]:
    script = DELAYED.replace("@OPTIONS@", options) + (
        "nsenter --net=/run/netns/a ping -c 20 -i 0.05 10.0.0.2\n"
    )
    log = NetnsRunner().run(Job(script, limit_virtual_s=60)).check().log
    return [float(t) for t in re.findall(r"time=([0-9.]+) ms", log)]


def test_the_delay_line_delays_each_packet_by_its_delay():
    times = sorted(round_trips_ms("--delay-us 20000"))
    assert len(times) == 20
    # A packet is never early; its lateness depends on the load of this machine.
    assert times[0] >= 40.0
    assert times[0] < 44.0


def test_the_delay_line_keeps_its_rate_and_harms_no_payload():
    script = (
        DELAYED.replace("@OPTIONS@", "--delay-us 2000 --rate-bps 20000000 --queue-bytes 60000")
        + """
        head -c 5000000 /dev/urandom >data
        # An end of input would make the receiver hang up.
        mkfifo open
        nsenter --net=/run/netns/b busybox nc -l -p 5000 <open >got &
        receiver=$!
        exec 3>open
        sleep 0.3
        date +%s%N
        nsenter --net=/run/netns/a busybox nc 10.0.0.2 5000 <data &
        wait $receiver
        date +%s%N
        cmp data got
    """
    )
    log = NetnsRunner().run(Job(script, limit_virtual_s=60)).check().log.split()
    seconds = (int(log[-1]) - int(log[-2])) / 1e9
    # 5 MB at 20 Mbit/s take 2 s; headers, slow start and a busy machine add to it.
    assert 2.0 <= seconds < 6.0


def test_the_delay_line_refuses_what_it_does_not_understand():
    from imtcp_lab.engine import native

    program = native.build("delayline")
    done = subprocess.run([program, "--delay-us", "-1", "a", "b"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "not a number" in done.stderr
    done = subprocess.run([program, "no-such-interface", "x"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "no-such-interface" in done.stderr
