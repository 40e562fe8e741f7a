"""The dashboard's server: where it listens, and how its connections are set up."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import treegraft
from app_pages.server import FIRST_PAGE, SCRIPT, ServeError, free_port
from tests.models.tiny_folders import save_llama
from treegraft.cli import app
from treegraft.shell import INTERRUPTED

ASK = """
import json, socket, threading, time, sys
from app_pages.server import make_server

server = make_server("127.0.0.1")
threading.Thread(target=server.run, daemon=True).start()
while not server.started:
    time.sleep(0.01)
with socket.create_connection(("127.0.0.1", server.config.port)) as client:
    client.sendall(b"GET /_stcore/health HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
    answer = client.recv(1000).decode()
    [connection] = server.server_state.connections
    option = connection.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    print(json.dumps([answer.split("\\r\\n")[0], option, sorted(name for name in sys.modules if "app_pages." in name)]))
server.should_exit = True
"""

INTERRUPTED_WORK = """
import os, signal, sys, threading, time
from app_pages import server
from treegraft.cli import app
from treegraft.live import LiveRun, Request, Worker
from treegraft.policies import Plain

class Deaf(Worker):
    def _work(self):
        time.sleep(1000)

def work_and_interrupt():
    model, _ = sys.argv[1:]
    run = LiveRun(Request(model, Plain(), "the quick brown fox", models=(), max_new_tokens=10**6)) if model else Deaf()
    run.start()
    while run.snapshot().rounds < 2 and model:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

class Interrupted(server.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        threading.Thread(target=work_and_interrupt, daemon=True).start()

server.Server, server.WORKERS_SECONDS = Interrupted, 20 if sys.argv[1] else 0.5
app(["dashboard", "--port", sys.argv[2]])
"""
"""`treegraft dashboard` that gets Ctrl-C in the middle of a run, or of work that cannot be stopped."""


def test_nothing_waits_for_acknowledgements_and_the_first_page_is_loaded():
    environment = os.environ | {"STREAMLIT_SERVER_HEADLESS": "true"}
    done = subprocess.run([sys.executable, "-c", ASK], cwd=SCRIPT.parent, env=environment, capture_output=True,
                          text=True, check=True, timeout=120)
    told, answered = done.stdout.splitlines()
    assert re.fullmatch(r"The dashboard is at http://localhost:\d+ \(Ctrl-C ends it\)", told)
    status, no_delay, modules = json.loads(answered)
    assert status == "HTTP/1.1 200 OK"
    assert {f"app_pages.{name}" for name in FIRST_PAGE} <= set(modules)
    if sys.platform == "linux":
        assert no_delay


def test_a_taken_port_is_passed_over_unless_it_was_asked_for():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert free_port("127.0.0.1", range(port, port + 50)) > port
        with pytest.raises(ServeError, match=f"port {port} at 127.0.0.1 is taken. Choose another --port."):
            free_port("127.0.0.1", [port])


def test_an_address_that_is_not_ours_is_refused_in_words():
    command = [sys.executable, "-m", "treegraft", "dashboard", "--address", "no such place"]
    done = subprocess.run(command, cwd=SCRIPT.parent, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert "cannot listen at no such place" in done.stderr
    assert "Choose another --address or --port." in done.stderr


without_ctrl_c = pytest.mark.skipif(sys.platform == "win32", reason="no process can press Ctrl-C there")


def interrupted(home: Path, model: str = "") -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", INTERRUPTED_WORK, model, str(free_port("127.0.0.1", range(18501, 18601)))]
    environment = os.environ | {"TREEGRAFT_HOME": str(home), "STREAMLIT_SERVER_HEADLESS": "true"}
    return subprocess.run(command, cwd=SCRIPT.parent, env=environment, capture_output=True, text=True, check=False,
                          timeout=120)


@without_ctrl_c
def test_ctrl_c_ends_the_recording_that_goes_on_in_good_order(tmp_path: Path):
    done = interrupted(tmp_path / "home", str(save_llama(tmp_path / "model", max_position_embeddings=20_000)))
    assert done.returncode == INTERRUPTED, done.stderr
    assert "Ctrl-C again ends it at once" in done.stdout
    [path] = (tmp_path / "home" / "recordings").iterdir()
    run = treegraft.open(path).runs[0]
    assert run.end.reason == "interrupted"
    assert len(run.rounds) >= 2


@without_ctrl_c
def test_ctrl_c_does_not_wait_for_ever(tmp_path: Path):
    assert interrupted(tmp_path).returncode == INTERRUPTED


def test_without_the_pages_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "app_pages"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if Path(place or ".").resolve() != SCRIPT.parent])
    monkeypatch.setattr(sys, "meta_path", [finder for finder in sys.meta_path if "Editable" not in type(finder).__name__
                                           and "editable" not in getattr(finder, "__module__", "")])
    done = CliRunner().invoke(app, ["dashboard"])
    assert done.exit_code == 2
    assert "install it from a clone of the repository" in done.stderr
