"""A fuzzer against the published description of the advice service's interface."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from imtcp_advice import AdviceService

from advice_service import READ_TOKEN, ROOT, WRITE_TOKEN, running_service

SCHEMATHESIS = Path(sys.executable).parent / "schemathesis"
needs_schemathesis = pytest.mark.skipif(
    not SCHEMATHESIS.exists(), reason="needs schemathesis: scripts/lab-env.sh tests"
)


@needs_schemathesis
def test_the_description_holds_for_all_requests(tmp_path: Path) -> None:
    with running_service(tmp_path, "--rate-limit", "0") as url:
        fuzz(url, WRITE_TOKEN, tmp_path, "--max-examples", "15")


@needs_schemathesis
def test_the_description_holds_if_reading_needs_a_token(tmp_path: Path) -> None:
    with running_service(tmp_path, "--rate-limit", "0", reading_needs_token=True) as url:
        fuzz(url, READ_TOKEN, tmp_path, "--max-examples", "5", "--phases", "fuzzing")


def fuzz(url: str, token: str, home: Path, *options: str) -> None:
    """With every check that Schemathesis has, and with a history of the description's examples."""
    now = datetime.now(UTC)
    history = [
        {"dst": dst, "hop": hop, "time": now - timedelta(days=day, minutes=-m), "available_bps": 5}
        for dst in ["192.0.2.7", "mirror.example.org"] for hop in ["", "198.51.100.1"]
        for day in range(4) for m in range(0, 60, 10) if day or not m
    ]  # fmt: skip
    assert AdviceService(url, WRITE_TOKEN).report(history) == len(history)
    path = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "clients" / "python" / "src")])
    done = subprocess.run(
        [SCHEMATHESIS, "run", f"{url}/openapi.json", "--seed", "1", *options, "--checks", "all",
         "--header", f"Authorization: Bearer {token}", "--no-color"],
        env={**os.environ, "SCHEMATHESIS_HOOKS": "advice_fuzz_hooks", "PYTHONPATH": path},
        capture_output=True, text=True, cwd=home, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
