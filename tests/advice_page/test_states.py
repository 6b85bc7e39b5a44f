"""No history, no token, no such path, no service: what the page shows then."""

from __future__ import annotations

import re
import socket
from contextlib import ExitStack
from pathlib import Path

from browsers import BROWSERS, SIZES, Open, check_layout, keep_picture
from histories import DST, bring, minute, service, wave
from playwright.sync_api import Page, Route, expect

TOKEN = "a-token-for-the-tests"
A_RECORD = {"dst": DST, "available_bps": 61_000_000}


@SIZES
def test_without_history_the_page_says_so_and_notices_the_first(
    open_page: Open, tmp_path: Path, name: str, size: tuple[int, int]
) -> None:
    db = tmp_path / "empty.db"
    with service(db) as url:
        page = open_page(url, size)
        empty = page.get_by_text("There is no history yet")
        expect(empty).to_be_visible()
        keep_picture(page, f"empty-{name}")
        check_layout(page)
        expect(page.locator("#path")).to_be_hidden()
        expect(page.get_by_role("navigation")).to_be_hidden()
        bring(db, [A_RECORD | {"time": minute(1).isoformat()}])
        expect(page.get_by_role("heading", name=DST)).to_be_visible(timeout=20_000)
        expect(empty).to_be_hidden()


@BROWSERS
@SIZES
def test_nothing_but_the_form_is_shown_until_there_is_a_token(
    open_page: Open, tmp_path: Path, name: str, size: tuple[int, int]
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKEN + "\n")
    tokens.chmod(0o600)
    db = tmp_path / "history.db"
    bring(db, [A_RECORD | {"time": minute(1).isoformat()}])
    with service(db, "--read-token-file", tokens) as url:
        page = open_page(url, size)
        field = page.get_by_label("This service wants a token for reading")
        expect(field).to_be_focused()
        keep_picture(page, f"token-{name}")
        expect(page.get_by_role("navigation")).to_be_hidden()
        expect(page.locator("#path")).to_be_hidden()
        field.fill("not-a-token-of-theirs")
        field.press("Enter")
        expect(page.locator("#state")).to_have_text("This token is not taken")
        expect(page.locator("#path")).to_be_hidden()
        field.fill(TOKEN)
        field.press("Enter")
        expect(page.get_by_role("heading", name=DST)).to_be_visible()
        expect(field).to_be_hidden()


@BROWSERS
def test_old_data_is_marked_as_old_and_the_page_recovers_by_itself(
    open_page: Open, tmp_path: Path
) -> None:
    db = tmp_path / "history.db"
    bring(db, [A_RECORD | {"time": minute(1).isoformat()}])
    with ExitStack() as running:
        url = running.enter_context(service(db))
        page = open_page(url)
        page.get_by_role("heading", name=DST).wait_for()
        state = page.locator("#state")
        expect(state).to_have_text("")
        running.close()
        page.get_by_role("button", name="month").click()
        told = re.compile(
            r"The service does not answer\. Shown data is from \d\d:\d\d:\d\d \S+\. "
            r"The page asks again every few seconds\."
        )
        expect(state).to_have_text(told)
        keep_picture(page, "old")
        # Announced, in words, and once; what was shown stays.
        assert state.get_attribute("role") == "status"
        said = state.inner_text()
        expect(page.get_by_role("heading", name=DST)).to_be_visible()
        frame = "getComputedStyle(document.querySelector('#path section')).borderTopStyle"
        assert page.evaluate(frame) == "dashed"
        page.wait_for_timeout(6_000)
        assert state.inner_text() == said
        with service(db, listen=re.search(r"//([^/]+)/", url)[1]):
            expect(state).to_have_text("", timeout=15_000)
            expect(page.locator("#said")).to_have_text(
                "The service answers again. Shown data is up to date."
            )
            assert page.evaluate(frame) == "solid"


def test_a_permission_that_has_ended_is_not_shown_as_one(open_page: Open, tmp_path: Path) -> None:
    db = tmp_path / "history.db"
    bring(db, wave(DST, 70e6, 100_000_000, 10))
    with ExitStack() as running:
        url = running.enter_context(service(db))
        page = open_page(url)
        page.clock.install()
        page.reload()
        switch = page.locator("#switch")
        expect(switch).to_contain_text("Congestion control may be off, at a risk")
        running.close()
        page.clock.fast_forward(30 * 60_000)
        expect(switch).to_contain_text("this advice is over", timeout=15_000)
        expect(switch).to_have_class("switch unknown")


def test_an_error_of_the_service_or_of_a_proxy_is_told_as_such(url: str, open_page: Open) -> None:
    page = open_page(f"{url}#{DST}")
    page.get_by_role("heading", name=DST).wait_for()

    def answer_with(status: int, body: str) -> None:
        page.unroute_all()

        def answer(route: Route) -> None:
            route.fulfill(status=status, body=body)

        page.route("**/v1/**", answer)
        page.get_by_role("button", name="year").click()

    state = page.locator("#state")
    answer_with(503, '{"detail": "the history cannot be read at present"}')
    expect(state).to_contain_text("answers with an error: the history cannot be read at present.")
    answer_with(502, "<html>Bad Gateway</html>")
    expect(state).to_contain_text("answers with an error: the answer is 502")
    # A proxy's 404 is no word about the path.
    answer_with(404, "<html>Not Found</html>")
    expect(state).to_contain_text("answers with an error: the answer is 404")
    expect(page.get_by_role("heading", name=DST)).to_be_visible()
    page.unroute_all()
    page.get_by_role("button", name="week").click()
    expect(state).to_have_text("")


def test_a_service_that_accepts_and_never_answers_does_not_answer(
    url: str, open_page: Open
) -> None:
    page = open_page("about:blank")
    page.clock.install()
    page.goto(f"{url}#{DST}")
    page.get_by_role("heading", name=DST).wait_for()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        deaf = f"http://127.0.0.1:{silent.getsockname()[1]}"
        page.evaluate(f"""{{ const real = fetch; fetch = (url, more) => new Promise((_, fails) =>
            more.signal.onabort = () => fails(more.signal.reason)); '{deaf}' }}""")
        page.get_by_role("button", name="year").click()
        page.clock.fast_forward(21_000)
        expect(page.locator("#state")).to_contain_text("The service does not answer.")


def unknown(page: Page, title: str) -> None:
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    expect(page.get_by_role("heading", name="What to do")).to_be_visible()


@BROWSERS
def test_an_unknown_path_says_so_and_what_to_do(url: str, open_page: Open) -> None:
    page = open_page(f"{url}#192.0.2.88")
    unknown(page, "There is no history of 192.0.2.88")
    keep_picture(page, "unknown")
    check_layout(page)
    text = page.get_by_role("main").inner_text()
    assert "congestion control on, mode bg" in text
    assert "imtcp-agent feed" in text
    assert "imtcp-advice import --db DB --path 192.0.2.88 FILE" in text
    assert page.title() == "192.0.2.88 \N{EN DASH} imtcp advice"
    # It is no fault of the service, and the paths that there are can be chosen.
    assert page.locator("#state").inner_text() == ""
    similar = page.get_by_role("list", name="Paths with similar names")
    similar.get_by_role("button", name="192.0.2.8", exact=True).click()
    expect(page.get_by_role("heading", name="192.0.2.8", exact=True)).to_be_visible()


@SIZES
def test_a_mistyped_destination_says_so(
    url: str, open_page: Open, name: str, size: tuple[int, int]
) -> None:
    page = open_page(f"{url}#192.0.2.7/24", size)
    unknown(page, "“192.0.2.7/24” is no destination")
    keep_picture(page, f"mistyped-{name}")
    check_layout(page)
    expect(page.get_by_text("A destination is an address")).to_be_visible()
    expect(page.locator("#unknown-bring")).to_be_hidden()


def test_what_the_search_does_not_find_can_be_asked_for(url: str, open_page: Open) -> None:
    page = open_page(url)
    search = page.get_by_label("Find a path")
    search.fill("mirror.example")
    expect(page.locator("#found")).to_have_text(
        "No path's name contains “mirror.example”. Check the spelling."
    )
    search.press("Enter")
    unknown(page, "There is no history of mirror.example")


def test_an_unknown_path_is_shown_when_its_first_record_comes(
    open_page: Open, tmp_path: Path
) -> None:
    db = tmp_path / "history.db"
    bring(db, [A_RECORD | {"time": minute(1).isoformat()}])
    with service(db) as url:
        page = open_page(f"{url}#192.0.2.99")
        unknown(page, "There is no history of 192.0.2.99")
        bring(db, [A_RECORD | {"dst": "192.0.2.99", "time": minute(1).isoformat()}])
        expect(page.get_by_role("heading", name="192.0.2.99", exact=True)).to_be_visible(
            timeout=20_000
        )
        expect(page.locator("#unknown")).to_be_hidden()
