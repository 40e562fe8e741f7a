"""Every page in a real browser: strangers' texts stay text, nothing sticks out on a phone, everybody can read it."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.app.test_every_page import PAGES, write_strange

pytestmark = pytest.mark.browser

SETTLED = 3000
"""Milliseconds after which charts have been drawn."""

RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa"]}}


@pytest.fixture(scope="module")
def app(serve, tmp_path_factory) -> str:
    home = tmp_path_factory.mktemp("home")
    (home / "recordings").mkdir()
    write_strange(home / "recordings")
    return serve(home)


def visit(page: Page, app: str, name: str, trace: str) -> None:
    page.goto(f"{app}/{'' if name == 'tree' else name.replace('_', '-')}?trace={trace}")
    page.get_by_test_id("stApp").wait_for()
    page.wait_for_timeout(SETTLED)
    page.locator("[data-test-script-state=notRunning]").wait_for()


@pytest.mark.parametrize("name", PAGES)
def test_hostile_texts_stay_text_and_fit_a_phone(page, app, name):
    page.set_viewport_size({"width": 390, "height": 844})
    visit(page, app, name, "hostile")
    assert page.evaluate("window.hacked") is None
    expect(page.get_by_test_id("stException")).to_have_count(0)
    assert page.locator("img[src=x]").count() == 0
    too_wide = page.get_by_test_id("stMain").evaluate("main => main.scrollWidth - main.clientWidth")
    assert too_wide <= 0, f"{too_wide} pixels stick out"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_keeps_the_rules_of_accessibility(chromium: Browser, app, name, theme):
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, color_scheme=theme)
    page = context.new_page()
    visit(page, app, name, "treegraft")
    found = Axe().run(page, options=RULES).response["violations"]
    context.close()
    assert not [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found]
