"""The Python client against the real service, and against none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
IMTCP = os.environ.get("IMTCP_BIN", str(ROOT / "target" / "release" / "imtcp"))
DST = "192.0.2.7"
TOKEN = "a-token-for-the-tests"

sys.path.insert(0, str(ROOT / "clients" / "python"))

from imtcp_advice import AdviceService, ServiceError  # noqa: E402


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKEN)
    tokens.chmod(0o600)
    serve = [IMTCP, "advice", "serve", "--db", tmp_path / "history.db", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [*serve, "--token-file", tokens], stdout=subprocess.PIPE, text=True
    ) as service:
        assert service.stdout
        yield re.search(r"http://\S+/", service.stdout.readline())[0]
        service.terminate()


def test_what_is_reported_is_advised_upon(url: str) -> None:
    service, now = AdviceService(url, TOKEN), datetime.now(UTC)
    minutes = [now - timedelta(days=day) + timedelta(minutes=m) for day in range(1, 5)
               for m in range(60)]  # fmt: skip
    records = [
        {"dst": DST, "time": at.isoformat(), "available_bps": 80_000_000,
         "capacity_bps": 100_000_000, "rtt_us": 20_000}
        for at in [*minutes, now]
    ]  # fmt: skip
    assert service.report(records, "batch-1") == 241
    assert service.report(records, "batch-1") == 0
    advice = service.advice(DST, 1_000_000_000)
    assert not advice.congestion_control
    assert (advice.available_bps, advice.buffer_bytes) == (80_000_000, 250_000)
    assert 0 < advice.valid_s <= 601 < advice.ask_again_s
    assert advice.answer["transfer_s"] == 100
    then = service.ask(DST, at=now - timedelta(days=3))
    assert then.congestion_control
    assert then.answer["reason"] == "too_few_days"


def test_without_service_the_answer_is_the_safe_default() -> None:
    service = AdviceService("http://127.0.0.1:1")
    advice = service.advice(DST)
    assert advice.congestion_control
    assert advice.available_bps is None
    assert "does not answer" in advice.because
    with pytest.raises(ServiceError, match="does not answer"):
        service.ask(DST)


def test_a_refusal_says_what_to_do(url: str) -> None:
    with pytest.raises(ServiceError, match="neither an address"):
        AdviceService(url).ask("a b")
    with pytest.raises(ServiceError, match="token"):
        AdviceService(url).report([])
    with pytest.raises(ValueError, match="no URL"):
        AdviceService("localhost:8750")
