"""Features of the running kernel that jobs in namespaces need."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

from imtcp_lab.engine import tools
from imtcp_lab.job import MissingPrerequisite


def require_root() -> None:
    """Raises unless root: network namespaces need it."""
    if os.geteuid() != 0:
        raise MissingPrerequisite("network namespaces need root: run it with sudo")


#: A test of a discipline needs these programs.
_QDISC_ARGUMENTS = {"netem": "delay 1ms", "tbf": "rate 1mbit burst 10k limit 10k"}


@cache
def has_qdisc(kind: str) -> bool:
    """Whether this kernel has the queueing discipline `kind`; tested in a new namespace."""
    require_root()
    tc = tools.which("tc")
    if tc is None:
        raise MissingPrerequisite("tc is missing: apt-get install iproute2")
    tried = [kind, *_QDISC_ARGUMENTS.get(kind, "").split()]
    done = subprocess.run(
        ["unshare", "--net", tc, "qdisc", "add", "dev", "lo", "root", *tried],
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def has_netem() -> bool:
    """Whether netem can make delays; otherwise use the program ``imtcp-delayline``."""
    return has_qdisc("netem")


def cgroup2_mount(mounts: Path = Path("/proc/self/mounts")) -> Path | None:
    """The mount point of the unified control group hierarchy; it depends on the init system."""
    for line in mounts.read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where.replace("\\040", " "))
    return None


def is_mounted(where: Path, mounts: Path = Path("/proc/self/mounts")) -> bool:
    """Whether a file system is mounted exactly at `where`."""
    return any(line.split()[1] == str(where) for line in mounts.read_text().splitlines())
