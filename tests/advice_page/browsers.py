"""Debian's browsers, driven by Playwright, and what is asked of every page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect

DESKTOP, PHONE = (1200, 900), (375, 812)

Scheme = Literal["light", "dark"]
#: Opens the page: URL, size, scheme, and a script that runs before the page's own.
Open = Callable[..., Page]

BROWSERS = pytest.mark.parametrize("browser_name", ["chromium", "firefox"])
SCHEMES = pytest.mark.parametrize("scheme", ["light", "dark"])
SIZES = pytest.mark.parametrize(("name", "size"), [("desktop", DESKTOP), ("phone", PHONE)])

#: Milliseconds: other tests may run beside these.
expect.set_options(timeout=20_000)


class Browsers:
    """Debian's browsers, each started when a test first asks for it."""

    def __init__(self, playwright: Playwright) -> None:
        self.playwright = playwright
        self.started: dict[tuple[str, Scheme], Browser] = {}

    def page(self, name: str, size: tuple[int, int], scheme: Scheme, script: str) -> Page:
        browser = self.browser(name, scheme)
        # Over WebDriver BiDi, Firefox takes the scheme from its preferences alone.
        page = browser.new_page(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme if name == "chromium" else None,
            # A certificate made by a test is trusted by nobody.
            ignore_https_errors=True,
        )
        faults = """window.faults = [];
            onerror = text => { faults.push(text); };
            onunhandledrejection = event => { faults.push(String(event.reason)); };
            addEventListener('securitypolicyviolation', e => faults.push(e.violatedDirective));"""
        page.add_init_script(faults + script)
        return page

    def browser(self, name: str, scheme: Scheme) -> Browser:
        key = (name, scheme if name == "firefox" else "light")
        if key not in self.started:
            self.started[key] = getattr(self, f"start_{name}")(scheme)
        return self.started[key]

    def start_chromium(self, _: Scheme) -> Browser:
        path = shutil.which("chromium")
        if path is None:
            pytest.skip("needs chromium (Debian: chromium)")
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking",
                     "--disable-component-update", "--disable-sync",
                     "--host-resolver-rules=MAP *.example.org 127.0.0.1"]  # fmt: skip
        return self.playwright.chromium.launch(executable_path=path, args=arguments)

    def start_firefox(self, scheme: Scheme) -> Browser:
        path = shutil.which("firefox-esr")
        if path is None:
            pytest.skip("needs Firefox (Debian: firefox-esr)")
        # An unpatched Firefox: Playwright drives it over WebDriver BiDi.
        dark = {"layout.css.prefers-color-scheme.content-override": 0 if scheme == "dark" else 1}
        return self.playwright.firefox.launch(
            executable_path=path, channel="moz-firefox", firefox_user_prefs=dark
        )

    def close(self) -> None:
        for browser in self.started.values():
            browser.close()


def keep_picture(page: Page, name: str) -> None:
    """Pictures stay where IMTCP_PICTURES says, for people to look at."""
    directory = os.environ.get("IMTCP_PICTURES")
    browser = page.context.browser
    # For a picture in Firefox, Playwright adds a style, which the page's policy refuses.
    if directory and browser and browser.browser_type.name == "chromium":
        page.screenshot(path=Path(directory) / f"{name}.png", full_page=True)


def check_layout(page: Page) -> None:
    """Nothing is wider than the window, and no text is cut."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    wide = """[...document.querySelectorAll('h2, h3, p, dt, dd, dd small, button, label')]
        .filter(e => e.clientWidth && !e.matches('.unseen') && e.scrollWidth > e.clientWidth + 1)
        .map(e => e.textContent)"""
    assert page.evaluate(wide) == []


def answers(change: str) -> str:
    """A script that changes the service's answers before the page reads them."""
    return f"""{{ const real = fetch; fetch = async (url, more) => {{
        const answer = await real(url, more), body = await answer.json();
        const path = new URL(url, location).pathname;
        {change}
        return new Response(JSON.stringify(body), answer);
    }}; }}"""
