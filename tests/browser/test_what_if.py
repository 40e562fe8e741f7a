"""The What-if page in a real browser: a slider comes to the exact number of the library, a link brings it back."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

import treegraft
from treegraft.analysis.whatif import WhatIf, change
from treegraft.view.library import DEMOS

pytestmark = pytest.mark.browser


OPENING = 90_000
"""Milliseconds that a busy machine may take to load the page with the code of its charts."""


@pytest.fixture(scope="module")
def app(serve, tmp_path_factory) -> str:
    return serve(tmp_path_factory.mktemp("home"))


def tau(page: Page):
    box = page.get_by_test_id("stMetric").filter(has_text=re.compile("^tau"))
    return box.get_by_test_id("stMetricValue")


def test_a_slider_gives_the_number_of_the_library_and_a_link_brings_it_back(page, app):
    whatif = WhatIf(treegraft.open(DEMOS / "eagle2.jsonl.zst").runs[0])
    recorded = whatif.policy.budget
    page.goto(f"{app}/what-if?trace=eagle2")
    expect(tau(page)).to_have_text(f"{whatif.replay().tau:.2f}", timeout=OPENING)
    slider = page.get_by_role("slider", name=re.compile("budget"))
    page.locator("[data-test-script-state=notRunning]").wait_for()
    page.locator(".js-plotly-plot").nth(1).wait_for()
    page.wait_for_timeout(1000)  # what is focused before all of the page is there loses the focus
    slider.press("Home")
    lowest = whatif.replay(change(whatif.policy, budget=1))
    expect(tau(page)).to_have_text(f"{lowest.tau:.2f}")
    assert lowest.tau < whatif.replay().tau
    for _ in range(5):
        slider.press("ArrowRight")
    expected = whatif.replay(change(whatif.policy, budget=6))
    expect(tau(page)).to_have_text(f"{expected.tau:.2f}")
    page.wait_for_url(re.compile(r"set=budget(%3A|:)6"))

    other = page.context.new_page()
    other.goto(page.url)
    expect(tau(other)).to_have_text(f"{expected.tau:.2f}", timeout=OPENING)
    expect(other.get_by_role("slider", name=re.compile("budget"))).to_have_value("6")
    assert recorded != 6
