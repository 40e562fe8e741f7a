"""The Compare page in a real browser: one position, and in every tree the round that wrote it."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import Locator, Page, expect

import treegraft
from treegraft.analysis.align import Written, parting, writers
from treegraft.view.labels import label
from treegraft.view.library import DEMOS

pytestmark = pytest.mark.browser

NAMES = ("eagle2", "chain")


@pytest.fixture(scope="module")
def app(serve, tmp_path_factory, chromium) -> str:
    """The address of a dashboard that has been visited: before its first visit Streamlit knows the first page alone."""
    address = serve(tmp_path_factory.mktemp("home"))
    page = chromium.new_page()
    page.goto(address)
    expect(page.locator(".tg-tree")).to_be_visible()
    page.close()
    return address


@pytest.fixture(scope="module")
def runs() -> list[treegraft.Run]:
    return [treegraft.open(DEMOS / f"{name}.jsonl.zst").runs[0] for name in NAMES]


def visit(page: Page, app: str, address: str) -> None:
    page.goto(f"{app}/compare?{address}")
    expect(page.locator(".tg-tree")).to_have_count(2)


def players(page: Page) -> list[Locator]:
    return page.locator(".tg-compact").all()


def expect_position(page: Page, runs: list[treegraft.Run], position: int) -> None:
    """Both players show the round that wrote the token, with the token chosen, and the address and the strip say so."""
    page.wait_for_url(lambda url: parse_qs(urlparse(url).query).get("position") == [str(position)])
    expect(page.locator(f'td.tg-strip-here[data-place="{position}"]')).to_have_count(2)
    expect(page.locator("th.tg-strip-here")).to_contain_text(str(position))
    expect(page.locator(".tg-compact")).to_have_count(len(runs))
    for player, run in zip(players(page), runs, strict=True):
        found: Written = writers(run)[position]
        expect(player.locator(".tg-round-name")).to_contain_text(f"Round {found.round} of 0 to {len(run.rounds) - 1}")
        expect(player.locator(".tg-sheet-token")).to_have_text(label(run.pieces[run.output[position]]))


def test_both_trees_follow_the_output_token(page, app, runs):
    visit(page, app, f"trace={NAMES[0]}&with={NAMES[1]}&position=20")
    expect_position(page, runs, 20)
    page.locator('tbody td[data-place="24"]').first.click()
    expect_position(page, runs, 24)
    page.get_by_role("button", name="Next token").click()
    expect_position(page, runs, 25)


def test_chosen_recordings_can_be_read_in_the_dark(app, chromium):
    context = chromium.new_context(color_scheme="dark")
    page = context.new_page()
    visit(page, app, f"trace={NAMES[0]}&with={NAMES[1]}")
    expect(page.locator("[data-tag]").get_by_text("Chain")).to_have_css("color", "rgb(16, 22, 20)")
    context.close()


def test_keys_move_the_position_and_a_player_with_the_focus_keeps_them(page, app, runs):
    visit(page, app, f"trace={NAMES[0]}&with={NAMES[1]}&position=20")
    expect_position(page, runs, 20)
    page.keyboard.press("ArrowRight")
    expect_position(page, runs, 21)
    page.locator(".tg-strip-scroll").focus()
    page.keyboard.press("ArrowLeft")
    expect_position(page, runs, 20)
    page.get_by_role("slider", name="Output position").focus()
    page.keyboard.press("ArrowRight")
    expect_position(page, runs, 21)
    players(page)[0].get_by_role("button", name="Play", exact=True).focus()
    before = players(page)[0].locator(".tg-event").inner_text()
    page.keyboard.press("ArrowLeft")
    expect(players(page)[0].locator(".tg-event")).not_to_have_text(before)
    assert "position=21" in page.url


def test_a_link_leads_to_the_same_place_again(page, app, runs):
    visit(page, app, f"trace={NAMES[0]}")
    page.get_by_role("button", name="Next token").click()
    page.wait_for_url(re.compile("position=2"))
    partner = parse_qs(urlparse(page.url).query)["with"]
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    expect_position(page, [runs[0], treegraft.open(DEMOS / f"{partner[0]}.jsonl.zst").runs[0]], 2)
    assert page.url == link


def test_where_the_texts_part(page, app, runs):
    sampled = treegraft.open(DEMOS / "sampled.jsonl.zst").runs[0]
    visit(page, app, f"trace={NAMES[0]}&with=sampled&position=9")
    place = parting(runs[0], sampled).position
    expect(page.get_by_text(f"at position {place}: sampled")).to_be_visible()
    page.get_by_role("button", name=f"Go to position {place}").click()
    page.wait_for_url(lambda url: parse_qs(urlparse(url).query).get("position") == [str(place)])


def test_results_on_many_prompts(page, app):
    page.goto(f"{app}/compare?comparison=demo")
    expect(page.locator(".js-plotly-plot")).to_have_count(4)
    page.get_by_text("Recordings of one prompt").click()
    expect(page.locator(".tg-tree")).to_have_count(2)
    assert "comparison" not in page.url
