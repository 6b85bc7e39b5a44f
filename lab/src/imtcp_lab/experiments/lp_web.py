"""LP-F14: the effect of a bulk transfer on the web over a link of 1.5 Mbit/s."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

import polars as pl

from imtcp_lab import plots
from imtcp_lab.experiments import lp_path
from imtcp_lab.experiments.base import Experiment, Rows, background_bps, identity
from imtcp_lab.experiments.paper import Claim, Paper, below, mean, near, pick
from imtcp_lab.figures import Theme
from imtcp_lab.metrics import Window
from imtcp_lab.queues import LP_ECN
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.tables import Column, as_number, as_percent
from imtcp_lab.traffic import Bulk, Times, Web, shift_s

CAPACITY_BPS = 1.5e6
#: In the paper TCP-LP and TCP have different shares of the link beside the same web [LP §V-C]. So
#: clients must wait: for all ten objects of a page, and then for a second on average.
WEB = Web(
    load=0,
    readers=2,
    think_s=1.0,
    mean_bytes=7_200,
    max_bytes=1_000_000,
    page_objects=10,
    congestion_control="reno",
    # TCP began with two segments when [LP] was written (RFC 2581). Ten objects with Linux's ten
    # segments each do not fit into the queue of 15 packets.
    initial_window_segs=2,
)
TIMES = Times(warmup_s=20, measure_s=400, drain_s=20)
QUICK_TIMES = Times(warmup_s=5, measure_s=20, drain_s=5)
#: Sizes that count as 10 kB.
NEAR_10KB = (8_000, 12_500)
#: Ours: sizes of the "larger" files in [LP §V-C].
LARGE = (40_000, 1_000_000)


#: Names of the two queues in keys and tables.
DROPS, MARKS = "drops", "marks"


def _scenarios(args: argparse.Namespace) -> list[Scenario]:
    path = lp_path.path(CAPACITY_BPS)
    asked = [(control, lp_path.asked_by(control, path)) for control in args.chosen]
    # TCP-LP/ECN needs a reference in its own queue, which counts bytes and so holds more small
    # packets.
    marking = next((there for _, there in asked if there.queue == LP_ECN), None)
    if marking is not None:
        asked += [(control, marking) for control in args.chosen if control.is_none]
    return [
        Scenario(
            there,
            WEB,
            Bulk(start_s=shift_s(seed)),
            control,
            pick(args, TIMES, QUICK_TIMES),
            seed=seed,
            variant=MARKS if there.queue == LP_ECN else DROPS,
        )
        for seed in args.seed_numbers
        for control, there in asked
    ]


def _mean_s(objects: pl.DataFrame) -> float:
    """Mean completion time; NaN without objects."""
    times_us = objects["duration_us"].to_list()
    return sum(times_us) / len(times_us) / 1e6 if times_us else math.nan


def responses(web: pl.DataFrame, window: Window) -> dict[str, float]:
    """Mean times of the objects that clients asked for in the window."""
    judged = web.filter(web["start_us"].is_between(window.start_us, window.end_us))

    def of_size(least: int, most: int) -> float:
        return _mean_s(judged.filter(judged["size_bytes"].is_between(least, most)))

    return {
        "response_s": _mean_s(judged),
        "response_10kb_s": of_size(*NEAR_10KB),
        "response_large_s": of_size(*LARGE),
        "objects": len(judged),
    }


LABEL_10KB = "time of an object of 10 kB, s"


def draw_10kb(rows: Sequence[dict], theme: Theme) -> bytes:
    """Draws a bar per control."""
    return plots.bars(rows, "response_10kb_s", LABEL_10KB, theme)


#: Columns of the values in :func:`responses`.
COLUMNS = (
    Column("response_10kb_s", "10 kB, s", lambda v: as_number(v, 3)),
    Column("response_large_s", "from 40 kB, s", lambda v: as_number(v, 3)),
    Column("response_s", "all objects, s", lambda v: as_number(v, 3)),
    Column("bulk_share", "bulk's share", as_percent),
    Column("objects", "objects", lambda v: as_number(v, 0)),
)


def _rows(points: Sequence[Point]) -> Rows:
    return [
        identity(point)
        | responses(point.tables["web"], point.scenario.window)
        | {"bulk_share": background_bps(point) / CAPACITY_BPS}
        for point in points
    ]


def _judge(rows: Sequence[dict]) -> list[Claim]:
    def of(control: str, key: str = "response_10kb_s", queue: str = DROPS) -> float:
        return mean(rows, key, control=control, variant=queue)

    def longer(key: str) -> float:
        return of("imtcp_lp", key) / of("none", key)

    saved = 1 - of("imtcp_lp", "response_s") / of("reno", "response_s")
    return [
        below("an object of 10 kB takes, beside imtcp_lp,", of("imtcp_lp"),
              "a fifth more (paper: 14 % more)", of("none") * 1.2, unit=" s"),
        below("beside TCP-LP/ECN", of("imtcp_lpecn", queue=MARKS),
              "a fifth more than alone in its queue", of("none", queue=MARKS) * 1.2, unit=" s"),
        below("large objects take longer by a factor of", longer("response_large_s"),
              "that of 10 kB", longer("response_10kb_s")),
        Claim(f"the web's objects take {as_percent(saved)} less than beside Reno, at least 70 %"
              " wanted (paper: about 80 %)", saved >= 0.7),
        near("imtcp_lp's share of the link is", of("imtcp_lp", "bulk_share"), 0.51, 0.1),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    name="LP-F14",
    help="response times of the web beside one bulk transfer, 1.5 Mbit/s",
    controls=("none", "reno", "tcp_lp", "imtcp_lp", "imtcp_lpecn", "imtcp_bg"),
    scenarios=_scenarios,
    rows=_rows,
    columns=COLUMNS,
    by=("variant", "control"),
    paper=Paper(
        source="[LP §V-C, figures 14 and 15]",
        expected="An object of 10 kB takes 0.49 s beside TCP-LP, and 0.43 s alone. Objects take"
        " about 80 % less than beside TCP, and larger ones are disturbed less. The bulk transfer"
        " has 51 % of the link, and TCP's has 61 %.",
        choices="The paper gives neither the number of its web clients nor the mean size of its"
        " objects. Here there are two clients. Each asks for a page of ten objects, waits for all"
        " of it, and thinks for the paper's second on average. Objects have 7.2 kB on average and"
        " at most 1 MB, with Pareto's shape 1.2. These values were chosen to match the paper's web"
        " without TCP-LP, so no claim uses it. An object of 10 kB takes 0.43 s alone (0.42 here"
        " with seed 101, 0.45 in the table). TCP's bulk transfer has 61 % of the link (68 and 70"
        " here). Servers begin with a window of two segments, as TCP did then. A lost first packet"
        " costs Linux's second, not three. Objects 'of 10 kB' have 8 to 12.5 kB. The measurement"
        " takes 400 s, not 1000, in few seeds, not 50. TCP is Reno. TCP-LP/ECN's queue marks from"
        " 15 % of its length on, by an average of weight 1/8, and drops nothing before it is full."
        " The web does not ask for marks. This queue holds as many bytes as the full packets of"
        " the other one, so TCP-LP/ECN is compared with the web alone in it. Ours are the"
        " tolerances for the paper's numbers, and 'large': 40 kB and more.",
        reason="TCP-LP can save only Reno's harm. Objects take 0.94 s beside Reno and 0.38 s"
        " alone, which is 60 % less; TCP-LP saves 53 %. An object of 10 kB takes 21 % longer"
        " beside it. In an earlier build the same seeds had 9 %, because alone it took 0.49 s"
        " there and 0.45 s here. So two seeds do not show on which side of a fifth it is. TCP-LP's"
        " share is smaller than the paper's by delay and by marks alike (19 and 18 %), so the way"
        " of finding a queue is not the reason. The reason is probably how often the web makes a"
        " queue: each queue within the inference phase sets the window to one segment. This was"
        " not measured. imtcp_bg has 47 %, and objects take 37 % longer.",
        judge=_judge,
        draw=lambda rows, theme: plots.bars(
            rows, "response_10kb_s", LABEL_10KB, theme, panels="variant"
        ),
    ),
)
