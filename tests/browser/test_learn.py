"""The Learn page in a real browser: a step leads the player, a click in the tree answers a question."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

import treegraft
from tests.browser.tree import click_mark
from treegraft.view.labels import label
from treegraft.view.lesson_places import place
from treegraft.view.library import DEMOS

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def app(serve, tmp_path_factory) -> str:
    return serve(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def eagle2() -> treegraft.Run:
    return treegraft.open(DEMOS / "eagle2.jsonl.zst").runs[0]


def visit(page: Page, app: str, lesson: int, step: int) -> None:
    page.goto(f"{app}/learn?lesson={lesson}&step={step}")
    expect(page.locator(".tg-tree")).to_be_visible()


def chosen(page: Page) -> Locator:
    """The line of the chosen node's sheet that holds its number."""
    return page.locator(".tg-sheet-ids")


def test_a_step_leads_the_player_and_the_user_can_come_back(page, app, eagle2):
    spot = place(eagle2, "lost to pruning, prune, lost")
    visit(page, app, 4, 2)
    page.get_by_role("button", name="Next step").click()
    page.wait_for_url("**step=3")
    expect(chosen(page)).to_contain_text(f"node {spot.node}")
    click_mark(page, "root")
    expect(chosen(page)).to_contain_text("node 0")
    page.get_by_role("button", name="Show this place again").click()
    expect(chosen(page)).to_contain_text(f"node {spot.node}")
    page.reload()
    expect(page.get_by_text("Step 3 of 5")).to_be_visible()


def test_the_keys_go_along_the_steps(page, app):
    visit(page, app, 1, 1)
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("Step 2 of 5")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_text("Step 1 of 5")).to_be_visible()


def test_a_click_in_the_tree_answers_wrong_and_right(page, app, eagle2):
    spot = place(eagle2, "surprise, accept, overtaken")
    favourite = label(eagle2.pieces[eagle2.rounds[spot.round].record.nodes.token[spot.node]])
    visit(page, app, 3, 6)
    check = page.get_by_test_id("stButton").get_by_role("button", name="Check")
    expect(check).to_be_disabled()
    for look, verdict in (("accepted", "Not so"), ("rejected", "Right")):
        click_mark(page, look)
        number = re.search(r"node (\d+)", chosen(page).inner_text())[1]
        expect(page.get_by_text(f"Node {number} is chosen.")).to_be_visible()
        expect(page.get_by_text("Not so", exact=True)).to_have_count(0)
        check.click()
        expect(page.get_by_text(verdict, exact=True)).to_be_visible()
        expect(page.locator(".tg-lesson .tg-fact", has_text=favourite).first).to_be_visible()
    expect(chosen(page)).to_contain_text(f"node {spot.node}")
    expect(page.get_by_text("1 of 8 lessons done")).to_be_visible()


def test_a_term_tells_its_meaning_to_the_keyboard_and_the_glossary_has_them_all(page, app):
    visit(page, app, 1, 1)
    term = page.locator(".tg-lesson abbr", has_text="target").first
    term.focus()
    shown = term.evaluate("term => getComputedStyle(term, '::after').content")
    assert "must be preserved" in shown
    page.get_by_role("button", name="Glossary").click()
    search = page.get_by_label("Search the glossary")
    search.fill("KV cache")
    search.press("Enter")
    expect(page.get_by_role("dialog").locator("dt").first).to_have_text("KV cache")
    search.fill("zebra")
    search.press("Enter")
    expect(page.get_by_text("No term and no meaning holds these words")).to_be_visible()
