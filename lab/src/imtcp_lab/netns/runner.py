"""Runs jobs in private namespaces of the running kernel, in real time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from imtcp_lab.engine import tools
from imtcp_lab.engine.lock import locked
from imtcp_lab.job import Job, JobResult, JobTimeout, Progress
from imtcp_lab.netns import kernel_state, probe

#: Work directories of jobs; the holder of the lock may remove all others.
PREFIX = "imtcp-lab-netns-"
#: One lock for the machine: /run belongs to root, and so does a job.
LOCK = Path("/run/imtcp-lab-netns.lock")
LOG_TAIL_CHARS = 4000
#: Seconds between looks at the job, and between calls of `progress`.
POLL_S = 0.25

#: Runs as process 1 of the new namespaces: mounts file systems that show them, then runs the job.
#: /sys is mounted again to show the namespace's own devices. The BPF file system and the control
#: groups return to the same places as in the VM.
SETUP = """\
set -e
echo $$ >"$LAB_CGROUP/cgroup.procs"
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir -p /run/netns /run/sshd "$LAB_DIR/bpf"
mount --bind /sys/fs/bpf "$LAB_DIR/bpf"
mount -t sysfs sysfs /sys
mount --move "$LAB_DIR/bpf" /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
ulimit -S -n "$(ulimit -H -n)"
unset LAB_CGROUP LAB_DIR
set +e
sh "$1"
exit $?
"""


@dataclass(frozen=True)
class NetnsRunner:
    """A :class:`~imtcp_lab.job.Runner` with the running kernel's network, as root.

    Only one job runs at a time on a machine, because jobs share its cores and its congestion
    controls. A second caller waits.
    """

    def run(self, job: Job, progress: Progress | None = None) -> JobResult:
        """Runs `job`; `progress` gets the real seconds done.

        Raises :class:`JobTimeout` after ``limit_virtual_s`` real seconds.
        """
        probe.require_root()
        available = tools.find()
        with (
            locked(LOCK),
            _work_directory() as directory,
            kernel_state.restored(),
            kernel_state.cgroup(directory.name) as group,
        ):
            environment = _lay_out(directory, job, available, group)
            log = directory / "log"
            code = _supervise(directory, environment, log, job, progress)
            text = log.read_text("utf-8", "replace")
            if code is None:
                raise JobTimeout(
                    f"the job used up its {job.limit_virtual_s:g} seconds",
                    text[-LOG_TAIL_CHARS:].strip(),
                )
            return JobResult(_collect(directory / "out"), text, code, _about(available, job))


@contextmanager
def _work_directory() -> Iterator[Path]:
    """A directory for one job; also removes directories of killed jobs."""
    for stale in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        shutil.rmtree(stale, ignore_errors=True)
    directory = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _lay_out(
    directory: Path, job: Job, available: tools.Tools, group: Path | None
) -> dict[str, str]:
    """Writes the job's files and links to its tools; returns the job's environment."""
    for name in ("bin", "applets", "work", "out", "tmp", "home"):
        (directory / name).mkdir()
    for name, program in available.programs.items():
        (directory / "bin" / name).symlink_to(program)
    (directory / "bin" / "sh").symlink_to(available.programs["dash"])
    busybox = available.programs["busybox"]
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        (directory / "applets" / name).symlink_to(busybox)
    for name, content in job.files.items():
        path = directory / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755)
    (directory / "job.sh").write_text(job.warmup + job.script)
    environment = {
        # Applets come last: the job is to use the system's own programs.
        "PATH": f"{directory}/bin:{tools.SYSTEM_PATH}:{directory}/applets",
        "HOME": str(directory / "home"),
        "OUT": str(directory / "out"),
        "TMPDIR": str(directory / "tmp"),
        "SEED": str(job.seed),
        "LC_ALL": "C.UTF-8",
        "LAB_DIR": str(directory),
        "LAB_CGROUP": str(group),
    }
    if available.bpf_object is not None:
        environment["IMTCP_BPF_O"] = str(available.bpf_object)
    if available.ftp_module is not None:
        environment["IMTCP_FTP_MODULE"] = str(available.ftp_module)
    return environment


def _supervise(
    directory: Path,
    environment: dict[str, str],
    log: Path,
    job: Job,
    progress: Progress | None,
) -> int | None:
    """Runs the script; returns its exit code, or None if its time is over."""
    namespaces = ["--mount", "--net", "--pid", "--mount-proc", "--fork", "--kill-child"]
    command = [
        *("setpriv", "--pdeathsig", "KILL", "unshare", *namespaces),
        *("sh", "-c", SETUP, "setup", str(directory / "job.sh")),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=directory / "work",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    started = time.monotonic()
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(POLL_S)
                return 128 - code if code < 0 else code
            passed = time.monotonic() - started
            if passed >= job.limit_virtual_s:
                return None
            if progress is not None:
                progress(passed)
    finally:
        # unshare ends process 1 of the namespace when it ends, and so all processes in it.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _collect(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def _about(available: tools.Tools, job: Job) -> dict[str, str]:
    system = os.uname()
    return {
        "runner": "netns",
        "kernel": system.release,
        "machine": system.machine,
        "cores": str(os.cpu_count()),
        "netem": "yes" if probe.has_netem() else "no: imtcp-delayline",
        "seed": str(job.seed),
        "missing": " ".join(available.missing),
    }
