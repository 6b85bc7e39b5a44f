"""The Debian package: the same bytes each time, and a Debian of its own that it is installed in and
purged from."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from pages import ROOT

needs_debian = pytest.mark.skipif(shutil.which("dh") is None, reason="debhelper is not installed")

#: Directories whose content the kernel or the package manager makes.
OTHERS = ("proc", "sys", "dev", "run", "tmp", "var/log", "var/cache", "var/lib/dpkg")


def build(version: str, into: Path) -> Path:
    """The package of what is built, as ``make deb`` makes it, in a copy of packaging/."""
    packaging = into / "tree" / "packaging"
    shutil.copytree(ROOT / "packaging", packaging)
    for name in ("Makefile", "core/Makefile.inc"):
        target = into / "tree" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    (into / "tree" / "target" / "release").mkdir(parents=True)
    shutil.copy(ROOT / "target/release/imtcp", into / "tree" / "target" / "release")
    changelog = packaging / "debian" / "changelog"
    changelog.write_text(changelog.read_text().replace("(0.1.0)", f"({version})", 1))
    environment = {**os.environ, "DEB_RULES_REQUIRES_ROOT": "no"}
    for target in ("clean", "binary"):
        done = subprocess.run(
            ["debian/rules", target],
            cwd=packaging,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    (package,) = (into / "tree" / "target" / "deb").glob("*.deb")
    return package


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {
        version: build(version, tmp_path_factory.mktemp(version)) for version in ("0.1.0", "0.1.1")
    }


@needs_debian
def test_two_builds_of_one_version_are_the_same_bytes(
    packages: dict[str, Path], tmp_path: Path
) -> None:
    assert build("0.1.0", tmp_path).read_bytes() == packages["0.1.0"].read_bytes()


@needs_debian
def test_the_package_has_the_command_its_manual_completions_and_the_unit(
    packages: dict[str, Path],
) -> None:
    listed = subprocess.check_output(["dpkg-deb", "-c", packages["0.1.0"]], text=True)
    names = {line.split()[5] for line in listed.splitlines()}
    owners = {line.split()[1] for line in listed.splitlines()}
    assert owners == {"root/root"}
    assert names >= {
        "./usr/bin/imtcp",
        "./usr/share/man/man1/imtcp.1.gz",
        "./usr/share/man/man1/imtcp-rules-watch.1.gz",
        "./usr/share/bash-completion/completions/imtcp",
        "./usr/share/zsh/site-functions/_imtcp",
        "./usr/share/fish/vendor_completions.d/imtcp.fish",
        "./lib/systemd/system/imtcp-rules.service",
        "./etc/imtcp.d/",
    }
    assert {name for name in names if name.startswith("./usr/local")} == set()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = (ROOT / "packaging/systemd/imtcp-rules.service").read_text()
    unit = unit.replace("/usr/local/bin/imtcp", "/bin/true")
    unit = unit.replace("Documentation=man:imtcp-rules(1)\n", "")
    file = tmp_path / "imtcp-rules.service"
    file.write_text(unit)
    checked = subprocess.run(
        ["systemd-analyze", "verify", file], capture_output=True, text=True, check=False
    )
    about_ours = [line for line in checked.stderr.split("\n") if "imtcp-rules" in line]
    assert checked.returncode == 0 and not about_ours, checked.stderr


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Debian of the same release, with nothing of this project in it."""
    if shutil.which("mmdebstrap") is None or os.geteuid() != 0:
        pytest.skip("mmdebstrap is not installed, or this is not root")
    root = tmp_path_factory.mktemp("debian") / "root"
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    include = "--include=init-system-helpers,libelf1"
    made = subprocess.run(
        ["mmdebstrap", "--variant=essential", include, release, root],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no packages of Debian to be had here: {made.stderr.splitlines()[-3:]}")
    return root


#: In a mount namespace of its own: what is mounted goes with the command.
INSIDE = """
mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" && mount --rbind /dev "$0/dev" &&
	exec chroot "$0" "$@"
"""


def command_inside(root: Path, *command: str) -> list[str]:
    path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
    return ["unshare", "--mount", "sh", "-c", INSIDE, str(root), "env", "-i", path, *command]


def inside(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command_inside(root, *command), capture_output=True, text=True, check=False
    )


def files(root: Path) -> set[str]:
    found = set()
    for top, dirs, names in os.walk(root):
        here = str(Path(top).relative_to(root))
        if here in OTHERS:
            dirs.clear()
            continue
        found |= {f"{here}/{name}" for name in [*dirs, *names]}
    return found


@needs_debian
def test_it_is_installed_upgraded_while_a_run_goes_on_removed_and_purged_without_a_trace(
    packages: dict[str, Path], debian: Path, running_kernel: None
) -> None:
    subprocess.run([ROOT / "target/release/imtcp", "down"], check=True, capture_output=True)
    before = files(debian)
    for version, package in packages.items():
        shutil.copy(package, debian / "tmp" / f"{version}.deb")
    done = inside(debian, "dpkg", "-i", "/tmp/0.1.0.deb")
    assert done.returncode == 0, done.stderr
    assert inside(debian, "imtcp", "version").stdout.startswith("imtcp 0.1.0")
    # Nothing was loaded by that.
    assert inside(debian, "imtcp", "status").returncode == 3
    rule = ["rules", "add", "backup", "--unit", "nothing-has-this"]
    assert inside(debian, "imtcp", *rule).returncode == 0

    run = subprocess.Popen(command_inside(debian, "imtcp", "run", "-q", "--", "sleep", "60"))
    try:
        while inside(debian, "imtcp", "status").returncode != 0:
            assert run.poll() is None
        done = inside(debian, "dpkg", "-i", "/tmp/0.1.1.deb")
        assert done.returncode == 0, done.stderr
        assert run.poll() is None
        assert "sleep 60" in inside(debian, "imtcp", "status").stdout
    finally:
        run.terminate()
        run.wait()

    done = inside(debian, "dpkg", "--remove", "imtcp")
    assert done.returncode == 0, done.stderr
    assert not Path("/sys/fs/bpf/imtcp").exists(), "it is unloaded"
    assert (debian / "etc/imtcp.d/backup.toml").exists(), "only a purge takes what was configured"
    done = inside(debian, "dpkg", "--purge", "imtcp")
    assert done.returncode == 0, done.stderr
    for version in packages:
        (debian / "tmp" / f"{version}.deb").unlink()
    left = files(debian) - before
    assert left == set()
