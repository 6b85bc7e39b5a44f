"""Changes that a job makes to the running kernel outside of its namespaces, and their removal.

Congestion controls of BPF struct_ops belong to the whole machine, not to a network namespace.
``/sys/fs/bpf`` shows which of them are ours, so a job sees the machine's own instance.  With a
private instance ``imtcp up`` would find no pins, although the name is taken.

A job's additions go at its end, but only those with this project's names, since others may use the
machine.
"""

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
#: Prefix of this project's pins and congestion controls.
OURS = "imtcp"


@contextmanager
def restored() -> Iterator[None]:
    """Mounts the BPF file system if necessary; afterwards removes all additions."""
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
    """Ids of our registered struct_ops maps; empty without bpftool."""
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
    """A control group for one job; at the end all its processes are killed and it is removed."""
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
