"""Loading, upgrading and unloading on each kernel that is promised."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from guests import IMTCP, ROOT, UP, Path3, Transfer, rows, run
from imtcp_lab.vm import kernels

#: The objects, and the controls in each.
OBJECTS = {
    ROOT / "target" / "bpf" / "imtcp.bpf.o": ("imtcp", "imtcp_bg", "imtcp_fs"),
    ROOT / "target" / "bpf" / "imtcp_modes.bpf.o": (
        "imtcp_lp",
        "imtcp_lpecn",
        "imtcp_nice",
        "imtcp_ledbat",
        "imtcp_ledbatpp",
    ),
    ROOT / "target" / "bpf" / "imtcp_paper.bpf.o": (
        "imtcp_paper",
        "imtcp_paperbg",
        "imtcp_papercap",
        "imtcp_paperfs",
        "imtcp_paperlp",
        "imtcp_papernice",
    ),
}
NAMES = tuple(name for names in OBJECTS.values() for name in names)
#: Slow tests use these: two that measure, one that does not, and one as printed.
SOME = ("imtcp", "imtcp_bg", "imtcp_ledbat", "imtcp_paper")
YES, NO = ["yes"] * len(NAMES), ["no"] * len(NAMES)

#: "yes" for each that is registered.
AVAILABLE = f"""\
available() {{
	for name in {" ".join(NAMES)}; do
		grep -qw $name /proc/sys/net/ipv4/tcp_available_congestion_control && echo yes || echo no
	done | tr '\\n' ' '
}}
"""


@pytest.mark.vm
@pytest.mark.parametrize("series", kernels.SERIES)
def test_the_controls_load_twice_unload_twice_and_anybody_may_choose_them(series: str) -> None:
    path = Path3()
    as_root = f"ns {path.tx} ./wire send"
    as_nobody = f"ns {path.tx} su -s /bin/sh nobody -c '/tmp/wire send"
    transfer = path.transfer("imtcp_bg", "w300000", label="nobody/out")
    transfer = transfer.replace(as_root, as_nobody).replace(" w300000\n", " w300000'\n")
    script = f"""{AVAILABLE}{path.script()}
cp wire /tmp/wire; chmod 755 /tmp/wire; mkdir -m 777 "$OUT/nobody"
before=$(available)
imtcp up --json >"$OUT/up1"; first=$(available)
imtcp up --json >"$OUT/up2"; second=$(available)
{transfer}imtcp up --force --json >"$OUT/up3"; third=$(available)
imtcp status --json >"$OUT/status"
imtcp down >&2; gone=$(available)
imtcp down >&2; still=$(available)
imtcp up >&2; again=$(available)
imtcp down >&2
echo "$before|$first|$second|$third|$gone|$still|$again" >"$OUT/available"
ls /sys/fs/bpf >"$OUT/pins"
"""
    result = run(script, series)
    seen = [text.split() for text in result.files["available"].decode().split("|")]
    assert seen == [NO, YES, YES, YES, NO, NO, YES]
    assert result.files["pins"] == b""
    sent = rows(result, "nobody/out.send")
    assert {row["control"] for row in sent} == {"imtcp_bg"}
    assert sent[-1]["written"] == "300000"
    said = [json.loads(result.files[f"up{i}"]) for i in (1, 2, 3)]
    assert len({json.dumps(one, sort_keys=True) for one in said}) == 3, said


@pytest.mark.vm
@pytest.mark.parametrize("series", kernels.SERIES)
def test_bpftool_registers_the_objects_and_connections_work_without_the_command(
    series: str,
) -> None:
    # A receiver that delays ACKs holds the printed Nice at one packet in 48 round trips.
    path = Path3(quickack=True)
    script = AVAILABLE + path.script()
    for file in OBJECTS:
        script += f"bpftool struct_ops register {file.name} >&2\n"
    script += 'available >"$OUT/registered"\n'
    script += "".join(path.transfer(control, "w600000") for control in NAMES)
    for control in NAMES:
        script += f"bpftool struct_ops unregister name {control} >&2\n"
    script += 'available >"$OUT/unregistered"\n'
    result = run(script, series, files={file.name: file.read_bytes() for file in OBJECTS})
    assert result.files["registered"].decode().split() == YES
    assert result.files["unregistered"].decode().split() == NO
    for control in NAMES:
        transfer = Transfer.of(result, control)
        assert transfer.intact
        assert {row["control"] for row in transfer.sent} == {control}


#: Most instructions that the verifier may go through for the programs of each object, and most
#: bytes of stack.  The kernel's limits are a million instructions and 512 bytes for all frames.
MOST_INSNS = {
    "imtcp": 100_000,
    "imtcp_modes": 20_000,
    "imtcp_paper": 60_000,
    "imtcp_nocc": 10_000,
    # imtcp_receive has imtcp_bg's law in it; all others stay below 10 000.
    "imtcp_ctl": 30_000,
    # imtcp_leaves walks up to 16 parents of a process, and 32 cgroups of each.
    "imtcp_uncovered": 30_000,
}
#: Of the kernel's 512. A record on the stack has most of it.
MOST_STACK_BYTES = 420


def within_budget(told: bytes) -> None:
    """What ``imtcp doctor --verifier --json`` says keeps to it."""
    costs = json.loads(told)
    assert {cost["object"] for cost in costs} == set(MOST_INSNS)
    for cost in costs:
        assert 0 < cost["instructions"] <= MOST_INSNS[cost["object"]], cost
        assert cost["stack_bytes"] <= MOST_STACK_BYTES, cost


@pytest.mark.vm
@pytest.mark.parametrize("series", kernels.SERIES)
def test_the_verifiers_cost_keeps_to_its_budget(series: str) -> None:
    result = run('imtcp doctor --verifier --json >"$OUT/costs"\n', series)
    within_budget(result.files["costs"])


@pytest.mark.vm
@pytest.mark.parametrize("series", kernels.SERIES)
def test_unloading_and_upgrading_amid_transfers_lose_no_byte(series: str) -> None:
    """Four applications write 5 Mbit/s each for 6 s: the others leave more to the background."""
    path = Path3(forward="rate 25mbit limit 100")
    script = UP + path.script()
    for label, what in (("upgrade", "imtcp up --force"), ("down", "imtcp down")):
        script += (
            f'( sleep 0.5; {what}; imtcp-load now >"$OUT/{label}.at" ) >&2 & MIDDLE=$!\nENDS=\n'
        )
        for port, control in enumerate(SOME, 5000):
            paced = "p12500/20/300"
            one = path.transfer(control, paced, f"{label}.{control}", port, send="-S 100")
            script += f'( {one}) & ENDS="$ENDS $!"\n'
        script += "wait $MIDDLE $ENDS\n"
    result = run(script, series)
    for label in ("upgrade", "down"):
        at_us = int(result.files[f"{label}.at"])
        for control in SOME:
            transfer = Transfer.of(result, f"{label}.{control}")
            assert transfer.intact
            assert transfer.start_us < at_us < transfer.end_us
            # They go on: nothing that was written waits for more than a second.
            assert 5.9 < transfer.seconds < 7
            started_us = transfer.start_us + 400_000
            before = {r["control"] for r in transfer.sent if int(r["t_us"]) < started_us}
            after = {r["control"] for r in transfer.sent if int(r["t_us"]) > at_us}
            assert before == {control}
            # Debian's default is CUBIC.
            assert after == ({"cubic"} if label == "down" else {control})


@pytest.mark.vm
@pytest.mark.parametrize("series", kernels.SERIES)
@pytest.mark.parametrize(
    ("lacks", "how"),
    [
        # Debian's kernels refuse to switch it off: what the switch says is made to say so.
        (
            "JIT",
            "echo 0 >/proc/sys/net/core/bpf_jit_enable ||"
            " { echo 0 >/tmp/0; mount --bind /tmp/0 /proc/sys/net/core/bpf_jit_enable; }",
        ),
        ("BTF", "mount -t tmpfs tmpfs /sys/kernel/btf"),
    ],
)
def test_what_the_kernel_lacks_is_named_in_one_sentence(series: str, lacks: str, how: str) -> None:
    script = f"""{AVAILABLE}
{how}
code=0; imtcp up >"$OUT/said" 2>&1 || code=$?
echo $code >"$OUT/code"
available >"$OUT/available"
ls /sys/fs/bpf >"$OUT/pins"
"""
    result = run(script, series)
    said = result.files["said"].decode()
    assert result.files["code"].strip() == b"1"
    assert lacks in said
    assert said.count("\n") == 1, said
    assert result.files["available"].decode().split() == NO
    assert result.files["pins"] == b""


def available_here() -> set[str]:
    """The controls that this kernel offers now."""
    done = subprocess.run(
        ["sysctl", "-n", "net.ipv4.tcp_available_congestion_control"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def succeed(*command: object) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def absent_here() -> Iterator[None]:
    """Skip where somebody uses imtcp now; leave nothing behind."""
    if set(NAMES) & available_here():
        pytest.skip("imtcp is loaded on this machine: `imtcp down` first")
    try:
        yield
    finally:
        subprocess.run([IMTCP, "down"], capture_output=True)
        for name in set(NAMES) & available_here():
            subprocess.run(
                ["bpftool", "struct_ops", "unregister", "name", name], capture_output=True
            )


def moves_data_here(control: str) -> bool:
    """A megabyte across the loopback device of this machine."""
    data = bytes(1 << 20)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 << 20)
        client.connect(server.getsockname())
        peer, _ = server.accept()
        client.settimeout(10)
        peer.settimeout(10)
        got = 0
        with peer:
            sent = 0
            while got < len(data):
                if sent < len(data):
                    sent += client.send(data[sent : sent + 65536])
                got += len(peer.recv(1 << 17))
    return got == len(data)


@pytest.mark.netns
@pytest.mark.usefixtures("running_kernel")
def test_the_running_kernel_takes_the_controls_by_the_command() -> None:
    with absent_here():
        succeed(IMTCP, "up")
        succeed(IMTCP, "up")
        assert set(NAMES) <= available_here()
        for control in NAMES:
            assert moves_data_here(control)
        succeed(IMTCP, "down")
        succeed(IMTCP, "down")
        assert not set(NAMES) & available_here()


@pytest.mark.netns
@pytest.mark.usefixtures("running_kernel")
def test_the_running_kernel_takes_the_objects_by_bpftool() -> None:
    with absent_here():
        for file in OBJECTS:
            succeed("bpftool", "struct_ops", "register", file)
        assert set(NAMES) <= available_here()
        for control in NAMES:
            assert moves_data_here(control)
        for control in NAMES:
            succeed("bpftool", "struct_ops", "unregister", "name", control)
        assert not set(NAMES) & available_here()


@pytest.mark.netns
@pytest.mark.usefixtures("running_kernel")
def test_the_verifiers_cost_on_the_running_kernel_keeps_to_its_budget() -> None:
    command = [IMTCP, "doctor", "--verifier", "--json"]
    within_budget(subprocess.run(command, capture_output=True, check=True).stdout)
