"""The Scheduler page in a real browser: a cell opens its decision, which leads to its event on the Tree page."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

import treegraft
from tests.browser.test_tree import place
from treegraft.analysis.decisions import decisions
from treegraft.view.library import DEMOS

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def app(serve, tmp_path_factory, chromium) -> str:
    """The address of a dashboard that has been visited: before its first visit Streamlit knows the first page alone."""
    address = serve(tmp_path_factory.mktemp("home"))
    page = chromium.new_page()
    page.goto(address)
    expect(page.locator(".tg-tree")).to_be_visible()
    page.close()
    return address


def test_a_cell_opens_its_decision_and_that_its_event_in_the_tree(page: Page, app: str):
    found = decisions(treegraft.open(DEMOS / "treegraft.jsonl.zst").runs[0])
    number = next(number for number, one in enumerate(found) if (one.round, one.layer) == (6, 3))
    page.goto(f"{app}/scheduler?trace=treegraft")
    expect(page.get_by_text("Oracle agrees")).to_be_visible()  # nothing moves the grid any more
    page.locator(".barlayer").first.locator(".point").nth(number).click(force=True)  # Plotly's own layer lies above
    expect(page.get_by_role("heading", name="Round 6, layer 3")).to_be_visible()
    expect(page.get_by_text(f"margin, −{-found[number].margin:.1f} ms")).to_be_visible()
    page.get_by_role("button", name="See it in the tree").click()
    place(page, trace="treegraft", round=6, event=found[number].event)
    expect(page.locator(".tg-tree")).to_be_visible()


def test_a_demo_that_is_offered_opens_and_stays_open(page: Page, app: str):
    page.goto(f"{app}/scheduler?trace=chain")
    page.get_by_role("button", name="Open the demo Treegraft").click()
    expect(page.get_by_text("Oracle agrees")).to_be_visible()
    page.get_by_role("tab", name="Value tree").click()
    expect(page.get_by_text("Round 0 of the run began here.")).to_be_visible()
    page.get_by_role("slider", name="Output position").press("ArrowRight")
    expect(page.get_by_text("the policy's choice is replayed")).to_be_visible()
    page.get_by_role("tab", name="Threshold").click()
    expect(page.get_by_text("Fastest at thresholds")).to_be_visible()
