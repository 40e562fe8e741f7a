"""Drafters that score tokens: what they answer in a tree that two drafters grow equals what the plain model says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests import tiny
from tests.analysis.recordings import FAMILY, PROMPTS, recorded
from treegraft.drafters.lm import LM
from treegraft.models.scores import UNLISTED, NodeScores
from treegraft.policies import TreeGraft
from treegraft.trace.records import NATS, Expand, Rescore
from treegraft.tree import ROOT, DraftTree

CLOSE = 30
"""1e-5 nats that sums over a path may differ by: the models compute in fp32."""


def plain_score(text: list[int], path: list[int]) -> int:
    """The log-prob of `path` behind `text` under the tiny drafter, in one pass without a cache."""
    with torch.inference_mode():
        logprobs = tiny.drafter(FAMILY)(torch.tensor([text + path])).logits[0].float().log_softmax(-1)
    return round(sum(float(logprobs[len(text) + place - 1, token]) for place, token in enumerate(path)) * NATS)


@pytest.mark.parametrize("schedule", ["always", "1,3", "2,4", "3"])
@pytest.mark.parametrize("prompt", PROMPTS[:2], ids=len)
def test_scores_of_reused_rows_equal_those_of_the_whole_text(schedule, prompt):
    """Rows are kept between the calls of a round and between rounds; every score a call leaves is the model's own."""
    policy = TreeGraft(budget=16, top_k=3, schedule=schedule, survive_empty=True)
    run = recorded(("lookup", "strong"), prompt, policy, new_tokens=25).run
    checked = 0
    for traced in run.rounds:
        text = [*prompt, *run.output[: traced.output_start]]
        scored = {}
        for event in traced.record.events:
            if isinstance(event, Rescore):
                scored |= dict(zip(event.nodes, event.after, strict=True))
            elif isinstance(event, Expand) and event.drafter == 1:
                scored |= dict(zip(event.nodes, event.scores, strict=True))
            elif isinstance(event, Expand):
                scored = {node: score for node, score in scored.items() if node not in event.raised}
        for node, score in scored.items():
            path = [traced.record.nodes.token[one] for one in traced.tree.path(node)[1:]]
            assert abs(score - plain_score(text, path)) <= CLOSE
            checked += 1
    assert checked > 50


def test_rows_of_accepted_nodes_are_not_read_again():
    policy = TreeGraft(budget=16, top_k=3, schedule="always")
    run = recorded(("lookup", "strong"), PROMPTS[0], policy, new_tokens=25).run
    assert sum(round.accepted for round in run.rounds) > 5
    for before, after in zip(run.rounds, run.rounds[1:], strict=False):
        read = {0, *(node for event in before.record.events if isinstance(event, Expand) for node in event.parents)}
        first = next(forward for forward in after.record.forwards if forward.model == 1)
        behind = [node for node in before.path if node not in read]
        assert first.tokens == len(behind) + 1


def test_a_token_outside_the_draft_vocabulary_gets_the_floor():
    drafter = LM(model=tiny.drafter(FAMILY), draft_vocab=20)
    run_in = DraftTree(5, 4, 50)
    begin(drafter, [3, 4, 9], root=5)
    run_in.append([ROOT, ROOT, 1], [7, 50, 51], np.zeros(3), 0)
    logprob, unreachable = drafter.judge(run_in, np.array([1, 2, 3]), np.zeros(0, np.int64))
    assert unreachable.tolist() == [False, True, True]
    _, listed = drafter.best(run_in, np.array([ROOT]), 20)
    assert logprob[1] == listed.min() - UNLISTED
    assert logprob[0] in listed


def begin(drafter: LM, prompt: list[int], root: int) -> None:
    from treegraft.drafters.base import Prefilled

    empty = np.zeros((0, 0), np.int64)
    drafter.begin(Prefilled(prompt=prompt, root=root, tokens=empty, logprobs=empty), 64, 50)


def test_answers_do_not_depend_on_what_was_read_together():
    together, apart = (LM(model=tiny.drafter(FAMILY)) for _ in range(2))
    trees = [DraftTree(5, 4, 50) for _ in range(2)]
    for drafter, tree in zip((together, apart), trees, strict=True):
        begin(drafter, [3, 4, 9], root=5)
        tree.append([ROOT, ROOT, 1, 3, 2], [7, 8, 9, 10, 11], np.zeros(5), 0)
    nodes = np.array([ROOT, 2, 3, 5])
    tokens, logprobs = together.best(trees[0], nodes, 4)
    for place in (3, 0, 2, 1):
        alone = apart.best(trees[1], nodes[[place]], 4)
        assert alone[0][0].tolist() == tokens[place].tolist()
        assert np.abs(alone[1][0] - logprobs[place]).max() <= CLOSE
    judged = together.judge(trees[0], np.arange(1, 6), nodes)[0]
    assert np.abs(judged - apart.judge(trees[1], np.arange(1, 6), nodes)[0]).max() <= CLOSE


def test_node_scores_come_in_the_order_asked_for():
    scores = NodeScores(10)
    logits = torch.arange(40.0).reshape(5, 8) % 7
    scores.add(np.array([4, 0, 2]), logits[:3])
    scores.add(np.array([7, 1]), logits[3:])
    assert scores.missing(np.array([0, 3, 7, 9])).tolist() == [3, 9]
    for nodes, rows in (([4, 0, 2], [0, 1, 2]), ([2, 4], [2, 0]), ([7, 2, 1, 0], [3, 2, 4, 1])):
        assert scores._rows(np.array(nodes)).tolist() == logits[rows].tolist()
