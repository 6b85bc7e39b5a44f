"""Programs that jobs find on their PATH, looked up on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from imtcp_lab.engine import native, paths
from imtcp_lab.job import LabError, MissingPrerequisite

#: Built by this project; absent before the build.
PROJECT_PROGRAMS = ("imtcp", "imtcp-load", "imtcp-advice", "imtcp-agent")
BPF_OBJECT = "bpf/imtcp.bpf.o"
FTP_MODULE = "proftpd/mod_imtcp.so"

#: From Debian packages; all are optional.
HOST_PROGRAMS = (
    "bpftool",
    "bridge",
    "curl",
    "ethtool",
    "ip",
    "iperf3",
    "jq",
    "nginx",
    "nstat",
    "proftpd",
    "rsync",
    "ss",
    "ssh",
    "ssh-keygen",
    "sshd",
    "tc",
)
#: Other programs start these by fixed paths (newer OpenSSH splits sshd).
HELPER_FILES = ("/usr/lib/openssh/sshd-session", "/usr/lib/openssh/sshd-auth")
#: Without these no job runs.
REQUIRED_PROGRAMS = {"busybox": "busybox-static", "dash": "dash"}

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LDD_LINE = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$")


@dataclass(frozen=True)
class Tools:
    """Programs by name, and the names of missing ones."""

    programs: dict[str, Path]
    bpf_object: Path | None
    ftp_module: Path | None
    missing: tuple[str, ...]


def which(name: str) -> Path | None:
    """The system's own program; a user's PATH has no effect."""
    found = shutil.which(name, path=SYSTEM_PATH)
    return Path(found).resolve() if found else None


def find() -> Tools:
    """Looks up every tool; raises only if a required one is missing."""
    programs: dict[str, Path] = {}
    missing: list[str] = []
    for name, package in REQUIRED_PROGRAMS.items():
        path = which(name)
        if path is None:
            raise MissingPrerequisite(f"{name} is missing: apt-get install {package}")
        programs[name] = path
    for name in HOST_PROGRAMS:
        path = which(name)
        if path is None:
            missing.append(name)
        else:
            programs[name] = path
    for name in PROJECT_PROGRAMS:
        path = paths.programs() / name
        if path.is_file():
            programs[name] = path
        else:
            missing.append(name)
    programs["imtcp-delayline"] = native.build("delayline")
    built = {name: paths.target() / name for name in (BPF_OBJECT, FTP_MODULE)}
    missing += [path.name for path in built.values() if not path.is_file()]
    files = {name: path if path.is_file() else None for name, path in built.items()}
    return Tools(programs, files[BPF_OBJECT], files[FTP_MODULE], tuple(missing))


def shared_libraries(program: Path) -> list[Path]:
    """The libraries and the loader of `program`, from ldd."""
    done = subprocess.run(
        ["ldd", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    output = done.stdout + done.stderr
    if "not a dynamic executable" in output or "statically linked" in output:
        return []
    if done.returncode != 0 or "not found" in output:
        raise LabError(f"ldd {program} failed: {output.strip()}")
    return [Path(m[1]) for line in output.splitlines() if (m := _LDD_LINE.match(line))]
