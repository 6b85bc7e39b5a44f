"""The advice service's page in a real browser."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
IMTCP = os.environ.get("IMTCP_BIN", str(ROOT / "target" / "release" / "imtcp"))
DST = "192.0.2.7"
CHROMIUM = shutil.which("chromium")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian: chromium)")


def history() -> str:
    """Nine days of minutes until now, with a daily wave."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    lines = ["time,available_bps,capacity_bps,rtt_us"]
    for back in range(9 * 1440, -1, -1):
        at = now - timedelta(minutes=back)
        wave = math.sin((at.hour * 60 + at.minute) / 1440 * math.tau)
        lines.append(f"{at.isoformat()},{int(70e6 + 10e6 * wave)},100000000,30000")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    scratch = tmp_path_factory.mktemp("advice")
    db = scratch / "history.db"
    subprocess.run(
        [IMTCP, "advice", "import", "--db", db, "--path", DST, "-"],
        input=history(), text=True, check=True,
    )  # fmt: skip
    subprocess.run([IMTCP, "advice", "set", "--db", db, "zone=Europe/Berlin"], check=True)
    serve = [IMTCP, "advice", "serve", "--db", db, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout
        yield re.search(r"http://\S+/", service.stdout.readline())[0]
        service.terminate()


def browse(url: str, out: Path, *more: str) -> str:
    """The page's elements once it is drawn, and a picture of it for people to look at."""
    options = ["--headless=old", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command = [CHROMIUM, *options, f"--user-data-dir={out.parent / 'profile'}", *more]
    command += ["--virtual-time-budget=8000"]
    subprocess.run([*command, f"--screenshot={out}", url], check=True, timeout=60,
                   capture_output=True)  # fmt: skip
    dom = subprocess.run([*command, "--dump-dom", url], check=True, timeout=60,
                         capture_output=True, text=True)  # fmt: skip
    return dom.stdout


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("light", ["--window-size=1200,1400"]),
        ("dark", ["--window-size=1200,1400", "--blink-settings=preferredColorScheme=0"]),
        ("narrow", ["--window-size=500,2000"]),
    ],
)
def test_the_page_shows_the_path_its_day_its_advice_and_its_history(
    url: str, tmp_path: Path, name: str, options: list[str]
) -> None:
    dom = browse(url, tmp_path / f"{name}.png", *options)
    assert f'id="name">{DST}<' in dom
    assert "congestion control off" in dom
    assert "Europe/Berlin" in dom
    for drawn in ['class="m"', 'class="b"', 'class="p"', 'class="t"', 'class="f-off"']:
        assert drawn in dom, drawn
    assert '<p id="state" role="status"></p>' in dom
    assert (tmp_path / f"{name}.png").stat().st_size > 20_000


def test_the_page_needs_nothing_from_elsewhere(url: str) -> None:
    import urllib.request

    with urllib.request.urlopen(url) as answer:
        page = answer.read().decode()
        policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    addresses = set(re.findall(r"(?:https?:)?//[a-z][\w.]+\.\w+", page))
    assert addresses <= {"http://www.w3.org"}, addresses


def test_the_times_are_those_of_the_paths_zone(url: str, tmp_path: Path) -> None:
    dom = browse(url, tmp_path / "zone.png", "--window-size=1200,1400")
    shown = re.search(r'id="zone" class="quiet">([\d-]+ [\d:]+) (CET|CEST)', dom)
    assert shown
    import zoneinfo

    here = datetime.now(zoneinfo.ZoneInfo("Europe/Berlin")).replace(tzinfo=None)
    assert abs(here - datetime.fromisoformat(shown[1])) < timedelta(minutes=2)
