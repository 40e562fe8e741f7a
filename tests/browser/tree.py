"""Where the marks of a drawn tree stand: marks that look the same are one path, with a start for each."""

from __future__ import annotations

import re
import time

from playwright.sync_api import Page

SECONDS = 60


def marks(page: Page, look: str = "node") -> list[tuple[float, float]]:
    """The places of the marks of a look, a class such as `accepted`, in pixels from the tree's corner."""
    paths = page.locator(f".tg-stage .tg-item.tg-{look}")
    return starts("".join(paths.evaluate_all("paths => paths.map(path => path.getAttribute('d'))")))


def crosses(page: Page) -> list[tuple[float, float]]:
    """The places of the crosses on rejected nodes."""
    return starts(page.locator(".tg-stage .tg-cross").get_attribute("d") or "")


def starts(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"M([\d.]+),([\d.]+)", path)]


def expect_marks(page: Page, count: int, look: str = "node") -> None:
    """Waits until there are so many marks of a look."""
    end = time.monotonic() + SECONDS
    while len(marks(page, look)) != count and time.monotonic() < end:
        page.wait_for_timeout(50)
    assert len(marks(page, look)) == count


def click_mark(page: Page, look: str) -> None:
    """Clicks the first mark of a look."""
    x, y = marks(page, look)[0]
    page.locator(".tg-tree").click(position={"x": x, "y": y})
