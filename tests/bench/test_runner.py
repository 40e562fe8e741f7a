"""A whole benchmark on a tiny pair: order, interrupts, and what comes out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from treegraft.bench import forwards, runner
from treegraft.bench.errors import BenchError
from treegraft.bench.rows import Question, build_rows
from treegraft.bench.samples import BARE, ENGINE, GENERATE, VERIFY, Sample
from treegraft.bench.summary import complete, forward_ratios, summarise
from treegraft.prompts import Prompt

PROMPTS = [Prompt("a", ("Say it twice.",)), Prompt("b", ("The fox jumps over the dog, the fox jumps", "and again"))]
POLICIES = ["plain", "eagle2:budget=5,top_k=2,depth=2"]


class Watcher(runner.Listener):
    """Remembers what it hears, and presses Ctrl-C before a decode if asked."""

    def __init__(self, interrupt_at: int = -1) -> None:
        self.decodes, self.heard, self.interrupt_at = 0, [], interrupt_at

    def begin(self, decodes: int) -> None:
        self.decodes = decodes

    def decoding(self, what: str) -> None:
        if len(self.heard) == self.interrupt_at:
            raise KeyboardInterrupt
        self.heard.append(what)


def bench(pair, **options):
    return runner.run_bench(pair, PROMPTS, POLICIES, max_new_tokens=8, repeats=2, **options)


@pytest.fixture(scope="module")
def watched(tiny_pair):
    watcher = Watcher()
    return bench(tiny_pair, listener=watcher), watcher


def test_every_row_decodes_every_prompt_in_every_repeat(watched):
    result, _ = watched
    rows = [GENERATE, "generate: prompt lookup", "generate: assisted by small", *POLICIES]
    expected = Counter((row, repeat, prompt, recorded) for row in rows for repeat in (0, 1) for prompt in (0, 1)
                       for recorded in ((False, True) if row in POLICIES else (False,)))
    assert Counter((s.row, s.repeat, s.prompt, s.recorded) for s in result.samples) == expected
    assert not result.interrupted
    assert all(row.differing == 0 for row in summarise(result.samples, result.differences))


def test_the_warm_up_is_told_but_not_kept(watched):
    result, watcher = watched
    assert watcher.decodes == len(watcher.heard) - 1 == len(result.samples) + 7
    assert [what for what in watcher.heard if "warming up" in what] == watcher.heard[:7]
    assert watcher.heard[-1] == "single forwards"


def test_setup_tells_what_was_asked(watched):
    setup = watched[0].setup
    assert (setup.prompts, setup.max_new_tokens, setup.repeats) == (2, 8, 2)
    assert (setup.dtype, setup.device) == ("float32", "cpu")
    assert setup.prompt_tokens > 2


def test_each_pass_runs_all_rows_and_another_one_first():
    rows = ["a", "b", "c"]
    order = list(runner.schedule(rows, prompts=3, repeats=3))
    passes = [order[start:start + 3] for start in range(0, 27, 3)]
    for part in passes:
        assert len({(repeat, prompt) for repeat, prompt, _ in part}) == 1
        assert sorted(row for *_, row in part) == rows
    for prompt in range(3):
        assert {part[0][2] for part in passes if part[0][1] == prompt} == set(rows)


@dataclass
class FakeRow:
    """Decodes nothing."""

    name: str
    recorded: bool = False

    def measure(self, question: Question, repeat: int) -> Sample:
        return Sample(self.name, repeat, question.number, (1,), 1, 1, 0)


@pytest.mark.parametrize(("interrupt_at", "kept"), [(2, 0), (3 + 2, 0), (3 + 3, 3), (3 + 11, 9), (3 + 12, 12)])
def test_ctrl_c_keeps_the_passes_that_are_complete(monkeypatch, interrupt_at, kept):
    """Three rows on two prompts in two repeats: 3 decodes to warm up, then 4 passes."""
    monkeypatch.setattr(runner.gc, "collect", lambda: 0)
    rows, questions = [FakeRow("a"), FakeRow("b"), FakeRow("c")], [Question(0, (), [1]), Question(1, (), [1, 2])]
    samples, times = [], []
    assert runner.measure_all(None, rows, questions, 2, samples, times, Watcher(interrupt_at))
    assert len(complete(samples, len(rows))) == kept
    assert len(samples) == max(0, interrupt_at - 3)
    assert times == []


def test_the_longest_prompt_warms_up(monkeypatch):
    monkeypatch.setattr(runner.gc, "collect", lambda: 0)
    asked = []
    row = FakeRow("a")
    row.measure = lambda question, repeat: asked.append(question.number)
    list(runner.measure([row], [Question(0, (), [1]), Question(1, (), [1, 2]), Question(2, (), [1])], 1, Watcher()))
    assert asked == [1, 0, 1, 2]


def test_prompts_that_do_not_fit_are_refused_before_anything_runs(tiny_pair):
    with pytest.raises(BenchError, match=r"prompt a has .* 512 tokens"):
        runner.run_bench(tiny_pair, PROMPTS, POLICIES, max_new_tokens=510)


# --- single forwards ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def times(tiny_pair, tmp_path_factory):
    rows = build_rows(tiny_pair, [*POLICIES, "chain:small.draft_vocab=50"], 8, tmp_path_factory.mktemp("traces"))
    return list(forwards.measure_forwards(tiny_pair, rows, [5, 6, 7], repeats=1))


def test_forwards_of_every_kind_in_every_turn(times):
    turns = Counter((time.what, time.tokens) for time in times)
    sizes = {(BARE, 1), (BARE, 16), (BARE, 64), (ENGINE, 1), (ENGINE, 16), (ENGINE, 64),
             *((VERIFY, size) for size in (1, 16, 32, 64))}
    drafting = {(name, size) for name in ("small", "small draft_vocab=50") for size in (1, forwards.DRAFTED)}
    assert turns.keys() == sizes | drafting
    assert set(turns.values()) == {forwards.PER_REPEAT}
    assert {time.repeat for time in times} == set(range(forwards.PER_REPEAT))
    assert len(forward_ratios(times)) == 3 + 3 + 4


def test_the_engine_and_the_bare_model_do_the_same_work(tiny_pair, monkeypatch):
    """Both answer alike for the same tokens behind the same context, again and again."""
    answers = []
    one_turn = forwards.one_turn

    def compare(kinds, stopwatch, repeat):
        by_size = {(kind.what, kind.tokens): kind for kind in kinds}
        for size in forwards.ENGINE_SIZES:
            bare, engine = by_size[BARE, size], by_size[ENGINE, size]
            answers.append((bare.run().logits[0], engine.run()))
            bare.undo()
            engine.undo()
        return one_turn(kinds, stopwatch, repeat)

    monkeypatch.setattr(forwards, "one_turn", compare)
    list(forwards.measure_forwards(tiny_pair, [], range(3, 90), repeats=1))
    assert len(answers) == 3 * (1 + forwards.PER_REPEAT)
    for bare, engine in answers:
        assert (bare - engine).abs().max() < 1e-4


def test_a_drafter_grows_the_same_tree_every_time(tiny_pair, tmp_path):
    """What is timed stays the same: nothing of one turn is left for the next."""
    rows = build_rows(tiny_pair, POLICIES, 8, tmp_path)
    drafter = forwards.model_drafters(rows)["small"]
    grown = []
    grow = drafter.grow

    def watch(tree, parents, layer, k):
        growth = grow(tree, parents, layer, k)
        grown.append((tree.token.tolist(), tree.score.tolist(), drafter.cached))
        return growth

    drafter.grow = watch
    try:
        list(forwards.measure_forwards(tiny_pair, rows, [5, 6, 7, 8, 9], repeats=1))
    finally:
        del drafter.grow
    assert len(grown) == 2 * (1 + forwards.PER_REPEAT)
    first, second = grown[2:4]
    assert grown[2:] == [first, second] * forwards.PER_REPEAT
    assert [tokens for tokens, *_ in grown[:2]] == [first[0], second[0]]
