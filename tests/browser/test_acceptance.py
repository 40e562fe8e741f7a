"""The Acceptance page in a real browser: a bar leads to its rounds, and a link to a part of the page."""

from __future__ import annotations

import re
from random import Random
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import Page, expect

from tests.strategies import make_run, write_runs
from treegraft.analysis.metrics import summary
from treegraft.trace import Run

pytestmark = pytest.mark.browser

FIRST_SECONDS = 120
"""How long the first visit may take on a busy machine."""


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [make_run(Random(seed), [(3, 5)] * 12) for seed in (5, 6)]


@pytest.fixture(scope="module")
def app(serve, tmp_path_factory, runs) -> str:
    home = tmp_path_factory.mktemp("home")
    (home / "recordings").mkdir()
    write_runs(home / "recordings" / "mine.jsonl", *runs)
    return serve(home)


def visit(page: Page, address: str) -> None:
    """Open a page. The first visit fetches the code that draws charts, and Streamlit says of the very first one to a
    server that only its main page is there."""
    page.goto(address)
    expect(page.get_by_test_id("stMetric").first).to_be_visible(timeout=1000 * FIRST_SECONDS)
    if (close := page.get_by_role("dialog").get_by_role("button", name="Close")).count():
        close.click()


def test_a_clicked_bar_leads_to_its_round_in_the_tree(page: Page, app: str, runs: list[Run]):
    visit(page, f"{app}/acceptance?trace=mine&run=1")
    run = runs[1]
    histogram = summary(run).histogram
    wanted = next(number for number, rounds in enumerate(histogram) if 0 < rounds < 12)
    chart = page.get_by_test_id("stPlotlyChart").first
    bar = chart.locator(".barlayer .point path").nth(wanted)
    expect(bar).to_be_visible()
    box = bar.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    rounds = [round.index for round in run.rounds if round.accepted == wanted]
    offered = page.get_by_role("radio", name=re.compile("^Round"))
    expect(offered).to_have_text([f"Round {number}" for number in rounds])
    offered.last.click()
    expect(page.locator(".tg-tree")).to_be_visible()
    page.wait_for_url(lambda url: parse_qs(urlparse(url).query).get("round") == [str(rounds[-1])])
    assert parse_qs(urlparse(page.url).query)["run"] == ["1"]


def test_a_link_opens_a_part_of_a_run(page: Page, app: str, runs: list[Run]):
    visit(page, f"{app}/acceptance?trace=mine&run=1&part=Same+numbers+elsewhere")
    expect(page.get_by_role("heading", name="vLLM")).to_be_visible()
    row = page.get_by_role("row", name="spec_decode_num_accepted_tokens")
    expect(row).to_contain_text(str(summary(runs[1]).accepted))
    page.get_by_role("tab", name="Where it stops").click()
    expect(page.get_by_role("heading", name="By depth")).to_be_visible()
    page.wait_for_url(lambda url: parse_qs(urlparse(url).query).get("part") == ["Where it stops"])


def test_other_engines_words_can_be_read_on_a_phone(page: Page, app: str):
    page.set_viewport_size({"width": 390, "height": 844})
    visit(page, f"{app}/acceptance?trace=mine&part=Same+numbers+elsewhere")
    row = page.get_by_role("row", name="avg_decoded_tokens_per_iter")
    differs = row.get_by_role("cell").last
    expect(differs).to_contain_text("The bonus and the first token are counted")
    box = differs.bounding_box()
    assert box["x"] + box["width"] <= 390
    assert box["width"] > 300
