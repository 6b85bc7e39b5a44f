"""The path and the web of [BG fig. 3], with our choices where the thesis says nothing.

The bottleneck has 50 Mbit/s, 10 ms and 1000 packets of buffer.  Each web server and client has its
own link.  In the thesis Reno takes more than the web alone leaves [BG §4.2.1], so its web must ask
for less when it is slow.  Here, too, readers wait for a document before they ask for the next.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from imtcp_lab.controls import Control
from imtcp_lab.experiments.paper import pick
from imtcp_lab.scenario import Scenario
from imtcp_lab.topology import Dumbbell
from imtcp_lab.traffic import Bulk, Times, Web

#: One-way delay of the bottleneck.
BOTTLENECK_MS = 10.0
#: The link of each web server and client: rate and one-way delay have uniform distributions.
LINK_MBPS = (10.0, 100.0)
LINK_MS = (10.0, 100.0)
#: Number of classes of clients, by distance.
DISTANCES = 12


def _distances_ms() -> tuple[float, ...]:
    """Round trips over a server's link, the bottleneck and a client's link, all equally likely.

    The sum of the two links' delays has a triangular distribution, from twice the least delay to
    twice the greatest.  The values are the medians of its twelfths.
    """
    least, most = (2 * delay for delay in LINK_MS)
    sums = []
    for share in ((i + 0.5) / DISTANCES for i in range(DISTANCES)):
        half = (min(share, 1 - share) / 2) ** 0.5
        sums.append(least + (most - least) * (half if share <= 0.5 else 1 - half))
    return tuple(round(2 * (BOTTLENECK_MS + total), 1) for total in sums)


def _links_bps(servers: int) -> tuple[float, ...]:
    """Rates of the servers' links: the middles of equal parts of their range."""
    least, most = LINK_MBPS
    return tuple(1e6 * (least + (most - least) * (i + 0.5) / servers) for i in range(servers))


PATH = Dumbbell(
    capacity_bps=50e6,
    background_rtt_ms=30.0,
    foreground_rtts_ms=_distances_ms(),
    buffer_pkts=1000,
    prompt_acks=True,
    single_segments=True,
)
SERVERS = 20
#: Readers per server: with 20 servers, the thesis's 200 clients.
READERS = 10
WEB = Web(
    load=0,
    readers=READERS,
    think_s=5.0,
    congestion_control="reno",
    initial_window_segs=2,
)
CHOICES = (
    "The thesis gives neither the background's round trip (30 ms here) nor the way in which its"
    " web asks. Here each server has ten readers, so 20 servers have the thesis's 200 clients. A"
    " reader asks for a document, waits for it and thinks for 5 s on average; 50 servers leave a"
    " fifth of the link. Documents have 60 kB on average and at most 2 MB, with Pareto's shape"
    " 1.2. As in ns-2, servers use Reno and begin with two segments, and receivers acknowledge"
    " each segment. Servers' links have 10 to 100 Mbit/s; clients' links have no rate. Round trips"
    " have twelve lengths of the thesis's distribution, 112 to 368 ms."
)
JUDGED = " The measurement takes 20 s, not 500."

BOTH = " ImTCP-bg appears twice: as it ships (imtcp_bg), and as the thesis prints it (paper_bg)."
OURS = ("imtcp_bg", "paper_bg")


#: Ours: [BG §4.2.2] says without numbers that the available bandwidth is used.
NEAR_ONE = 0.2


def path(servers: int = SERVERS) -> Dumbbell:
    """The path with this number of web servers."""
    return replace(PATH, server_links_bps=_links_bps(servers))


def flows_told(flows: int) -> str:
    """The number of flows in words."""
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
    """Flows that run all the time, beside web servers."""
    times = pick(args, Times(warmup_s, 20, 3), Times(4, 6, 2))
    return Scenario(path(servers), WEB, background, control, times, seed=seed, variant=variant)
