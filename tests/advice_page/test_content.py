"""The page shows a path's advice, values, charts, hops and active tests."""

from __future__ import annotations

import re
import zoneinfo
from datetime import datetime, timedelta

import pytest
from browsers import (
    BROWSERS,
    SIZES,
    Open,
    Scheme,
    answers,
    check_layout,
    keep_picture,
)
from histories import CONGESTED, DST, FAR, HOPS, NEAR, SINGLE, TESTS_ALONE
from playwright.sync_api import Page, expect


def wait_for(page: Page, dst: str) -> None:
    expect(page.locator("#name")).to_have_text(dst)


@BROWSERS
@pytest.mark.parametrize("scheme", ["light", "dark"])
@SIZES
def test_the_page_shows_the_path_its_day_its_advice_and_its_history(
    url: str, open_page: Open, browser_name: str, name: str, size: tuple[int, int], scheme: Scheme
) -> None:
    page = open_page(f"{url}#{DST}", size, scheme)
    wait_for(page, DST)
    keep_picture(page, f"{browser_name}-{name}-{scheme}")
    check_layout(page)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(re.findall(r"\d+", ground)[0]) < 128) == (scheme == "dark")
    assert "Europe/Berlin" in page.locator("#zone").inner_text()
    for drawn in [
        "#day-chart .m",
        "#day-chart .b",
        "#day-chart .p",
        "#day-chart .t",
        "#strip .f-off",
    ]:
        assert page.locator(drawn).count() > 0, drawn
    assert page.locator("#state").inner_text() == ""


def test_the_mode_and_the_switch_are_words_with_a_sign(url: str, open_page: Open) -> None:
    page = open_page(f"{url}#{DST}")
    wait_for(page, DST)
    assert (
        page.locator("#mode").inner_text() == "Mode measure: share the path with others, as usual"
    )
    switch = page.locator("#switch").inner_text()
    assert "Congestion control may be off, at a risk" in switch
    assert "takes from everybody" in switch
    assert re.search(r"The permission ends at \d\d:\d\d\.", switch)
    assert page.locator("#switch .sign").inner_text() == "⚠"
    page.evaluate(f"choose('{CONGESTED}')")
    wait_for(page, CONGESTED)
    assert (
        page.locator("#mode").inner_text() == "Mode bg: take only bandwidth that nobody else wants"
    )
    assert "stays on: the path is congested" in page.locator("#switch").inner_text()
    page.evaluate(f"choose('{SINGLE}')")
    wait_for(page, SINGLE)
    assert "stays on: too little is known" in page.locator("#switch").inner_text()


def test_no_permission_looks_like_good_news(url: str, open_page: Open) -> None:
    """Off is neither green nor a tick, and each state of the strip has a height of its own."""
    page = open_page(f"{url}#{DST}")
    wait_for(page, DST)
    red, green, blue = map(
        int,
        re.findall(r"\d+", page.evaluate("getComputedStyle($('switch')).borderLeftColor"))[:3],
    )
    assert red > green > blue
    heights = page.evaluate("""['off', 'on', 'unknown'].map(
        k => document.querySelector(`.legend .${k}`).getBoundingClientRect().height)""")
    assert len(set(heights)) == 3


def type_over(page: Page, label: str, text: str) -> None:
    """With keys: over BiDi, fill() now and then appends to a number."""
    page.get_by_label(label).focus()
    page.keyboard.press("Control+a")
    page.keyboard.type(text)


@BROWSERS
def test_the_page_tells_how_long_a_transfer_takes(url: str, open_page: Open) -> None:
    page = open_page(f"{url}#{DST}")
    wait_for(page, DST)
    takes = page.locator("#takes")
    expect(takes).to_have_text(re.compile(r"takes \d+ min at the predicted bandwidth( \(.*\))?\."))
    bps = page.evaluate("drawn.advice.available_bps")
    # The bandwidth is another at each time of day: the amount is one that takes a day and a half.
    terabytes = f"{36 * 3600 * bps / 8e12:.3f}"
    type_over(page, "A transfer of", terabytes)
    page.get_by_label("Unit").select_option("TB")
    hours = float(terabytes) * 8e12 / bps / 3600
    expect(takes).to_have_text(re.compile(rf"takes {hours:.1f} h at"))
    type_over(page, "A transfer of", "0")
    expect(takes).to_have_text("Give a size above 0.")
    assert page.get_by_label("A transfer of").get_attribute("aria-invalid") == "true"
    type_over(page, "A transfer of", "2")
    page.evaluate(f"choose('{SINGLE}')")
    wait_for(page, SINGLE)
    expect(takes).to_have_text("takes an unknown time: no bandwidth is predicted.")


def test_what_the_advice_was_computed_from_is_told_with_a_sentence_each(
    url: str, open_page: Open
) -> None:
    page = open_page(f"{url}#{DST}")
    wait_for(page, DST)
    page.get_by_text("Computed from", exact=True).click()
    rows = page.locator("#values tbody tr").all_inner_texts()
    names = ["bandwidth", "spread of the trends", "fastest change", "change allowed"]
    assert all(name in row for name, row in zip([*names, "time until then"], rows, strict=True))
    assert all(row.strip().endswith(".") for row in rows)
    from_ = page.evaluate("drawn.advice.computed_from")
    epsilon = f"{from_['epsilon_bps'] / 1e6:.2f} Mbit/s"
    assert epsilon in rows[3]
    assert "per minute" in rows[1]
    assert "per minute" in rows[2]
    assert page.locator("#days tbody tr").count() == len(from_["days"])


def test_the_times_are_those_of_the_paths_zone(url: str, open_page: Open) -> None:
    page = open_page(f"{url}#{DST}")
    wait_for(page, DST)
    shown = re.match(r"([\d-]+ [\d:]+) (CET|CEST)", page.locator("#zone").inner_text())
    assert shown
    here = datetime.now(zoneinfo.ZoneInfo("Europe/Berlin")).replace(tzinfo=None)
    assert abs(here - datetime.fromisoformat(shown[1])) < timedelta(minutes=2)


@SIZES
def test_a_hop_is_not_drawn_under_another_ones_threshold(
    url: str, open_page: Open, name: str, size: tuple[int, int]
) -> None:
    # Older services do not tell who decides.
    tell = f"if (path === '/v1/advice') body.computed_from.deciding_hop = '{FAR}';"
    page = open_page(f"{url}#{HOPS}", size, script=answers(tell))
    wait_for(page, HOPS)
    keep_picture(page, f"hops-{name}")
    check_layout(page)
    assert page.locator("#day-chart .t").count() == 0
    assert page.locator("#day-chart .p").count() > 0
    note = page.locator("#hop-note").inner_text()
    assert f"Hop {NEAR} is drawn, which has the least bandwidth now." in note
    assert f"Hop {FAR} decides on congestion control, as it is congested" in note
    facts = page.locator("#facts").inner_text()
    assert re.search(rf"Newest measurement\n.*\n.*of hop {FAR}", facts), facts
    assert re.search(rf"Threshold\n420 Mbit/s\nof hop {FAR}", facts), facts
    assert re.search(rf"Predicted for now\n.*\n.*of hop {NEAR}", facts), facts
    # The other hop, with its own threshold and without the first one's prediction.
    page.get_by_label("Hop to draw").select_option(FAR)
    expect(page.locator("#history-title")).to_have_text(f"History of hop {FAR}")
    assert page.locator("#day-chart .t").count() == 1
    assert page.locator("#day-chart .p").count() == 0
    assert page.evaluate("drawn.measured[0].v") > 200e6


def test_a_service_that_does_not_tell_the_deciding_hop_gets_no_threshold(
    url: str, open_page: Open
) -> None:
    tell = """if (path === '/v1/advice') delete body.computed_from.deciding_hop;
        if (path === '/v1/history') delete body.hops;"""
    page = open_page(f"{url}#{HOPS}", script=answers(tell))
    wait_for(page, HOPS)
    assert page.locator("#day-chart .t").count() == 0
    note = page.locator("#hop-note").inner_text()
    assert "Which hop decides on congestion control is not told" in note
    assert "420 Mbit/s, is not drawn" in note
    assert {NEAR, FAR} <= set(page.evaluate("[...$('hop').options].map(o => o.value)"))


def test_the_hops_to_choose_from_are_those_that_the_history_tells(
    url: str, open_page: Open
) -> None:
    tell = f"if (path === '/v1/history') body.hops = ['{NEAR}', '{FAR}'];"
    page = open_page(f"{url}#{HOPS}", script=answers(tell))
    wait_for(page, HOPS)
    assert page.evaluate("[...$('hop').options].map(o => o.value)") == [NEAR, FAR]


@SIZES
@pytest.mark.parametrize("records", [1, 3])
def test_measurements_that_are_alone_are_dots(
    url: str, many: str, open_page: Open, records: int, name: str, size: tuple[int, int]
) -> None:
    """One record, and a few minutes of a day: as a line neither would be seen."""
    page = open_page(f"{url}#{SINGLE}" if records == 1 else many, size)
    expect(page.locator("#path")).to_be_visible()
    keep_picture(page, f"records-{records}-{name}")
    check_layout(page)
    for chart in ["day-chart", "history-chart"]:
        seen = f"""(() => {{ const chart = $('{chart}').getBoundingClientRect();
            return [...$('{chart}').querySelectorAll('circle.m')].map(
                c => c.getBoundingClientRect()).every(c => c.width >= 5
                    && c.left > chart.left && c.right <= chart.right); }})()"""
        assert page.locator(f"#{chart} circle.m").count() > 0
        assert page.evaluate(seen)
    lines = "[...document.querySelectorAll('.chart path')].map(p => p.getTotalLength())"
    assert all(length > 5 for length in page.evaluate(lines))


@SIZES
def test_a_path_of_active_tests_alone_is_listed_with_them(
    url: str, open_page: Open, name: str, size: tuple[int, int]
) -> None:
    page = open_page(f"{url}#{TESTS_ALONE}", size, "dark" if name == "desktop" else "light")
    wait_for(page, TESTS_ALONE)
    keep_picture(page, f"tests-{name}")
    check_layout(page)
    assert "tests alone" in page.locator("[aria-current=true]").inner_text()
    expect(page.locator("#day-card")).to_be_hidden()
    assert "no available bandwidth" in page.locator("#history-chart").inner_text()
    rows = page.evaluate("drawn.tests.map(t => Date.parse(t.time))")
    assert rows == sorted(rows, reverse=True)
    assert page.evaluate("$('tests-scroll').scrollWidth <= $('tests-scroll').clientWidth")
    table = page.evaluate(
        "[...$('tests-rows').rows].map(r => [...r.cells].map(c => c.textContent))"
    )
    assert len(table) == len(rows)
    by_source = {row[5]: row[1:4] for row in table}
    dash = "\N{EN DASH}"
    assert by_source["here/iperf3"] == [dash, dash, "48.2 Mbit/s"]
    assert by_source["here/ping"] == ["21.5 ms", "0 %", dash]
    assert any(row[5] == "here/ping" and row[2] != "0 %" for row in table)


@pytest.mark.parametrize("dst", [DST, HOPS])
def test_tests_are_shown_beside_measurements(url: str, open_page: Open, dst: str) -> None:
    page = open_page(f"{url}#{dst}")
    wait_for(page, dst)
    assert page.evaluate("$('tests-rows').rows.length") >= 4
    assert page.locator("#history-chart .m").count() > 0
