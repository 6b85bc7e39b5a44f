"""The parts of the VM that need no guest: archives, modules, frames, mirrors, jobs."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imtcp_lab import cli
from imtcp_lab.engine import lock, native, tools
from imtcp_lab.job import Job, LabError
from imtcp_lab.vm import aptdir, devicestate, kernels, modules
from imtcp_lab.vm.cpio import Archive
from imtcp_lab.vm.frames import Frames, named_file
from imtcp_lab.vm.runner import VmRunner, pack


def frame(kind: str, payload: bytes) -> bytes:
    return kind.encode() + struct.pack(">I", len(payload)) + payload


@given(
    st.lists(st.tuples(st.sampled_from("STLFX"), st.binary(max_size=300))),
    st.lists(st.integers(1, 50), min_size=1),
)
def test_frames_come_out_whole_however_the_stream_is_cut(sent, cuts):
    stream = b"".join(frame(kind, payload) for kind, payload in sent)
    frames = Frames()
    got, position, turn = [], 0, 0
    while position < len(stream):
        step = cuts[turn % len(cuts)]
        got += frames.feed(stream[position : position + step])
        position, turn = position + step, turn + 1
    assert got == sent


def test_a_result_file_keeps_its_name_and_bytes():
    assert named_file(b"\0\x03a/b\0\xffdata") == ("a/b", b"\0\xffdata")


def saved_clocks(ticks: int, clock: int, bias: int, count: int) -> bytes:
    head = b"QEVM\0\0\0\x03\x04\0\0\0\0\x05timer" + struct.pack(">II", 0, 2)
    fields = struct.pack(">qqq", ticks, 0, clock)
    return head + fields + b"\x05\x0ctimer/icount" + struct.pack(">Iqq", 1, bias, count)


def test_a_save_is_good_only_at_the_time_at_which_the_guest_stopped():
    assert devicestate.is_where_it_stopped(saved_clocks(1, 2, 3000, 500), 3400)
    assert not devicestate.is_where_it_stopped(saved_clocks(1, 2, 803000, 500), 3400)


def test_the_hosts_clocks_do_not_reach_a_snapshot():
    one, other = saved_clocks(-5, 77, 3000, 500), saved_clocks(12, 1 << 40, 3000, 500)
    assert devicestate.without_host_clocks(one) == devicestate.without_host_clocks(other)
    assert devicestate.without_host_clocks(one) == saved_clocks(0, 0, 3000, 500)


def test_a_saved_state_of_another_form_is_refused():
    with pytest.raises(LabError, match="unknown version"):
        devicestate.without_host_clocks(b"QEVM")


def test_an_archive_does_not_depend_on_the_order_of_adding():
    one, other = Archive(), Archive()
    one.file("/usr/bin/x", b"x", 0o755)
    one.symlink("/bin", "usr/bin")
    other.symlink("/bin", "usr/bin")
    other.file("/usr/bin/x", b"x", 0o755)
    assert one.to_bytes() == other.to_bytes()


def test_an_archive_is_what_cpio_reads():
    archive = Archive()
    archive.file("/etc/deep/file", b"content")
    archive.symlink("/link", "etc")
    cpio = tools.which("busybox")
    assert cpio is not None
    done = subprocess.run(
        [cpio, "cpio", "-t"], input=archive.to_bytes(), capture_output=True, check=True
    )
    assert done.stdout.decode().split() == ["etc", "etc/deep", "etc/deep/file", "link"]


def test_modules_come_after_those_they_need(tmp_path: Path):
    for name, needs in {"sch_a": "lib-b,lib_c", "lib-b": "lib_c", "lib_c": ""}.items():
        (tmp_path / f"{name}.ko").write_bytes(b"ELF\0depends=%s\0name=x\0" % needs.encode())
    ordered = list(modules.in_order(tmp_path, ["sch_a", "missing", "sch_*"]))
    assert ordered == ["lib_c", "lib_b", "sch_a"]


def test_fetching_alone_boots_nothing(monkeypatch, capsys, tmp_path):
    kernel = kernels.Kernel("6.12", "6.12.9-cloud", "6.12.9-1", tmp_path)
    monkeypatch.setattr(kernels, "get", lambda series, update: kernel)
    monkeypatch.setattr(VmRunner, "prepare", lambda self: pytest.fail("booted"))
    assert cli.main(["vm", "build", "--kernel", "6.12", "--fetch-only"]) == 0
    assert "6.12.9-cloud is there" in capsys.readouterr().out


def test_mirrors_are_read_from_both_of_apts_formats(tmp_path: Path):
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text(
        "# deb http://no.invalid/debian trixie main\n"
        "deb [arch=amd64] http://one.invalid/debian trixie main\n"
        "deb http://other.invalid/tools stable main\n"
    )
    (tmp_path / "sources.list.d" / "x.sources").write_text(
        "Types: deb deb-src\nURIs: http://two.invalid/debian-security\n"
        "Suites: trixie-security\nComponents: main\n"
    )
    known = aptdir.mirrors(tmp_path)
    assert known == {
        "main": "http://one.invalid/debian",
        "security": "http://two.invalid/debian-security",
    }
    text = aptdir.sources(known)
    assert "http://one.invalid/debian bookworm main" in text
    assert "http://two.invalid/debian-security bookworm-security main" in text


def test_a_machine_without_a_debian_mirror_is_told(tmp_path: Path):
    (tmp_path / "sources.list.d").mkdir()
    with pytest.raises(LabError, match="no Debian mirror"):
        aptdir.sources(aptdir.mirrors(tmp_path))


def test_the_newest_kernel_is_the_one_of_the_highest_package_version(monkeypatch):
    listed = {
        "linux-image-6.12-cloud-amd64": "6.12.117-1",
        "linux-image-6.12.9+deb12-cloud-amd64": "6.12.9-1~deb12u1",
        "linux-image-6.12.117+deb12-cloud-amd64": "6.12.117-1~deb12u1",
    }

    def answer(command: list[str]) -> str:
        if "search" in command:
            return "".join(f"{name} - Linux\n" for name in listed)
        return f"{command[-1]} | {listed[command[-1]]} | http://x.invalid main\n"

    monkeypatch.setattr(aptdir, "run", answer)
    assert kernels.newest_package("6.12", []) == (
        "linux-image-6.12.117+deb12-cloud-amd64",
        "6.12.117-1~deb12u1",
    )


def test_an_unknown_series_is_refused():
    with pytest.raises(LabError, match=r"6\.5 is not one of"):
        VmRunner(kernel="6.5").run(Job("true"))


def test_no_archive_with_the_series_says_what_to_do(monkeypatch, tmp_path: Path):
    def fail() -> list[str]:
        raise LabError("no such archive")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(aptdir, "system_options", fail)
    monkeypatch.setattr(aptdir, "bookworm_options", fail)
    with pytest.raises(LabError, match="Run apt-get update"):
        kernels.get("6.12")


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", ""])
def test_a_jobs_file_must_stay_in_its_work_directory(name):
    with pytest.raises(ValueError, match="relative path"):
        Job("true", {name: b""})


@pytest.mark.parametrize("seed", [-1, 1 << 64])
def test_a_seed_is_a_64_bit_number(seed):
    with pytest.raises(ValueError, match="seed"):
        Job("true", seed=seed)


def test_a_packed_job_does_not_depend_on_the_order_of_its_files():
    assert pack(Job("x", {"a": b"1", "b": b"2"})) == pack(Job("x", {"b": b"2", "a": b"1"}))


def test_programs_are_compiled_once():
    program = native.build("agent")
    before = program.stat().st_mtime_ns
    assert native.build("agent").stat().st_mtime_ns == before


def test_a_lock_can_be_taken_again_after_a_failure(tmp_path: Path):
    with pytest.raises(KeyError), lock.locked(tmp_path / "l"):
        raise KeyError
    with lock.locked(tmp_path / "l"):
        pass
