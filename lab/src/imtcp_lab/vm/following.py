"""Reads a guest's frames until its job is done."""

from __future__ import annotations

import time
from collections.abc import Mapping

from imtcp_lab.job import Cost, GuestCrashed, Job, JobResult, JobTimeout, Progress
from imtcp_lab.vm.frames import named_file
from imtcp_lab.vm.guest import Guest

#: A guest counts as hung after this many wall-clock seconds without a tick. It ticks every half
#: virtual second; heavy traffic takes some wall-clock seconds per virtual one.
STALL_S = 300.0
LOG_TAIL_CHARS = 4000


def follow(
    guest: Guest,
    job: Job,
    progress: Progress | None,
    environment: Mapping[str, str],
    stall_s: float,
) -> JobResult:
    """Returns the results of `job`; `progress` gets virtual seconds, every half second.

    Raises :class:`JobTimeout` when the virtual time is used up, and :class:`GuestCrashed` when the
    guest panics, hangs for `stall_s` wall-clock seconds or is killed.
    """
    started_s = time.monotonic()
    log: list[bytes] = []
    files: dict[str, bytes] = {}
    timed_out = False

    def tail() -> str:
        said = b"".join(log).decode("utf-8", "replace")[-LOG_TAIL_CHARS:]
        return "\n".join(part for part in (said.strip(), guest.console_tail()) if part)

    try:
        for kind, payload in guest.frames(stall_s):
            match kind:
                case "T":
                    if progress is not None:
                        progress(int.from_bytes(payload, "big") / 1000)
                case "L":
                    log.append(payload)
                case "F":
                    name, content = named_file(payload)
                    files[name] = content
                case "V":
                    timed_out = True
                case "E":
                    raise GuestCrashed(
                        f"the guest's agent failed: {payload.decode(errors='replace')}"
                    )
                case "X" if timed_out:
                    raise JobTimeout(f"the job used up its {job.limit_virtual_s:g} virtual seconds")
                case "X":
                    text = b"".join(log).decode("utf-8", "replace")
                    cost = Cost(time.monotonic() - started_s, guest.peak_memory_mb())
                    return JobResult(files, text, int.from_bytes(payload, "big"), environment, cost)
    except (GuestCrashed, JobTimeout) as error:
        error.console = tail()
        raise
    raise AssertionError("frames() ends only by raising")
