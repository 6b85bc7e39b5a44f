"""The line of delayed information in the (I, U) plane: no endpoint is expected to pass it.

The foreground's arrivals at the bottleneck come from a run without a background.  The model feeds
them once more into a FIFO of the same capacity, together with a fluid as background.  The rate of
the fluid depends on the queue and the arrivals one round trip ago.  The model tries several laws of
this kind; the line has, for each U, the least I of all laws.

The model is simpler than a network:

* the foreground does not react, and nothing is lost;
* packets are a fluid, in steps of a millisecond;
* I comes from the queue alone: an object takes as many round trips as before, each longer by the
  growth of the queue.

The same formula gives I for a real control from the queue in its run, so both can be compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from imtcp_lab.metrics import Window
from imtcp_lab.topology import SHAPER_HANDLE

STEP_US = 1000
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Law:
    """rate = share A - max(0, q - q0) / (tau RTT), from 0 to the capacity.

    A is the available bandwidth and q the queue, both one round trip ago.
    """

    share: float
    #: A is the mean over this time.
    average_s: float
    #: tau, in round trips.
    tau_rtts: float
    #: q0, as its transmission time.
    offset_s: float
    #: Use the expected queue in place of q: q plus the fluid sent since then, less A over that
    #: time.
    foresees: bool


LAWS = tuple(
    Law(*parts)
    for parts in itertools.product(
        (0.4, 0.6, 0.7, 0.8, 0.9, 1.0),
        (0.1, 0.3, 0.5),
        (0.25, 0.5, 1.0, 2.0, 5.0, 10.0),
        (0.0, 0.002),
        (False, True),
    )
)


def arrivals_bytes(queue: pl.DataFrame, end_us: int) -> Array:
    """Arrivals at the bottleneck in each step: departures plus growth of the queue."""
    part = queue.filter(pl.col("handle") == SHAPER_HANDLE).sort("t_us")
    came = (part["sent_bytes"] + part["backlog_bytes"]).to_numpy()
    edges = np.arange(0, end_us + 1, STEP_US)
    return np.diff(np.interp(edges, part["t_us"].to_numpy(), came))


def recorded_bytes(queue: pl.DataFrame, end_us: int) -> Array:
    """The sampled queue at the end of each step."""
    part = queue.filter(pl.col("handle") == SHAPER_HANDLE).sort("t_us")
    ends = np.arange(STEP_US, end_us + 1, STEP_US)
    return np.interp(ends, part["t_us"].to_numpy(), part["backlog_bytes"].to_numpy())


@dataclass(frozen=True)
class Outcome:
    """Results of the model: a row for each step, a column for each law."""

    sent_bytes: Array
    queue_bytes: Array


def simulate(
    arrivals: Array, capacity_bps: float, rtt_s: float, laws: Sequence[Law] = LAWS
) -> Outcome:
    """Runs the background by each law, beside arrivals that do not react."""
    step_s = STEP_US / 1e6
    most = capacity_bps / 8 * step_s
    lag = max(1, round(rtt_s / step_s))
    averages = {law.average_s for law in laws}
    spare = {s: np.clip(most - _mean_of_last(arrivals, s / step_s), 0, None) for s in averages}
    available = np.stack([spare[law.average_s] for law in laws], axis=1)
    share = np.array([law.share for law in laws])
    relief = 1 / (np.array([law.tau_rtts for law in laws]) * lag)
    offset = np.array([law.offset_s for law in laws]) / step_s * most
    foresees = np.array([law.foresees for law in laws])

    sent = np.zeros((len(arrivals), len(laws)))
    sent_until = np.zeros((len(arrivals) + 1, len(laws)))
    queue = np.zeros((len(arrivals), len(laws)))
    waits = np.zeros(len(laws))
    for now in range(len(arrivals)):
        seen = now - lag
        if seen >= 0:
            since = sent_until[now] - sent_until[seen + 1] - available[seen] * (lag - 1)
            q = np.where(foresees, np.maximum(0, queue[seen] + since), queue[seen])
            rate = share * available[seen] - np.maximum(0, q - offset) * relief
            sent[now] = np.clip(rate, 0, most)
        sent_until[now + 1] = sent_until[now] + sent[now]
        waits = np.maximum(0, waits + arrivals[now] + sent[now] - most)
        queue[now] = waits
    return Outcome(sent, queue)


def _mean_of_last(values: Array, steps: float) -> Array:
    """For each step the mean of the last `steps` values; near the beginning, of fewer."""
    until = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(0, ends - round(steps))
    return (until[ends] - until[begins]) / (ends - begins)


def queue_alone_bytes(arrivals: Array, capacity_bps: float) -> Array:
    """The queue of the foreground alone in the same FIFO."""
    nothing = Law(share=0.0, average_s=0.1, tau_rtts=1.0, offset_s=0.0, foresees=False)
    return simulate(arrivals, capacity_bps, STEP_US / 1e6, [nothing]).queue_bytes[:, 0]


def harm(
    added_bytes: Array, web: pl.DataFrame, rtts_ms: Sequence[float], capacity_bps: float, w: Window
) -> Array:
    """I for each column of added queue, over the objects that began in the window."""
    judged = web.filter(
        (pl.col("start_us") >= w.start_us)
        & (pl.col("start_us") < w.end_us)
        & (pl.col("finished") == 1)
    )
    begin_us, lasts_us = judged["start_us"].to_numpy(), judged["duration_us"].to_numpy()
    rtt_us = np.array(rtts_ms)[judged["class"].to_numpy()] * 1000
    waits_us = added_bytes.reshape(len(added_bytes), -1) * 8e6 / capacity_bps
    until = np.vstack([np.zeros(waits_us.shape[1]), np.cumsum(waits_us * STEP_US, axis=0)])

    def at(t_us: NDArray[np.int64]) -> Array:
        return until[np.minimum(t_us // STEP_US, len(until) - 1)]

    longer_us = (at(begin_us + lasts_us) - at(begin_us)) / rtt_us[:, np.newaxis]
    return longer_us.sum(axis=0) / lasts_us.sum()


@dataclass(frozen=True)
class Front:
    """The line: I grows with U, and no law has less I at an equal or greater U."""

    used: tuple[float, ...]
    harms: tuple[float, ...]

    def harm_at(self, used: float) -> float | None:
        """The least I at this U or more; None where no law reaches it."""
        if not self.used or used > self.used[-1]:
            return None
        # Below the first point numpy returns that point's value.
        return float(np.interp(used, self.used, self.harms))


def front(points: Sequence[tuple[float, float]]) -> Front:
    """The points (U, I) that no other point beats."""
    best: list[tuple[float, float]] = []
    for used, harmed in sorted(points, key=lambda p: (p[1], -p[0])):
        if not best or used > best[-1][0]:
            best.append((used, harmed))
    return Front(tuple(u for u, _ in best), tuple(i for _, i in best))


def line(
    alone: dict[str, pl.DataFrame],
    rtts_ms: Sequence[float],
    capacity_bps: float,
    rtt_s: float,
    window: Window,
) -> Front:
    """The line for a background with this round trip, beside a recorded foreground."""
    web = alone["web"]
    end_us = int((web["start_us"] + web["duration_us"]).max()) // STEP_US * STEP_US  # type: ignore[operator]
    arrivals = arrivals_bytes(alone["queue"], max(end_us, window.end_us))
    outcome = simulate(arrivals, capacity_bps, rtt_s)
    judged = slice(window.start_us // STEP_US, window.end_us // STEP_US)
    spare_bytes = capacity_bps / 8 * window.seconds - arrivals[judged].sum()
    used = outcome.sent_bytes[judged].sum(axis=0) / spare_bytes
    added = outcome.queue_bytes - queue_alone_bytes(arrivals, capacity_bps)[:, np.newaxis]
    harms = harm(added, web, rtts_ms, capacity_bps, window)
    return front([(float(u), float(i)) for u, i in zip(used, harms, strict=True)])
