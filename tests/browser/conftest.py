"""A running dashboard and a real Chromium for the browser tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from treegraft.bench.ui import FLAGS

ROOT = Path(__file__).parents[2]
START_SECONDS = 60
STEP_SECONDS = 30
"""How long the server may take to start, and one step of a test to show its effect, on a busy machine."""

expect.set_options(timeout=STEP_SECONDS * 1000)


@pytest.fixture(scope="session")
def chromium(chromium_path: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A fresh page of 1440 x 900; errors of its scripts fail the test."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True,
                                   permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(STEP_SECONDS * 1000)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert not errors


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Starts the dashboard with a folder as `TREEGRAFT_HOME` and returns its address; all are stopped at the end."""
    running: list[subprocess.Popen] = []

    def start(home: Path, **environment: str) -> str:
        port = free_port()
        log = (tmp_path_factory.mktemp("server") / "log.txt").open("w+")
        server = subprocess.Popen(
            [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port), "--server.headless",
             "true", "--server.fileWatcherType", "none"], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT,
            env=os.environ | {"TREEGRAFT_HOME": str(home)} | environment)
        running.append(server)
        wait_for(f"http://localhost:{port}/_stcore/health", server, log)
        return f"http://localhost:{port}"

    yield start
    for server in running:
        server.terminate()
        server.wait(timeout=20)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def wait_for(address: str, server: subprocess.Popen, log) -> None:
    """Until the address answers. Fails with the server's own words if it ends or takes too long."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return
        except OSError:
            time.sleep(0.2)
    log.seek(0)
    pytest.fail(f"the dashboard did not start:\n{log.read()}")
