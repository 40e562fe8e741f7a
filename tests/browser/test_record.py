"""The Record page in a real browser, decoding with the default pair."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

import treegraft

pytestmark = [pytest.mark.browser, pytest.mark.pair]

DECODE_SECONDS = 900
"""How long loading and decoding may take on a machine that is busy with other things."""
TOKENS = 32


@pytest.fixture(scope="module")
def home(smollm2_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the fetched target and without recordings."""
    home = tmp_path_factory.mktemp("home")
    (home / "models").symlink_to(smollm2_home.parent)
    return home


def metric(page: Page, label: str) -> str:
    """The value of a figure, a dash while there is none."""
    box = page.get_by_test_id("stMetric").filter(has_text=re.compile(rf"^{label}[\d\u2013]"))
    return box.get_by_test_id("stMetricValue").inner_text()


def set_number(page: Page, label: str, value: int) -> None:
    field = page.get_by_role("spinbutton", name=label)
    field.fill(str(value))
    field.press("Enter")


def test_a_run_is_recorded_live_and_opens_in_the_tree_page(page: Page, serve, home: Path):
    page.goto(serve(home))
    page.get_by_role("link", name="Record").click()
    set_number(page, "budget", 16)
    set_number(page, "Most new tokens", TOKENS)
    page.get_by_role("textbox", name="Prompt", exact=True).fill("Why is the sky blue?")
    page.get_by_role("button", name="Record", exact=True).click()

    text = page.locator(".tg-live .tg-text")
    expect(page.locator(".tg-live .tg-tree")).to_be_visible(timeout=DECODE_SECONDS * 1000)
    lengths, taus = {len(text.inner_text())}, {metric(page, "tau")}
    end = time.monotonic() + DECODE_SECONDS
    while not page.get_by_text("Open in the Tree page").is_visible():
        assert time.monotonic() < end, "the run did not end in time"
        lengths.add(len(text.inner_text()))
        taus.add(metric(page, "tau"))
        page.wait_for_timeout(200)
    assert len(lengths) > 2, "the text grew while it was decoded"
    assert len(taus) > 1, "tau followed"

    [path] = (home / "recordings").iterdir()
    trace = treegraft.open(path)
    trace.check()
    run = trace.runs[0]
    assert run.end.new_tokens == len(run.output) <= TOKENS
    accepted = sum(round.accepted for round in run.rounds)
    assert metric(page, "tau") == f"{1 + accepted / len(run.rounds):.2f}"
    assert metric(page, "tokens") == str(len(run.output))
    assert path.name in page.locator("body").inner_text()
    expect(text.locator(".tg-token-d").first).to_have_css("text-decoration-line", "underline")

    page.get_by_text("Open in the Tree page").click()
    expect(page.get_by_text("How to read it")).to_be_visible()
    expect(page).to_have_url(re.compile(re.escape(path.name.removesuffix(".jsonl.zst"))))
    expect(page.get_by_role("heading", name="Why is the sky blue?")).to_be_visible()
    expect(page.locator(".tg-round-name")).to_contain_text(f"of 0 to {len(run.rounds) - 1}")


def test_a_race_on_a_projector_while_a_second_session_waits(page: Page, chromium: Browser, serve, home: Path):
    address = serve(home)
    page.goto(f"{address}/record?demo=1")
    page.get_by_role("button", name="Settings").click()
    expect(page.get_by_text("Page not found")).to_have_count(0)
    page.get_by_text("Race against plain decoding").click()
    set_number(page, "Most new tokens", 12)
    page.keyboard.press("Escape")
    expect(page.get_by_text("Race against plain decoding")).to_be_hidden()
    expect(page.get_by_role("link", name="Tree")).to_have_count(0)
    page.get_by_role("button", name="Next prompt").click()
    expect(page.get_by_role("button", name="Stop")).to_be_enabled()

    context = chromium.new_context()
    other = context.new_page()
    other.goto(f"{address}/record?demo=1")
    other.get_by_role("button", name="Next prompt").click()
    expect(other.get_by_text("you are number 1 in the queue")).to_be_visible()
    other.get_by_role("button", name="Stop").click()
    expect(other.get_by_text("there is no recording")).to_be_visible()
    context.close()

    expect(page.get_by_text("Open in the Tree page")).to_be_visible(timeout=DECODE_SECONDS * 1000)
    expect(page.locator(".tg-figures")).to_contain_text(re.compile(r"\d\.\d\d×"))
    lane, text = page.locator(".tg-race-text"), page.locator(".tg-live .tg-text")
    newest = max((home / "recordings").iterdir(), key=lambda path: path.stat().st_mtime)
    run = treegraft.open(newest).runs[0]
    assert run.end.baseline.tokens == run.end.new_tokens == 12
    expect(lane).to_have_text(text.inner_text(), timeout=60_000)
