"""The path and the web of [BG fig. 3], with what the thesis leaves open filled in.

50 Mbit/s, 1000 packets, clients 20 to 200 ms away.  Open in the thesis and chosen here: the
background's round trip (30 ms), and what a web server sends on average (2 % of the link, so that
20 servers take 40 %).
"""

from __future__ import annotations

import argparse

from imtcp_lab.controls import Control
from imtcp_lab.experiments.paper import pick
from imtcp_lab.scenario import Scenario
from imtcp_lab.topology import Dumbbell
from imtcp_lab.traffic import Bulk, Times, Web

PATH = Dumbbell(capacity_bps=50e6, background_rtt_ms=30.0, buffer_pkts=1000)
SERVERS = 20
SERVER_LOAD = 0.02
CHOICES = (
    "The thesis gives neither the background's round trip (30 ms here) nor a web server's load (2"
    " % of the link here, so 20 servers take 40 %); objects are of 60 kB on average, at most 2 MB,"
    " Pareto's shape 1.2, at Poisson times. Its 200 clients are at five distances here, of 20 to"
    " 200 ms, and the links of web hosts, 10 to 100 Mbit/s in the thesis, have no rate. Servers"
    " use CUBIC, as Linux does where nobody chooses."
)
JUDGED = " 20 s of each run are judged, not 500."

OUR_RULES = " The rules are imtcp_bg's as it ships, not the paper's alone."
BOTH_RULES = " imtcp_bg is judged as it ships and by the thesis's rules alone (imtcp_bg_paper)."
#: ImTCP-bg, as it ships and as the thesis has it.
OURS = ("imtcp_bg", "imtcp_bg_paper")


def web(servers: int = SERVERS) -> Web:
    """The foreground of so many servers."""
    return Web(load=servers * SERVER_LOAD)


def flows_told(flows: int) -> str:
    """So many of them, in words."""
    return "1 flow" if flows == 1 else f"{flows} flows"


def scenario(
    args: argparse.Namespace,
    background: Bulk,
    control: Control,
    seed: int,
    variant: str,
    servers: int = SERVERS,
    warmup_s: float = 5,
) -> Scenario:
    """Flows that are there all the time, beside so many servers."""
    times = Times(warmup_s=warmup_s, measure_s=pick(args, 20, 8), drain_s=3)
    return Scenario(PATH, web(servers), background, control, times, seed=seed, variant=variant)
