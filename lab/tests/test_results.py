"""Raw tables, result files, sweeps: complete or absent, and never run twice."""

from __future__ import annotations

import json
import subprocess
import threading
from dataclasses import replace

import polars as pl
import pytest

from imtcp_lab import cli, raw, results, sweep
from imtcp_lab.controls import CONTROLS
from imtcp_lab.job import JobResult, LabError
from imtcp_lab.scenario import Scenario
from imtcp_lab.topology import Dumbbell
from imtcp_lab.traffic import Bulk, Times, Web

FILES = {
    "t0": b"1000000\n",
    "queue.csv": b"t_us,handle,backlog_pkts\n1000010,65536,3\n",
    "web.csv": b"object,start_us,duration_us\n0,5,70\n",
    "tcp.csv": b"t_us,cookie,bytes_received\n1000100,7,0\n",
    "watch.jsonl": b'{"t_us": 1000500, "cookie": 7, "avail_smoothed_bps": 3e7, "new": 1}\n'
    b'{"no_time": 1}\nnonsense\n{"t_us": 10005',
    "events.jsonl": b'{"dropped": 3}\n{"t_us": 1000700, "outcome": "valid", "avail_bps": 1}\n',
}


def scenarios():
    return [
        Scenario(Dumbbell(), Web(), Bulk(), CONTROLS[name], Times(1, 1, 0), seed=seed)
        for seed in (1, 2)
        for name in ("none", "cubic")
    ]


class FakeRunner:
    """Returns at once; counts its jobs, and can fail or report an early end."""

    def __init__(self, files=FILES, exit_code=0):
        self.files, self.exit_code = files, exit_code
        self.ran = []
        self.lock = threading.Lock()

    def run(self, job, progress=None):
        if progress is not None:
            progress(0.5)
        with self.lock:
            self.ran.append(job)
        return JobResult(self.files, "the log", self.exit_code, {"kernel": "6.12.0"})


def test_times_are_counted_from_the_start_of_the_run():
    tables = raw.read_tables(JobResult(FILES, "", 0, {}))
    assert tables["queue"]["t_us"].to_list() == [10]
    # The web client's times already count from the start.
    assert tables["web"]["start_us"].to_list() == [5]


def test_the_watchers_lines_are_read_with_tolerance():
    tables = raw.read_tables(JobResult(FILES, "", 0, {}))
    watch = tables["watch"]
    assert watch["t_us"].to_list() == [500]
    assert watch["cookie"].to_list() == ["7"]
    assert watch["capacity_bps"].to_list() == [None]
    assert tables["events"]["outcome"].to_list() == ["valid"]


def test_the_parameters_in_force_are_those_that_imtcp_told():
    told = (
        b'{"mode": "bg", "params": {"gamma": 0.125}}\n{"mode": "bg", "params": null}\n{"mode": "m'
    )
    result = JobResult(FILES | {"connections.jsonl": told}, "", 0, {})
    assert raw.params_in_force(result) == {"bg": {"gamma": 0.125}}
    assert raw.params_in_force(JobResult(FILES, "", 0, {})) == {}


def test_a_run_without_a_start_is_an_error_that_shows_the_log():
    with pytest.raises(LabError, match="no start time"):
        raw.read_tables(JobResult({}, "what went wrong", 1, {}))


def test_a_run_whose_tcp_ran_short_of_memory_says_nothing():
    names = "TcpExt: SyncookiesSent TCPMemoryPressures\n"
    calm = f"{names}TcpExt: 0 0\n"
    raw.read_tables(JobResult(FILES | {"netstat": calm.encode() * 3}, "", 0, {}))
    short = f"{calm}{names}TcpExt: 5 2\n".encode()
    with pytest.raises(LabError, match=r"short of memory 2 times .*net\.ipv4\.tcp_mem"):
        raw.read_tables(JobResult(FILES | {"netstat": short}, "", 0, {}))


def test_points_come_back_as_they_were_saved(tmp_path):
    scenario = scenarios()[0]
    tables = raw.read_tables(JobResult(FILES, "", 0, {}))
    results.save(tmp_path, scenario, tables, {"kernel": "6.12.0"}, "digest")
    point = results.load(tmp_path, scenario, "digest")
    assert point.tables["queue"].equals(tables["queue"])
    assert point.meta["environment"] == {"kernel": "6.12.0"}
    assert point.meta["schema"] == results.SCHEMA_VERSION
    assert results.load(tmp_path, scenario, "another") is None


def test_a_result_file_names_the_parameters_once_for_all_seeds(tmp_path):
    about = {"kernel": "6.12.0", "params": {"bg": {"gamma": 0.125}}}
    points = [results.save(tmp_path, s, {}, about, "digest") for s in scenarios()]
    assert set(results.params(points)) == {"none", "cubic"}
    assert results.params(points)["cubic"] == {"bg": {"gamma": 0.125}}


def test_a_broken_point_counts_as_absent(tmp_path):
    scenario = scenarios()[0]
    (tmp_path / scenario.key).mkdir()
    (tmp_path / scenario.key / "meta.json").write_text("{")
    assert results.load(tmp_path, scenario) is None


def test_a_point_with_a_damaged_table_counts_as_absent(tmp_path):
    scenario = scenarios()[0]
    tables = raw.read_tables(JobResult(FILES, "", 0, {}))
    for name in ("own", "other"):
        results.save(tmp_path / name, scenario, tables, {}, "digest")
        table = tmp_path / name / scenario.key / "queue.parquet"
        table.write_bytes(table.read_bytes()[:-40])
    assert results.load(tmp_path / "own", scenario, "digest") is None
    wanted = [(scenario, "digest")]
    assert results.take_over(tmp_path / "own", [tmp_path / "other"], wanted) == []


def test_json_files_hold_null_where_a_number_is_missing(tmp_path):
    results.write_json(tmp_path / "x.json", {"a": float("nan"), "b": [1.5, float("inf")]})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": None, "b": [1.5, None]}
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.json"
    results.write_json(path, 1)
    with pytest.raises(TypeError):
        results.write_json(path, object())
    assert path.read_text() == "1\n"


def test_a_sweep_runs_each_point_once_and_resumes(tmp_path):
    runner = FakeRunner()
    points = sweep.run_all(scenarios(), runner, tmp_path, jobs=2)
    assert [p.scenario.key for p in points] == ["none-s1", "cubic-s1", "none-s2", "cubic-s2"]
    assert len(runner.ran) == 4
    sweep.run_all(scenarios(), runner, tmp_path, jobs=2)
    assert len(runner.ran) == 4
    sweep.run_all(scenarios(), runner, tmp_path, jobs=2, fresh=True)
    assert len(runner.ran) == 8


def test_none_is_the_last_of_its_seed_to_start(tmp_path):
    runner = FakeRunner()
    points = sweep.run_all(scenarios(), runner, tmp_path, jobs=1)
    none1, cubic1, none2, cubic2 = (s.job() for s in scenarios())
    assert runner.ran == [cubic1, none1, cubic2, none2]
    assert [p.scenario for p in points] == scenarios()


@pytest.mark.parametrize("program", ["imtcp-load", "imtcp"])
def test_another_builds_programs_are_another_experiment_for_every_control(
    tmp_path, monkeypatch, program
):
    digests = set()
    for build in ("release", "demo"):
        (tmp_path / build).mkdir()
        (tmp_path / build / program).write_text(build)
        monkeypatch.setenv("IMTCP_PROGRAMS", str(tmp_path / build))
        digests.add(results.input_digest(scenarios()[0], FakeRunner()))
    assert len(digests) == 2


def test_saved_points_are_drawn_again_whatever_made_them(tmp_path):
    runner = FakeRunner()
    sweep.run_all(scenarios()[:2], runner, tmp_path, jobs=1)
    points = sweep.load_saved(scenarios()[:2], tmp_path)
    assert [p.scenario.key for p in points] == ["none-s1", "cubic-s1"]
    assert len(runner.ran) == 2
    with pytest.raises(
        LabError, match=r"2 of 4 points are not saved in .*none-s2 is the first.*--redraw"
    ):
        sweep.load_saved(scenarios(), tmp_path)


def test_equal_jobs_of_two_variants_run_once_and_are_saved_twice(tmp_path):
    twice = [
        Scenario(Dumbbell(), Web(), Bulk(flows), CONTROLS["none"], variant=f"{flows}flows")
        for flows in (1, 5)
    ]
    runner = FakeRunner()
    points = sweep.run_all(twice, runner, tmp_path, jobs=2)
    assert len(runner.ran) == 1
    assert [p.scenario.key for p in points] == ["1flows-none-s1", "5flows-none-s1"]
    assert all((tmp_path / p.scenario.key / "meta.json").is_file() for p in points)


def test_what_another_experiment_ran_at_this_commit_is_taken_from_it(tmp_path, monkeypatch):
    runner = FakeRunner()
    other, own = tmp_path / "other", tmp_path / "own"
    renamed = [replace(s, variant="again") for s in scenarios()]
    monkeypatch.setattr(results, "commit", lambda: "before")
    sweep.run_all(scenarios()[:1], runner, other, jobs=1)
    monkeypatch.setattr(results, "commit", lambda: "now")
    sweep.run_all(scenarios()[1:3], runner, other, jobs=1)
    (other / ".part").mkdir()
    points = sweep.run_all(renamed, runner, own, jobs=1, others=[other, own])
    assert [p.scenario for p in points] == renamed
    # Three jobs ran for the other experiment. Here run the point of the earlier commit, and the
    # point that the other experiment lacked.
    assert len(runner.ran) == 5
    sweep.run_all(renamed, runner, own, jobs=1, fresh=True, others=[other, own])
    assert len(runner.ran) == 9


def test_a_failing_point_is_named_and_leaves_nothing(tmp_path):
    with pytest.raises(LabError, match=r"ended with code 3[\s\S]*the log"):
        sweep.run_all(scenarios(), FakeRunner(exit_code=3), tmp_path, jobs=2)
    assert list(tmp_path.glob("*")) == []


def test_a_run_that_lacks_its_foregrounds_table_is_a_failed_point(tmp_path):
    class Silent(FakeRunner):
        def run(self, job, progress=None):
            result = super().run(job, progress)
            files = {name: data for name, data in result.files.items() if name != "web.csv"}
            return replace(result, files=files)

    with pytest.raises(LabError, match="the run left no web"):
        sweep.run_all(scenarios()[:1], Silent(), tmp_path, jobs=1)
    assert results.load(tmp_path, scenarios()[0]) is None


def test_a_run_whose_background_never_sent_is_a_failed_point_and_not_one_that_yields(tmp_path):
    header = FILES["tcp.csv"].split(b"\n")[0] + b"\n"
    with pytest.raises(LabError, match="the run left no tcp"):
        sweep.run_all(scenarios()[:2], FakeRunner({**FILES, "tcp.csv": header}), tmp_path, jobs=1)


def test_a_transfer_that_ends_early_spoils_its_point(tmp_path):
    runner = FakeRunner({**FILES, "background-ended": b"0\n"})
    with pytest.raises(LabError, match="ended before the measurement"):
        sweep.run_all(scenarios(), runner, tmp_path, jobs=1)


def test_ctrl_c_ends_the_runs_and_leaves_no_part(tmp_path):
    started = threading.Event()

    class Endless(FakeRunner):
        def run(self, job, progress=None):
            started.set()
            while True:
                progress(0.1)

    class Interrupting(sweep.ProgressBar):
        def show(self, done_s, force=False):
            if started.wait(5):
                raise KeyboardInterrupt

    original, sweep.ProgressBar = sweep.ProgressBar, Interrupting
    try:
        with pytest.raises(KeyboardInterrupt):
            sweep.run_all(scenarios(), Endless(), tmp_path, jobs=2)
    finally:
        sweep.ProgressBar = original
    assert list(tmp_path.glob("*")) == []


def test_parquet_holds_the_raw_samples(tmp_path):
    sweep.run_all(scenarios()[:1], FakeRunner(), tmp_path, jobs=1)
    table = pl.read_parquet(tmp_path / "none-s1" / "queue.parquet")
    assert table["backlog_pkts"].to_list() == [3]


def test_a_root_that_is_no_checkout_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("IMTCP_ROOT", str(tmp_path))
    assert cli.main(["list"]) == 3
    assert f"IMTCP_ROOT is {tmp_path}, which is no checkout" in capsys.readouterr().err


def committed(directory, *before):
    who = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    for command in (before, ["add", "."], [*who, "commit", "-qm", "a change"]):
        if command:
            subprocess.run(["git", "-C", directory, *command], check=True)


def test_a_commit_is_told_with_how_many_later_ones_changed_what_the_kernel_loads(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("IMTCP_ROOT", str(tmp_path))
    results.write_text(tmp_path / results.paths.MARK, "a checkout has it")
    committed(tmp_path, "init", "-q")
    measured_at = results.commit()
    results.write_text(tmp_path / "docs" / "words.md", "none of the kernel's")
    committed(tmp_path)
    assert results.told_of([measured_at]) == measured_at
    results.write_text(tmp_path / "bpf" / "program.c", "int x;")
    committed(tmp_path)
    assert "(one later commit changed what the kernel loads" in results.told_of([measured_at])
    results.write_text(tmp_path / "core" / "include" / "rule.h", "int y;")
    committed(tmp_path)
    assert "(2 later commits changed" in results.told_of([f"{measured_at}-dirty"])
    # The count is unknown for a commit outside of this history, and for several commits.
    assert results.told_of(["f" * 40]) == "f" * 40
    assert results.told_of(["a", "b"]) == "a, b"
    assert results.told_of([]) == "-"


def test_kept_rows_do_not_make_a_checkout_dirty_and_anything_else_does(tmp_path, monkeypatch):
    monkeypatch.setenv("IMTCP_ROOT", str(tmp_path))
    results.write_text(tmp_path / results.paths.MARK, "a checkout has it")
    assert results.commit() == "unknown"
    kept, program = tmp_path / "lab" / "results" / "X.json", tmp_path / "program.c"
    kept.parent.mkdir(parents=True)
    kept.write_text("{}")
    program.write_text("int x;")
    committed(tmp_path, "init", "-q")
    head = results.commit()
    assert len(head) == 40
    kept.write_text("[]")
    assert results.commit() == head
    program.write_text("int y;")
    assert results.commit() == f"{head}-dirty"
