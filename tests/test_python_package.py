"""The Python client as a package: its types, its wheel, and each Python that it supports."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from imtcp_advice.times import parse_time

from advice_service import ROOT, WRITE_TOKEN, running_service

for tool in ["build", "mypy"]:
    pytest.importorskip(tool, reason="needs what scripts/lab-env.sh tests installs")

PACKAGE = ROOT / "clients" / "python"
#: As pyproject.toml declares them; the newest one that exists may not be installed here.
PYTHONS = ["3.9", "3.10", "3.11", "3.12", "3.13"]


# --- types ---


@pytest.mark.parametrize("python", [PYTHONS[0], PYTHONS[-1]])
def test_the_types_are_strict_for_the_oldest_and_the_newest_python(
    python: str, tmp_path: Path
) -> None:
    run(sys.executable, "-m", "mypy", "--python-version", python, "--cache-dir", tmp_path,
        cwd=PACKAGE)  # fmt: skip


def test_pyproject_declares_the_pythons_tested_here_and_the_version_of_the_service() -> None:
    text = (PACKAGE / "pyproject.toml").read_text()
    assert re.findall(r"Python :: (3\.\d+)", text) == PYTHONS
    assert f'requires-python = ">={PYTHONS[0]}"' in text
    version = re.search(r'^version = ".*"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert version and version[0] in text


# --- times ---

OFFSETS = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda m: timezone(timedelta(minutes=m)))


def written(at: datetime, digits: int, *, is_lower: bool) -> str:
    """A time of RFC 3339 with so many digits of its fraction."""
    text = at.strftime(f"{at.year:04}-%m-%dT%H:%M:%S")
    if digits:
        text += "." + f"{at.microsecond:06}".ljust(9, "0")[:digits]
    offset = f"{at:%z}"[:5]
    text += "Z" if offset == "+0000" else f"{offset[:3]}:{offset[3:]}"
    return text.lower() if is_lower else text


@given(st.datetimes(timezones=OFFSETS), st.integers(0, 9), st.booleans())
def test_a_time_is_read_with_any_fraction_and_offset(
    at: datetime, digits: int, is_lower: bool
) -> None:
    kept = 10 ** max(0, 6 - digits)
    expected = at.replace(microsecond=at.microsecond // kept * kept)
    text = written(at, digits, is_lower=is_lower)
    assert parse_time(text) == expected
    assert parse_time(text) == datetime.fromisoformat(text.upper())


@given(st.text("0123456789-:.TtZz+ ") | st.datetimes(timezones=OFFSETS).map(str) | st.text())
def test_a_text_is_a_moment_or_an_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert parse_time(text).utcoffset() is not None


def test_a_leap_second_is_the_second_before_it() -> None:
    assert parse_time("2016-12-31T23:59:60Z") == datetime(2016, 12, 31, 23, 59, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    ["", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00Z", "2026-01-01T00:00:00.Z",
     "2026-13-01T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:00:00+24:00",
     "2026-01-01T00:00:00+01:60", "2026-01-01T00:00:00Z\n", "٢026-01-01T00:00:00Z"],
)  # fmt: skip
def test_a_text_that_is_no_time_of_rfc_3339_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_time(text)


# --- the wheel ---


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as a source distribution and from that, without the network."""
    home = tmp_path_factory.mktemp("build")
    shutil.copytree(PACKAGE, home / "python", ignore=shutil.ignore_patterns("*.egg-info"))
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", home / "dist",
        home / "python")  # fmt: skip
    assert len(list((home / "dist").glob("*.tar.gz"))) == 1
    return next((home / "dist").glob("*-py3-none-any.whl"))


def test_the_wheel_has_types_and_licences(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "imtcp_advice/py.typed" in names
    licences = {path.name for path in (ROOT / "LICENSES").iterdir()}
    assert licences == {Path(n).name for n in names if "/licenses/" in n}


def interpreter(version: str) -> str:
    """The path of a Python of that version, or the test is skipped."""
    roots = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    known = [shutil.which(f"python{version}"), *roots.glob(f"{version}.*/bin/python{version}")]
    for path in filter(None, known):
        # A shim of pyenv is found on the path, and may not work.
        if subprocess.run([path, "-c", "import ssl, venv"], capture_output=True).returncode == 0:
            return str(path)
    pytest.skip(f"Python {version} is not installed")


def installed(wheel: Path, python: str, home: Path) -> Path:
    """The interpreter of a fresh virtual environment that has the wheel alone."""
    run(python, "-m", "venv", "--without-pip", home)
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--python",
        home / "bin" / "python", "install", "--no-index", wheel)  # fmt: skip
    return home / "bin" / "python"


USE = """
import json, sys
from datetime import datetime, timedelta, timezone
import imtcp_advice
from imtcp_advice.times import parse_time

url, token, times = json.load(sys.stdin)
for text, seconds, microsecond in times:
    at = parse_time(text)
    since = at - datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert since == timedelta(seconds=seconds, microseconds=microsecond), text
service = imtcp_advice.AdviceService(url, token)
now = datetime.now(timezone.utc).replace(microsecond=500000) - timedelta(seconds=1)
names = ["host-%d.example" % i for i in range(40)]
assert service.report({"dst": name, "time": now, "available_bps": 5} for name in names) == 40
for i, name in enumerate(names):
    advice = service.ask(name, 1000, at=now + timedelta(microseconds=i * 100000))
    assert advice.congestion_control and advice.ask_again_s >= 1, advice
    assert service.advice(name).answer["dst"] == name
away = imtcp_advice.AdviceService("http://127.0.0.1:1").advice("192.0.2.7")
assert away.congestion_control and "does not answer" in away.because
print(imtcp_advice.__file__)
"""


def test_the_example_of_the_readme_runs(wheel: Path, tmp_path: Path) -> None:
    python = installed(wheel, sys.executable, tmp_path / "venv")
    example = re.search(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)
    assert example and len(example[1].splitlines()) <= 12
    with running_service(tmp_path) as url:
        program = example[1].replace("http://127.0.0.1:8750", url)
        assert "congestion control stays on: there is no" in run(python, "-I", "-c", program)


@pytest.mark.parametrize("version", PYTHONS)
def test_each_python_installs_the_wheel_and_asks_the_service(
    version: str, wheel: Path, tmp_path: Path
) -> None:
    python = installed(wheel, interpreter(version), tmp_path / "venv")
    start = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    times = []
    for i in range(2000):
        at = start + timedelta(days=i, microseconds=i * 777_777_777)
        kept = at.microsecond // 10 ** max(0, 6 - i % 10) * 10 ** max(0, 6 - i % 10)
        seconds = int(
            (at.replace(microsecond=0) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
        )
        times.append((written(at, i % 10, is_lower=i % 3 == 0), seconds, kept))
    with running_service(tmp_path) as url:
        where = run(python, "-I", "-c", USE, stdin=json.dumps([url, WRITE_TOKEN, times]))
    assert where.startswith(str(tmp_path / "venv")), "it imports another package"


def test_a_program_that_uses_the_wheel_is_checked_against_its_types(
    wheel: Path, tmp_path: Path
) -> None:
    python = installed(wheel, sys.executable, tmp_path / "venv")
    program = tmp_path / "program.py"
    program.write_text(
        "from imtcp_advice import AdviceService\n"
        'rtt_us = AdviceService("http://localhost").advice("192.0.2.7").rtt_us\n'
        "right: int | None = rtt_us\n"
        "wrong: str = rtt_us\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python,
               "--cache-dir", tmp_path / "cache", program]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert "program.py:4: error: Incompatible types in assignment" in done.stdout
    assert "Found 1 error" in done.stdout, done.stdout


def run(*command: str | Path, cwd: Path | None = None, stdin: str = "") -> str:
    done = subprocess.run(
        command, cwd=cwd, input=stdin, capture_output=True, text=True, timeout=120
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
