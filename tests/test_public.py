"""Public mode: what strangers may ask for, and that they see neither paths nor what others recorded."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from treegraft import public, sessions
from treegraft.home import home, recordings
from treegraft.live import Request
from treegraft.policies import Plain
from treegraft.public import PublicError
from treegraft.trace.records import Prompt
from treegraft.view.library import traces

REQUEST = Request("smollm2", Plain(), "Why is the sky blue?", max_new_tokens=8)
ONE, OTHER = "1" * 32, "2" * 32


@pytest.fixture
def strangers(monkeypatch, tmp_path):
    monkeypatch.setenv("TREEGRAFT_PUBLIC", "1")
    monkeypatch.setenv("TREEGRAFT_HOME", str(tmp_path))
    monkeypatch.setattr(sessions, "_identify", lambda: ONE)


@pytest.mark.parametrize(("value", "is_public"), [("1", True), ("0", False), ("", False)])
def test_only_one_value_opens_it(monkeypatch, value, is_public):
    monkeypatch.setenv("TREEGRAFT_PUBLIC", value)
    assert public.is_public() is is_public


BEYOND = [
    (replace(REQUEST, target="/models/secret"), "listed models only: smollm2"),
    (replace(REQUEST, models=("lookup", "gpt2")), "listed models only: smollm2"),
    (replace(REQUEST, max_new_tokens=public.MOST_NEW_TOKENS + 1), f"at most {public.MOST_NEW_TOKENS}"),
    (replace(REQUEST, prompt="x" * (public.LONGEST_PROMPT + 1)), f"at most {public.LONGEST_PROMPT}"),
    (replace(REQUEST, prompt=Prompt(tokens=[1] * (public.LONGEST_PROMPT + 1))), f"at most {public.LONGEST_PROMPT}"),
    (replace(REQUEST, prompt=[{"role": "user", "content": "x" * 3000}] * 2), "6000 long"),
    (replace(REQUEST, level="exhaustive"), "run and dense")]


@pytest.mark.parametrize(("request_", "words"), BEYOND)
def test_a_request_beyond_a_bound_is_refused(strangers, monkeypatch, request_, words):
    with pytest.raises(PublicError, match=words):
        public.check(request_)
    monkeypatch.delenv("TREEGRAFT_PUBLIC")
    public.check(request_)


def test_a_request_within_the_bounds_passes(strangers):
    public.check(REQUEST)
    public.check(replace(REQUEST, max_new_tokens=public.MOST_NEW_TOKENS, prompt="x" * public.LONGEST_PROMPT))


def test_a_session_queues_one_run_and_the_queue_has_an_end(strangers, monkeypatch):
    assert public.why_not_queued(ONE, [OTHER]) == ""
    assert "one at a time" in public.why_not_queued(ONE, [OTHER, ONE])
    assert "Try again" in public.why_not_queued(ONE, [f"{number:032}" for number in range(public.MOST_QUEUED)])
    monkeypatch.delenv("TREEGRAFT_PUBLIC")
    assert public.why_not_queued("", [""] * 99) == ""


@pytest.mark.parametrize(("text", "seen"), [
    ("/srv/models/small/config.json: not there", "config.json: not there"),
    ("cannot open '/tmp/treegraft-x1/upload.jsonl', line 3", "cannot open 'upload.jsonl', line 3"),
    (r"C:\Users\me\a.jsonl is broken", "a.jsonl is broken"), ("~/x/y.txt", "y.txt"),
    ("12 tokens/s, and/or https://example.org/a/b", "12 tokens/s, and/or https://example.org/a/b")])
def test_paths_become_names(strangers, monkeypatch, text, seen):
    assert public.shown(text) == seen
    monkeypatch.delenv("TREEGRAFT_PUBLIC")
    assert public.shown(text) == text


def test_a_home_with_spaces_is_not_shown(strangers, monkeypatch):
    monkeypatch.setenv("TREEGRAFT_HOME", "/data of mine/tree")
    assert public.shown(f"{home()}/sessions/x/sky.jsonl: full") == "sky.jsonl: full"


def test_each_session_sees_its_own_recordings(strangers, monkeypatch):
    for name, session in (("mine", ONE), ("theirs", OTHER)):
        monkeypatch.setattr(sessions, "_identify", lambda session=session: session)
        recordings().mkdir(parents=True)
        (recordings() / f"{name}.jsonl").touch()
    assert "theirs" in traces()
    assert "mine" not in traces()
    monkeypatch.setattr(sessions, "_identify", lambda: "../recordings")
    with pytest.raises(ValueError, match="32 hexadecimal"):
        recordings()


def written(session: str, name: str, age: float) -> Path:
    path = home() / "sessions" / session / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (1e9 - age, 1e9 - age))
    return path


def test_old_recordings_go(strangers, monkeypatch):
    many = [written(ONE, f"{number}.jsonl", number) for number in range(public.KEPT_OF_ONE + 2)]
    fresh, old = written(OTHER, "fresh.jsonl", 5), written(OTHER, "old.jsonl", public.KEPT_HOURS * 3600 + 1)
    gone = written("3" * 32, "old.jsonl", public.KEPT_HOURS * 3600 + 1)
    public.sweep(now=lambda: 1e9)
    assert [path.exists() for path in many] == [True] * public.KEPT_OF_ONE + [False] * 2
    assert (fresh.exists(), old.exists(), gone.parent.exists()) == (True, False, False)
    monkeypatch.setattr(public, "KEPT_OVERALL", 1)
    public.sweep(now=lambda: 1e9)
    assert [path for path in (*many, fresh) if path.exists()] == [many[0]]


def test_nothing_is_swept_where_one_person_works(strangers, monkeypatch):
    old = written(ONE, "old.jsonl", 1e6)
    monkeypatch.delenv("TREEGRAFT_PUBLIC")
    public.sweep(now=lambda: 1e9)
    assert old.exists()
