"""Stock Debian kernels: the newest cloud image of a series, unpacked but not installed."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from imtcp_lab.engine import paths
from imtcp_lab.engine.lock import locked
from imtcp_lab.job import LabError, MissingPrerequisite
from imtcp_lab.vm import aptdir

#: The series on which the project promises to run.
SERIES = ("6.1", "6.12")


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel package."""

    series: str
    #: As in ``uname -r``, e.g. ``6.12.117+deb12-cloud-amd64``.
    release: str
    #: The Debian package's version, e.g. ``6.12.117-1~deb12u1``.
    package_version: str
    #: The directory of the unpacked package.
    tree: Path

    @property
    def image(self) -> Path:
        """The bootable image."""
        return self.tree / "boot" / f"vmlinuz-{self.release}"

    @property
    def modules(self) -> Path:
        """The directory of its modules."""
        for base in (self.tree / "lib", self.tree / "usr" / "lib"):
            if (base / "modules" / self.release).is_dir():
                return base / "modules" / self.release
        raise LabError(f"the package of kernel {self.release} has no modules")


def _directory() -> Path:
    return paths.cache() / "kernels"


def cached(series: str) -> Kernel | None:
    """The newest unpacked kernel of `series`; uses no network."""
    _check(series)
    found = []
    for tree in _directory().glob(f"{series}@*"):
        _, release, version = tree.name.split("@")
        found.append(Kernel(series, release, version.replace("%3a", ":"), tree))
    return max(found, key=lambda k: _version_key(k.package_version), default=None)


def get(series: str, *, update: bool = False) -> Kernel:
    """The kernel of `series`: a cached one, or (also with `update`) the newest.

    Raises :class:`MissingPrerequisite` if no known archive carries it.
    """
    kernel = cached(series)
    if kernel is not None and not update:
        return kernel
    with locked(_directory() / "lock"):
        kernel = cached(series)
        if kernel is not None and not update:
            return kernel
        return _fetch(series)


def _check(series: str) -> None:
    if series not in SERIES:
        raise LabError(f"kernel {series} is not one of {', '.join(SERIES)}")


def _fetch(series: str) -> Kernel:
    """Downloads it from the machine's own archives, or from a private bookworm list."""
    troubles = []
    for options in (aptdir.system_options, aptdir.bookworm_options):
        try:
            with tempfile.TemporaryDirectory(dir=_directory(), prefix="tmp-") as work:
                return _fetch_with(series, options(), Path(work))
        except LabError as error:
            troubles.append(str(error))
    raise MissingPrerequisite(
        f"no Debian archive known here gives a kernel {series} "
        f"(linux-image-{series}.*-cloud-amd64): {'; '.join(troubles)}. "
        "Run apt-get update; on another system than Debian, unpack that package into "
        f"{_directory()}/{series}@RELEASE@VERSION"
    )


def _fetch_with(series: str, options: list[str], work: Path) -> Kernel:
    package, version = newest_package(series, options)
    release = package.removeprefix("linux-image-")
    tree = _directory() / f"{series}@{release}@{version.replace(':', '%3a')}"
    kernel = Kernel(series, release, version, tree)
    if tree.is_dir():
        return kernel
    # apt drops to the user _apt if it can; this user may write here.
    work.chmod(0o777)
    aptdir.run(["apt-get", *options, "download", f"{package}={version}"], cwd=work)
    archives = list(work.glob("*.deb"))
    if len(archives) != 1:
        raise LabError(f"apt-get download {package} left {len(archives)} files")
    unpacked = work / "tree"
    aptdir.run(["dpkg-deb", "-x", str(archives[0]), str(unpacked)], cwd=work)
    unpacked.replace(tree)
    return kernel


def newest_package(series: str, options: list[str]) -> tuple[str, str]:
    """Name and version of the newest kernel package of `series` in apt's lists."""
    name = re.compile(rf"^linux-image-{re.escape(series)}\.\d[^ ]*-cloud-amd64$")
    found: list[tuple[str, str]] = []
    listing = aptdir.run(
        ["apt-cache", *options, "search", "--names-only", rf"^linux-image-{series}\..*cloud-amd64$"]
    )
    names = [line.split()[0] for line in listing.splitlines() if line]
    for package in filter(name.match, names):
        shown = aptdir.run(["apt-cache", *options, "madison", package])
        for line in shown.splitlines():
            fields = [field.strip() for field in line.split("|")]
            if len(fields) == 3:
                found.append((package, fields[1]))
    if not found:
        raise LabError(f"no linux-image-{series}.*-cloud-amd64 in apt's lists")
    return max(found, key=lambda pair: _version_key(pair[1]))


@functools.cmp_to_key
def _version_key(left: str, right: str) -> int:
    """Compares two Debian package versions, with dpkg."""

    def holds(relation: str) -> bool:
        command = ["dpkg", "--compare-versions", left, relation, right]
        return subprocess.run(command, check=False).returncode == 0

    if left == right:
        return 0
    return -1 if holds("lt") else 1


def remove_all() -> None:
    """Removes every unpacked kernel."""
    if _directory().is_dir():
        with locked(_directory() / "lock"):
            for entry in _directory().iterdir():
                if entry.is_dir():
                    shutil.rmtree(entry)


def size_bytes() -> int:
    """Disk space of the unpacked kernels."""
    total = 0
    for root, _, names in os.walk(_directory()):
        total += sum((Path(root) / name).lstat().st_size for name in names)
    return total
