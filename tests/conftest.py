"""Settings of the property tests, and the default pair, fetched once for all tests that need it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from treegraft.models.errors import OfflineError
from treegraft.models.fetch import fetch
from treegraft.models.pairs import SMOLLM2

settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


@pytest.fixture(scope="session")
def smollm2_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the default target: from the cache if it is there, else fetched into a folder of this session."""
    if "TREEGRAFT_HOME" not in os.environ and not SMOLLM2.is_here:
        os.environ["TREEGRAFT_HOME"] = str(tmp_path_factory.mktemp("home"))
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
