"""`imtcp-agent metrics`, scraped by a real Prometheus that answers each query of the dashboard."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents import SEND, free_port, inside, transfer, wait_until
from built import AGENT, IMTCP, ROOT

DASHBOARD = ROOT / "packaging" / "grafana" / "imtcp.json"
ALERTS = ROOT / "packaging" / "prometheus" / "imtcp.rules.yml"
GUIDE = ROOT / "docs" / "how-to" / "monitor.md"

needs_prometheus = pytest.mark.skipif(
    not (shutil.which("promtool") and shutil.which("prometheus")),
    reason="needs Debian's package prometheus",
)
local = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(url: str) -> str:
    with local.open(url, timeout=10) as answer:
        return answer.read().decode()


class Exporter:
    def __init__(self) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        command = [AGENT, "metrics", "--listen", self.address, "--interval", "0.2"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout
        assert self.address in self.process.stdout.readline()

    def text(self) -> str:
        return ask(f"http://{self.address}/metrics")

    def values(self) -> dict[str, float]:
        lines = [line for line in self.text().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


@pytest.fixture
def exporter(loaded: None) -> Iterator[Exporter]:
    exporter = Exporter()
    yield exporter
    exporter.process.terminate()
    assert exporter.process.wait(timeout=10) == 0


def panels() -> dict[str, list[str]]:
    """The queries of each panel, as Grafana sends them."""
    dashboard = json.loads(DASHBOARD.read_text())
    return {
        panel["title"]: [
            target["expr"].replace("$__rate_interval", "30s").replace("$instance", ".*")
            for target in panel["targets"]
        ]
        for panel in dashboard["panels"]
    }


@needs_prometheus
def test_promtool_finds_nothing_wrong_with_the_metrics_and_the_alerts(exporter: Exporter) -> None:
    text = exporter.text()
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True,
                             text=True, check=False)  # fmt: skip
    assert checked.returncode == 0 and not checked.stderr, checked.stderr
    subprocess.run(["promtool", "check", "rules", ALERTS], check=True, capture_output=True)
    assert len(re.findall(r"- alert:", ALERTS.read_text())) == 6


@needs_prometheus
def test_each_panel_of_the_dashboard_has_something_to_show_after_a_transfer(
    tmp_path: Path, link: None, exporter: Exporter
) -> None:
    port = free_port()
    config = tmp_path / "prometheus.yml"
    config.write_text(
        f"""
global: {{scrape_interval: 1s}}
rule_files: [{ALERTS}]
scrape_configs:
  - job_name: imtcp
    static_configs: [{{targets: ["{exporter.address}"]}}]
"""
    )
    prometheus = subprocess.Popen(
        ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}",
         f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def answer(query: str) -> list[object]:
        asked = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        told = json.loads(ask(asked))
        assert told["status"] == "success", told
        result: list[object] = told["data"]["result"]
        return result

    def is_ready() -> bool:
        try:
            return bool(answer("imtcp_loaded == 1"))
        except (urllib.error.URLError, ConnectionError):
            return False

    try:
        wait_until("Prometheus has scraped", is_ready, most_s=30)
        transfer()
        missing = {title for title, exprs in panels().items() for e in exprs if not answer(e)}
        until = time.monotonic() + 10
        while missing and time.monotonic() < until:
            time.sleep(0.5)
            missing = {title for title, exprs in panels().items() for e in exprs if not answer(e)}
        assert missing == set()
        rules = json.loads(ask(f"http://127.0.0.1:{port}/api/v1/rules"))
        groups = rules["data"]["groups"]
        assert {group["name"] for group in groups} == {"imtcp", "imtcp-advice"}
        assert all(rule["health"] != "err" for group in groups for rule in group["rules"]), groups
    finally:
        prometheus.terminate()
        prometheus.wait(timeout=20)


def test_a_run_is_told_from_what_others_do_and_its_bytes_are_counted(
    link: None, exporter: Exporter
) -> None:
    before = exporter.values()
    transfer()
    of_run = '{by="run",mode="bg",rule=""}'
    closed = f"imtcp_connections{of_run}"
    wait_until("its connection is closed", lambda: exporter.values()[closed] == 0)
    values = exporter.values()
    assert values[f"imtcp_available_bits_per_second_count{of_run}"] > 0
    busy, held = (values[f"imtcp_{what}_seconds_total{of_run}"] for what in ("busy", "held"))
    assert 0 < held <= busy
    started = "imtcp_connections_started_total"
    assert values[started] > before[started]
    # Data that is acknowledged before the first look at a connection or after the last does not
    # count. This connection is there for both.
    acked = f"imtcp_acked_bytes_total{of_run}"
    stays = SEND.partition("stream.sendall")[0] + (
        "stream.send(b'1')\ninput()\nstream.sendall(bytes(30_000_000))\ninput()\n"
    )
    command = inside("a", str(IMTCP), "run", "--", "python3", "-c", stays)
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin
        wait_until("it is seen", lambda: exporter.values()[closed] == 1)
        seen = exporter.values()[acked]
        process.stdin.write("go\n")
        process.stdin.flush()
        wait_until("all is counted", lambda: exporter.values()[acked] >= seen + 30e6, most_s=60)
        process.communicate("end\n")


def test_while_nothing_is_loaded_it_says_so_and_goes_on(exporter: Exporter) -> None:
    assert exporter.values()["imtcp_loaded"] == 1
    subprocess.run([IMTCP, "down"], check=True, capture_output=True)
    wait_until("it is down", lambda: exporter.values()["imtcp_loaded"] == 0)
    subprocess.run([IMTCP, "up"], check=True, capture_output=True)
    wait_until("it is up", lambda: exporter.values()["imtcp_loaded"] == 1)


def test_whoever_asks_wrongly_or_holds_connections_keeps_nobody_from_the_metrics(
    exporter: Exporter,
) -> None:
    host, port = exporter.address.split(":")
    held = [socket.create_connection((host, int(port))) for _ in range(40)]
    # The one that has been idle longest makes room; silence alone ends one after five seconds.
    begun = time.monotonic()
    assert all(answers(exporter) for _ in range(20))
    assert time.monotonic() - begun < 3
    for stream in held:
        stream.close()
    for method, path, status in [("POST", "/metrics", 405), ("GET", "/else", 404)]:
        request = urllib.request.Request(f"http://{exporter.address}{path}", method=method)
        with pytest.raises(urllib.error.HTTPError) as refusal:
            local.open(request, timeout=10)
        assert refusal.value.code == status


@pytest.mark.parametrize(
    ("header", "foreign", "status"),
    [("Host", "evil.example", 421), ("Origin", "http://evil.example", 403)],
)
def test_a_web_page_that_leads_its_own_name_here_reads_no_metrics(
    exporter: Exporter, header: str, foreign: str, status: int
) -> None:
    url = f"http://{exporter.address}/metrics"
    with pytest.raises(urllib.error.HTTPError) as refusal:
        local.open(urllib.request.Request(url, headers={header: foreign}), timeout=10)
    assert refusal.value.code == status
    assert "imtcp_loaded" not in refusal.value.read().decode()


def answers(exporter: Exporter) -> bool:
    try:
        return "imtcp_loaded 1" in exporter.text()
    except (OSError, urllib.error.URLError):
        return False


def test_the_guide_has_a_line_for_each_metric(exporter: Exporter) -> None:
    named = set(re.findall(r"`(imtcp_\w+)`", GUIDE.read_text()))
    shown = set(re.findall(r"^# TYPE (\w+)", exporter.text(), re.MULTILINE))
    assert shown <= named


def test_an_address_that_is_taken_is_told(exporter: Exporter) -> None:
    command = [AGENT, "metrics", "--listen", exporter.address]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"cannot listen on {exporter.address} (--listen chooses another)" in done.stderr
