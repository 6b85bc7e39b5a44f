"""The Debian packages: the same bytes each time, and a Debian of their own that they come into
and are purged from."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pages import ROOT

needs_debian = pytest.mark.skipif(shutil.which("dh") is None, reason="debhelper is not installed")

PROGRAMS = ("imtcp", "imtcp-advice", "imtcp-agent")
#: Directories whose content the kernel or the package manager makes.
OTHERS = ("proc", "sys", "dev", "run", "tmp", "var/log", "var/cache", "var/lib/dpkg")


def build(version: str, into: Path) -> dict[str, Path]:
    """The packages of what is built, as ``make deb`` makes it, in a copy of packaging/."""
    packaging = into / "tree" / "packaging"
    shutil.copytree(ROOT / "packaging", packaging)
    for name in ("Makefile", "core/Makefile.inc"):
        target = into / "tree" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    (into / "tree" / "target" / "release").mkdir(parents=True)
    for program in PROGRAMS:
        shutil.copy(ROOT / "target/release" / program, into / "tree" / "target" / "release")
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
    made = (into / "tree" / "target" / "deb").glob("*.deb")
    return {package.name.split("_")[0]: package for package in made}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Path]]:
    """By version and name."""
    return {
        version: build(version, tmp_path_factory.mktemp(version)) for version in ("0.1.0", "0.1.1")
    }


def listed(package: Path) -> tuple[set[str], set[str]]:
    """The names in it, and whose they are."""
    lines = subprocess.check_output(["dpkg-deb", "-c", package], text=True).splitlines()
    return {line.split()[5] for line in lines}, {line.split()[1] for line in lines}


@needs_debian
def test_two_builds_of_one_version_are_the_same_bytes(
    packages: dict[str, dict[str, Path]], tmp_path: Path
) -> None:
    again = build("0.1.0", tmp_path)
    assert set(again) == set(PROGRAMS)
    for name, package in packages["0.1.0"].items():
        assert again[name].read_bytes() == package.read_bytes(), name


@needs_debian
def test_each_package_has_its_program_its_manual_completions_and_units(
    packages: dict[str, dict[str, Path]],
) -> None:
    units = {"imtcp": ["rules"], "imtcp-advice": ["advice"], "imtcp-agent": ["agent", "metrics"]}
    pages = {"imtcp": ["imtcp", "imtcp-rules-watch", "imtcp-attach"],
             "imtcp-advice": ["imtcp-advice", "imtcp-advice-serve"],
             "imtcp-agent": ["imtcp-agent", "imtcp-agent-metrics"]}  # fmt: skip
    everything: list[str] = []
    for name, package in packages["0.1.0"].items():
        names, owners = listed(package)
        assert owners == {"root/root"}
        wanted = {
            f"./usr/bin/{name}",
            f"./usr/share/bash-completion/completions/{name}",
            f"./usr/share/zsh/site-functions/_{name}",
            f"./usr/share/fish/vendor_completions.d/{name}.fish",
            *(f"./usr/share/man/man1/{page}.1.gz" for page in pages[name]),
            *(f"./lib/systemd/system/imtcp-{unit}.service" for unit in units[name]),
        }
        assert names >= wanted, wanted - names
        assert not any(path.startswith("./usr/local") for path in names)
        everything += [path for path in names if not path.endswith("/")]
    both = {path for path in everything if everything.count(path) > 1}
    assert both == set(), "a file is in one package"
    installed = set(everything)
    assert "./usr/share/imtcp/grafana.json" in installed
    # What `make install` makes is in some package, but for what debhelper packs by itself.
    made = packages["0.1.0"]["imtcp"].parents[2] / "packaging/debian/tmp"
    files = {f"./{path.relative_to(made)}" for path in made.rglob("*") if path.is_file()}
    assert {
        path for path in files if path not in installed and f"{path}.gz" not in installed
    } == set()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize(
    "unit", sorted((ROOT / "packaging/systemd").iterdir()), ids=lambda p: p.stem
)
def test_systemd_takes_the_unit(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text()
    for program in sorted(PROGRAMS, key=len, reverse=True):
        text = text.replace(f"/usr/local/bin/{program} ", "/bin/true ")
    text = re.sub(r"(Documentation|User)=.*\n", "", text)
    file = tmp_path / unit.name
    file.write_text(text)
    checked = subprocess.run(
        ["systemd-analyze", "verify", file], capture_output=True, text=True, check=False
    )
    about_ours = [line for line in checked.stderr.split("\n") if unit.stem in line]
    assert checked.returncode == 0 and not about_ours, checked.stderr


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Debian of the same release, with nothing of this project in it."""
    if shutil.which("mmdebstrap") is None or os.geteuid() != 0:
        pytest.skip("mmdebstrap is not installed, or this is not root")
    root = tmp_path_factory.mktemp("debian") / "root"
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    include = "--include=init-system-helpers,libelf1,adduser"
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
def test_they_are_installed_upgraded_while_a_run_goes_on_removed_and_purged_without_a_trace(
    packages: dict[str, dict[str, Path]], debian: Path, running_kernel: None
) -> None:
    subprocess.run([ROOT / "target/release/imtcp", "down"], check=True, capture_output=True)
    before = files(debian)
    users = (debian / "etc/passwd").read_text()
    for version, all_of_it in packages.items():
        (debian / "tmp" / version).mkdir()
        for package in all_of_it.values():
            shutil.copy(package, debian / "tmp" / version)

    def install(version: str) -> None:
        paths = [f"/tmp/{version}/{path.name}" for path in (debian / "tmp" / version).iterdir()]
        done = inside(debian, "dpkg", "-i", *paths)
        assert done.returncode == 0, done.stderr

    install("0.1.0")
    for program in PROGRAMS:
        assert inside(debian, program, "--version").stdout.startswith(f"{program} 0.1.0")
    assert "imtcp-advice:" in (debian / "etc/passwd").read_text()
    # Nothing was loaded by that.
    assert inside(debian, "imtcp", "status").returncode == 3
    rule = ["rules", "add", "backup", "--unit", "nothing-has-this"]
    assert inside(debian, "imtcp", *rule).returncode == 0

    run = subprocess.Popen(command_inside(debian, "imtcp", "run", "-q", "--", "sleep", "60"))
    try:
        while inside(debian, "imtcp", "status").returncode != 0:
            assert run.poll() is None
        install("0.1.1")
        assert run.poll() is None
        assert "sleep 60" in inside(debian, "imtcp", "status").stdout
    finally:
        run.terminate()
        run.wait()

    done = inside(debian, "dpkg", "--remove", *PROGRAMS)
    assert done.returncode == 0, done.stderr
    assert not Path("/sys/fs/bpf/imtcp").exists(), "it is unloaded"
    assert (debian / "etc/imtcp.d/backup.toml").exists(), "only a purge takes what was configured"
    done = inside(debian, "dpkg", "--purge", *PROGRAMS)
    assert done.returncode == 0, done.stderr
    for version in packages:
        shutil.rmtree(debian / "tmp" / version)
    # Those that the tools keep of the files before.
    left = {path for path in files(debian) - before if not re.fullmatch(r"etc/\w+-", path)}
    assert left == set()
    assert (debian / "etc/passwd").read_text() == users
