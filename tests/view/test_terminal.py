"""Pictures in the terminal: every node is accounted for, nothing escapes, nothing is wider than the screen."""

from __future__ import annotations

import io
import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tests.strategies import make_header, make_run, runs
from tests.view.examples import drawn, grafted, retrieved
from treegraft.trace import Run
from treegraft.trace.records import Accept, Expand, Nodes, Prefill, Prune, Round, Verify, Walked
from treegraft.view.terminal import FATES, draw_round, draw_text


def printed(picture, width: int = 200, **options) -> str:
    screen = Console(file=io.StringIO(), width=width, **options)
    screen.print(picture)
    return screen.file.getvalue()


def by_hand() -> Run:
    """One round: ` w18` and ` w20` are accepted, `<b>` beside them is rejected with a child below, three are pruned."""
    nodes = Nodes(token=[7, 18, 3, 20, 21, 22, 23, 24], parent=[-1, 0, 0, 1, 2, 1, 5, 1],
                  origin=[-1, 0, 1, 1, 1, 1, 1, 1], score=[0, -10_000, -5_000, -30_000, -6_000, -90_000, -99_000, None],
                  proposers=[0, 1, 2, 2, 2, 2, 2, 2])
    times = {"draft": 1500, "total": 2500}
    round = Round(index=0, context=2, root=7, nodes=nodes, note="few matches", times=times, events=[
        Expand(layer=1, drafter=1, parents=[0], nodes=[1, 2, 3, 4, 5, 6, 7], scores=nodes.score[1:]),
        Prune(budget=4, rule="score", kept=[0, 1, 2, 3, 4]),
        Verify(order=[0, 1, 2, 3, 4], argmax=[18, 20, 9, 26, 9], logprob=[0, -20_000, -300_000, None, -10], walk=[
            Walked(node=0, tokens=[18], logprobs=[-20_000], children=[1, 2], ranks=[0, 6], entropy=9)]),
        Accept(rule="greedy", path=[1, 3], tried=[], bonus=26)])
    pieces = {7: b"r", 18: b" w18", 3: b"<b>", 20: b" w20", 21: b"\n\x1b[1m", 22: b" w22", 23: b"x", 24: b"y", 26: b"!"}
    return Run(make_header([1]), pieces, Prefill(microseconds=1, root=7), [round], None)


def test_the_picture_of_a_round():
    text = printed(draw_round(by_hand().rounds[0]))
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[0] == "Round 0 (0 to 0), context 2 tokens: 7 drafted, 4 verified, 2 accepted + bonus"
    assert [re.sub(" {2,}", "  ", line) for line in lines[2:10]] == [
        "● r",
        "├─✓ ·w18  lookup  0.905  0.819  1",
        "│ ├─✓ ·w20  small  0.819  <0.001",
        "│ │ └─★ !",
        "│ └─… 3 pruned, best ·w22  small  0.449",
        "└─✗ <b>  small  0.951  0.050  7",
        "  └─○ ↵\\x1b[1m  small  0.990  1.000",
        "few matches"]
    assert lines[10] == "draft 1.5 ms, total 2.5 ms"
    assert "rejected: the target chose otherwise" in lines[11]
    assert "discarded" not in lines[11]


@settings(max_examples=40, deadline=None)
@given(runs(min_rounds=1))
def test_every_node_has_a_line_or_is_counted_as_pruned(run):
    for round in run.rounds:
        lines = printed(draw_round(round), width=400).splitlines()[2:-1]
        for fate, (symbol, _) in FATES.items():
            if fate in ("root", "accepted", "rejected", "unreached", "discarded"):
                assert sum(bool(re.match(f"[│├└─ …]*{symbol} ", line)) for line in lines) == round.fates.count(fate)
        hidden = [int(number) for line in lines for number in re.findall(r"^[│├└─ …]*… (\d+) pruned", line)]
        assert sum(hidden) == round.fates.count("pruned")


@settings(max_examples=40, deadline=None)
@given(runs(min_rounds=1), st.integers(40, 100))
def test_nothing_is_wider_than_the_screen_and_nothing_steers_it(run, width):
    for picture in [draw_text(run), *map(draw_round, run.rounds)]:
        text = printed(picture, width)
        assert all(cell_len(line) <= width for line in text.splitlines())
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e]", text)


def test_the_accepted_path_comes_first():
    run = make_run(Random(8), [(3, 6)] * 12)
    for round in run.rounds:
        lines = printed(draw_round(round)).splitlines()[2:]
        symbols = [re.sub("[│├└─ ]", "", line)[0] for line in lines]
        path = len(round.path)
        assert set(symbols[1:path + 1]) <= {"✓", "⊘"}
        assert symbols[path + 1] == "★"


def test_a_deep_chain_keeps_its_tokens():
    depth = 100
    run = by_hand()
    (record,) = run.records
    record.nodes = Nodes(token=[7] + [18] * depth, parent=list(range(-1, depth)), origin=[-1] + [0] * depth,
                         score=list(range(0, -depth - 1, -1)), proposers=[0] + [1] * depth)
    record.events = [Verify(order=list(range(depth + 1)), argmax=[18] * depth + [26], logprob=[0] * (depth + 1)),
                     Accept(rule="greedy", path=list(range(1, depth + 1)), tried=[], bonus=26)]
    assert printed(draw_round(run.rounds[0]), 80).count("✓ ·w18") == depth


def test_calls_grafts_and_rescored_nodes():
    lines = [re.sub(" {2,}", "  ", line.rstrip()) for line in printed(draw_round(grafted().rounds[0])).splitlines()]
    assert lines[2:9] == [
        "● The",
        "└─✓ ·sky  lookup  0.607  0.990  1  −0.50 → −0.80",
        "  ├─✓ ·is  lookup  0.819  0.980  −0.70 → −0.20",
        "  │ ├─✓ ·was  small, grafted  0.670  0.970",
        "  │ │ └─★ ·blue",
        "  │ └─… 1 pruned, best ·blue  lookup  <0.001",
        "  └─✗ ·air  small, grafted  0.670  0.018"]
    assert lines[9].startswith("Layer 1: small is not called: the scheduler expects that to save 0.25 ms, not more")
    assert lines[10].startswith("Layer 2: small is called: the scheduler expects that to save 1.25 ms, more than")
    told = " ".join(lines[10:])
    assert "3 scores change: 2 rose, 1 fell. It cannot propose 1 of the tokens. The best 2 of 4 nodes" in told
    assert "2 are grafts onto branches of another drafter." in told


def test_gates_retrieved_tokens_and_learned_rows():
    lines = [re.sub(" {2,}", "  ", line.rstrip()) for line in printed(draw_round(retrieved().rounds[0])).splitlines()]
    assert lines[0].endswith("5 drafted, 3 retrieved, 7 verified, 2 accepted + bonus")
    assert lines[3:10] == [
        "├─✓ ·sky  small, also successors  0.607  0.905  1",
        "│ ├─✓ ·blue  successors, row 3, grafted  0.951",
        "│ │ └─★ ·moon",
        "│ ├─✗ ·is  small  0.905  0.050",
        "│ └─✗ ·was  small, also successors  0.368  0.045",
        "├─✗ ·sea  small  0.368  0.135  2",
        "│ └─… 1 pruned, best ·is  small  0.741"]
    assert lines[10] == "└─✗ ·air  successors, row 2  0.041  8"
    told = lines[12:]
    assert told[0] == ("Layer 1: Drafting goes on after layer 1: the confidence of 0.607 is above the threshold of"
                       " 0.140.")
    assert told[1].startswith("Layer 2: Drafting stops after layer 2: the confidence of 0.549 is not above")
    assert any(line.startswith("Graft: In stage d1 the budget goes to 2 drafted and 6 retrieved") for line in told)
    assert "Learn: successors learns from the target what follows 3 tokens." in told


def test_colours_only_on_a_terminal():
    round = by_hand().rounds[0]
    assert "\x1b[" not in printed(draw_round(round))
    assert "\x1b[1;32m✓" in printed(draw_round(round), force_terminal=True, color_system="standard")


def test_the_text_of_a_run_shows_rounds_and_what_was_discarded():
    run = by_hand()
    run.records[0].events[-1].discarded = 2
    run.header.prompt.text = "Why\n" + "so " * 100
    prompt, text = printed(draw_text(run)).splitlines()[:2]
    assert prompt == f"Prompt: Why{' so' * 52}…"
    assert text == "r│ w18⊘ w20⊘!"


def test_show_prints_the_picture(capsys):
    run = by_hand()
    run.show(0)
    assert "├─✓ ·w18" in capsys.readouterr().out


@pytest.mark.parametrize("fate", ["accepted", "rejected", "unreached", "pruned", "discarded", "bonus"])
def test_no_fate_is_told_by_colour_alone(fate):
    assert sum(FATES[fate][0] == symbol for symbol, _ in FATES.values()) == 1


def test_a_sampled_round_shows_its_random_numbers_and_its_rule():
    text = printed(draw_round(drawn().rounds[0]))
    lines = [re.sub(" {2,}", "  ", line.rstrip()) for line in text.splitlines()]
    assert lines[1].split() == ["token", "drafter", "q", "p", "rank", "u"]
    assert "├─✓ ·sea  small  0.368  0.301  2  0.250" in lines
    assert "└─✗ ·sky  small  0.607  0.670  1  0.750" in [line.replace("├", "└") for line in lines]
    assert ("Accept: rule points: accept with p; else take the token out of p (EAGLE-2). 1 token accepted, “·sea”; then"
            " “·blue” is drawn. Expected accepted length 1.92, computed from the recorded probabilities.") in lines


def test_a_lossy_rule_is_called_lossy():
    assert "Accept: rule typical (lossy: the text is not distributed as the target’s own): any child" in printed(
        draw_round(drawn("typical").rounds[0]))


def test_a_greedy_round_has_neither_random_numbers_nor_a_rule():
    lines = printed(draw_round(by_hand().rounds[0])).splitlines()
    assert lines[1].split() == ["token", "drafter", "q", "p", "rank"]
    assert not any(line.startswith("Accept:") for line in lines)
