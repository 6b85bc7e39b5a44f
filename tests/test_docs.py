"""The book of docs/, and what else is written in Markdown: links, length, contents."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from built import IMTCP
from pages import ROOT, dead_links, links, named, words

DOCS = ROOT / "docs"
SUMMARY = DOCS / "SUMMARY.md"
NOTES = sorted((ROOT / "lab" / "notes").glob("0*.md"))

#: Decisions are a record, not a part of the book's length.
DECISIONS = sorted((DOCS / "adr").glob("*.md"))
PAGES = sorted(set(DOCS.rglob("*.md")) - {SUMMARY, *DECISIONS})
KINDS = ("tutorials", "how-to", "reference", "explanation")

AROUND = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "lab/README.md")]
LAB = [ROOT / "lab" / "measurements.md", ROOT / "lab" / "notes" / "README.md"]

#: A page that a source or another page names by its place in the tree.
ADDRESS = re.compile(r"\b(?:docs|lab/notes)/[\w/-]+\.md\b")
SOURCES = ("bpf", "clients", "core", "crates", "lab", "proftpd", "scripts", "tests")
KNOWN = {".c", ".h", ".md", ".py", ".rs", ".sh", ".toml", ".txt"}


@pytest.mark.parametrize("page", [*PAGES, SUMMARY, *AROUND, *LAB, *NOTES], ids=named)
def test_each_link_leads_to_a_file_and_a_heading_that_exist(page: Path) -> None:
    assert dead_links(page) == []


def test_each_page_is_in_the_summary_once() -> None:
    listed = [(DOCS / target).resolve() for target, _ in links(SUMMARY)]
    assert sorted(listed) == sorted([*PAGES, *DECISIONS])


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_has_at_most_1200_words(page: Path) -> None:
    assert words(page) <= 1200


def test_the_pages_have_at_most_17500_words_together() -> None:
    assert sum(map(words, PAGES)) <= 17_500


def test_each_page_is_of_one_kind() -> None:
    """A folder for each kind, and nothing beside them but the first page."""
    beside = {page for page in PAGES if page.relative_to(DOCS).parts[0] not in KINDS}
    assert beside == {DOCS / "README.md"}


@pytest.mark.parametrize("note", NOTES, ids=named)
def test_a_note_begins_with_its_conclusion_and_the_index_has_it(note: Path) -> None:
    title, _, conclusion = note.read_text().split("\n")[:3]
    assert conclusion.startswith("**Conclusion:** ")
    row = (
        f"| [{title.removeprefix('# Lab note ')}]({note.name})"
        f" | {conclusion.removeprefix('**Conclusion:** ')} |"
    )
    assert row in (ROOT / "lab" / "notes" / "README.md").read_text().split("\n")


def test_each_page_that_a_source_names_exists() -> None:
    files = [path for top in SOURCES for path in (ROOT / top).rglob("*") if path.suffix in KNOWN]
    files += [*DOCS.rglob("*.md"), *ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "Cargo.toml"]
    lost = {
        f"{named(path)}: {address}"
        for path in files
        for address in ADDRESS.findall(path.read_text(errors="replace"))
        if not (ROOT / address).exists()
    }
    assert lost == set()


def test_the_generated_parts_of_the_reference_are_current() -> None:
    script = ROOT / "scripts" / "write-reference.py"
    checked = subprocess.run(
        [sys.executable, script, "--check", "--imtcp", IMTCP],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


def test_each_name_that_the_map_of_papers_gives_is_in_the_code() -> None:
    table = (DOCS / "reference" / "paper-to-code.md").read_text()
    paths = [path for top in ("core/include", "bpf", "proftpd") for path in (ROOT / top).rglob("*")]
    code = "\n".join(path.read_text() for path in paths if path.suffix in {".c", ".h"})
    names = {name.rstrip("*") for name in re.findall(r"\bimtcp_\w+\*?", table, re.ASCII)}
    names -= {"imtcp_lab"}
    assert {name for name in names if name not in code} == set()
    rust = re.findall(r"`imtcp-advice: ([\w/]+\.rs)`", table)
    assert [file for file in rust if not (ROOT / "crates/imtcp-advice/src" / file).exists()] == []
