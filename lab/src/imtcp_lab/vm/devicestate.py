"""The saved state of QEMU's clocks: the part that must not differ between two saves.

Virtual time is (instructions + bias); QEMU raises the bias to skip idle time.  When the guest stops
itself for the save, QEMU's main loop may briefly take the stopped processor for an idle one, and
skip to the next timer.  This is a race on the host, and happens often on a busy machine.  Every job
from such a snapshot would run a little later than from another.  The guest reports the time at
which it stopped, so the laboratory recognises such a save and repeats it.

The section is at the beginning of the stream.  Its name "timer" and its subsection "timer/icount"
are fixed for migration between QEMU versions.  All numbers are 64-bit big-endian:

* the stream's version, the section's head;
* ``cpu_ticks_offset``, 8 unused bytes and ``cpu_clock_offset``: both of the host's clock, unused
  when instructions are the clock;
* later the bias and the instructions, in nanoseconds.
"""

from __future__ import annotations

from imtcp_lab.job import LabError

_SECTION = b"\x05timer" + bytes(4)
_VERSION_BYTES = 4
_ICOUNT = b"timer/icount"
_FIELD = 8
#: Between reading the clock and the stop, the guest executes about a hundred instructions of one
#: nanosecond each; the next timer is up to 4 ms away.
_STOP_NS = 2000


def is_where_it_stopped(devices: bytes, stopped_ns: int) -> bool:
    """Whether the saved virtual time agrees with `stopped_ns`, the guest's own time at its stop."""
    at = devices.find(_ICOUNT)
    if at < 0:
        raise LabError("QEMU's saved state has no instruction count: an unknown version")
    at += len(_ICOUNT) + _VERSION_BYTES
    bias, count = (
        int.from_bytes(devices[start : start + _FIELD], "big", signed=True)
        for start in (at, at + _FIELD)
    )
    return 0 <= bias + count - stopped_ns < _STOP_NS


def without_host_clocks(devices: bytes) -> bytes:
    """The state with the host's clock offsets set to zero, as in a fresh QEMU."""
    at = devices.find(_SECTION)
    if at < 0:
        raise LabError("QEMU's saved state has no clocks: an unknown version")
    at += len(_SECTION) + _VERSION_BYTES
    changed = bytearray(devices)
    changed[at : at + _FIELD] = bytes(_FIELD)
    changed[at + 2 * _FIELD : at + 3 * _FIELD] = bytes(_FIELD)
    return bytes(changed)
