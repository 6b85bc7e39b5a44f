"""A token bucket lets bursts pass faster than it lets anything pass for long."""

from __future__ import annotations

import pytest

from guests import UP, Path3, Transfer, lines, run

pytestmark = pytest.mark.vm

SUSTAINED_BPS = 50e6
#: Values above are above the sustained rate; below, they may be a measurement's error.
ERROR = 1.15


@pytest.mark.parametrize("burst_kb", [16, 128])
def test_behind_a_token_bucket_what_exceeds_the_sustained_rate_is_rejected(burst_kb: int) -> None:
    path = Path3(
        shaper=f"tbf rate {SUSTAINED_BPS / 1e6:.0f}mbit burst {burst_kb}kb limit 400kb",
        back="delay 30ms limit 10000",
    )
    script = UP + path.script()
    for control in ("reno", "imtcp", "imtcp_bg"):
        script += (
            f'imtcp watch --events --json >"$OUT/{control}.events" & EVENTS=$!\n'
            f'imtcp watch --json --interval 0.25 >"$OUT/{control}.watch" & WATCH=$!\nsleep 0.2\n'
        )
        script += path.transfer(control, "w25000000")
        script += "sleep 0.3; kill $EVENTS $WATCH; wait $EVENTS $WATCH || true\n"
    result = run(script)
    reno = Transfer.of(result, "reno")
    assert reno.bps >= 0.8 * SUSTAINED_BPS
    for control, share in (("imtcp", 0.95), ("imtcp_bg", 0.7)):
        transfer = Transfer.of(result, control)
        assert transfer.intact
        events = [e for e in lines(result, f"{control}.events") if "outcome" in e]
        told = {e["outcome"]: 0 for e in events}
        for event in events:
            told[event["outcome"]] += 1
        valid = [round(e["avail_bps"] / 1e6, 1) for e in events if e["outcome"] == "valid"]
        figures = (control, transfer.bps / 1e6, reno.bps / 1e6, told, valid)
        assert events, figures
        assert all(mbps <= SUSTAINED_BPS * ERROR / 1e6 for mbps in valid), figures
        assert transfer.bps >= share * reno.bps, figures
        # Nor is it averaged in: what a user is shown at the end is what can be had.
        last = [r for r in lines(result, f"{control}.watch") if r["avail_smoothed_bps"]][-1:]
        for record in last:
            assert record["avail_smoothed_bps"] <= SUSTAINED_BPS * ERROR, figures
