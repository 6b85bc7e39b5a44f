"""The kernel of the fast guests: Debian's source, built as User-mode Linux.

Two additions to the source are in ``lab/guest/uml``: the instructions with which the kernel calls a
congestion control in BPF, and a change that keeps the host's randomness out.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from imtcp_lab.engine import paths
from imtcp_lab.engine.lock import locked
from imtcp_lab.job import LabError, MissingPrerequisite
from imtcp_lab.vm import aptdir
from imtcp_lab.vm.kernels import Kernel

#: The name for the option ``--kernel``.
SERIES = "uml"
PACKAGE = "linux-source-6.12"
#: Tools for the build, and the Debian package of each.
BUILT_WITH = {
    "bc": "bc",
    "bison": "bison",
    "flex": "flex",
    "gcc": "gcc",
    "make": "make",
    "pahole": "dwarves",
    "patch": "patch",
    "tar": "tar",
    "xz": "xz-utils",
}
LIBRARIES = "libc6-dev, libelf-dev, zlib1g-dev"
#: Our sources, and their places in the kernel's.
ADDED = {
    "bpf_trampoline.c": "arch/um/kernel/bpf_trampoline.c",
    "perf_event.h": "arch/um/include/asm/perf_event.h",
}
#: Replaces the time, place and user of the build in the image.
ANYWHERE = {
    "KBUILD_BUILD_TIMESTAMP": "2024-01-01",
    "KBUILD_BUILD_USER": "imtcp",
    "KBUILD_BUILD_HOST": "lab",
}


@dataclass(frozen=True)
class UmlKernel(Kernel):
    """A kernel that is a program on the host, with all modules built in."""

    @property
    def image(self) -> Path:
        """The program."""
        return self.tree / "linux"

    @property
    def modules(self) -> Path:
        """An empty directory."""
        return self.tree / "modules"


def _ours() -> Path:
    return paths.checkout() / "lab" / "guest" / "uml"


def _digest() -> str:
    """A digest of the additions and of the build."""
    content = b"".join(path.read_bytes() for path in sorted(_ours().iterdir()))
    return hashlib.sha256(content).hexdigest()[:12]


def cached() -> UmlKernel | None:
    """The last kernel built from these files."""
    found = sorted((paths.cache() / "kernels").glob(f"{SERIES}@*@*@{_digest()}"))
    if not found:
        return None
    _, release, version, _ = found[-1].name.split("@")
    return UmlKernel(SERIES, release, version.replace("%3a", ":"), found[-1])


def get(*, update: bool = False) -> UmlKernel:
    """The kernel: a cached one, or (also with `update`) a new build, which takes minutes.

    Raises :class:`MissingPrerequisite` if no known archive has the source, or if a build program is
    missing; raises :class:`LabError` if the build fails.
    """
    kernel = cached()
    if kernel is not None and not update:
        return kernel
    directory = paths.cache() / "kernels"
    with locked(directory / "lock-uml"):
        kernel = cached()
        if kernel is not None and not update:
            return kernel
        missing = [package for name, package in BUILT_WITH.items() if shutil.which(name) is None]
        if missing:
            raise MissingPrerequisite(
                f"building the fast guests' kernel takes {', '.join(missing)}: apt-get install"
                f" {' '.join(missing)}"
            )
        with tempfile.TemporaryDirectory(dir=directory, prefix="tmp-uml-") as work:
            return _build(directory, Path(work))


def _build(directory: Path, work: Path) -> UmlKernel:
    source, version = _fetch(work)
    print(f"lab: building Linux {version} for fast guests: some ten minutes, once", file=sys.stderr)
    for name, to in ADDED.items():
        shutil.copyfile(_ours() / name, source / to)
    _run(["patch", "-p1", "--fuzz=0", "-i", str(_ours() / "linux.patch")], source)
    config = _ours() / "config"
    _run(["make", "ARCH=um", f"KCONFIG_ALLCONFIG={config}", "allnoconfig"], source)
    settled = (source / ".config").read_text().splitlines()
    wanted = [line for line in config.read_text().splitlines() if line.startswith("CONFIG_")]
    lost = [line for line in wanted if line not in settled]
    if lost:
        raise LabError(f"Linux {version} does not know {', '.join(lost)}")
    _run(["make", "ARCH=um", f"-j{os.cpu_count() or 1}", "linux"], source)
    release = (source / "include" / "config" / "kernel.release").read_text().strip()
    tree = directory / f"{SERIES}@{release}@{version.replace(':', '%3a')}@{_digest()}"
    made = work / "tree"
    (made / "modules").mkdir(parents=True)
    _run(["strip", "--strip-debug", "-o", str(made / "linux"), "linux"], source)
    shutil.rmtree(tree, ignore_errors=True)
    made.replace(tree)
    return UmlKernel(SERIES, release, version, tree)


def _fetch(work: Path) -> tuple[Path, str]:
    """Debian's source of the kernel, unpacked below `work`, and its version."""
    troubles = []
    # apt drops to the user _apt if it can; this user may write here.
    work.chmod(0o777)
    for options in (aptdir.system_options, aptdir.bookworm_options):
        try:
            aptdir.run(["apt-get", *options(), "download", PACKAGE], cwd=work)
            break
        except LabError as error:
            troubles.append(str(error))
    else:
        raise MissingPrerequisite(f"no archive known here has {PACKAGE}: {'; '.join(troubles)}")
    (archive,) = work.glob("*.deb")
    aptdir.run(["dpkg-deb", "-x", str(archive), "package"], cwd=work)
    version = aptdir.run(["dpkg-deb", "-f", str(archive), "Version"]).strip()
    (source,) = (work / "package" / "usr" / "src").glob("linux-source-*.tar.xz")
    _run(["tar", "-xf", str(source)], work)
    return work / source.name.removesuffix(".tar.xz"), version


def _run(command: list[str], where: Path) -> None:
    """Runs it quietly; raises :class:`LabError` with its first errors."""
    environment = {**os.environ, **ANYWHERE, "LC_ALL": "C"}
    done = subprocess.run(
        command, cwd=where, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).splitlines()
        errors = [line for line in said if re.search(r"\berror\b|\*\*\*|not found", line)] or said
        raise LabError(
            f"{command[0]} failed in the source of Linux (it takes {LIBRARIES}, too)",
            "\n".join(errors[:10]),
        )
