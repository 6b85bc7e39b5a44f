"""The page's policy: it loads and runs its own alone."""

from __future__ import annotations

import base64
import hashlib
import re
import urllib.request

import pytest
from browsers import Open
from histories import DST
from playwright.sync_api import expect


def page_and_policy(url: str) -> tuple[str, dict[str, str]]:
    with urllib.request.urlopen(url) as answer:
        policy = answer.headers["Content-Security-Policy"]
        directives = (directive.strip().split(" ", 1) for directive in policy.split(";"))
        return answer.read().decode(), dict(directives)


def test_the_policy_allows_this_script_and_this_style_alone(url: str) -> None:
    page, policy = page_and_policy(url)

    def source(tag: str) -> str:
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert policy == {
        "default-src": "'none'",
        "script-src": source("script"),
        "style-src": source("style"),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }


def test_the_page_needs_nothing_from_elsewhere(url: str) -> None:
    page, _ = page_and_policy(url)
    addresses = set(re.findall(r"(?:https?:)?//[a-z][\w.]+\.\w+", page))
    assert addresses <= {"http://www.w3.org"}, addresses


@pytest.mark.parametrize("browser_name", ["chromium", "firefox"])
def test_the_browser_runs_what_the_policy_names_and_nothing_else(url: str, open_page: Open) -> None:
    """`open_page` fails where the page itself violates its policy."""
    page = open_page(f"{url}#{DST}")
    expect(page.locator("#name")).to_have_text(DST)
    page.evaluate("""{ const e = document.createElement('script');
        e.textContent = 'window.injected = true'; document.body.append(e); }""")
    assert page.evaluate("window.injected") is None
    assert page.evaluate("faults.splice(0).some(f => f.startsWith('script-src'))")
