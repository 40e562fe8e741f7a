"""Where things are kept."""

from __future__ import annotations

from pathlib import Path

from treegraft.home import home, recordings


def test_the_user_chooses_the_place(monkeypatch):
    monkeypatch.setenv("TREEGRAFT_HOME", "~/somewhere")
    assert home() == Path.home() / "somewhere"
    assert recordings() == Path.home() / "somewhere" / "recordings"


def test_without_a_choice_it_is_a_folder_of_our_own(monkeypatch):
    monkeypatch.delenv("TREEGRAFT_HOME", raising=False)
    assert "treegraft" in [part.lower() for part in home().parts]
    assert home().is_relative_to(Path.home())


def test_a_home_of_nobody_is_taken_as_it_is_written(monkeypatch):
    monkeypatch.setenv("TREEGRAFT_HOME", "~nobody-here/x")
    assert home() == Path("~nobody-here/x")
