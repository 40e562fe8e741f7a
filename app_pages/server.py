"""The dashboard's server: `treegraft dashboard`.

`streamlit run app.py` shows the same pages, only later. Its server leaves Nagle's algorithm on (it binds a socket
without a protocol, and asyncio then sets no TCP_NODELAY: uvicorn's issue 3149), so that the files of a page wait for
acknowledgements; and it loads what the first page needs only when somebody comes.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import sys
import time
import webbrowser
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path

import streamlit as st
import uvicorn

from treegraft.live import stop_workers
from treegraft.shell import INTERRUPTED

SCRIPT = Path(__file__).parents[1] / "app.py"
FIRST_PAGE = ("record.demo", "tree.download", "tree.origin", "tree.shown")
"""The modules that the first page needs."""
PORTS = 100
"""How many ports are tried, from the usual one on."""
GOODBYE_SECONDS = 3
"""How long connections are waited for after Ctrl-C."""
WORKERS_SECONDS = 10
"""How long runs are waited for after Ctrl-C. They stop after a round, but cannot while models are loaded and timed."""


class ServeError(Exception):
    """The dashboard cannot be served there; the message says what to do."""


@asynccontextmanager
async def ready(_: st.App) -> AsyncIterator[None]:
    """Loads what the first page needs before the first visitor comes."""
    for name in FIRST_PAGE:
        import_module(f"app_pages.{name}")
    yield


class Server(uvicorn.Server):
    """Tells where the dashboard is as soon as it can be reached, and opens a browser where there is a screen. Its end
    waits until runs have ended their recordings."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        host = self.config.host
        shown = "localhost" if host == "127.0.0.1" else f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{self.config.port}"
        print(f"The dashboard is at {url} (Ctrl-C ends it)", flush=True)
        if not st.get_option("server.headless"):
            webbrowser.open(url)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if stop_workers():
            print("Stopping the run that goes on (Ctrl-C again ends it at once)", flush=True)
        await super().shutdown(sockets)
        end = time.monotonic() + WORKERS_SECONDS
        while stop_workers() and time.monotonic() < end and not self.force_exit:
            await asyncio.sleep(0.05)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            super().run(sockets)
        except KeyboardInterrupt:
            if stop_workers():
                sys.stdout.flush()
                os._exit(INTERRUPTED)  # an orderly end would abort in the middle of a worker
            raise


def make_server(address: str | None = None, port: int | None = None) -> Server:
    """A server whose `run` serves until Ctrl-C. Without `address` and `port` Streamlit's options count, and a port that
    is taken is passed over. Errors: `ServeError`."""
    app = st.App(SCRIPT, lifespan=ready)  # from here on Streamlit knows the options of our folder
    host = address or st.get_option("server.address") or "localhost"
    host = "127.0.0.1" if host == "localhost" else host
    first = st.get_option("server.port")
    chosen = free_port(host, [port] if port else range(first, first + PORTS))
    return Server(uvicorn.Config(
        app, host=host, port=chosen, log_level=logging.WARNING, access_log=False, ws="websockets-sansio",
        ws_per_message_deflate=False, timeout_graceful_shutdown=GOODBYE_SECONDS))


def free_port(host: str, ports: Sequence[int]) -> int:
    """The first of these ports that can be listened at. Errors: `ServeError`."""
    for port in ports:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, os.name == "posix")
            try:
                probe.bind((host, port))
                return port
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise ServeError(f"the dashboard cannot listen at {host}, port {port}: {error.strerror}. "
                                     "Choose another --address or --port.") from None
    raise ServeError(f"port {port} at {host} is taken. Choose another --port.")
