"""How fast the dashboard is: the player, opening and what-ifs, measured in a headless Chromium and in fresh processes.

Times are medians with quartiles; the limits are those that the project holds itself to.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import treegraft
from treegraft.analysis.spread import Spread, spread
from treegraft.analysis.whatif import WhatIf, change
from treegraft.bench.errors import BenchError
from treegraft.bench.ui_traces import plain_trace, tree_trace
from treegraft.view.model import run_view

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

APP = Path(treegraft.__file__).parents[1] / "app.py"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync"]
START_SECONDS = 60
SETTLE_MILLISECONDS = 1000
"""How long a new page of the browser is left alone before it is sent somewhere: the processes that the browser starts
for it are no part of a visit."""
TREE = ".tg-tree"
STATUS = Path("/proc/self/status")
LARGE = 100_000_000
"""Bytes of the large trace."""
ROUNDS = 1000
"""Rounds of the run that is replayed."""
BUDGETS = (63, 48, 32, 24, 16, 12, 8)
"""What the slider of the what-if is moved to, one after another."""

STEPS = """
(stage, [key, shift, count]) => {
  const times = [];
  for (let step = 0; step < count; step += 1) {
    const start = performance.now();
    window.dispatchEvent(new KeyboardEvent("keydown", { key, shiftKey: shift, bubbles: true, cancelable: true }));
    stage.getBoundingClientRect();
    times.push(performance.now() - start);
  }
  return times;
}
"""
"""Presses a key again and again; each time scripts run and the page is laid out before the clock is read."""


@dataclass(frozen=True)
class Measured:
    """Something that was measured, beside its limit if it has one."""

    what: str
    values: Spread
    unit: str
    limit: float | None
    """None where there is none."""

    @property
    def holds(self) -> bool | None:
        return None if self.limit is None else self.values.median <= self.limit


def measure_ui(repeats: int, listen: Callable[[str], None] = lambda what: None) -> list[Measured]:
    """Measure everything; `listen` is told what comes next. Errors: `BenchError` where something is missing."""
    check_tools()
    with tempfile.TemporaryDirectory(prefix="treegraft-ui-") as folder:
        home = Path(folder)
        recordings = home / "recordings"
        recordings.mkdir()
        listen("writing traces")
        for nodes in (60, 250):
            tree_trace(recordings / f"nodes-{nodes}.jsonl", nodes, nodes, lambda _, rounds: rounds == 30)
        large = tree_trace(recordings / "large.jsonl", 250, 63, lambda path, _: path.stat().st_size >= LARGE)
        listen("replaying")
        found = [*what_if(plain_trace(home / "plain.jsonl", ROUNDS)), *opening(large, repeats)]
        with chromium() as browser:
            found += in_browser(browser, home, repeats, listen)
    return found


def in_browser(browser: Browser, home: Path, repeats: int, listen: Callable[[str], None]) -> Iterator[Measured]:
    """What a user of the dashboard waits for."""
    listen("starting the dashboard")
    yield first_visit(browser, home, repeats)
    yield from empty_page(browser, home, repeats)
    with served(home) as address:
        listen("opening pages")
        yield from (another_visit(browser, address, repeats), large_tree(browser, address, repeats))
        for nodes, limit in ((60, 8), (250, 20)):
            listen(f"stepping through {nodes} nodes")
            yield from player_steps(browser, address, nodes, limit)


# --- without a browser ----------------------------------------------------------------------------------------------


def what_if(path: Path) -> list[Measured]:
    """One slider move after another over a long run."""
    whatif = WhatIf(treegraft.open(path).runs[0])
    times = [timed(lambda budget=budget: whatif.replay(change(whatif.policy, budget=budget))) for budget in BUDGETS]
    return [Measured(f"what-if: {ROUNDS} tokens replayed", spread(times), "ms", 150)]


def opening(path: Path, repeats: int) -> list[Measured]:
    """The large trace in fresh processes, up to the view of its first trees."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        results = [pool.apply(open_once, (path,)) for _ in range(repeats)]
    times, memory = zip(*results, strict=True)
    return [Measured("large trace: opened, first trees laid out", spread(times), "ms", 1000),
            Measured("large trace: memory over its size", spread(memory), "x", 3)]


def open_once(path: Path) -> tuple[float, float]:
    """Milliseconds, and how much the process grew over the size of the file."""
    before = peak()
    milliseconds = timed(lambda: run_view(treegraft.open(path).runs[0]))
    return milliseconds, (peak() - before) / path.stat().st_size


def peak() -> int:
    """The most bytes that this process had in memory, as well as the system tells: `getrusage` counts what the process
    was before it became Python, too."""
    if STATUS.is_file():
        found = re.search(r"VmHWM:\s+(\d+) kB", STATUS.read_text())
        return int(found[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def timed(act: Callable[[], object]) -> float:
    """Milliseconds that `act` takes."""
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1000


# --- in the browser -------------------------------------------------------------------------------------------------


def first_visit(browser: Browser, home: Path, repeats: int) -> Measured:
    """From the address of a dashboard that has just started to the first tree of a demo, in a browser without a cache.
    """
    times = []
    for _ in range(repeats):
        with served(home) as address:
            times += visits(browser, address, 1)
    return Measured("dashboard: first tree, first visit after a start", spread(times), "ms", 2000)


def empty_page(browser: Browser, home: Path, repeats: int) -> list[Measured]:
    """What Streamlit takes by itself, for a page with one word: the rest of a visit is the dashboard's."""
    script = home / "empty.py"
    script.write_text("import streamlit as st\n\nst.text('empty')\n")
    first, later = [], []
    for _ in range(repeats):
        with served(home, script) as address:
            found = visits(browser, address, 2, "[data-testid=stText]")
        first.append(found[0])
        later.append(found[1])
    return [Measured("Streamlit alone: an empty page, first visit", spread(first), "ms", None),
            Measured("Streamlit alone: an empty page, later visit", spread(later), "ms", None)]


def another_visit(browser: Browser, address: str, repeats: int) -> Measured:
    """The same of a dashboard that has been visited before."""
    visits(browser, address, 1)
    return Measured("dashboard: first tree, later visit", spread(visits(browser, address, repeats)), "ms", 2000)


def large_tree(browser: Browser, address: str, repeats: int) -> Measured:
    """The same with the large trace."""
    times = visits(browser, f"{address}/?trace=large", repeats)
    return Measured("dashboard: first tree of the large trace", spread(times), "ms", 3000)


def visits(browser: Browser, address: str, repeats: int, seen: str = TREE) -> list[float]:
    """Milliseconds from the address to what is to be `seen`, a selector, in browsers that have been nowhere yet."""
    times = []
    for _ in range(repeats):
        with visited(browser) as page:
            page.wait_for_timeout(SETTLE_MILLISECONDS)
            times.append(timed(lambda page=page: open_page(page, address, seen)))
    return times


def player_steps(browser: Browser, address: str, nodes: int, limit: float) -> list[Measured]:
    """Steps from event to event, and from round to round, in trees of so many drawn nodes."""
    with visited(browser) as page:
        open_page(page, f"{address}/?trace=nodes-{nodes}&round=2&event=0")
        page.wait_for_timeout(1000)
        stage = page.locator(".tg-stage")
        events = stage.evaluate(STEPS, ["ArrowRight", False, 6])
        rounds = stage.evaluate(STEPS, ["ArrowRight", True, 20])
    return [Measured(f"player: an event, {nodes} nodes", spread(events), "ms", limit),
            Measured(f"player: a new round, {nodes} nodes", spread(rounds), "ms", limit)]


def open_page(page: Page, address: str, seen: str = TREE) -> None:
    page.goto(address, wait_until="commit")
    page.locator(seen).wait_for()


@contextmanager
def visited(browser: Browser) -> Iterator[Page]:
    """A page of a browser that has been nowhere yet."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    yield context.new_page()
    context.close()


@contextmanager
def chromium() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def served(home: Path, script: Path | None = None, **environment: str) -> Iterator[str]:
    """The dashboard, or another script by Streamlit alone, with its own home, on a free port; yields its address.
    Errors: `BenchError`."""
    with closing(socket.socket()) as probe:
        probe.bind(("localhost", 0))
        port = str(probe.getsockname()[1])
    command = ["treegraft", "dashboard", "--port", port] if script is None else [
        "streamlit", "run", str(script), "--server.port", port]
    environment = {"TREEGRAFT_HOME": str(home), "STREAMLIT_SERVER_HEADLESS": "true"} | environment
    with tempfile.TemporaryFile("w+") as log:
        server = subprocess.Popen([sys.executable, "-m", *command], cwd=APP.parent, env=os.environ | environment,
                                  stdout=log, stderr=subprocess.STDOUT)
        try:
            if not is_up(f"http://localhost:{port}/_stcore/health", server):
                log.seek(0)
                raise BenchError(f"the dashboard did not start; it said: {log.read()}")
            yield f"http://localhost:{port}"
        finally:
            server.terminate()
            server.wait(timeout=20)


def is_up(address: str, server: subprocess.Popen) -> bool:
    """Whether the address answers, waiting until it does, the server ends or the time is up."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return True
        except OSError:
            time.sleep(0.05)
    return False


def browser_path() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def check_tools() -> None:
    """Errors: `BenchError` where the dashboard's script, a browser or what drives it is missing."""
    if not APP.is_file():
        raise BenchError(f"there is no {APP}: --ui measures the dashboard of a clone of the repository.")
    if browser_path() is None:
        raise BenchError(f"there is no Chromium on the path; --ui needs one of {', '.join(BROWSERS)}.")
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        raise BenchError("--ui drives a browser with playwright: pip install -r requirements-dev.txt.") from None
