"""`imtcp-agent feed`: from a connection's measurements to the history of its path."""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import time
from pathlib import Path

from agents import ALONE, AWAY, IN_A, SERVER, Agents, inside, transfer, wait_until
from built import ADVICE, AGENT


def test_of_listed_peers_in_the_agents_network_namespace_alone_results_are_sent(
    link: None, loaded: None, agents: Agents, tmp_path: Path
) -> None:
    for listed, where, any_wait in [
        ("192.0.2.7 # another", IN_A, False),
        # Anybody can make a network namespace with any address in it.
        (SERVER, [], False),
        (SERVER, IN_A, True),
    ]:
        peers = tmp_path / "peers"
        peers.write_text(f"{listed}\n")
        agent = agents.start(AWAY, *where, "--peers", peers)
        time.sleep(0.5)
        transfer()
        agents.end(agent)
        assert bool(agents.waiting()) == any_wait, (listed, where)


def test_results_reach_the_service_once_also_when_it_was_away(
    link: None, loaded: None, agents: Agents, tmp_path: Path
) -> None:
    db = tmp_path / "history.db"

    away = agents.start(AWAY, *IN_A)
    time.sleep(0.5)
    transfer()
    agents.end(away)
    results = agents.records()
    assert results, agents.waiting()
    assert all(r["dst"] == SERVER and r["source"] == "here" for r in results)
    assert all(5e6 < r["available_bps"] < 1e8 for r in results)
    assert all(20_000 <= r["rtt_us"] < 500_000 for r in results)

    serve = [ADVICE, "serve", "--db", db, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [*serve, "--token-file", agents.tokens], stdout=subprocess.PIPE, text=True
    ) as service:
        assert service.stdout
        url = re.search(r"http://\S+/", service.stdout.readline())[0]
        here = agents.start(url, *IN_A)
        wait_until("the spool is empty", lambda: not agents.waiting())
        transfer()
        agents.end(here)
        assert not agents.waiting()
        service.terminate()
    export = [ADVICE, "export", "--db", db]
    rows = subprocess.run(export, check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(rows) - 1 > len(results)


def test_pings_and_throughput_of_listed_peers_reach_the_service_as_tests_and_not_as_bandwidth(
    reachable: Path, agents: Agents, tmp_path: Path
) -> None:
    db = tmp_path / "history.db"
    tests = ["--peers", reachable, "--ping", "5", "--iperf3", "10", "--iperf3-bytes", "2000000"]
    # The agent has the network of a, and its service has it too.
    serve = [ADVICE, "serve", "--db", db, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        inside("a", *map(str, serve), "--token-file", str(agents.tokens)),
        stdout=subprocess.PIPE,
        text=True,
    ) as service:
        assert service.stdout
        url = re.search(r"http://\S+/", service.stdout.readline())[0]
        agent = agents.start_in("a", url, *ALONE, *tests)

        def history() -> list[dict[str, object]]:
            ask = f"{url}v1/history?dst={SERVER}"
            get = f"import urllib.request as r; print(r.urlopen('{ask}').read().decode())"
            done = subprocess.run(
                inside("a", "python3", "-c", get), capture_output=True, text=True, check=False
            )
            return json.loads(done.stdout)["tests"] if done.returncode == 0 else []

        wanted = {"here/ping", "here/iperf3"}
        wait_until(
            "both tests are in the history", lambda: {t["source"] for t in history()} == wanted, 60
        )
        agents.end(agent)
        told = history()
        service.terminate()
    ping = next(t for t in told if t["source"] == "here/ping")
    iperf3 = next(t for t in told if t["source"] == "here/iperf3")
    assert ping["loss"] == 0 and 0 < ping["rtt_us"] < 100_000, ping
    assert ping["throughput_bps"] is None and iperf3["rtt_us"] is None
    # 2 MB on a line of 20 Mbit/s, whose bucket lets the first 16 kB pass at once.
    assert 10e6 < iperf3["throughput_bps"] < 21e6, iperf3

    def advice(*command: object) -> str:
        line = [ADVICE, *map(str, command)]
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout

    export = advice("export", "--db", db)
    rows = list(csv.DictReader(export.splitlines()))
    assert {row["source"] for row in rows} == wanted
    assert all(row["available_bps"] == "" and row["low_bps"] == "" for row in rows)
    again = tmp_path / "again.db"
    (tmp_path / "export.csv").write_text(export)
    advice("import", "--db", again, tmp_path / "export.csv")
    assert advice("export", "--db", again) == export
    # No bandwidth: nothing to predict from, and nothing predicted.
    assert "0 of 0" in advice("backtest", "--db", db)


def test_what_tests_cost_is_said_before_the_first_and_a_budget_below_it_is_refused(
    tmp_path: Path,
) -> None:
    peers = tmp_path / "peers"
    peers.write_text("192.0.2.7\n192.0.2.8\n")
    agent = [AGENT, "feed", "--no-connections", "--url", AWAY, "--spool", tmp_path / "spool"]
    agent += ["--peers", peers, "--ping", "60", "--iperf3", "3600"]
    refused = subprocess.run(
        [*agent, "--test-budget", "1000000"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert "--test-budget is 1.00 MB: test less often" in refused.stderr
    with subprocess.Popen([*agent, "--json"], stdout=subprocess.PIPE, text=True) as said:
        assert said.stdout
        text = ""
        while not text.endswith("}\n") or text.count("{") != text.count("}"):
            text += said.stdout.readline()
        said.send_signal(signal.SIGINT)
    assert said.returncode == 0
    ping, iperf3 = json.loads(text)["tests"]
    assert (ping["most_bytes_a_test"], ping["most_bytes_a_day"]) == (840, 2 * 840 * 1440)
    assert iperf3["most_bytes_a_day"] == 2 * 24 * iperf3["most_bytes_a_test"]
    assert not any((tmp_path / "spool").glob("*.json"))


def test_a_silent_peer_is_a_loss_and_what_cannot_be_tested_is_told_once(
    reachable: Path, agents: Agents, tmp_path: Path
) -> None:
    # The server; nobody in its network; no way there.
    reachable.write_text(f"{SERVER}\n10.97.0.77\n10.99.0.1\n")
    log = tmp_path / "log"
    tests = ["--peers", reachable, "--ping", "5", "--iperf3", "10", "--iperf3-port", "5999"]
    with log.open("w") as stderr:
        agent = agents.start_in("a", AWAY, *ALONE, *tests, stderr=stderr)
        wait_until(
            "each was pinged twice",
            lambda: sum(r["dst"] == "10.97.0.77" for r in agents.records()) >= 2,
            60,
        )
        wait_until("iperf3 was refused", lambda: "iperf3 -s -p 5999" in log.read_text(), 60)
        agents.end(agent)
    records = agents.records()
    assert {r["dst"] for r in records} == {SERVER, "10.97.0.77"}
    assert all(r["loss"] == 1 and "rtt_us" not in r for r in records if r["dst"] != SERVER)
    assert all(r["source"] == "here/ping" for r in records)
    said = log.read_text()
    for what in [
        "ping to 10.97.0.77: nothing came back; stored as a loss of 100 %",
        "ping to 10.99.0.1: told nothing: ping: connect: Network is unreachable",
        f"iperf3 to {SERVER}: told nothing: unable to connect to server: Connection refused",
    ]:
        assert said.count(what) == 1, said


#: Instead of the program: does as it says, and tells that it was there.
FAKE = "#!/bin/sh\necho $$ >>{pids}\n{does}\n"


def test_programs_that_are_missing_hang_or_write_rubbish_leave_no_record_and_the_agent_goes_on(
    reachable: Path, agents: Agents, tmp_path: Path
) -> None:
    log, programs, pids = tmp_path / "log", tmp_path / "bin", tmp_path / "pids"
    programs.mkdir()
    tests = ["--peers", reachable, "--ping", "5"]

    def fake(does: str) -> None:
        (programs / "ping.new").write_text(FAKE.format(pids=pids, does=does))
        (programs / "ping.new").chmod(0o755)
        (programs / "ping.new").rename(programs / "ping")

    with log.open("w") as stderr:
        path = {"PATH": str(programs)}
        agent = agents.start_in("a", AWAY, *ALONE, *tests, stderr=stderr, env=path)
        missing = "imtcp-agent: ping: not installed (Debian: apt install iputils-ping)"
        wait_until("ping is missed", lambda: missing in log.read_text(), 30)
        fake("echo '5 packets transmitted, many received'")
        rubbish = f"ping to {SERVER}: told nothing: it wrote no summary"
        wait_until("it wrote rubbish", lambda: rubbish in log.read_text(), 30)
        fake("exec /bin/sleep 1000")
        hangs = f"ping to {SERVER}: did not end within 8 s and was ended"
        wait_until("it was ended", lambda: hangs in log.read_text(), 60)
        count = len(pids.read_text().split())
        wait_until("it hangs again", lambda: len(pids.read_text().split()) > count, 30)
        # Ctrl-C in the middle of a test.
        agent.send_signal(signal.SIGINT)
        assert agent.wait(20) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids.read_text().split())
    assert agents.records() == []
