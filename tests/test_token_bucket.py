"""A token bucket lets bursts pass faster than it lets anything pass for long."""

from __future__ import annotations

import pytest

from guests import SEEDS, UP, Path3, Transfer, assert_seldom_wrong, lines, run, valid_bps
from margins import at_least

pytestmark = pytest.mark.vm

SUSTAINED_BPS = 50e6


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
    results = [run(script, seed=seed) for seed in SEEDS]

    def bps(control: str) -> float:
        """Of all guests together."""
        transfers = [Transfer.of(result, control) for result in results]
        assert all(transfer.intact for transfer in transfers)
        return 25e6 * 8 * len(results) / sum(transfer.seconds for transfer in transfers)

    at_least("reno, of the sustained rate", bps("reno") / SUSTAINED_BPS, 0.8)
    for control, share in (("imtcp", 0.95), ("imtcp_bg", 0.7)):
        assert_seldom_wrong(valid_bps(results, control, least_events=1), SUSTAINED_BPS)
        at_least(f"{control}, of Reno's rate", bps(control) / bps("reno"), share)
        # The average leaves it out, too: the user sees the rate that can be had.
        looks = [lines(result, f"{control}.watch") for result in results]
        shown_bps = [
            [r["avail_smoothed_bps"] for r in each if r["avail_smoothed_bps"]] for each in looks
        ]
        last_bps = [shown[-1] for shown in shown_bps if shown]
        assert last_bps, "no guest was shown anything"
        assert_seldom_wrong(last_bps, SUSTAINED_BPS)
