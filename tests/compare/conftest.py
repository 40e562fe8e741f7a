from __future__ import annotations

from pathlib import Path

import pytest

from tests.compare.own import compare, options, write_questions
from treegraft.view import still


@pytest.fixture(autouse=True)
def no_browser(monkeypatch):
    """A browser takes seconds to draw a picture; one test of the whole does it."""
    monkeypatch.setattr("treegraft.compare.run.save_png", lambda figure, path: path.write_bytes(b"picture") and "")
    return still.save_png


@pytest.fixture(scope="session")
def finished(folders, tmp_path_factory) -> tuple[Path, str]:
    """The folder of a finished comparison, and what the command printed."""
    place = tmp_path_factory.mktemp("compare")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("treegraft.compare.run.save_png", lambda figure, path: path.write_bytes(b"picture") and "")
        result = compare(*options(folders, write_questions(place), place / "out"))
    assert result.exit_code == 0, result.output
    return place / "out", result.stdout
