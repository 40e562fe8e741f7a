"""Settings of the property tests, and the default pair, fetched once for all tests that need it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from treegraft.bench.ui import browser_path
from treegraft.models.errors import OfflineError
from treegraft.models.fetch import fetch
from treegraft.models.pairs import SMOLLM2

settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
"""Processes that share the machine's cores and the fetched model (`pytest -n`)."""

if WORKERS > 1:  # torch, which is not imported yet, reads it once
    os.environ["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // WORKERS))


@pytest.fixture(scope="session")
def smollm2_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the default target: from the cache if it is there, else fetched into a folder of this session."""
    if "TREEGRAFT_HOME" not in os.environ and not SMOLLM2.is_here:
        place = tmp_path_factory.getbasetemp()
        os.environ["TREEGRAFT_HOME"] = str((place.parent if WORKERS > 1 else place) / "home")
    try:
        return fetch(SMOLLM2)
    except OfflineError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def pair(smollm2_home: Path):
    """The default pair in float32 on the CPU."""
    from treegraft.models import load

    return load("smollm2", dtype="float32", device="cpu")


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Chromium as the system has it; without one the test is skipped, in CI it fails."""
    path = browser_path()
    if path is None:
        reason = "there is no Chromium on this machine: install the package chromium"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    return path


CHAT_TEMPLATE = "{% for message in messages %}<s>{{ message.content }}</s>{% endfor %}"


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A tiny target on disk, and a drafter with the same weights."""
    from tests.models.tiny_folders import save_llama
    from tests.models.tokenizers_of import byte_level

    place = tmp_path_factory.mktemp("models")
    tokenizer = byte_level(chat_template=CHAT_TEMPLATE)
    sizes = {"max_position_embeddings": 512}
    return save_llama(place / "target", tokenizer, **sizes), save_llama(place / "small", tokenizer, **sizes)


@pytest.fixture(scope="session")
def tiny_pair(folders):
    """A tiny pair, loaded as a user's own models are."""
    from treegraft.models import load

    target, drafter = map(str, folders)
    return load(target, ["lookup", drafter], dtype="float32", device="cpu")
