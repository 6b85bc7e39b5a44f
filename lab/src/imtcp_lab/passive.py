"""Estimators of bandwidth that only watch the segments of a connection.

These are the estimators with which [IM §4.2] compares ImTCP: they choose no send times.  Each takes
a record from one end of a connection and returns samples (t_us, bit/s of payload), oldest first.

[WEST] S. Mascolo, C. Casetti, M. Gerla, M. Sanadidi, R. Wang, *TCP Westwood: Bandwidth Estimation
for Enhanced Transport over Wireless Links*, MobiCom 2001.  [HOE] J. C. Hoe, *Improving the Start-up
Behavior of a Congestion Control Scheme for TCP*, SIGCOMM 1996.  [RAB] T. Xu-hong, L. Zheng-lan,
Z. Miao-liang, *TCP-Rab: a receiver advertisement based TCP protocol*, J. Zhejiang Univ. Science
5(11), 2004.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from imtcp_lab.segments import Ack

#: (t_us, bit/s)
Samples = list[tuple[int, float]]

#: The filter's time constant [WEST §2.2].
TAU_US = 500_000
#: A silence of tau/m counts as a sample of zero, m >= 2 [WEST §2.2].
SILENCES_PER_TAU = 2
#: Number of closely spaced ACKs for an estimate [HOE].
HOE_ACKS = 3


def delivered(acks: Iterable[Ack], mss_bytes: int) -> list[tuple[int, int]]:
    """(t_us, bytes) that each ACK reports as arrived [WEST §2.3].

    A duplicate ACK means one segment that arrived out of order.  The ACK that fills the hole counts
    the bytes that those duplicates have not counted, but at least its own segment.
    """
    out = []
    accounted_bytes = 0
    for ack in acks:
        counted_bytes = ack.acked_bytes
        if counted_bytes == 0:
            accounted_bytes += mss_bytes
            counted_bytes = mss_bytes
        elif counted_bytes > mss_bytes:
            told_before = min(accounted_bytes, counted_bytes)
            accounted_bytes -= told_before
            counted_bytes = max(counted_bytes - told_before, mss_bytes)
        out.append((ack.t_us, counted_bytes))
    return out


def westwood(acks: Iterable[Ack], mss_bytes: int) -> Samples:
    """Westwood's low-pass filter over the rates between ACKs [WEST §2.1, §2.2].

    b_k = d_k / (t_k - t_{k-1});
    B_k = ((2 tau - D) B_{k-1} + D (b_k + b_{k-1})) / (2 tau + D), D = t_k - t_{k-1};
    in a silence longer than tau/m, a virtual b_k = 0 each tau/m.
    """
    out: Samples = []
    estimate_bps = before_bps = 0.0
    last_us: int | None = None
    waiting_bytes = 0
    silence_us = TAU_US // SILENCES_PER_TAU

    def step(gap_us: int, sample_bps: float) -> None:
        nonlocal estimate_bps, before_bps
        kept = (2 * TAU_US - gap_us) * estimate_bps
        estimate_bps = (kept + gap_us * (sample_bps + before_bps)) / (2 * TAU_US + gap_us)
        before_bps = sample_bps

    for t_us, arrived_bytes in delivered(acks, mss_bytes):
        if last_us is None:
            last_us = t_us
            continue
        waiting_bytes += arrived_bytes
        if t_us == last_us:
            # Two ACKs at one microsecond have no rate, so they count as one.
            continue
        while t_us - last_us > silence_us:
            step(silence_us, 0)
            last_us += silence_us
        step(t_us - last_us, waiting_bytes * 8e6 / (t_us - last_us))
        out.append((t_us, estimate_bps))
        last_us, waiting_bytes = t_us, 0
    return out


def hoe(acks: Iterable[Ack], rtt_us: int) -> Samples:
    """The rate of three closely spaced ACKs, by least squares [HOE]; once per round trip.

    [HOE] makes one such estimate, at the connection's start; [IM §4.2] repeats it every round trip.
    Ours: it uses the first three consecutive ACKs that acknowledge new data.
    """
    out: Samples = []
    row: list[tuple[float, float]] = []
    next_us = 0
    total_bytes = 0
    for ack in acks:
        total_bytes += ack.acked_bytes
        if ack.t_us < next_us or ack.acked_bytes == 0:
            row.clear()
            continue
        row.append((ack.t_us, total_bytes))
        if len(row) < HOE_ACKS:
            continue
        bytes_per_us = slope(row)
        if bytes_per_us is not None:
            out.append((ack.t_us, bytes_per_us * 8e6))
        next_us = round(row[0][0]) + rtt_us
        row.clear()
    return out


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Slope of the regression line of y on x; None if all x are equal."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if spread == 0:
        return None
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread


def rab(arrivals: Iterable[tuple[int, int]], rtt_us: int) -> Samples:
    """The rate at which segments arrive at the receiver [RAB], counted over each round trip.

    It uses no ACKs, so a delay of ACKs does not disturb it [IM §2].  [IM] does not say over what
    time [RAB] counts; ours is a round trip.
    """
    out: Samples = []
    start_us: int | None = None
    arrived_bytes = 0
    for t_us, payload_bytes in arrivals:
        if start_us is None:
            start_us = t_us
            continue
        arrived_bytes += payload_bytes
        if t_us - start_us >= rtt_us:
            out.append((t_us, arrived_bytes * 8e6 / (t_us - start_us)))
            start_us, arrived_bytes = t_us, 0
    return out


def averages(samples: Samples, bin_us: int, start_us: int, end_us: int) -> list[float | None]:
    """Mean of the samples in each interval; None without samples [IM fig. 10: 0.5 s]."""
    sums = [0.0] * ((end_us - start_us) // bin_us)
    counts = [0] * len(sums)
    for t_us, bps in samples:
        at = (t_us - start_us) // bin_us
        if 0 <= at < len(sums):
            sums[at] += bps
            counts[at] += 1
    return [total / count if count else None for total, count in zip(sums, counts, strict=True)]
