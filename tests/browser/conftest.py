"""A running dashboard and a real Chromium for the browser tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from treegraft.bench.ui import FLAGS, served

STEP_SECONDS = 60
"""How long one step of a test may take to show its effect, on a busy machine."""

expect.set_options(timeout=STEP_SECONDS * 1000)


@pytest.fixture(scope="session")
def chromium(chromium_path: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A fresh page of 1440 x 900; errors of its scripts fail the test."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True,
                                   permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(STEP_SECONDS * 1000)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert not errors


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[..., str]]:
    """Starts the dashboard with a folder as `TREEGRAFT_HOME` and returns its address; all are stopped at the end."""
    with ExitStack() as running:
        yield lambda home, **environment: running.enter_context(served(home, **environment))
