"""Scenarios become jobs: equal scenarios give equal jobs."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from imtcp_lab import programs
from imtcp_lab.controls import CONTROLS, named
from imtcp_lab.scenario import Scenario
from imtcp_lab.topology import Dumbbell
from imtcp_lab.traffic import Bulk, Rival, Rsync, Times, Udp, Web


def scenario(control="cubic", background=None, foreground=None, **more):
    return Scenario(
        Dumbbell(),
        foreground or Web(),
        background or Bulk(),
        CONTROLS[control],
        Times(warmup_s=1, measure_s=2, drain_s=1),
        **more,
    )


def test_the_same_scenario_gives_the_same_job():
    assert scenario(seed=3).job() == scenario(seed=3).job()
    assert scenario(seed=3).job() != scenario(seed=4).job()


def test_imtcp_is_loaded_where_it_is_needed_and_nocc_only_where_it_is_meant():
    loads = {name: scenario(name).job().warmup for name in ("cubic", "imtcp_bg", "imtcp_nocc")}
    assert loads == {
        "cubic": "",
        "imtcp_bg": "imtcp up >&2\n",
        "imtcp_nocc": "imtcp up --allow-nocc >&2\n",
    }
    upload = programs.job(programs.PROGRAMS["iperf3"], CONTROLS["imtcp_nocc"])
    assert upload.warmup == loads["imtcp_nocc"]


def test_none_starts_no_background_but_the_same_foreground():
    none, cubic = scenario("none").script(), scenario("cubic").script()
    assert "bulk-client" not in none
    web = [line for line in cubic.splitlines() if "web-client" in line]
    assert web == [line for line in none.splitlines() if "web-client" in line]


def test_priority_is_cubic_at_a_bottleneck_with_bands():
    script = scenario("priority").script()
    assert "--cc cubic --flows" in script
    assert "prio bands 2" in script


def test_paced_reno_is_reno_whose_host_paces():
    plain, paced = scenario("reno").script(), scenario("reno_paced").script()
    assert "--cc reno --flows" in paced
    added = set(paced.splitlines()) - set(plain.splitlines())
    assert added == {"tc -n bg -batch - <<'EOF'", "qdisc add dev bg0 root fq"}


def test_kernel_controls_go_by_their_modules_name():
    assert "--cc lp " in scenario("tcp_lp").script()


def test_only_imtcp_loads_imtcp():
    assert "imtcp up" in scenario("imtcp_bg").job().warmup
    assert not scenario("cubic").job().warmup


def test_a_real_program_runs_under_imtcp_run_or_the_namespaces_default():
    script = scenario("imtcp_bg", Rsync()).script()
    assert "imtcp run --mode bg -- rsync -a" in script
    script = scenario("bbr", Rsync()).script()
    assert "echo bbr >/proc/sys/net/ipv4/tcp_congestion_control" in script
    assert "imtcp run" not in script


def test_servers_begin_with_the_window_that_is_asked_for_and_else_with_linuxs():
    asked = scenario(foreground=Web(initial_window_segs=2)).script()
    assert "initcwnd 2" in asked[: asked.index("web-server")]
    assert "initcwnd" not in scenario().script()


def test_the_web_load_is_a_share_of_the_capacity_in_whole_frames():
    # 40 % of 50 Mbit/s in frames are 19.13 Mbit/s of payload.
    assert "--load 19128137 " in scenario().script()


def test_readers_ask_all_servers_and_wait_in_place_of_a_load():
    path = Dumbbell(server_links_bps=(10e6, 20e6))
    web = Web(load=0, readers=10, think_s=2.5)
    script = Scenario(path, web, None, CONTROLS["none"]).script()
    asked = next(line for line in script.splitlines() if "web-client" in line)
    assert "--to 10.2.0.11:8080,10.2.0.12:8080 " in asked
    assert "--sessions 10 --think 2.5 " in asked
    assert "--load" not in asked


def test_keys_name_variant_control_and_seed():
    assert scenario(seed=2, variant="5flows").key == "5flows-cubic-s2"
    assert scenario(seed=2).key == "cubic-s2"


def test_parameters_are_plain_data_that_names_the_kinds():
    data = json.loads(json.dumps(scenario().parameters()))
    assert data["foreground"]["kind"] == "Web"
    assert data["path"]["buffer_pkts"] == 1000


def test_unknown_controls_are_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown control cubik .*cubic"):
        named("none,cubik")


@pytest.mark.skipif(shutil.which("dash") is None, reason="dash is not installed")
def test_every_script_is_posix_shell():
    scripts = [
        scenario(control, background, foreground).script()
        for control in CONTROLS
        for background in (Bulk(5, 0.5), Rsync())
        for foreground in (Web(), Udp("0:1M,2:5M"), Rival("reno", 2))
    ]
    scripts += [
        programs.job(program, CONTROLS["imtcp_bg"]).script for program in programs.PROGRAMS.values()
    ]
    for script in scripts:
        subprocess.run(["dash", "-n"], input=script.encode(), check=True)
