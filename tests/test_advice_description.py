"""The published description of the advice service's interface, and a client generated from it."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from advice_service import READ_TOKEN, WRITE_TOKEN, running_service

HOW_TO_INSTALL = "needs what scripts/lab-env.sh tests installs"
jsonschema_rs = pytest.importorskip("jsonschema_rs", reason=HOW_TO_INSTALL)
pytest.importorskip("openapi_python_client", reason=HOW_TO_INSTALL)

DST = "192.0.2.7"
METHODS = ["get", "put", "post", "patch", "delete"]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with five days of one path, of one of its hops, and of an active test."""
    with running_service(tmp_path_factory.mktemp("service"), "--rate-limit", "0") as url:
        now = datetime.now(UTC)
        records = [
            {"dst": DST, "hop": hop, "time": (now - timedelta(days=day, minutes=-m)).isoformat(),
             "available_bps": 80_000_000 + m * day, "capacity_bps": 100_000_000, "rtt_us": 20_000,
             "loss": 0.125, "congested": False, "validity_pct": 90, "source": "here"}
            for hop in ["", "198.51.100.1"] for day in range(1, 6) for m in range(0, 60, 5)
        ]  # fmt: skip
        records += [
            {"dst": DST, "time": now.isoformat(), "available_bps": 80_000_000},
            {"dst": DST, "time": now.isoformat(), "rtt_us": 21_000, "source": "here/ping"},
        ]
        status, receipt, _ = request(url, "POST", "/v1/reports", {"batch": "1", "records": records})
        assert (status, receipt["stored"]) == (200, len(records))
        yield url


@pytest.fixture(scope="module")
def description(url: str) -> dict[str, Any]:
    return request(url, "GET", "/openapi.json")[1]


def request(
    url: str, method: str, path: str, body: object = None, token: str | None = WRITE_TOKEN,
    **headers: str,
) -> tuple[int, Any, dict[str, str]]:  # fmt: skip
    """The status, the JSON, and the headers by their names in lower case."""
    sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url + path, sent, headers, method=method)
    if sent is not None:
        asked.add_header("Content-Type", "application/json")
    if token:
        asked.add_header("Authorization", f"Bearer {token}")
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        answer = direct.open(asked, timeout=20)
    except urllib.error.HTTPError as e:
        answer = e
    with answer:
        text = answer.read()
        names = {name.lower(): value for name, value in answer.headers.items()}
        return answer.status, json.loads(text) if text[:1] in (b"{", b"[") else text, names


# --- refusals ---


REFUSED = {
    "no destination": (400, "GET", "/v1/advice", None, {}),
    "no path": (404, "GET", "/v1/paths/nobody.example", None, {}),
    "no token": (401, "PUT", f"/v1/clients/{DST}", None, {"token": None}),
    "a body over 64 KiB": (413, "PATCH", f"/v1/paths/{DST}", b" " * (65 << 10), {}),
    "a report over 4 MiB": (413, "POST", "/v1/reports", b" " * (5 << 20), {}),
    "a body over 64 KiB where none is wanted": (413, "GET", "/v1/paths", b" " * (65 << 10), {}),
    "a page of another site": (403, "GET", "/v1/paths", None, {"Origin": "http://evil.example"}),
    "another name of the service": (421, "GET", "/v1/paths", None, {"Host": "evil.example"}),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_refusal_is_as_described(why: str, url: str, description: dict[str, Any]) -> None:
    status, method, path, body, more = REFUSED[why]
    is_refused_as_described(
        description, request(url, method, path, body, **more), status, method, path
    )


def is_refused_as_described(
    description: dict[str, Any], answer: tuple, status: int, method: str, path: str
) -> None:
    assert answer[0] == status, answer
    name = path.replace(DST, "{dst}").replace("nobody.example", "{dst}")
    described = description["paths"][name][method.lower()]["responses"][str(status)]
    if "$ref" in described:
        described = description["components"]["responses"][described["$ref"].split("/")[-1]]
    assert answer[2]["content-type"] in described["content"]
    for header in described.get("headers", {}):
        assert header.lower() in answer[2], answer
    schema = {**description, "$ref": "#/components/schemas/Problem"}
    jsonschema_rs.validator_for(schema).validate(answer[1])
    assert answer[1]["status"] == status


def test_too_many_requests_are_refused_as_described(
    tmp_path: Path, description: dict[str, Any]
) -> None:
    # Loopback's own rate is limited only if somebody sets it.
    with running_service(tmp_path, "--rate-limit", "1") as url:
        for _ in range(3):
            answer = request(url, "GET", "/v1/paths")
        is_refused_as_described(description, answer, 429, "GET", "/v1/paths")


def test_what_is_not_described_is_not_there(url: str, description: dict[str, Any]) -> None:
    status, problem, _ = request(url, "GET", "/v1/nowhere")
    assert (status, problem["status"]) == (404, 404)
    for path, operations in description["paths"].items():
        for method in set(METHODS) - set(operations):
            status, problem, headers = request(url, method.upper(), path.replace("{dst}", DST))
            assert (status, problem["status"]) == (405, 405), (path, method)
            assert set(operations) <= set(headers["allow"].lower().split(","))


def test_every_operation_describes_what_the_service_may_answer_to_any_request(
    description: dict[str, Any],
) -> None:
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            codes = set(operation["responses"])
            assert {"403", "408", "413", "421", "429"} <= codes, (path, method)
            assert ("401" in codes) == (path != "/healthz"), (path, method)


def test_reading_needs_a_token_in_the_description_if_it_does_in_the_service(
    url: str, description: dict[str, Any], tmp_path: Path
) -> None:
    def readers_need(description: dict[str, Any]) -> set[str]:
        return {path for path, of in description["paths"].items()
                if {"read": []} in of.get("get", {}).get("security", [])}  # fmt: skip

    assert readers_need(description) == set()
    with running_service(tmp_path, reading_needs_token=True) as closed:
        theirs = request(closed, "GET", "/openapi.json", token=None)[1]
        need = readers_need(theirs)
        assert "/v1/advice" in need and "/metrics" in need and "/healthz" not in need
        for path in need:
            asked = path.replace("{dst}", DST)
            answer = request(closed, "GET", asked, token=None)
            is_refused_as_described(theirs, answer, 401, "GET", path)
            assert request(closed, "GET", asked, token=READ_TOKEN)[0] in (200, 400, 404)


# --- destinations ---

LABEL = st.text("019aZ_-", min_size=1, max_size=4)
NEAR_A_NAME = st.lists(LABEL | st.sampled_from(["", "a" * 63, "a" * 64]), max_size=6).map(".".join)
NEAR_IPV4 = st.lists(st.sampled_from(["0", "9", "10", "255", "256", "01"]), max_size=5).map(
    ".".join
)
GROUP = st.sampled_from(["", "0", "1", "aF9", "ffff", "12345", "g", "1.2.3.4"])
NEAR_IPV6 = st.lists(GROUP, max_size=9).map(":".join)
NEAR = (NEAR_A_NAME | NEAR_IPV4 | NEAR_IPV6 | st.ip_addresses().map(str)).flatmap(
    lambda text: st.sampled_from([text, f"[{text}]", text + ".", text + "..", " " + text])
)


@given(NEAR | st.text(max_size=20))
@example(".".join(["a" * 50] * 5)[:253])
@example(".".join(["a" * 50] * 5)[:253] + ".")
@example(".".join(["a" * 62] * 5)[:253])
@example(".".join(["a" * 62] * 5)[:254])
@example(".".join(["a" * 62] * 5)[:253] + ".")
@example("host\n")
@settings(max_examples=400, deadline=None)
def test_the_pattern_of_a_destination_is_what_the_service_accepts(
    url: str, description: dict[str, Any], text: str
) -> None:
    schema = description["components"]["schemas"]["Destination"]
    status = request(url, "GET", "/v1/advice?" + urllib.parse.urlencode({"dst": text}))[0]
    assert (status == 200) == jsonschema_rs.is_valid(schema, text), (status, text)
    assert (status == 200) == bool(re.fullmatch(schema["pattern"], text))


# --- records and settings ---

NOW = datetime.now(UTC).isoformat()
BANDWIDTH = {"dst": DST, "time": NOW, "available_bps": 5}
RTT = {"dst": DST, "time": NOW, "rtt_us": 5}
PARTS = {
    "available_bps": [None, 0, 10**13, 1e13, 10**13 + 1, -1, 1.5, 5.0],
    "throughput_bps": [None, 0, 10**13, "5"],
    "capacity_bps": [None, 5],
    "rtt_us": [None, 0, 3_600_000_000, 3_600_000_001],
    "loss": [None, 0, 1, 0.5, 1.5],
    "congested": [None, True, 1],
    "validity_pct": [None, 0, 100, 100.0, 101],
    "hop": ["", "198.51.100.1", "a b"],
    "source": ["", "ü" * 255, "ü" * 256, "a\nb", " a "],
    "more": [1],
}
RECORDS = st.fixed_dictionaries(
    {"dst": st.just(DST), "time": st.just(NOW)},
    optional={name: st.sampled_from(values) for name, values in PARTS.items()},
)


@given(RECORDS)
@example(BANDWIDTH)
@example(RTT)
@example({**BANDWIDTH, "throughput_bps": 5})
@example({**RTT, "capacity_bps": 5})
@settings(max_examples=300, deadline=None)
def test_the_schema_of_a_record_is_what_the_service_accepts(
    url: str, description: dict[str, Any], record: dict[str, Any]
) -> None:
    schema = {**description, "$ref": "#/components/schemas/Record"}
    report = {"batch": str(uuid.uuid4()), "records": [record]}
    status, answer, _ = request(url, "POST", "/v1/reports", report)
    assert (status == 200) == jsonschema_rs.is_valid(schema, record), answer


@pytest.mark.parametrize(
    ("change", "is_right"),
    [
        *(({"z": z}, right) for z, right in [(0, True), (10, True), (10.5, False), ("2", False)]),
        ({"epsilon": {"share": 10}}, True),
        ({"threshold": {"share": 1}}, True),
        ({"threshold": {"share": 10}}, False),
        ({"threshold": {"bps": 0}}, False),
        ({"threshold": {"bps": 1, "share": 1}}, False),
        ({"threshold": {"bps": 1, "more": 1}}, False),
        ({"capacity_bps": 0}, False),
        ({"capacity_bps": 1e13, "history": "weekday", "zone": "Europe/Berlin"}, True),
        ({"history": "month"}, False),
        ({"freshness_s": 4294967296}, False),
        ({"freshness_s": 6e2, "min_span_pct": 5.0}, True),
        ({"freshness_s": 600.5}, False),
        ({"min_span_pct": 101}, False),
        ({"unknown": 1}, False),
        ({"zone": None, "history": None, "threshold": None}, True),
        ({}, True),
        ([], False),
    ],
    ids=str,
)
def test_the_schema_of_settings_is_what_the_service_accepts(
    change: object, is_right: bool, url: str, description: dict[str, Any]
) -> None:
    schema = {**description, "$ref": "#/components/schemas/SettingsChange"}
    status, answer, _ = request(url, "PATCH", "/v1/paths/of-settings.example", change)
    assert (status == 200) == is_right, answer
    assert jsonschema_rs.is_valid(schema, change) == is_right


# --- a client generated from it ---


@pytest.fixture(scope="module")
def generated(
    description: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The name of a package that openapi-python-client makes, without a warning."""
    home = tmp_path_factory.mktemp("generated")
    (home / "openapi.json").write_text(json.dumps(description))
    # Formatting its code would take longer than writing it.
    (home / "config.json").write_text('{"post_hooks": []}')
    done = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none",
         "--fail-on-warning", "--path", "openapi.json", "--config", "config.json",
         "--output-path", "generated_advice_client"],
        cwd=home, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(home))
    yield "generated_advice_client"
    sys.path.remove(str(home))


@pytest.fixture(scope="module")
def client(generated: str, url: str) -> object:
    return importlib.import_module(generated).AuthenticatedClient(base_url=url, token=WRITE_TOKEN)


def call(generated: str, name: str) -> ModuleType:
    return importlib.import_module(f"{generated}.api.{name}")


def model(generated: str, name: str) -> object:
    return getattr(importlib.import_module(f"{generated}.models"), name)


TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)")


def with_moments(value: object) -> object:
    """Times as moments, for the same one can be written in several ways."""
    if isinstance(value, dict):
        return {key: with_moments(v) for key, v in value.items()}
    if isinstance(value, list):
        return [with_moments(v) for v in value]
    is_time = isinstance(value, str) and TIME.fullmatch(value)
    return datetime.fromisoformat(value) if is_time else value


def nothing_is_unknown(value: object) -> None:
    """The models have a field for each value, with the type that it has in JSON."""
    assert not getattr(value, "additional_properties", None), value
    for part in getattr(type(value), "__attrs_attrs__", ()):
        inner = getattr(value, part.name)
        assert type(inner).__name__ != "Unset", (type(value), part.name)
        for one in inner if isinstance(inner, list) else [inner]:
            nothing_is_unknown(one)


@pytest.mark.parametrize(
    ("operation", "path", "arguments"),
    [
        ("advice.advice", f"/v1/advice?dst={DST}&bytes=5", {"dst": DST, "bytes_": 5}),
        ("advice.advice", "/v1/advice?dst=nobody.example", {"dst": "nobody.example"}),
        ("paths.paths", "/v1/paths", {}),
        ("paths.path", f"/v1/paths/{DST}", {"dst": DST}),
        ("paths.path", "/v1/paths/*", {"dst": "*"}),
        ("history.history", f"/v1/history?dst={DST}&points=9", {"dst": DST, "points": 9}),
        ("history.timeline", f"/v1/timeline?dst={DST}&steps=3", {"dst": DST, "steps": 3}),
        ("clients.clients", "/v1/clients", {}),
        ("service.health", "/healthz", {}),
    ],
)
def test_a_generated_model_holds_what_the_json_holds(
    operation: str, path: str, arguments: dict, generated: str, client: object, url: str
) -> None:
    status, raw, _ = request(url, "GET", path)
    assert status == 200
    of = call(generated, operation)
    parsed = of._parse_response(client=client, response=answer_of(raw))
    assert with_moments(parsed.to_dict()) == with_moments(raw)
    own = getattr(parsed, "own_settings", None)
    if own is None and not hasattr(parsed, "paths"):
        nothing_is_unknown(parsed)
    assert type(of.sync(client=client, **arguments)) is type(parsed)


def answer_of(raw: object) -> object:
    return importlib.import_module("httpx").Response(200, json=raw)


def test_a_generated_client_reports_and_is_advised(generated: str, client: object) -> None:
    record = model(generated, "Record")(
        dst="new.example", time=datetime.now(UTC), available_bps=5_000_000, congested=False
    )
    report = model(generated, "Report")(batch="generated", records=[record])
    receipt = call(generated, "reports.reports").sync(client=client, body=report)
    assert (receipt.stored, receipt.duplicate) == (1, False)
    advice = call(generated, "advice.advice").sync(client=client, dst="new.example")
    assert advice.reason is model(generated, "Reason").TOO_FEW_DAYS
    assert advice.congestion_control is model(generated, "Switch").ON
    assert advice.available_bps is None
    assert advice.computed_from.newest_bps == 5_000_000


def test_a_generated_client_changes_settings_and_takes_them_back(
    generated: str, client: object
) -> None:
    change, path = model(generated, "SettingsChange"), call(generated, "paths.change_path")
    share = model(generated, "ShareOfCapacity")
    settings = change(threshold=share(0.5), zone="Europe/Berlin", min_days=2)
    after = path.sync(client=client, dst="settings.example", body=settings)
    assert after.own_settings == settings
    assert (after.settings.threshold, after.settings.min_days) == (share(0.5), 2)
    back = path.sync(client=client, dst="settings.example", body=change(threshold=None))
    assert back.settings.threshold == share(0.42)
    assert back.settings.zone == "Europe/Berlin"


def test_a_generated_client_reads_a_refusal(generated: str, client: object) -> None:
    problem = call(generated, "paths.path").sync(client=client, dst="nobody.example")
    assert problem.status == 404
    assert "no history" in problem.detail
