"""The same sources give the same programs and the same guest, wherever they are."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from guests import ROOT

PROGRAMS = ("imtcp", "imtcp-load")
BUILD = ("cargo", "build", "--profile", "demo", "--locked", "--quiet")
WHAT = ("-p", "imtcp", "-p", "imtcp-load", "--no-default-features")

#: Prints the digest of the guest's archive, as the checkout in the current directory makes it.
GUEST = """
from imtcp_lab.vm import initramfs, kernels
print(initramfs.build(kernels.get("6.12")).digest)
"""


def built_in(checkout: Path, cargo_home: Path) -> dict[str, str]:
    """Builds what a guest has, and says the digest of each."""
    environment = {
        **os.environ,
        "CARGO_HOME": str(cargo_home),
        "IMTCP_ROOT": str(checkout),
        "IMTCP_PROGRAMS": "target/demo",
        "PYTHONPATH": str(checkout / "lab" / "src"),
    }

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=checkout, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout.strip()

    run("make", "--silent", "bpf", "proftpd")
    run(*BUILD, *WHAT)
    files = [checkout / "target" / "demo" / name for name in PROGRAMS]
    files += sorted((checkout / "target" / "bpf").glob("*.o"))
    files += [checkout / "target" / "proftpd" / "mod_imtcp.so"]
    found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    return found | {"guest": run(sys.executable, "-c", GUEST)}


def test_two_checkouts_of_the_same_sources_give_the_same_programs_and_guest(tmp_path: Path) -> None:
    cargo_home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    if not (cargo_home / "registry").is_dir():
        pytest.skip("needs cargo's registry, as a build leaves it")
    # Another length of both paths: a program must not even be shifted by them.
    other = tmp_path / "another-directory" / "with-a-longer-name" / "imtcp"
    other_home = tmp_path / "another-home"
    other_home.mkdir()
    for name in ("registry", "git"):
        if (cargo_home / name).exists():
            (other_home / name).symlink_to(cargo_home / name)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (other / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, other / name)
    assert built_in(ROOT, cargo_home) == built_in(other, other_home)


def test_no_program_holds_the_directory_it_was_built_in() -> None:
    names = {*PROGRAMS, "imtcp-advice", "imtcp-agent"}
    programs = [ROOT / "target" / "release" / name for name in sorted(names)]
    programs += [*(ROOT / "target" / "bpf").glob("*.o"), ROOT / "target/proftpd/mod_imtcp.so"]
    homes = [str(ROOT), str(Path.home() / ".cargo")]
    for program in programs:
        if program.exists():
            held = [home for home in homes if home.encode() in program.read_bytes()]
            assert not held, f"{program.name} holds {held}"
