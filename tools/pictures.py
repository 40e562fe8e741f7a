"""Take the pictures of the README and the documentation anew, or of every page for a look at all of them.

    python tools/pictures.py            docs/images: those of the README
    python tools/pictures.py FOLDER     every page, wide and narrow, light and dark
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page

from treegraft.bench.ui import APP, chromium, served

IMAGES = APP.parent / "docs" / "images"
THEMES = ("light", "dark")
SIZES = {"wide": (1440, 900), "narrow": (390, 844)}
SETTLED = 2500
"""Milliseconds after which charts have been drawn."""

PAGES = {
    "tree": "?trace=eagle2&round=4",
    "graft": "?trace=graft&round=4",
    "treegraft": "?trace=treegraft&round=1&event=16",
    "acceptance": "acceptance?trace=eagle2",
    "what-if": "what-if?trace=eagle2",
    "scheduler": "scheduler?trace=treegraft",
    "compare": "compare?trace=eagle2&with=graft&position=12",
    "record": "record",
    "learn": "learn?lesson=3",
}
README = ("tree", "graft", "treegraft", "acceptance", "what-if", "scheduler", "compare", "learn")


def main(folder: Path | None) -> None:
    with tempfile.TemporaryDirectory() as home, served(Path(home)) as address, chromium() as browser:
        if folder is None:
            for name in README:
                for theme in THEMES:
                    picture(browser, f"{address}/{PAGES[name]}", IMAGES / file_name(name, theme), "wide", theme)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            for name, size, theme in every():
                path = folder / f"{name}-{size}-{theme}.png"
                picture(browser, f"{address}/{PAGES[name]}", path, size, theme, whole=True)


def every() -> Iterator[tuple[str, str, str]]:
    for name in PAGES:
        for size in SIZES:
            for theme in THEMES:
                yield name, size, theme


def file_name(name: str, theme: str) -> str:
    return f"{name}.png" if theme == "light" else f"{name}-{theme}.png"


def picture(browser: Browser, address: str, path: Path, size: str, theme: str, whole: bool = False) -> None:
    """A picture of a page in a browser that has been nowhere yet; `whole` shows it down to its end."""
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
    page = context.new_page()
    page.goto(address)
    page.get_by_test_id("stApp").wait_for()
    settle(page)
    if whole:
        page.set_viewport_size({"width": width, "height": max(height, content_height(page))})
        settle(page)
    page.screenshot(path=path)
    context.close()
    print(path, flush=True)


def settle(page: Page) -> None:
    """Wait until the script has run and what it draws stands still."""
    page.wait_for_timeout(SETTLED)
    page.locator("[data-test-script-state=notRunning]").wait_for()
    page.locator("[data-testid=stSkeleton]").first.wait_for(state="detached")
    page.wait_for_timeout(SETTLED)


def content_height(page: Page) -> int:
    """Streamlit scrolls inside of the page: how tall it would be to show all of it."""
    main = page.get_by_test_id("stMain")
    return int(main.evaluate("main => main.scrollHeight")) + 20


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
