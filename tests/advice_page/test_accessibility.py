"""The page read with keys, fingers or a screen reader, and in either colour scheme."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from browsers import BROWSERS, PHONE, SCHEMES, Open, Scheme
from histories import CONGESTED, DST, HOPS, SINGLE, TESTS_ALONE, service
from playwright.sync_api import Page, expect

AXE = Axe()
UNKNOWN = "192.0.2.88"


def check_rules(page: Page) -> None:
    """All of axe-core's rules, also those of best practice."""
    results = AXE.run(page)
    assert results.violations_count == 0, results.generate_report()


def choose(page: Page, dst: str) -> None:
    page.evaluate("dst => choose(dst)", dst)
    expect(page.locator("#name")).to_have_text(dst)


@SCHEMES
def test_no_rule_is_violated_by_any_kind_of_path(url: str, open_page: Open, scheme: Scheme) -> None:
    page = open_page(f"{url}#{DST}", scheme=scheme)
    page.get_by_role("heading", name=DST).wait_for()
    check_rules(page)
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    for dst in [DST, HOPS, CONGESTED, SINGLE, TESTS_ALONE]:
        choose(page, dst)
        check_rules(page)
    page.evaluate(f"choose('{UNKNOWN}')")
    page.get_by_role("heading", name=f"There is no history of {UNKNOWN}").wait_for()
    check_rules(page)
    page.get_by_label("Find a path").fill("nowhere")
    expect(page.locator("#found")).to_contain_text("Check the spelling")
    check_rules(page)


@SCHEMES
def test_no_rule_is_violated_while_the_service_is_away(
    url: str, open_page: Open, scheme: Scheme
) -> None:
    page = open_page(f"{url}#{DST}", scheme=scheme)
    page.get_by_role("heading", name=DST).wait_for()
    page.route("**/v1/**", lambda route: route.abort())
    page.get_by_role("button", name="month").click()
    expect(page.locator("#state")).to_contain_text("The service does not answer.")
    check_rules(page)


@SCHEMES
def test_no_rule_is_violated_by_an_empty_history_nor_by_the_form_for_a_token(
    open_page: Open, tmp_path: Path, scheme: Scheme
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("a-token-for-the-tests\n")
    tokens.chmod(0o600)
    with service(tmp_path / "empty.db", "--read-token-file", tokens) as url:
        page = open_page(url, scheme=scheme)
        field = page.get_by_label("This service wants a token for reading")
        expect(field).to_be_visible()
        check_rules(page)
        field.fill("a-token-for-the-tests")
        field.press("Enter")
        expect(page.get_by_text("There is no history yet")).to_be_visible()
        check_rules(page)


@pytest.mark.parametrize("browser_name", ["firefox"])
def test_no_rule_is_violated_in_firefox(url: str, open_page: Open) -> None:
    page = open_page(f"{url}#{HOPS}")
    expect(page.locator("#name")).to_have_text(HOPS)
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    check_rules(page)


def test_a_chart_is_a_picture_with_a_sentence_and_a_table_with_its_values(
    url: str, open_page: Open
) -> None:
    page = open_page(f"{url}#{DST}")
    page.get_by_role("heading", name=DST).wait_for()
    alternative = page.locator("#day-chart").get_by_role("img").get_attribute("aria-label")
    rate = r"[\d.]+ (Mbit/s )?\u2013 [\d.]+ Mbit/s"
    assert re.fullmatch(
        rf"Available bandwidth on [\d-]+: measured between {rate}; predicted between {rate}; "
        r"threshold of congestion 42\.0 Mbit/s\. The table below has the values\.",
        alternative,
    )
    strip = page.locator("#strip").get_by_role("img").get_attribute("aria-label")
    assert "may be off for 100 % of the time" in strip
    page.get_by_text("The day as a table").click()
    day = page.locator("#day-table tbody tr")
    assert day.count() == 12
    assert re.match(r"00:00\t[\d.]+ Mbit/s\t[\d.]+ Mbit/s\t.*may be off", day.first.inner_text())
    page.get_by_text("The history as a table").click()
    assert page.locator("#history-table tbody tr").count() == 8
    page.get_by_role("button", name="year").click()
    # Drawn anew by then: around the end of a month the days before have others.
    page.locator("#history-table").get_by_text("Month").wait_for()
    expect(page.locator("#history-table tbody tr")).to_have_count(
        page.evaluate("new Set(drawn.history.map(p => date(p.t).slice(0, 7))).size")
    )


@BROWSERS
def test_values_are_read_with_the_keys_and_told_to_a_screen_reader(
    url: str, open_page: Open
) -> None:
    page = open_page(f"{url}#{DST}")
    page.get_by_role("heading", name=DST).wait_for()
    slider = page.get_by_role("slider", name="Values of the day")
    slider.focus()
    page.keyboard.press("Home")
    expect(slider).to_have_attribute(
        "aria-valuetext", re.compile(r"00:0\d measured [\d.]+ Mbit/s predicted [\d.]+ Mbit/s")
    )
    tip = page.locator("#day-chart .tip")
    expect(tip).to_be_visible()
    first = slider.get_attribute("aria-valuetext")
    page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") != first
    outline = "getComputedStyle($('day-chart')).outlineStyle"
    assert page.evaluate(outline) == "solid"
    # Who reads goes on reading after the page has been refreshed.
    at = slider.get_attribute("aria-valuetext")
    page.evaluate("load()")
    assert slider.get_attribute("aria-valuetext") == at
    expect(slider).to_be_focused()
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    strip = page.get_by_role("slider", name="Advice through the day")
    strip.focus()
    expect(strip).to_have_attribute(
        "aria-valuetext", re.compile(r"\d\d:\d\d may be off, at a risk")
    )


@BROWSERS
def test_values_are_read_with_the_pointer(url: str, open_page: Open) -> None:
    page = open_page(f"{url}#{DST}")
    page.get_by_role("heading", name=DST).wait_for()
    page.locator("#day-chart svg").hover()
    tip = page.locator("#day-chart .tip")
    expect(tip).to_be_visible()
    told = page.evaluate("document.querySelector('#day-chart .tip').textContent")
    assert re.match(r"\d\d:\d\d\nmeasured\t.* Mbit/s", told)
    page.mouse.move(1, 1)
    expect(tip).to_be_hidden()


def test_another_path_and_another_advice_are_announced_and_each_minute_is_not(
    url: str, open_page: Open
) -> None:
    page = open_page(f"{url}#{DST}")
    page.get_by_role("heading", name=DST).wait_for()
    said = page.locator("#said")
    assert said.get_attribute("role") == "status"
    expect(said).to_have_text(re.compile(
        rf"{DST}: mode measure\. Congestion control may be off, at a risk\. Predicted .* Mbit/s\."
    ))  # fmt: skip
    page.evaluate("""window.announced = 0;
        new MutationObserver(() => announced++).observe($('said'), { childList: true })""")
    page.evaluate("load()")
    assert page.evaluate("announced") == 0
    choose(page, CONGESTED)
    expect(said).to_have_text(re.compile(rf"{CONGESTED}: mode bg\. Congestion control stays on"))
    assert page.title() == f"{CONGESTED} \N{EN DASH} imtcp advice"


def test_the_tab_key_goes_from_the_paths_through_the_content(url: str, open_page: Open) -> None:
    page = open_page(f"{url}#{HOPS}")
    expect(page.locator("#name")).to_have_text(HOPS)
    stops = []
    for _ in range(15):
        page.keyboard.press("Tab")
        stops.append(
            page.evaluate("""(() => { const e = document.activeElement;
            return e.id || e.dataset.dst || e.getAttribute('aria-label') || e.textContent; })()""")
        )
    expected = ["skip", "find", HOPS, "amount", "unit", "hop", "before", "day"]
    order = [stops.index(stop) for stop in expected]
    assert order == sorted(order), stops
    page.locator("#skip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    # The link is no destination.
    expect(page.locator("#name")).to_have_text(HOPS)
    assert [
        landmark.count() for landmark in map(page.get_by_role, ["banner", "navigation", "main"])
    ] == [1, 1, 1]


@pytest.mark.parametrize("dst", [DST, HOPS, TESTS_ALONE])
def test_fingers_have_room_on_a_phone(url: str, open_page: Open, dst: str) -> None:
    page = open_page(f"{url}#{dst}", PHONE)
    expect(page.locator("#name")).to_have_text(dst)
    small = """[...document.querySelectorAll('button, input, select, summary')]
        .filter(e => e.offsetParent && !e.matches('.slider'))
        .map(e => [e.id || e.textContent, e.getBoundingClientRect()])
        .filter(([, r]) => r.width < 40 || r.height < 40).map(([name]) => name)"""
    assert page.evaluate(small) == []


@SCHEMES
@pytest.mark.parametrize("dst", [DST, HOPS, TESTS_ALONE, CONGESTED])
def test_text_can_be_read_in_both_schemes(
    url: str, open_page: Open, dst: str, scheme: Scheme
) -> None:
    """WCAG AA: 4.5 to 1, of each text on the colours that it is on; axe leaves charts out."""
    page = open_page(f"{url}#{dst}", scheme=scheme)
    expect(page.locator("#name")).to_have_text(dst)
    faint = """(() => {
        const of = c => (c.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
        const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(
            v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
        const ground = e => { for (; e; e = e.parentElement) {
            const c = of(getComputedStyle(e).backgroundColor);
            if (c.length < 4 || c[3] > 0) return c; } };
        const texts = [...document.querySelectorAll('body *')].filter(e => e.getClientRects().length
            && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()));
        return texts.map(e => { const s = getComputedStyle(e), [a, b] = [
            light(of(e.closest('svg') ? s.fill : s.color)), light(ground(e))].sort((a, b) => b - a);
            return [e.textContent.slice(0, 40), (a + .05) / (b + .05)];
        }).filter(([, ratio]) => ratio < 4.5);
    })()"""
    assert page.evaluate(faint) == []
