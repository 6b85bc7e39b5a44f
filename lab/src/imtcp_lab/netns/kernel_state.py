"""Traces of a job in the running kernel outside its namespaces, and their removal.

Congestion controls registered by BPF struct_ops belong to the whole machine, not
to a network namespace.  ``/sys/fs/bpf`` says which of them are ours, so a job sees the machine's
own instance of it. With a private one ``imtcp up`` would find no pins, though the name is taken.
At its end a job's additions there go: only those with this project's names, since others may use
the machine."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from imtcp_lab.engine import tools
from imtcp_lab.netns import probe

BPF_FS = Path("/sys/fs/bpf")
#: Pins and congestion controls of this project begin so.
OURS = "imtcp"


@contextmanager
def restored() -> Iterator[None]:
    """Mount the BPF file system if it is not; afterwards remove what was added."""
    mounted_here = not probe.is_mounted(BPF_FS)
    if mounted_here:
        subprocess.run(["mount", "-t", "bpf", "bpf", BPF_FS], check=True, capture_output=True)
    pins, registered = _pins(), _struct_ops()
    try:
        yield
    finally:
        for path in sorted(_pins() - pins, reverse=True):
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        for number in _struct_ops() - registered:
            _bpftool("struct_ops", "unregister", "id", str(number))
        if mounted_here and not list(BPF_FS.iterdir()):
            subprocess.run(["umount", BPF_FS], check=False, capture_output=True)


def _pins() -> set[Path]:
    found: set[Path] = set()
    for top in BPF_FS.glob(f"{OURS}*"):
        found.add(top)
        for root, directories, names in os.walk(top):
            found.update(Path(root) / name for name in (*directories, *names))
    return found


def _struct_ops() -> set[int]:
    """Ids of our registered struct_ops maps; empty where bpftool is missing."""
    try:
        listed = json.loads(_bpftool("-j", "struct_ops", "list") or "[]")
    except ValueError:
        return set()
    if not isinstance(listed, list):  # an object with an error in it
        return set()
    return {entry["id"] for entry in listed if entry.get("name", "").startswith(OURS)}


def _bpftool(*arguments: str) -> str:
    program = tools.which("bpftool")
    if program is None:
        return ""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    return done.stdout


@contextmanager
def cgroup(name: str) -> Iterator[Path | None]:
    """A control group for one job; all in it is killed and removed at the end."""
    mount = probe.cgroup2_mount()
    if mount is None:
        yield None
        return
    group = mount / name
    group.mkdir()
    try:
        yield group
    finally:
        with suppress(OSError):
            (group / "cgroup.kill").write_text("1")
        for root, _, _ in os.walk(group, topdown=False):
            _remove_group(Path(root))


def _remove_group(group: Path) -> None:
    # Killed processes leave their group a moment later.
    for _ in range(200):
        try:
            group.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.01)
