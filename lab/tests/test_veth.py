"""Speed without a bottleneck: ratios to Reno of the same round."""

from __future__ import annotations

import json

import pytest

from imtcp_lab import veth
from imtcp_lab.cli import main
from imtcp_lab.controls import named
from imtcp_lab.job import LabError
from imtcp_lab.netns import NetnsRunner


def files(**of_controls: tuple[float, int, int]) -> dict[str, bytes]:
    """The files of a round, by control: bytes per second, ticks of user time, ticks of idle
    time."""
    out = {}
    for name, (rate, user, idle) in of_controls.items():
        received = {"bits_per_second": rate * 8, "bytes": int(rate)}
        told = {"end": {"sum_received": received, "sum_sent": {"retransmits": 3}}}
        out[f"{name}.json"] = json.dumps(told).encode()
        out[f"{name}.before"] = b"cpu  100 0 50 1000 10 0 5 0 0 0\n"
        out[f"{name}.after"] = f"cpu  {100 + user} 0 50 {1000 + idle} 10 0 5 0 0 0\n".encode()
    return out


def test_time_that_the_processors_are_idle_or_wait_for_a_disk_is_not_busy():
    before = b"cpu  1 2 3 4 5 6 7 8 0 0\n"
    after = b"cpu  11 2 13 104 205 16 17 8 9 9\n"
    assert veth.busy_ticks(before, after) == 40


def test_throughput_and_processor_time_are_ratios_to_reno_of_the_same_round():
    # Half of Reno's bytes with as many ticks cost twice as much per byte.
    round_files = files(reno=(4e9, 200, 0), imtcp_bg=(2e9, 200, 50))
    reno, background = veth.rows(round_files, named("reno,imtcp_bg"), 1)
    assert (reno["ratio"], reno["cpu_ratio"]) == (1, 1)
    assert background["gbps"] == 16
    assert background["ratio"] == 0.5
    assert background["cpu_ratio"] == 2
    assert background["retransmitted"] == 3


def test_a_control_that_does_not_send_is_named_with_the_reason():
    round_files = files(reno=(4e9, 200, 0)) | {
        "vegas.json": json.dumps({"end": {}, "error": "no such control"}).encode()
    }
    with pytest.raises(LabError, match=r"vegas did not send: no such control"):
        veth.rows(round_files, named("reno,vegas"), 1)


@pytest.mark.parametrize(
    "wrong",
    (
        ("--controls", "cubic,imtcp_bg"),
        ("--controls", "reno,priority"),
        ("--controls", "reno,no_such"),
        ("--rounds", "0"),
        ("--seconds", "0"),
    ),
)
def test_what_cannot_be_compared_is_refused_and_nothing_is_run(wrong, capsys):
    assert main(["veth", *wrong]) == 2
    assert "lab veth: " in capsys.readouterr().err


@pytest.mark.netns
@pytest.mark.usefixtures("running_kernel")
def test_a_round_sends_with_every_control_on_the_running_kernel():
    controls = named("reno,imtcp_bg")
    found = veth.measure(controls, 1, 1, NetnsRunner())
    assert [row["control"] for row in found] == ["reno", "imtcp_bg"]
    assert all(row["gbps"] > 0 and row["cpu_ratio"] > 0 for row in found)
