#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Draw docs/pictures/web-delay.svg from the demo's table in docs/explanation/results.md.

The README shows it: how much longer web objects take while rsync uploads, with cubic and with
imtcp_bg. With --check it writes nothing; the exit code says whether the picture is current.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "docs" / "explanation" / "results.md"
PICTURE = ROOT / "docs" / "pictures" / "web-delay.svg"

#: (control in the table, its name in the picture, class of its bar)
SHOWN = (("cubic", "rsync with cubic", "cubic"), ("imtcp_bg", "rsync with imtcp", "imtcp"))

NUMBER = r"([\d.]+)"
ROW = re.compile(rf"^(\w+) +{NUMBER} \(.*?\) +{NUMBER} % \({NUMBER} % … {NUMBER} %\)", re.MULTILINE)

#: Pixels: size of the picture, start of the bars, their height, end of the longest whisker.
WIDTH, HEIGHT, LEFT, BAR, SPAN = 720, 208, 214, 34, 310

TITLE = "How much longer web objects take while rsync uploads"

#: Colours that read on a light and on a dark page; no font is loaded, no background is painted.
STYLE = """\
  text { font-family: sans-serif; font-size: 15px; fill: #1f2328; }
  .title { font-size: 18px; font-weight: bold; }
  .small { font-size: 13px; fill: #59636e; }
  .cubic { fill: #c2410c; }
  .imtcp { fill: #0f766e; }
  .whisker { stroke: #1f2328; stroke-width: 1.5; }
  .axis { stroke: #8c959f; stroke-width: 1; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .small { fill: #9da7b3; }
    .cubic { fill: #fb923c; }
    .imtcp { fill: #2dd4bf; }
    .whisker { stroke: #f0f6fc; }
  }"""


def figures(text: str) -> dict[str, tuple[str, ...]]:
    """U, and I with its least and greatest, of each control in the demo's table."""
    return {row[0]: row[1:] for row in ROW.findall(text)}


def picture(text: str) -> str:
    rows = figures(text)
    scale = SPAN / max(float(rows[control][3]) for control, _, _ in SHOWN)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{TITLE}</title>",
        f"<style>\n{STYLE}\n</style>",
        f'<text class="title" x="10" y="28">{TITLE}</text>',
    ]
    for n, (control, name, kind) in enumerate(SHOWN):
        spare, mean, least, greatest = rows[control]
        top = 50 + n * 64
        middle = top + BAR / 2
        end = LEFT + float(mean) * scale
        low, high = (f"{LEFT + float(value) * scale:.1f}" for value in (least, greatest))
        lines += [
            f'<text x="{LEFT - 10}" y="{middle - 2:g}" text-anchor="end">{name}</text>',
            f'<text class="small" x="{LEFT - 10}" y="{middle + 15:g}" text-anchor="end">'
            f"gets {round(100 * float(spare))} % of the spare rate</text>",
            f'<rect class="{kind}" x="{LEFT}" y="{top}" width="{end - LEFT:.1f}" height="{BAR}"/>',
            f'<line class="whisker" x1="{low}" x2="{high}" y1="{middle:g}" y2="{middle:g}"/>',
            f'<text x="{float(high) + 10:.1f}" y="{middle + 5:g}">+{mean} % ({least} … {greatest})'
            "</text>",
        ]
    bottom = 50 + len(SHOWN) * 64 - 18
    return "\n".join(
        [
            *lines,
            f'<line class="axis" x1="{LEFT}" y1="44" x2="{LEFT}" y2="{bottom}"/>',
            f'<text class="small" x="10" y="{HEIGHT - 12}">Bar: mean of three seeds; line: least to'
            " greatest. 50 Mbit/s, from make demo.</text>",
            "</svg>\n",
        ]
    )


def main(arguments: list[str]) -> int:
    drawn = picture(TABLE.read_text())
    if arguments == ["--check"]:
        if PICTURE.exists() and PICTURE.read_text() == drawn:
            return 0
        print(
            f"{PICTURE.relative_to(ROOT)} is not current: run scripts/draw-web-delay.py",
            file=sys.stderr,
        )
        return 1
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
