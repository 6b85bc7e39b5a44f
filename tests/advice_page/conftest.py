"""Browsers and services for the tests of the advice service's page."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from browsers import DESKTOP, Browsers, Open, Scheme
from histories import (
    CONGESTED,
    DST,
    FAR,
    HOPS,
    MANY,
    NEAR,
    SINGLE,
    TESTS_ALONE,
    Row,
    active_tests,
    bring,
    minute,
    service,
    wave,
)
from playwright.sync_api import Page, sync_playwright

from built import ADVICE


@pytest.fixture(scope="session")
def browsers() -> Iterator[Browsers]:
    with sync_playwright() as playwright:
        browsers = Browsers(playwright)
        yield browsers
        browsers.close()


@pytest.fixture
def browser_name() -> str:
    """A test that is run in several browsers has a parameter of this name."""
    return "chromium"


@pytest.fixture
def open_page(browsers: Browsers, browser_name: str) -> Iterator[Open]:
    pages: list[Page] = []

    def open_page(
        url: str, size: tuple[int, int] = DESKTOP, scheme: Scheme = "light", script: str = ""
    ) -> Page:
        page = browsers.page(browser_name, size, scheme, script)
        pages.append(page)
        page.goto(url)
        return page

    yield open_page
    faults = [page.evaluate("window.faults") for page in pages]
    for page in pages:
        page.close()
    assert all(not faults_of_one for faults_of_one in faults), faults


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with a path of each kind."""
    db = tmp_path_factory.mktemp("advice") / "history.db"
    single: Row = {"time": minute(1).isoformat(), "dst": SINGLE, "available_bps": 61_000_000}
    bring(db, [
        *wave(DST, 70e6, 100_000_000), *active_tests(DST), single, *active_tests(TESTS_ALONE),
        *wave(HOPS, 60e6, 100_000_000, 10, NEAR), *wave(HOPS, 300e6, 1_000_000_000, 10, FAR),
        *active_tests(HOPS), *wave(CONGESTED, 20e6, 100_000_000, 10),
    ])  # fmt: skip
    # Fresh records stay fresh, however long the tests take.
    settings = ["zone=Europe/Berlin", "freshness_s=14400"]
    subprocess.run([ADVICE, "set", "--db", db, *settings], check=True)
    with service(db) as url:
        yield url


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with many paths, of three records each."""
    db = tmp_path_factory.mktemp("many") / "history.db"
    times = [minute(back).isoformat() for back in [3, 2, 1]]
    rows: list[Row] = [
        {"time": time, "dst": f"10.{i // 40_000}.{i // 200 % 200}.{i % 200}",
         "available_bps": (i % 600 + 1) * 1_000_000}
        for i in range(MANY)
        for time in times
    ]  # fmt: skip
    bring(db, rows)
    with service(db) as url:
        yield url
