"""What a newcomer reads first: README.md, the pages that it opens, and the commands in them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from built import IMTCP
from pages import FENCED, LINK, PICTURE, ROOT, named

README = ROOT / "README.md"
DOCS = ROOT / "docs"
RESULTS = DOCS / "explanation" / "results.md"
#: Pages that took over what README said before, one kind each.
NAMES = (
    "explanation/limits",
    "explanation/results",
    "how-to/run",
    "reference/commands",
    "reference/modes",
)
PAGES = [DOCS / f"{name}.md" for name in NAMES]
#: Pages with commands to type.
KINDS = ("tutorials", "how-to", "reference", "explanation")
READ_FIRST = [README, *sorted(page for kind in KINDS for page in (DOCS / kind).glob("*.md"))]
#: Their units are verified.
WITH_UNITS = [README, DOCS / "tutorials" / "nightly-backup.md"]

INSTALLED = "/usr/local/bin/imtcp"


def blocks(path: Path) -> list[str]:
    return FENCED.findall(path.read_text())


def commands(path: Path) -> list[list[str]]:
    """The lines of the page's blocks that begin with a program of ours, as words."""
    text = "\n".join(blocks(path))
    sudo = r"(?:sudo (?:-u \S+ |-\S+ )*)?"
    lines = re.findall(rf"^{sudo}(imtcp(?:-advice|-agent)? .*)$", text, re.MULTILINE)
    # Up to where the shell's own words begin.
    return [shlex.split(re.split(r"\s[&|<>]", line)[0], comments=True) for line in lines]


def test_readme_has_at_most_700_words() -> None:
    prose = PICTURE.sub("", FENCED.sub("", README.read_text()))
    assert len(prose.split()) <= 700


def test_readme_leads_to_each_page() -> None:
    targets = {(ROOT / target).resolve() for target, _ in LINK.findall(README.read_text())}
    assert targets >= set(PAGES)


def test_readme_shows_run_watch_and_doctor_first() -> None:
    assert [words[1] for words in commands(README)][:3] == ["doctor", "run", "watch"]


def test_readme_has_a_line_for_ssh_with_the_users_agent() -> None:
    lines = "\n".join(blocks(README)).split("\n")
    [line] = [line for line in lines if "SSH_AUTH_SOCK" in line]
    assert line.startswith('sudo --preserve-env=SSH_AUTH_SOCK imtcp run --user "$USER" -- ')


@pytest.mark.parametrize("page", READ_FIRST, ids=named)
def test_imtcp_takes_each_command_as_it_is_written(page: Path) -> None:
    for words in commands(page):
        end = words.index("--") if "--" in words else len(words)
        own = words[1:end]
        result = subprocess.run(
            [Path(IMTCP).with_name(words[0]), *own, "--help"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, f"{shlex.join(words)}: {result.stderr}"


@pytest.mark.parametrize("page", READ_FIRST, ids=named)
def test_make_has_each_target_that_is_named(page: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = page.read_text()
    named_ones = re.findall(r"`(?:sudo )?make ([\w-]+)`", text)
    named_ones += re.findall(
        r"^(?:sudo )?make ([\w-]+)(?: +#.*)?$", "\n".join(blocks(page)), re.MULTILINE
    )
    assert set(named_ones) <= targets
    assert page != README or {"demo", "test", "build", "install"} <= set(named_ones)


@pytest.mark.parametrize("page", WITH_UNITS, ids=named)
def test_systemd_takes_the_units_of_the_nightly_backup(page: Path, tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("needs systemd-analyze")
    service, timer = (block for block in blocks(page) if block.startswith("[Unit]"))
    assert INSTALLED in service
    (tmp_path / "backup.service").write_text(service.replace(INSTALLED, IMTCP))
    (tmp_path / "backup.timer").write_text(timer)
    units = [tmp_path / "backup.service", tmp_path / "backup.timer"]
    result = subprocess.run([verify, "verify", *units], capture_output=True, text=True, check=False)
    about_ours = [line for line in result.stderr.split("\n") if "backup." in line]
    assert result.returncode == 0 and not about_ours, result.stderr


def test_the_picture_is_drawn_from_the_figures_in_the_results() -> None:
    subprocess.run([ROOT / "scripts" / "draw-web-delay.py", "--check"], check=True)


def test_the_text_of_the_picture_tells_its_figures() -> None:
    results = RESULTS.read_text()
    [alternative] = re.findall(r"!\[([^\]]*)\]", README.read_text())
    for control in ("cubic", "imtcp_bg"):
        [row] = re.findall(rf"^{control} +([\d.]+) .*?  ([\d.]+ %)", results, re.MULTILINE)
        assert f"{round(100 * float(row[0]))} %" in alternative
        assert row[1] in alternative


@pytest.mark.parametrize("page", [README, RESULTS], ids=named)
def test_a_table_beside_the_web_has_the_figures_of_the_measurements(page: Path) -> None:
    """README has some rows and cells of the results; the measurements have their means."""
    whole = (ROOT / "lab" / "measurements.md").read_text().split("\n## Beside the web\n")[1]
    rows = re.findall(r"^\| (`?\w+`?) \| (\d\.\d\d, .*) \|$", page.read_text(), re.MULTILINE)
    assert len(rows) > 5
    for control, cells in rows:
        if control == "wanted":
            continue
        line = re.findall(rf"^\| {control} \| (\d\.\d\d \(.*) \|$", whole, re.MULTILINE)[0]
        means = [re.sub(r" \([^)]*\)", "", cell) for cell in line.split(" | ")]
        shown = cells.split(" | ")
        assert shown == means[: len(shown)], control
