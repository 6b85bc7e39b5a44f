"""The advice service's metrics, read by the real promtool and scraped by a real Prometheus."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from built import ADVICE

ROOT = Path(__file__).resolve().parent.parent
GUIDE = ROOT / "docs" / "how-to" / "advice-monitoring.md"
RULES = ROOT / "packaging" / "prometheus" / "imtcp.rules.yml"
TOKEN = "a-token-for-the-tests"
EXPIRY = "imtcp_advice_certificate_expiry_timestamp_seconds"

needs_prometheus = pytest.mark.skipif(
    not (shutil.which("promtool") and shutil.which("prometheus")),
    reason="needs Debian's package prometheus",
)


class Service:
    """The service with TLS and tokens for reading, so that it has all metrics."""

    def __init__(self, directory: Path) -> None:
        self.tokens, self.cert, self.key = (directory / name for name in ("tokens", "cert", "key"))
        self.tokens.write_text(TOKEN)
        self.tokens.chmod(0o600)
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "30", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1",
             "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", self.key,
             "-out", self.cert],
            check=True, capture_output=True,
        )  # fmt: skip
        serve = [ADVICE, "serve", "--db", directory / "history.db", "--no-ping"]
        serve += ["--listen", "127.0.0.1:0", "--token-file", self.tokens]
        serve += ["--read-token-file", self.tokens, "--tls-cert", self.cert, "--tls-key", self.key]
        self.process = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.url = re.search(r"https://[^/]+", self.process.stdout.readline())[0]
        self.trust = ssl.create_default_context(cafile=str(self.cert))
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.trust)
        )

    def ask(self, path: str, method: str = "GET", body: object = None) -> tuple[int, str]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with self.opener.open(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()

    def metrics(self) -> str:
        status, text = self.ask("/metrics")
        assert status == 200
        return text

    def values(self) -> dict[str, float]:
        """The value of each series, by its name with its labels."""
        lines = [line for line in self.metrics().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    def report(self, batch: str, count: int = 1) -> tuple[int, str]:
        now = datetime.now(UTC)
        records = [
            {"dst": "192.0.2.7", "time": (now - timedelta(minutes=i)).isoformat(),
             "available_bps": 5_000_000}
            for i in range(count)
        ]  # fmt: skip
        return self.ask("/v1/reports", "POST", {"batch": batch, "records": records})


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path)
    yield service
    service.process.terminate()
    service.process.wait(timeout=20)


def within_seconds(seconds: float, holds: Callable[[], object]) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return False


def test_a_fresh_service_has_each_known_label_at_zero(service: Service) -> None:
    values = service.values()
    for metric, label, known in [
        ("refused_total", "why",
         ["host", "origin", "rate", "no_token", "wrong_token", "type", "length", "connections",
          "tls"]),
        ("answers_total", "reason",
         ["free", "congested", "no_history", "stale", "too_few_days", "no_capacity"]),
        ("batches_total", "outcome", ["stored", "duplicate", "busy", "failed"]),
        ("roll_up_records_total", "change", ["rolled_up", "removed"]),
    ]:  # fmt: skip
        for value in known:
            assert values[f'imtcp_advice_{metric}{{{label}="{value}"}}'] == 0
    for route in ("/", "/RPC2", "/v1/paths", "/v1/paths/{dst}", "/v1/reports", "/v1/timeline"):
        assert values[f'imtcp_advice_requests_total{{route="{route}",status="200"}}'] == 0, route
    for metric in ("records_total", "failed_requests_total", "queue_records", "roll_up_failed"):
        assert values[f"imtcp_advice_{metric}"] == 0, metric
    assert values["imtcp_advice_queue_limit_records"] == 200_000
    assert values["imtcp_advice_history_up"] == 1
    assert values["imtcp_advice_history_bytes"] > 0
    in_days = (values["imtcp_advice_certificate_expiry_timestamp_seconds"] - time.time()) / 86_400
    assert 29 < in_days <= 30
    version = subprocess.run([ADVICE, "--version"], capture_output=True, text=True, check=True)
    number = version.stdout.split()[1]
    assert values[f'imtcp_advice_build_info{{version="{number}"}}'] == 1
    assert abs(values["process_start_time_seconds"] - time.time()) < 60
    for metric in ("resident_memory_bytes", "open_fds", "threads", "max_fds"):
        assert values[f"process_{metric}"] > 0, metric


def test_reports_roll_ups_and_failures_are_counted(service: Service) -> None:
    assert service.report("first", 20)[0] == 200
    assert service.report("first", 20)[0] == 200
    assert service.ask("/v1/advice?dst=192.0.2.7")[0] == 200
    values = service.values()
    assert values["imtcp_advice_records_total"] == 20
    assert values['imtcp_advice_batches_total{outcome="stored"}'] == 1
    assert values['imtcp_advice_batches_total{outcome="duplicate"}'] == 1
    assert values['imtcp_advice_answers_total{reason="too_few_days"}'] == 1
    assert values["imtcp_advice_queue_records"] == 0
    # The first roll-up is made at the start.
    ended = "imtcp_advice_roll_up_end_timestamp_seconds"
    assert within_seconds(10, lambda: service.values()[ended] > time.time() - 60)
    # A database that has lost a table fails each write.
    with sqlite3.connect(service.cert.parent / "history.db") as database:
        database.execute("DROP TABLE record")
    assert service.report("second")[0] == 503
    values = service.values()
    assert values['imtcp_advice_batches_total{outcome="failed"}'] == 1
    assert values["imtcp_advice_failed_requests_total"] == 1


def test_no_request_makes_a_series_of_its_own(service: Service) -> None:
    def strange(n: int) -> None:
        for path in (f"/nowhere/{n}", f"/v1/paths/192.0.2.{n}", f"/v1/advice?dst=198.51.100.{n}"):
            service.ask(path)
        service.ask("/v1/advice", f"BREW{n}")
        service.ask(f"/v1/clients/{n}", f"BREW{n}")

    strange(1)
    # A scrape is counted after its answer.
    service.metrics()
    before = set(service.values())
    for n in range(2, 12):
        strange(n)
    assert set(service.values()) == before
    routes = {re.search(r'route="([^"]*)"', name)[1] for name in before if "route=" in name}
    described = json.loads(service.ask("/openapi.json")[1])["paths"]
    assert routes <= {"-", "/", "/RPC2", "/openapi.json", *described}


@needs_prometheus
def test_promtool_finds_no_fault_in_the_metrics_of_a_fresh_and_of_a_used_service(
    service: Service,
) -> None:
    fresh = service.metrics()
    service.report("first", 20)
    service.ask("/v1/advice?dst=192.0.2.7")
    service.ask("/nowhere")
    for text in (fresh, service.metrics()):
        check = ["promtool", "check", "metrics"]
        done = subprocess.run(check, input=text, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), text


def yaml_blocks() -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)


@needs_prometheus
def test_prometheus_scrapes_the_service_as_the_guide_says(service: Service, tmp_path: Path) -> None:
    scrape = yaml_blocks()[0]
    for there, here in [
        ("/etc/prometheus/imtcp-token", str(service.tokens)),
        ("/etc/prometheus/imtcp-ca.pem", str(service.cert)),
        ("advice.example:8750", service.url.removeprefix("https://")),
    ]:
        assert there in scrape
        scrape = scrape.replace(there, here)
    config = tmp_path / "prometheus.yml"
    config.write_text("global: {scrape_interval: 1s}\n" + scrape)
    log = (tmp_path / "prometheus.log").open("w+")
    with subprocess.Popen(
        ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}",
         "--web.listen-address=127.0.0.1:0"],
        stdout=log, stderr=log,
    ) as prometheus:  # fmt: skip
        try:
            assert within_seconds(20, lambda: listening_ports(prometheus.pid)), log.name
            port = listening_ports(prometheus.pid)[0]
            assert within_seconds(20, lambda: query(port, "up") == [("imtcp-advice", 1)])
            assert query(port, "imtcp_advice_history_up") == [("imtcp-advice", 1)]
        finally:
            prometheus.terminate()


def listening_ports(pid: int) -> list[int]:
    """The TCP ports on which a process listens."""
    found = subprocess.run(["ss", "-Htlnp"], capture_output=True, text=True, check=True)
    lines = [line.split() for line in found.stdout.splitlines() if f"pid={pid}," in line]
    return [int(fields[3].rsplit(":", 1)[1]) for fields in lines]


def query(port: int, expression: str) -> list[tuple[str, float]]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    url = f"http://127.0.0.1:{port}/api/v1/query?query={expression}"
    try:
        with opener.open(url, timeout=5) as answer:
            results = json.load(answer)["data"]["result"]
    except OSError:
        return []
    return [(one["metric"]["job"], float(one["value"][1])) for one in results]


def test_the_guide_names_each_metric_and_no_other(service: Service) -> None:
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", GUIDE.read_text(), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"\w+", row)}
    # The first scrape is the first request that is counted.
    service.metrics()
    assert named == set(re.findall(r"^# TYPE (\w+)", service.metrics(), re.MULTILINE))


@needs_prometheus
def test_the_alerts_of_the_service_fire_when_they_should(tmp_path: Path) -> None:
    check = ["promtool", "check", "rules", RULES]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

    text = RULES.read_text()

    def alerts_of(series: dict[str, str], *fire: str) -> dict[str, object]:
        every = ("ImtcpAdviceUnreachable", "ImtcpAdviceStoresNothing",
                 "ImtcpAdviceCertificateExpires")  # fmt: skip
        summaries = dict(
            re.findall(r"alert: (ImtcpAdvice\w+)\n.*?summary: ([^\n]+)", text, re.DOTALL)
        )
        return {
            "interval": "1m",
            "input_series": [{"series": s, "values": v} for s, v in series.items()],
            "alert_rule_test": [
                {"eval_time": "30m", "alertname": name,
                 "exp_alerts": [{"exp_labels": labels_of(series, name),
                                 "exp_annotations": {"summary": summaries[name]}}]
                 if name in fire else []}
                for name in every
            ],
        }  # fmt: skip

    def labels_of(series: dict[str, str], alert: str) -> dict[str, str]:
        bad = {"ImtcpAdviceUnreachable": "up", "ImtcpAdviceStoresNothing": "batches_total",
               "ImtcpAdviceCertificateExpires": "certificate"}[alert]  # fmt: skip
        name = next(s for s in series if bad in s)
        return dict(re.findall(r'(\w+)="([^"]*)"', name))

    up, stored = 'up{job="imtcp-advice"}', 'imtcp_advice_batches_total{outcome="failed"}'
    far, near = str(90 * 86_400), str(7 * 86_400)
    tests = {
        "rule_files": [str(RULES)],
        "tests": [
            alerts_of({up: "1x40", stored: "0x40", EXPIRY: far + "x40"}),
            alerts_of({up: "0x40"}, "ImtcpAdviceUnreachable"),
            alerts_of({"imtcp_advice_history_up": "0x40"}, "ImtcpAdviceUnreachable"),
            alerts_of({up: "1x40", stored: "0+1x40"}, "ImtcpAdviceStoresNothing"),
            alerts_of({EXPIRY: near + "x40"}, "ImtcpAdviceCertificateExpires"),
        ],
    }
    (tmp_path / "tests.yml").write_text(json.dumps(tests))
    test = ["promtool", "test", "rules", tmp_path / "tests.yml"]
    done = subprocess.run(test, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
