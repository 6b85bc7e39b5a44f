"""A clean Debian with systemd in a virtual machine: the packages from their installation to their
purge, as docs/tutorials/first-hour.md tells it."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from built import ROOT
from imtcp_lab.job import LabError
from imtcp_lab.vm import kernels
from imtcp_lab.vm.cpio import Archive
from test_debian_package import build, needs_debian

GUEST = ROOT / "tests" / "clean_machine"
INCLUDE = "systemd,systemd-sysv,kmod,iproute2,adduser,libelf1,python3-minimal,libpython3-stdlib"
#: Kernel modules below the kernel's directory, as the guest's steps need them.
MODULES = ("kernel/net", "kernel/drivers/net")
MEMORY_MB = 2000
#: Without KVM, which not every machine has: a minute and a half of processor time.
LONGEST_S = 1500


def debian(root: Path) -> None:
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    made = subprocess.run(
        ["mmdebstrap", "--variant=essential", f"--include={INCLUDE}", release, root],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip(f"no packages of Debian to be had here: {made.stderr.splitlines()[-3:]}")


def archive(root: Path) -> bytes:
    """All of a tree, as the kernel unpacks it."""
    made = Archive()
    for top, dirs, names in os.walk(root):
        for name in [*dirs, *names]:
            path = Path(top) / name
            inside = f"/{path.relative_to(root)}"
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                made.symlink(inside, str(path.readlink()))
            elif stat.S_ISDIR(mode):
                made.directory(inside, stat.S_IMODE(mode))
            elif stat.S_ISREG(mode):
                made.file(inside, path.read_bytes(), stat.S_IMODE(mode))
    made.device("/dev/console", 5, 1)
    return made.to_bytes()


@needs_debian
@pytest.mark.vm
@pytest.mark.skipif(
    shutil.which("mmdebstrap") is None or os.geteuid() != 0, reason="needs mmdebstrap and root"
)
def test_a_rule_for_a_unit_holds_from_the_packages_installation_to_their_purge(
    tmp_path: Path,
) -> None:
    try:
        kernel = kernels.get("6.12")
    except LabError as e:
        pytest.skip(str(e))
    root = tmp_path / "root"
    debian(root)
    for version in ("0.1.0", "0.1.1"):
        into = tmp_path / version
        into.mkdir()
        packages = root / "packages" / version
        packages.mkdir(parents=True)
        for package in build(version, into).values():
            shutil.copy(package, packages)
    modules = root / "lib" / "modules" / kernel.release
    for part in MODULES:
        shutil.copytree(kernel.modules / part, modules / part)
    for listed in kernel.modules.glob("modules.*"):
        shutil.copy(listed, modules)
    subprocess.run(["chroot", root, "depmod", kernel.release], check=True)
    for file in GUEST.iterdir():
        to = root / "root" / file.name
        shutil.copy(file, to)
        to.chmod(0o755)
    (root / "init").write_text("#!/bin/sh\nexec /root/init\n")
    (root / "init").chmod(0o755)
    unit = root / "etc/systemd/system/steps.service"
    unit.write_text(
        "[Unit]\nAfter=multi-user.target\n[Service]\nType=oneshot\nExecStart=/root/steps\n"
        "StandardOutput=append:/dev/ttyS0\nStandardError=append:/dev/ttyS0\n"
    )
    wanted = root / "etc/systemd/system/default.target.wants"
    wanted.mkdir(parents=True, exist_ok=True)
    (wanted / "steps.service").symlink_to("../steps.service")
    initrd = tmp_path / "initrd"
    initrd.write_bytes(archive(root))
    # It takes 1 GB for a moment.
    shutil.rmtree(root)
    console = tmp_path / "console"
    with console.open("w") as to:
        ended = subprocess.run(
            ["timeout", f"{LONGEST_S}", "qemu-system-x86_64", "-accel", "tcg,thread=multi",
             "-cpu", "max", "-smp", "2", "-m", f"{MEMORY_MB}", "-nographic", "-no-reboot",
             "-nic", "none", "-kernel", kernel.image, "-initrd", initrd, "-append",
             "console=ttyS0 quiet panic=-1 systemd.show_status=0 systemd.log_target=null"],
            stdin=subprocess.DEVNULL, stdout=to, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    said = console.read_text(errors="replace").replace("\r", "")
    assert "\nPASSED\n" in said, f"exit code {ended.returncode}: {said[-5000:]}"
