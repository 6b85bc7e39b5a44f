"""QEMU: its version, its machine, and its start."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

from imtcp_lab.engine import tools
from imtcp_lab.job import MissingPrerequisite
from imtcp_lab.vm import guest
from imtcp_lab.vm.guest import Guest, Memory

PROGRAM = "qemu-system-x86_64"
MACHINE = "microvm,isa-serial=on,rtc=on,pit=on,pic=on"
#: rr=record makes the main loop's events part of the instruction count; without it, runs differ.
#: Nothing is ever replayed, hence /dev/null.
ICOUNT = "shift=0,sleep=off,rr=record,rrfile=/dev/null"
#: All features that QEMU can emulate, except fast strings. With these the kernel copies and clears
#: byte by byte, each with a turn of QEMU's loop and a virtual nanosecond, which makes a guest
#: slower.
PROCESSOR = "max,-erms"
COMMAND_LINE = (
    "console=ttyS0 quiet panic=-1 nokaslr mitigations=off nr_cpus=1 tsc=reliable "
    "reboot=t random.trust_cpu=on rcupdate.rcu_expedited=1 apparmor=0 audit=0 no_timer_check"
)


@cache
def program() -> str:
    """QEMU's path."""
    found = tools.which(PROGRAM)
    if found is None:
        raise MissingPrerequisite(f"{PROGRAM} is missing: apt-get install qemu-system-x86")
    return str(found)


@cache
def version() -> str:
    """QEMU's version line."""
    done = subprocess.run([program(), "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


def machine_arguments(memory_mb: int, seed: int, ram: str, *, share: bool) -> list[str]:
    """The part of the command line that saving and resuming share.

    The guest's memory is the file `ram`.  It is shared while the guest boots, so that the file is
    the saved memory.  It is private in a run, which so starts at once and copies only the pages
    that it writes.
    """
    backend = f"id=ram,size={memory_mb}M,mem-path={ram},share={'on' if share else 'off'}"
    return [
        *("-M", f"{MACHINE},memory-backend=ram"),
        *("-object", f"memory-backend-file,{backend}"),
        *("-accel", "tcg"),
        *("-cpu", PROCESSOR),
        *("-smp", "1"),
        *("-m", f"{memory_mb}M"),
        "-nodefaults",
        "-no-user-config",
        *("-display", "none"),
        *("-vga", "none"),
        "-no-reboot",
        *("-seed", str(seed)),
        *("-rtc", "base=2024-01-01T00:00:00,clock=vm"),
        *("-icount", ICOUNT),
        *("-action", "panic=pause"),
        *("-device", "pvpanic"),
        *("-device", "isa-debugcon,iobase=0xe9,chardev=frames"),
        *("-serial", "chardev:console"),
        # xen-save-devices-state writes neither a configuration nor the run state, so the loading
        # side must not wait for them.
        *("-global", "migration.send-configuration=off"),
        *("-global", "migration.store-global-state=off"),
    ]


@contextmanager
def running(arguments: Sequence[str], inherited: Sequence[int] = ()) -> Iterator[Guest]:
    """Starts QEMU with `arguments` and the guest's channels; always ends it."""
    channels = [Memory("frames"), Memory("console")]
    frames, console = channels
    command = [
        program(),
        *("-chardev", f"file,id=frames,path={frames.path}"),
        *("-chardev", f"file,id=console,path={console.path}"),
        *arguments,
    ]
    try:
        inherited = [frames.fd, console.fd, *inherited]
        with guest.running("QEMU", command, frames, console, inherited) as running_one:
            yield running_one
    finally:
        for channel in channels:
            channel.close()
