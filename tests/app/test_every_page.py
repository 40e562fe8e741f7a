"""Every page on every kind of recording, without a browser: it shows something, or says in words why not."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
import zstandard
from streamlit.testing.v1 import AppTest

from tests.strategies import VOCAB, make_run, write_runs
from tests.view.examples import drawn, grafted, retrieved
from treegraft.trace import Writer
from treegraft.trace.records import Prompt
from treegraft.view.library import DEMOS, name_of

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.parent.name for path in ROOT.glob("app_pages/*/page.py"))
SECONDS = 120

HOSTILE = ["<img src=x onerror=window.hacked=1>", "\u202eevil", "x" * 10_000, "$\\alpha$ :red[**bold**] [a](b)",
           "</script><script>window.hacked=1</script>"]


def hostile_run():
    run = make_run(Random(6), [(3, 5)] * 6)
    run.pieces = {token: HOSTILE[token % len(HOSTILE)].encode() for token in range(VOCAB)}
    run.header.prompt = Prompt(tokens=run.header.prompt.tokens, text=HOSTILE[0])
    run.header.drafters[0].name = run.header.target.name = HOSTILE[0]
    run.header.policy.name = HOSTILE[3]
    return run


def write_strange(folder: Path) -> None:
    """Recordings of kinds that a page may not have thought of."""
    write_runs(folder / "hostile.jsonl", hostile_run())
    write_runs(folder / "several.jsonl", *(make_run(Random(seed), [(2, 3)] * 3) for seed in (7, 8)))
    write_runs(folder / "grafted.jsonl", grafted())
    write_runs(folder / "retrieved.jsonl", retrieved())
    write_runs(folder / "drawn.jsonl", drawn())
    write_runs(folder / "chained.jsonl", make_run(Random(3), [(2, 2)] * 4, "chain"))
    write_runs(folder / "typical.jsonl", make_run(Random(4), [(2, 2)] * 4, "typical"))
    write_runs(folder / "empty.jsonl", make_run(Random(1), []))
    run = make_run(Random(2), [(2, 3)] * 2)
    with Writer(folder / "begun.jsonl") as trace:
        trace.write(run.header)
    whole = (folder / "several.jsonl").read_bytes()
    (folder / "cut.jsonl").write_bytes(whole[: len(whole) // 3])


STRANGE = ("hostile", "several", "grafted", "retrieved", "drawn", "chained", "typical", "empty", "begun", "cut")
RECORDINGS = sorted([*map(name_of, DEMOS.glob("*.jsonl*")), *STRANGE])


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("home")
    (home / "recordings").mkdir()
    write_strange(home / "recordings")
    return home


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", RECORDINGS)
def test_a_page_shows_any_recording(page, name, home, monkeypatch):
    monkeypatch.setenv("TREEGRAFT_HOME", str(home))
    app = AppTest.from_file(ROOT / "app_pages" / page / "page.py", default_timeout=SECONDS)
    app.query_params["trace"] = name
    app.run()
    assert not app.exception
    if page not in ("record", "learn"):
        assert app.selectbox(key="trace").value == name


@pytest.mark.parametrize("page", PAGES)
def test_a_page_without_recordings_says_what_to_do(page, tmp_path, monkeypatch):
    monkeypatch.setenv("TREEGRAFT_HOME", str(tmp_path))
    monkeypatch.setattr("treegraft.view.library.DEMOS", tmp_path / "nothing")
    app = AppTest.from_file(ROOT / "app_pages" / page / "page.py", default_timeout=SECONDS).run()
    assert not app.exception
    assert any(element.value for element in (*app.info, *app.markdown, *app.caption))


# --- damage that is met only when a part of the recording is read ---


def lines_of(name: str) -> list[dict]:
    """The records of a demo."""
    with (DEMOS / f"{name}.jsonl.zst").open("rb") as file:
        text = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()
    return [json.loads(line) for line in text.splitlines()]


def parent_beyond(records: list[dict]) -> None:
    next(one for one in records if one["kind"] == "round" and one["index"] == 3)["nodes"]["parent"][3] = 50_000


def other_k(records: list[dict]) -> None:
    next(one for one in records if one["kind"] == "prefill")["k"] += 1


def no_base64(records: list[dict]) -> None:
    next(one for one in records if one["kind"] == "pieces")["base64"] = {"5": "?"}


def number_for_a_reason(records: list[dict]) -> None:
    next(one for one in records if one["kind"] == "end")["reason"] = 7


def above_certainty(records: list[dict]) -> None:
    for event in next(one for one in records if one["kind"] == "round")["events"]:
        if event["kind"] == "verify":
            event["logprob"] = [10**12] * len(event["logprob"])


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("damage", [parent_beyond, other_k, no_base64, number_for_a_reason, above_certainty])
def test_damage_ends_in_words(page, damage, tmp_path, monkeypatch):
    monkeypatch.setenv("TREEGRAFT_HOME", str(tmp_path))
    records = lines_of("treegraft")
    damage(records)
    (tmp_path / "recordings").mkdir()
    (tmp_path / "recordings" / "hurt.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    app = AppTest.from_file(ROOT / "app_pages" / page / "page.py", default_timeout=SECONDS)
    for key, value in {"trace": "hurt", "with": "eagle2"}.items():
        app.query_params[key] = value
    app.run()
    assert not app.exception
    if page == "tree" and damage is not above_certainty and damage is not number_for_a_reason:
        assert app.error[0].value == "This recording cannot be shown:"
