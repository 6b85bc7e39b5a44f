"""20 000 paths: the service searches, the page lists what was found first."""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from typing import Any

from browsers import BROWSERS, DESKTOP, PHONE, Open, check_layout, keep_picture
from histories import MANY
from playwright.sync_api import expect

PATHS = "[...$('paths').querySelectorAll('button')]"
FOCUSED = "document.activeElement.dataset.dst || document.activeElement.id"


def paths(url: str, **query: object) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}v1/paths?{urllib.parse.urlencode(query)}") as answer:
        return json.load(answer)


def test_the_service_finds_a_path_among_many_in_a_moment(many: str) -> None:
    begin = time.monotonic()
    found = paths(many, q="10.0.99.199", limit=100)
    assert time.monotonic() - begin < 2
    assert [path["dst"] for path in found["paths"]] == ["10.0.99.199"]
    assert (found["matches"], found["next"]) == (1, None)
    assert paths(many, q="", limit=1)["matches"] == MANY
    # Page after page tells every match once.
    names: list[str] = []
    after: str | None = ""
    while after is not None:
        page = paths(many, q=".7.", limit=150, after=after)
        names += [path["dst"] for path in page["paths"]]
        after = page["next"]
    assert len(names) == len(set(names)) == 200
    assert all(name.startswith("10.0.7.") for name in names)


@BROWSERS
def test_the_page_loads_no_more_paths_than_it_lists(many: str, open_page: Open) -> None:
    page = open_page("about:blank")
    listed: list[int] = []
    page.on("response", lambda r: "v1/paths?" in r.url and listed.append(len(r.json()["paths"])))
    page.goto(many)
    expect(page.locator("#found")).to_have_text("20 000 paths; the first 100 are listed")
    expect(page.locator("#path")).to_be_visible()
    assert listed == [100]
    assert page.evaluate(f"{PATHS}.length") == 100
    page.get_by_role("button", name="Show more").click()
    expect(page.locator("#found")).to_have_text("20 000 paths; the first 200 are listed")
    # The keys go on with the first of the new ones.
    assert page.evaluate(f"document.activeElement === {PATHS}[100]")
    page.get_by_label("Find a path").fill("10.0.99.17")
    expect(page.locator("#found")).to_have_text("11 of 20 000 paths")
    expect(page.get_by_role("button", name="Show more")).to_be_hidden()
    page.get_by_role("button", name="10.0.99.178").click()
    expect(page.locator("#name")).to_have_text("10.0.99.178")


def test_many_paths_stay_beside_what_they_choose(many: str, open_page: Open) -> None:
    """The path that the address names is far beyond what is listed."""
    page = open_page(f"{many}#10.0.99.100")
    expect(page.locator("#name")).to_have_text("10.0.99.100")
    keep_picture(page, "many-desktop")
    # The charts come where they come with one path, and the list scrolls by itself.
    assert page.evaluate("$('day-chart').getBoundingClientRect().top") < DESKTOP[1]
    assert page.evaluate("$('nav').offsetHeight") <= DESKTOP[1]
    assert page.evaluate("document.documentElement.scrollHeight") < 2000
    assert page.evaluate("$('paths').scrollHeight > 2 * $('paths').clientHeight")
    seen = """(() => { const b = document.querySelector('[aria-current=true]')
        .getBoundingClientRect(), l = $('paths').getBoundingClientRect();
        return b.top >= l.top && b.bottom <= l.bottom; })()"""
    assert page.evaluate(seen)
    page.evaluate("scrollTo(0, 500)")
    assert page.evaluate("$('nav').getBoundingClientRect().top") >= 0


def test_many_paths_on_a_phone_are_found_and_leave_room(many: str, open_page: Open) -> None:
    page = open_page(many, PHONE)
    expect(page.locator("#path")).to_be_visible()
    keep_picture(page, "many-phone")
    check_layout(page)
    assert page.evaluate("$('nav').offsetHeight") < PHONE[1] / 2
    several = """(() => { const l = $('paths').getBoundingClientRect();
        return [...$('paths').querySelectorAll('button')].filter(
            b => b.getBoundingClientRect().bottom <= l.bottom).length; })()"""
    assert page.evaluate(several) >= 3


@BROWSERS
def test_paths_are_chosen_with_the_keyboard(many: str, open_page: Open) -> None:
    page = open_page(many)
    expect(page.locator("#path")).to_be_visible()
    page.get_by_label("Find a path").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate(FOCUSED) == page.evaluate("list.paths[0].dst")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert (
        page.evaluate(f"document.activeElement.matches(':focus-visible') && {outline}") == "solid"
    )
    page.keyboard.press("End")
    assert page.evaluate(FOCUSED) == page.evaluate("list.paths.at(-1).dst")
    page.keyboard.press("ArrowUp")
    chosen = page.evaluate("list.paths.at(-2).dst")
    assert page.evaluate(FOCUSED) == chosen
    page.keyboard.press("Enter")
    expect(page.locator("#name")).to_have_text(chosen)
    # Neither the choice nor a refreshed list takes the place away.
    page.evaluate("refresh()")
    assert page.evaluate(FOCUSED) == chosen
    # The list is one stop of the tab key.
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == "more"
    page.keyboard.press("Tab")
    assert page.evaluate("$('main').contains(document.activeElement)")
