"""Pages of Markdown: their words, links and headings."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PICTURE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def words(path: Path) -> int:
    """Those of text and tables; blocks, as of commands, and the lines of a table are none."""
    text = PICTURE.sub("", FENCED.sub("", path.read_text()))
    return sum(1 for word in text.split() if re.search(r"\w", word))


def headings(path: Path) -> set[str]:
    """As the names that links give them."""
    lines = FENCED.sub("", path.read_text()).split("\n")
    titles = [line.lstrip("#").strip().lower() for line in lines if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def links(path: Path) -> list[tuple[str, str]]:
    """The page's links within the tree: file and heading, either of which may be empty."""
    text = CODE.sub("", FENCED.sub("", path.read_text()))
    return [link for link in LINK.findall(text) if "://" not in link[0]]


def dead_links(path: Path) -> list[str]:
    """Links that lead to no file, or to no heading of it."""
    dead = []
    for target, heading in links(path):
        file = path.parent / target if target else path
        if not file.exists() or (heading and heading[1:] not in headings(file)):
            dead.append(target + heading)
    return dead
