"""The Compare page's script, without a browser."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import msgspec
import pytest
from streamlit.testing.v1 import AppTest

import treegraft
from app_pages.compare.many import ELSEWHERE, KEY
from app_pages.compare.partners import KEY as PARTNERS
from app_pages.compare.trees import POSITION
from tests.app.test_every_page import HOSTILE
from tests.strategies import make_run, write_runs
from treegraft.compare.report import LARGEST_RESULT, read_comparison
from treegraft.view.comparisons import BUNDLED
from treegraft.view.library import DEMOS

PAGE = Path(__file__).parents[2] / "app_pages" / "compare" / "page.py"
SECONDS = 60


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TREEGRAFT_HOME", str(tmp_path))
    (tmp_path / "recordings").mkdir()
    return tmp_path


def visited(**parameters: str | list[str]) -> AppTest:
    app = AppTest.from_file(PAGE, default_timeout=SECONDS)
    for name, value in parameters.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def shown(app: AppTest) -> list[tuple[int, object]]:
    """Round and node that each player was led to."""
    data = [json.loads(one.proto.json) for one in app.get("bidi_component")]
    led = [json.loads(one["go"]) for one in data if "go" in one]
    return [(go["round"], go["node"]) for go in led if go]


def said(app: AppTest) -> str:
    return "\n".join(element.value for kind in ("info", "warning", "error", "success", "caption", "text")
                     for element in getattr(app, kind))


def test_every_tree_is_that_of_the_round_that_wrote_the_token(home):
    names = ("treegraft", "plain", "chain")
    app = visited(trace=names[0], **{"with": list(names[1:])}, position="10")
    for position in (10, 0, 47):
        app.slider(key=POSITION).set_value(position).run()
        assert app.query_params["position"] == str(position)
        runs = [treegraft.open(DEMOS / f"{name}.jsonl.zst").runs[0] for name in names]
        for (number, node), run in zip(shown(app), runs, strict=True):
            round = run.rounds[number]
            begin = round.output_start
            assert position == 0 or begin <= position < begin + round.outcome.taken
            token = round.event("accept").bonus if node == "bonus" else round.record.nodes.token[node]
            assert token == run.output[position]


def test_the_first_visit_shows_a_partner_of_the_same_prompt(home):
    app = visited(trace="treegraft")
    assert app.query_params["with"] == "chain"
    assert "the same text as Treegraft" in said(app)


def test_the_first_change_of_the_partners_is_kept(home):
    app = visited(trace="treegraft")
    app.multiselect(key=PARTNERS).set_value(["chain", "eagle2"]).run()
    assert app.multiselect(key=PARTNERS).value == ["chain", "eagle2"]
    app = visited(trace="treegraft")
    app.multiselect(key=PARTNERS).set_value([]).run()
    assert app.multiselect(key=PARTNERS).value == []
    assert "with" not in app.query_params


def test_a_recording_alone_says_what_to_do(home):
    assert "Choose one or more recordings" in said(visited(trace="languages"))


def test_recordings_of_the_same_prompt_are_offered_first(home):
    options = visited(trace="eagle2").multiselect[0].options
    others = [option.endswith("(another prompt)") for option in options]
    assert others == sorted(others)
    assert others.count(False) == 6


def test_another_prompt_and_missing_partners_are_said(home):
    app = visited(trace="eagle2", **{"with": ["question", "nowhere"]})
    assert "answers another prompt" in said(app)
    assert "1 of the linked recordings" in said(app)
    assert app.query_params["with"] == "question"


def test_runs_of_one_recording(home):
    write_runs(home / "recordings" / "two.jsonl", *(make_run(Random(seed), [(2, 3)] * 3) for seed in (7, 8)))
    app = visited(trace="two", **{"with": ["two/1"]})
    assert len(shown(app)) == 2


@pytest.mark.parametrize("position", ["-1", "9" * 99, "\u0661", "x"])
def test_senseless_positions_are_no_errors(home, position):
    app = visited(trace="chain", **{"with": ["plain"]}, position=position)
    assert 0 <= app.slider(key=POSITION).value <= 47


def test_a_damaged_partner_is_explained(home):
    path = write_runs(home / "recordings" / "bad.jsonl", make_run(Random(2), [(1, 2)] * 3))
    lines = path.read_bytes().splitlines(keepends=True)
    bad = next(number for number, line in enumerate(lines) if b'"kind":"round"' in line)
    lines[bad] = lines[bad].replace(b'"parent":[-1', b'"parent":[7')
    path.write_bytes(b"".join(lines))
    app = visited(trace="chain", **{"with": ["bad"]})
    assert app.error[0].value == "This recording cannot be shown:"
    assert "bad.jsonl" in said(app)


# --- many prompts ---------------------------------------------------------------------------------------------------


def put(home: Path, content: bytes) -> None:
    folder = home / "comparisons" / "mine"
    folder.mkdir(parents=True)
    (folder / "table.json").write_bytes(content)


def test_the_bundled_comparison_is_small_and_shown(home):
    assert (BUNDLED / "demo" / "table.json").stat().st_size < 200_000
    app = visited(comparison="demo")
    rows = read_comparison(BUNDLED / "demo").total
    table = app.dataframe[0].value
    assert list(table["policy"]) == [row.policy for row in rows]
    assert list(table["tau"]) == [row.tau for row in rows]


def test_a_category_alone(home):
    app = visited(comparison="demo")
    app.selectbox(key="comparison category").set_value("code").run()
    assert not app.exception
    rows = read_comparison(BUNDLED / "demo").of_category("code")
    assert list(app.dataframe[0].value["tau"]) == [row.tau for row in rows]


@pytest.mark.parametrize(("content", "words"), [
    (b"", "is damaged"), (b"{}", "is damaged"), (b"\xff\xfe", "is damaged"), (b"[" * 10_000, "is damaged"),
    (b" " * (LARGEST_RESULT + 1), "is larger than")])
def test_a_broken_result_is_explained(home, content, words):
    put(home, content)
    app = visited(comparison="mine")
    assert app.error[0].value == "This comparison cannot be shown:"
    assert words in app.text[0].value


def result(**changes: object) -> bytes:
    found = msgspec.to_builtins(read_comparison(BUNDLED / "demo"))
    return json.dumps(found | changes).encode()


def test_a_result_without_policies_or_with_too_many_is_explained(home):
    rows = msgspec.to_builtins(read_comparison(BUNDLED / "demo").rows)
    put(home, result(rows=[]))
    assert "holds no policies" in said(visited(comparison="mine"))
    (home / "comparisons" / "mine" / "table.json").write_bytes(
        result(rows=[rows[0] | {"policy": f"p{number}"} for number in range(201)]))
    assert "holds 201 policies" in said(visited(comparison="mine"))


def test_names_of_strangers_are_shown_as_they_are(home):
    rows = msgspec.to_builtins(read_comparison(BUNDLED / "demo").rows)
    put(home, result(rows=[row | {"policy": HOSTILE[3], "origins": {HOSTILE[0]: 3}, "category": HOSTILE[4]}
                           for row in rows[1:2]] + [rows[0] | {"policy": HOSTILE[1]}]))
    app = visited(comparison="mine")
    assert not app.error
    assert "\u202e" not in "".join(app.dataframe[0].value["policy"])


def test_a_typed_folder_is_read_but_not_in_public(home, monkeypatch):
    app = visited(comparison="demo")
    app.selectbox(key=KEY).set_value(ELSEWHERE).run()
    app.text_input(key="comparison folder").input(str(BUNDLED / "demo")).run()
    assert not app.exception
    assert len(app.dataframe[0].value) == len(read_comparison(BUNDLED / "demo").total)
    app.text_input(key="comparison folder").input(str(home / "nothing")).run()
    assert "treegraft compare --out" in said(app)
    monkeypatch.setenv("TREEGRAFT_PUBLIC", "1")
    assert ELSEWHERE not in visited(comparison="demo").selectbox(key=KEY).options
