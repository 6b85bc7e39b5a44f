"""The advice service's page in a real browser."""

from __future__ import annotations

import base64
import fcntl
import json
import math
import os
import re
import select
import shutil
import subprocess
import time
import urllib.request
import zoneinfo
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
IMTCP = os.environ.get("IMTCP_BIN", str(ROOT / "target" / "release" / "imtcp"))
DST = "192.0.2.7"
CHROMIUM = shutil.which("chromium")
DESKTOP, PHONE = (1280, 900), (390, 844)
TOKEN = "a-token-for-the-tests"
SHOWN = "!document.getElementById('main').hidden"

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian: chromium)")

Row = dict[str, object]


class Browser:
    """Chromium by its own protocol, over a pipe: windows of any size, keys, and what is where."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM
        pipes = [*os.pipe(), *os.pipe()]
        # Out of the way of 3 and 4, where chromium wants its ends.
        theirs_in, ours_out, ours_in, theirs_out = (
            fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in pipes
        )
        for fd in pipes:
            os.close(fd)
        self.process = subprocess.Popen(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--disable-dev-shm-usage", "--disable-background-networking",
             "--remote-debugging-pipe", f"--user-data-dir={profile}"],
            preexec_fn=lambda: (os.dup2(theirs_in, 3), os.dup2(theirs_out, 4)),
            pass_fds=(3, 4), stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self.out, self.into, self.id = ours_out, ours_in, 0
        self.rest, self.session = b"", ""

    def close(self) -> None:
        self.session = ""
        self.call("Browser.close")
        self.process.wait(20)
        os.close(self.out)
        os.close(self.into)

    def call(self, method: str, **params: object) -> dict[str, Any]:
        self.id += 1
        message = {"id": self.id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                assert select.select([self.into], [], [], 30)[0], f"no answer to {method}"
                more = os.read(self.into, 1 << 16)
                assert more, "chromium has ended"
                self.rest += more
            text, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self.id:
                assert "error" not in answer, answer
                return answer["result"]

    def open(
        self, url: str, size: tuple[int, int] = DESKTOP, *, dark: bool = False, before: str = ""
    ) -> None:
        """A new page, with a script that runs before its own."""
        self.session = ""
        for old in self.call("Target.getTargets")["targetInfos"]:
            if old["type"] == "page":
                self.call("Target.closeTarget", targetId=old["targetId"])
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        width, height = size
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=size == PHONE)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.enable")
        faults = "window.faults = []; onerror = m => { faults.push(m); };"
        self.call("Page.addScriptToEvaluateOnNewDocument", source=faults + before)
        self.call("Page.navigate", url=url)

    def js(self, expression: str) -> Any:  # noqa: ANN401 (whatever the page says)
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)  # fmt: skip
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, expression: str, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while not self.js(f"document.readyState === 'complete' && Boolean({expression})"):
            assert time.monotonic() < end, f"{expression}: {self.js('document.body.innerText')}"
            time.sleep(0.05)

    def key(self, key: str) -> None:
        code = {"Tab": 9, "Enter": 13, "End": 35, "Home": 36, "ArrowUp": 38, "ArrowDown": 40}[key]
        more = {"text": "\r"} if key == "Enter" else {}
        names = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **names, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", **names)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def picture(self, out: Path, *, whole: bool = True) -> None:
        """For people to look at."""
        taken = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        out.write_bytes(base64.b64decode(taken["data"]))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


COLUMNS = ["time", "dst", "hop", "source", "available_bps", "capacity_bps", "rtt_us", "loss",
           "throughput_bps"]  # fmt: skip


def bring(db: Path, rows: list[Row]) -> None:
    lines = [",".join(COLUMNS)]
    lines += [",".join(str(row.get(column, "")) for column in COLUMNS) for row in rows]
    command = [IMTCP, "advice", "import", "--db", db, "-"]
    subprocess.run(command, input="\n".join(lines), text=True, check=True)


@contextmanager
def service(db: Path, *options: str | Path) -> Iterator[str]:
    serve = [IMTCP, "advice", "serve", "--db", db, "--listen", "127.0.0.1:0", "--no-ping"]
    with subprocess.Popen([*serve, *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield re.search(r"http://\S+/", process.stdout.readline())[0]
        finally:
            process.terminate()


def minute(back: int = 0) -> datetime:
    return datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=back)


def wave(dst: str, bps: float, capacity_bps: int, every: int = 1, hop: str = "") -> list[Row]:
    """Nine days of minutes until now, with a daily wave."""
    rows: list[Row] = []
    for back in range(9 * 1440, -1, -every):
        at = minute(back)
        share = 1 + math.sin((at.hour * 60 + at.minute) / 1440 * math.tau) / 7
        rows.append({"time": at.isoformat(), "dst": dst, "hop": hop, "source": "here",
                     "available_bps": int(bps * share), "capacity_bps": capacity_bps,
                     "rtt_us": 30000})  # fmt: skip
    return rows


def active_tests(dst: str) -> list[Row]:
    """A ping every minute of three hours, one of them lost, and an iperf3 each hour."""
    pings: list[Row] = [
        {"time": minute(back).isoformat(), "dst": dst, "source": "here/ping",
         "rtt_us": 21500, "loss": 0}
        for back in range(180, 0, -1)
    ]  # fmt: skip
    lost: Row = {"time": minute().isoformat(), "dst": dst, "source": "here/ping", "loss": 1}
    transfers: list[Row] = [
        {"time": minute(back).isoformat(), "dst": dst, "source": "here/iperf3",
         "throughput_bps": 48_200_000}
        for back in range(170, 0, -60)
    ]  # fmt: skip
    return [*pings, lost, *transfers]


#: A path with hops: the near one has the least bandwidth, the far one is congested.
HOPS, NEAR, FAR = "192.0.2.20", "198.51.100.1", "198.51.100.9"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    db = tmp_path_factory.mktemp("advice") / "history.db"
    single: Row = {"time": minute(1).isoformat(), "dst": "192.0.2.8", "available_bps": 61_000_000}
    bring(db, [
        *wave(DST, 70e6, 100_000_000), *active_tests(DST), single, *active_tests("192.0.2.9"),
        *wave(HOPS, 60e6, 100_000_000, 10, NEAR), *wave(HOPS, 300e6, 1_000_000_000, 10, FAR),
        *active_tests(HOPS),
    ])  # fmt: skip
    subprocess.run([IMTCP, "advice", "set", "--db", db, "zone=Europe/Berlin"], check=True)
    with service(db) as url:
        yield url


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """600 paths."""
    db = tmp_path_factory.mktemp("many") / "history.db"
    rows: list[Row] = [
        {"time": minute(back).isoformat(), "dst": f"203.0.{i // 200}.{i % 200}",
         "available_bps": (i + 1) * 1_000_000}
        for i in range(600)
        for back in [3, 2, 1]
    ]  # fmt: skip
    bring(db, rows)
    with service(db) as url:
        yield url


@pytest.fixture
def keep(tmp_path: Path, browser: Browser) -> Callable[[str], None]:
    def keep(name: str) -> None:
        """Pictures stay where IMTCP_PICTURES says, for people to look at."""
        directory = Path(os.environ.get("IMTCP_PICTURES", tmp_path))
        directory.mkdir(parents=True, exist_ok=True)
        browser.picture(directory / f"{name}.png")
        assert (directory / f"{name}.png").stat().st_size > 5_000
        assert browser.js("faults") == []

    return keep


Keep = Callable[[str], None]


def checked_layout(browser: Browser) -> None:
    """Nothing is wider than the window, and no text is cut."""
    assert browser.js("document.documentElement.scrollWidth <= innerWidth")
    wide = """[...document.querySelectorAll('h2, h3, p, dt, dd, dd small, .badge, button, label')]
        .filter(e => e.clientWidth && e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)"""
    assert browser.js(wide) == []


@pytest.mark.parametrize(
    ("name", "size", "dark"),
    [
        ("desktop", DESKTOP, False),
        ("desktop-dark", DESKTOP, True),
        ("phone", PHONE, False),
        ("phone-dark", PHONE, True),
    ],
)
def test_the_page_shows_the_path_its_day_its_advice_and_its_history(
    url: str, browser: Browser, keep: Keep, name: str, size: tuple[int, int], dark: bool
) -> None:
    browser.open(f"{url}#{DST}", size, dark=dark)
    browser.wait(SHOWN)
    keep(name)
    checked_layout(browser)
    dom = browser.js("document.documentElement.outerHTML")
    assert f'id="name">{DST}<' in dom
    assert "congestion control off" in dom
    assert "Europe/Berlin" in dom
    for drawn in ['class="m"', 'class="b"', 'class="p"', 'class="t"', 'class="f-off"']:
        assert drawn in dom, drawn
    assert '<p id="state" role="status"></p>' in dom


def test_the_page_needs_nothing_from_elsewhere(url: str) -> None:
    with urllib.request.urlopen(url) as answer:
        page = answer.read().decode()
        policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    addresses = set(re.findall(r"(?:https?:)?//[a-z][\w.]+\.\w+", page))
    assert addresses <= {"http://www.w3.org"}, addresses


def test_the_times_are_those_of_the_paths_zone(url: str, browser: Browser) -> None:
    browser.open(f"{url}#{DST}")
    browser.wait(SHOWN)
    shown = re.match(r"([\d-]+ [\d:]+) (CET|CEST)", browser.js("$('zone').textContent"))
    assert shown
    here = datetime.now(zoneinfo.ZoneInfo("Europe/Berlin")).replace(tzinfo=None)
    assert abs(here - datetime.fromisoformat(shown[1])) < timedelta(minutes=2)


@pytest.mark.parametrize(("name", "size"), [("desktop", DESKTOP), ("phone", PHONE)])
def test_without_history_the_page_says_so_and_notices_the_first(
    browser: Browser, keep: Keep, tmp_path: Path, name: str, size: tuple[int, int]
) -> None:
    db = tmp_path / "empty.db"
    with service(db) as url:
        browser.open(url, size)
        browser.wait("$('empty').offsetHeight")
        keep(f"empty-{name}")
        assert browser.js("$('empty').getBoundingClientRect().bottom < innerHeight")
        assert (
            browser.js("$('main').offsetHeight + document.querySelector('nav').offsetHeight") == 0
        )
        bring(db, [{"time": minute(1).isoformat(), "dst": DST, "available_bps": 61_000_000}])
        browser.wait("$('main').offsetHeight && $('name').textContent")
        assert browser.js("$('name').textContent") == DST
        assert browser.js("$('empty').offsetHeight") == 0


@pytest.mark.parametrize(("name", "size"), [("desktop", DESKTOP), ("phone", PHONE)])
def test_nothing_but_the_form_is_shown_until_there_is_a_token(
    browser: Browser, keep: Keep, tmp_path: Path, name: str, size: tuple[int, int]
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKEN + "\n")
    tokens.chmod(0o600)
    db = tmp_path / "history.db"
    bring(db, [{"time": minute(1).isoformat(), "dst": DST, "available_bps": 61_000_000}])
    with service(db, "--read-token-file", tokens) as url:
        browser.open(url, size)
        browser.wait("$('token').offsetHeight")
        keep(f"token-{name}")
        assert browser.js("$('layout').offsetHeight") == 0
        assert browser.js("document.activeElement.matches('#token input')")
        browser.type("not-a-token-of-theirs")
        browser.key("Enter")
        browser.wait("$('state').textContent === 'This token is not taken'")
        assert browser.js("$('token').offsetHeight > 0 && $('layout').offsetHeight === 0")
        browser.js("document.querySelector('#token input').select()")
        browser.type(TOKEN)
        browser.key("Enter")
        browser.wait("$('main').offsetHeight")
        assert browser.js("$('token').offsetHeight") == 0
        assert browser.js("$('name').textContent") == DST


def test_many_paths_stay_beside_what_they_choose(many: str, browser: Browser, keep: Keep) -> None:
    browser.open(f"{many}#203.0.2.100")
    browser.wait("$('name').textContent === '203.0.2.100'")
    keep("many-desktop")
    # The charts come where they come with one path, and the list scrolls by itself.
    assert browser.js("$('day-chart').getBoundingClientRect().top") < 900
    assert browser.js("document.querySelector('nav').offsetHeight") <= 900
    assert browser.js("document.documentElement.scrollHeight") < 2000
    assert browser.js("$('paths').scrollHeight > 2 * $('paths').clientHeight")
    # The one that the address names is in the list's view.
    seen = """(() => { const b = document.querySelector('[aria-current=true]')
        .getBoundingClientRect(), l = $('paths').getBoundingClientRect();
        return b.top >= l.top && b.bottom <= l.bottom; })()"""
    assert browser.js(seen)
    browser.js("scrollTo(0, 500)")
    assert browser.js("document.querySelector('nav').getBoundingClientRect().top") >= 0


def test_many_paths_on_a_phone_are_found_and_leave_room(
    many: str, browser: Browser, keep: Keep
) -> None:
    browser.open(many, PHONE)
    browser.wait(SHOWN)
    keep("many-phone")
    checked_layout(browser)
    assert browser.js("document.querySelector('nav').offsetHeight") < 844 / 2
    assert browser.js("$('found').textContent") == "600 paths"
    several = """(() => { const l = $('paths').getBoundingClientRect();
        return [...$('paths').querySelectorAll('button')].filter(
            b => b.getBoundingClientRect().bottom <= l.bottom).length; })()"""
    assert browser.js(several) >= 3
    browser.js("$('find').focus()")
    browser.type("203.0.1.17")
    assert browser.js("$('found').textContent") == "11 of 600 paths"
    browser.js("$('paths').querySelector('[data-dst=\"203.0.1.178\"]').click()")
    browser.wait("$('name').textContent === '203.0.1.178'")


def test_paths_are_chosen_with_the_keyboard(many: str, browser: Browser) -> None:
    browser.open(many)
    browser.wait(SHOWN)
    focused = "document.activeElement.dataset.dst || document.activeElement.id"
    assert browser.js("document.querySelector('label[for=find]').textContent")
    browser.js("$('find').focus()")
    browser.key("ArrowDown")
    assert browser.js(focused) == "203.0.0.0"
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert browser.js(f"document.activeElement.matches(':focus-visible') && {outline}") == "solid"
    browser.key("End")
    assert browser.js(focused) == browser.js("state.paths.at(-1).dst")
    browser.key("ArrowUp")
    chosen = browser.js("state.paths.at(-2).dst")
    assert browser.js(focused) == chosen
    browser.key("Enter")
    browser.wait(f"$('name').textContent === '{chosen}'")
    # Neither the choice nor a refreshed list takes the place away.
    browser.js("start()")
    assert browser.js(focused) == chosen
    # One stop: the next is in the content.
    browser.key("Tab")
    assert browser.js("$('main').contains(document.activeElement)")


def answers(change: str) -> str:
    """A script that changes the service's answers before the page reads them."""
    return f"""{{ const real = fetch; fetch = async (url, more) => {{
        const answer = await real(url, more), body = await answer.json();
        const path = new URL(url, location).pathname;
        {change}
        return new Response(JSON.stringify(body), answer);
    }}; }}"""


def test_a_hop_is_not_drawn_under_another_ones_threshold(
    url: str, browser: Browser, keep: Keep
) -> None:
    for size, name in [(DESKTOP, "desktop"), (PHONE, "phone")]:
        # Older services do not tell who decides.
        tell = f"if (path === '/v1/advice') body.computed_from.deciding_hop = '{FAR}';"
        browser.open(f"{url}#{HOPS}", size, before=answers(tell))
        browser.wait(SHOWN)
        keep(f"hops-{name}")
        checked_layout(browser)
        assert browser.js("document.querySelectorAll('#day-chart .t').length") == 0
        assert browser.js("document.querySelectorAll('#day-chart .p').length") > 0
        note = browser.js("$('hop-note').innerText")
        assert f"Hop {NEAR} is drawn, which has the least bandwidth now." in note
        assert f"Hop {FAR} decides on congestion control, as it is congested" in note
        facts = browser.js("$('facts').innerText")
        assert re.search(rf"Newest measurement\n.*\n.*of hop {FAR}", facts), facts
        assert re.search(rf"Threshold\n420 Mbit/s\nof hop {FAR}", facts), facts
        assert re.search(rf"Predicted for now\n.*\n.*of hop {NEAR}", facts), facts
    # The other hop, with its own threshold and without the first one's prediction.
    browser.js(f"$('hop').value = '{FAR}'; $('hop').onchange({{ target: $('hop') }})")
    browser.wait(f"$('history-title').textContent === 'History of hop {FAR}'")
    keep("hops-other")
    assert browser.js("document.querySelectorAll('#day-chart .t').length") == 1
    assert browser.js("document.querySelectorAll('#day-chart .p').length") == 0
    assert browser.js("drawn.measured[0].v") > 200e6


def test_a_service_that_does_not_tell_the_deciding_hop_gets_no_threshold(
    url: str, browser: Browser
) -> None:
    tell = """if (path === '/v1/advice') delete body.computed_from.deciding_hop;
        if (path === '/v1/history') delete body.hops;"""
    browser.open(f"{url}#{HOPS}", before=answers(tell))
    browser.wait(SHOWN)
    assert browser.js("document.querySelectorAll('#day-chart .t').length") == 0
    note = browser.js("$('hop-note').textContent")
    assert "Which hop decides on congestion control is not told" in note
    assert "420 Mbit/s, is not drawn" in note
    assert {NEAR, FAR} <= set(browser.js("[...$('hop').options].map(o => o.value)"))


def test_the_hops_to_choose_from_are_those_that_the_history_tells(
    url: str, browser: Browser
) -> None:
    tell = f"if (path === '/v1/history') body.hops = ['{NEAR}', '{FAR}'];"
    browser.open(f"{url}#{HOPS}", before=answers(tell))
    browser.wait(SHOWN)
    assert browser.js("[...$('hop').options].map(o => o.value)") == [NEAR, FAR]


@pytest.mark.parametrize(("name", "size"), [("desktop", DESKTOP), ("phone", PHONE)])
@pytest.mark.parametrize("records", [1, 3])
def test_measurements_that_are_alone_are_dots(
    url: str,
    many: str,
    browser: Browser,
    keep: Keep,
    records: int,
    name: str,
    size: tuple[int, int],
) -> None:
    """One record, and a few minutes of a day: as a line neither would be seen."""
    browser.open(f"{url}#192.0.2.8" if records == 1 else many, size)
    browser.wait(SHOWN)
    keep(f"records-{records}-{name}")
    checked_layout(browser)
    for chart in ["day-chart", "history-chart"]:
        seen = f"""(() => {{ const chart = $('{chart}').getBoundingClientRect();
            return [...$('{chart}').querySelectorAll('circle.m')].map(
                c => c.getBoundingClientRect()).every(c => c.width >= 5
                    && c.left > chart.left && c.right <= chart.right); }})()"""
        assert browser.js(f"document.querySelectorAll('#{chart} circle.m').length") > 0
        assert browser.js(seen)
    lines = "[...document.querySelectorAll('.chart path')].map(p => p.getTotalLength())"
    assert all(length > 5 for length in browser.js(lines))


@pytest.mark.parametrize(
    ("name", "size", "dark"), [("desktop", DESKTOP, True), ("phone", PHONE, False)]
)
def test_a_path_of_active_tests_alone_is_listed_with_them(
    url: str, browser: Browser, keep: Keep, name: str, size: tuple[int, int], dark: bool
) -> None:
    browser.open(f"{url}#192.0.2.9", size, dark=dark)
    browser.wait("$('name').textContent === '192.0.2.9'")
    keep(f"tests-{name}")
    checked_layout(browser)
    assert "tests alone" in browser.js("document.querySelector('[aria-current=true]').innerText")
    assert browser.js("$('day-card').offsetHeight") == 0
    assert "no available bandwidth" in browser.js("$('history-chart').textContent")
    rows = browser.js("drawn.tests.map(t => Date.parse(t.time))")
    assert rows == sorted(rows, reverse=True)
    cells = "[...$('tests-rows').rows].map(r => [...r.cells].map(c => c.textContent))"
    assert browser.js("$('tests-scroll').scrollWidth <= $('tests-scroll').clientWidth")
    table = browser.js(cells)
    assert len(table) == len(rows)
    by_source = {row[5]: row[1:4] for row in table}
    dash = "\N{EN DASH}"
    assert by_source["here/iperf3"] == [dash, dash, "48.2 Mbit/s"]
    assert by_source["here/ping"] == ["21.5 ms", "0 %", dash]
    assert any(row[5] == "here/ping" and row[2] != "0 %" for row in table)


@pytest.mark.parametrize("dst", [DST, HOPS])
def test_tests_are_shown_beside_measurements(url: str, browser: Browser, dst: str) -> None:
    browser.open(f"{url}#{dst}")
    browser.wait(f"$('name').textContent === '{dst}'")
    assert browser.js("$('tests-rows').rows.length") >= 4
    assert browser.js("document.querySelectorAll('#history-chart .m').length") > 0


def test_charts_are_read_with_pointer_and_keys(url: str, browser: Browser) -> None:
    browser.open(f"{url}#{DST}")
    browser.wait(SHOWN)
    told = "document.querySelector('#{} .tip:not([hidden])')?.textContent"
    x, y = browser.js("""(() => { const r = $('day-chart').firstChild.getBoundingClientRect();
        return [r.left + r.width / 2, r.top + r.height / 2]; })()""")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    # Not until the next frame alone.
    time.sleep(0.5)
    assert re.match(r"\d\d:\d\d\nmeasured\t.* Mbit/s", browser.js(told.format("day-chart")))
    browser.js("$('history-chart').firstChild.focus()")
    browser.key("Home")
    assert "Mbit/s" in browser.js(told.format("history-chart"))
    browser.js("load()")
    browser.wait("document.activeElement === $('history-chart').firstChild")


@pytest.mark.parametrize("dst", [DST, HOPS, "192.0.2.9"])
def test_fingers_have_room_on_a_phone(url: str, browser: Browser, dst: str) -> None:
    browser.open(f"{url}#{dst}", PHONE)
    browser.wait(f"$('name').textContent === '{dst}'")
    small = """[...document.querySelectorAll('button, input, select, summary')]
        .filter(e => e.offsetParent).map(e => [e.id || e.textContent, e.getBoundingClientRect()])
        .filter(([, r]) => r.width < 40 || r.height < 40).map(([name]) => name)"""
    assert browser.js(small) == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("dst", [DST, HOPS, "192.0.2.9"])
def test_text_can_be_read_in_both_schemes(url: str, browser: Browser, dst: str, dark: bool) -> None:
    """WCAG AA: 4.5 to 1, of each text on the colours that it is on."""
    browser.open(f"{url}#{dst}", dark=dark)
    browser.wait(f"$('name').textContent === '{dst}'")
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
    assert browser.js(faint) == []
