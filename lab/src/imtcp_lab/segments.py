"""The segments that reach the two ends of the background's connection.

The kernel's tracepoint ``tcp:tcp_probe`` reports each segment that an established socket receives:
ACKs at the sender, data at the receiver.  The events stay in the kernel's ring buffer until the run
is over, so they neither cross the path nor take processor time from the traffic.

``segments.csv`` has, for each segment:

* t_us: CLOCK_MONOTONIC when TCP took it;
* the address of the host that received it;
* its payload;
* that host's oldest unacknowledged byte *before* the segment.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import polars as pl

from imtcp_lab.topology import BACKGROUND_RECEIVER, BACKGROUND_SENDER
from imtcp_lab.traffic import BULK_PORT

#: An event takes about 150 bytes: enough for a minute of 80 Mbit/s and its ACKs.
BUFFER_KB = 98_304

_START = f"""\
TRACE=/sys/kernel/tracing/instances/imtcp-lab
mkdir -p $TRACE
echo {BUFFER_KB} >$TRACE/buffer_size_kb
echo mono >$TRACE/trace_clock
echo 'sport == {BULK_PORT} || dport == {BULK_PORT}' >$TRACE/events/tcp/tcp_probe/filter
echo 1 >$TRACE/events/tcp/tcp_probe/enable
"""

# If the buffer overflowed, the oldest events are lost, and the sums are wrong.
_KEEP = """\
echo 0 >$TRACE/events/tcp/tcp_probe/enable
if grep -q '^overrun: [1-9]' $TRACE/per_cpu/cpu*/stats; then
  echo "the trace of segments ran over" >&2; code=5
fi
{ echo t_us,host,data_bytes,snd_una
  sed -nE 's/^.* ([0-9]+)\\.([0-9]{6}): tcp_probe: .*src=([0-9.]+):.* data_len=([0-9]+) .*\
 snd_una=(0x[0-9a-f]+) .*$/\\1\\2,\\3,\\4,\\5/p' $TRACE/trace; } >"$OUT/segments.csv"
rmdir $TRACE
"""


def start() -> str:
    """Shell that starts recording."""
    return _START


def keep() -> str:
    """Shell that writes the record, after all traffic has ended."""
    return _KEEP


@dataclass(frozen=True)
class Ack:
    """An ACK at the sender."""

    t_us: int
    #: Payload that this ACK newly acknowledged; 0: a duplicate.
    acked_bytes: int


def acks(segments: pl.DataFrame) -> list[Ack]:
    """The sender's ACKs, except the last: its effect is not in the record."""
    at_sender = segments.filter(pl.col("host") == BACKGROUND_SENDER)
    times = at_sender["t_us"].to_list()
    oldest = [int(text, 16) for text in at_sender["snd_una"].to_list()]
    # Each event has the state before it, so differences show its effect; sequence numbers wrap at
    # 32 bits (RFC 9293 §3.4).
    advance = [(after - before) % 2**32 for before, after in itertools.pairwise(oldest)]
    return [Ack(t, n) for t, n in zip(times, advance, strict=False)]


def arrivals(segments: pl.DataFrame) -> list[tuple[int, int]]:
    """(t_us, payload bytes) of each data segment at the receiver."""
    data = segments.filter((pl.col("host") == BACKGROUND_RECEIVER) & (pl.col("data_bytes") > 0))
    return list(zip(data["t_us"].to_list(), data["data_bytes"].to_list(), strict=True))
