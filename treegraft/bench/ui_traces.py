"""Traces of a wanted size, for measuring the dashboard: random trees in sound records. What they say means nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np

from treegraft.trace import Writer
from treegraft.trace.records import (
    NATS,
    Accept,
    CostCurve,
    Decoding,
    DrafterInfo,
    End,
    Expand,
    Header,
    Nodes,
    PolicyInfo,
    Prefill,
    Prompt,
    Prune,
    Round,
    TargetInfo,
    Verify,
    Walked,
)

VOCAB = 4096
PROMPT = [1, 2, 3, 4]
LAYERS = 5
LONGEST_PATH = 3
CURVE = [(1, 20_000), (64, 50_000)]


def tree_trace(path: Path, nodes: int, verified: int, enough: Callable[[Path, int], bool]) -> Path:
    """A run of rounds of `nodes` drafted nodes, of which `verified` go to the target, until `enough(path, rounds)`."""
    random = np.random.default_rng(nodes)
    with Writer(path) as trace:
        begin(trace, PolicyInfo(name="eagle2", settings={"budget": verified}, drafters=[0]), "lm")
        root, context, index = 0, len(PROMPT) + 1, 0
        while not enough(path, index):
            record = tree_round(random, index, context, root, nodes, verified)
            trace.write(record)
            accept = record.events[-1]
            root, context, index = accept.bonus, context + len(accept.path) + 1, index + 1
        trace.write(End(reason="length", new_tokens=context - len(PROMPT), microseconds=10**6))
    return path


def plain_trace(path: Path, rounds: int) -> Path:
    """A run of one token a round, in a text that repeats itself here and there, for replays under `lookup`."""
    random = np.random.default_rng(0)
    phrases = random.integers(0, VOCAB, (rounds // 40 + 1, 6))
    text = np.concatenate([phrases[random.integers(len(phrases))] if random.random() < 0.3
                           else random.integers(0, VOCAB, 6) for _ in range(rounds // 6 + 1)])[: rounds + 1].tolist()
    with Writer(path) as trace:
        begin(trace, PolicyInfo(name="lookup", settings={}, drafters=[0]), "lookup", root=text[0])
        for index, (root, bonus) in enumerate(pairwise(text)):
            trace.write(round_of(index, len(PROMPT) + 1 + index, [root], [-1], [0], [], bonus))
        trace.write(End(reason="length", new_tokens=len(text), microseconds=10**6))
    return path


def begin(trace: Writer, policy: PolicyInfo, kind: str, root: int = 0) -> None:
    """The header, the pieces and the prefill of a run."""
    trace.write(Header(
        created="2026-01-31", target=TargetInfo(name="random", vocab_size=VOCAB), policy=policy,
        drafters=[DrafterInfo(id=0, kind=kind, name=kind)], prompt=Prompt(tokens=PROMPT, text="random trees"),
        decoding=Decoding(max_context=2**20), costs=[CostCurve(model=-1, context=256, points=CURVE)]))
    trace.pieces({token: f" w{token}".encode() for token in range(VOCAB)})
    trace.write(Prefill(microseconds=10**5, root=root, k=1, tokens=PROMPT, logprobs=[-NATS] * len(PROMPT)))


def tree_round(random: np.random.Generator, index: int, context: int, root: int, nodes: int, verified: int) -> Round:
    """A tree that grew in equal layers, each node below a random one of the layer above."""
    token = [root, *random.permutation(VOCAB)[:nodes].tolist()]
    bounds = np.linspace(0, nodes, LAYERS + 1).astype(int) + 1
    parent, score, above, events = [-1], [0], [0], []
    for layer, (start, end) in enumerate(pairwise(bounds), 1):
        parents = random.choice(above, end - start).tolist()
        parent += parents
        score += [score[node] - int(random.integers(1, 2 * NATS)) for node in parents]
        above = list(range(start, end))
        events.append(Expand(layer=layer, drafter=0, parents=sorted(set(parents)), nodes=above,
                             scores=score[start:end]))
    best = sorted(range(1, nodes + 1), key=lambda node: (-score[node], node))[:verified]
    kept = sorted({0, *best})
    events.append(Prune(budget=verified, rule="score", kept=kept))
    record = round_of(index, context, token, parent, score, kept, int(random.integers(VOCAB)))
    record.events[:0] = events
    return record


def round_of(index: int, context: int, token: list[int], parent: list[int], score: list[int], kept: list[int],
             bonus: int) -> Round:
    """A round that accepts the oldest kept child again and again, at most `LONGEST_PATH` times, and then `bonus`."""
    kept, path = kept or [0], []
    while len(path) < LONGEST_PATH and (below := [node for node in kept if node and parent[node] == [0, *path][-1]]):
        path.append(below[0])
    chosen = dict(zip([0, *path], [*(token[node] for node in path), bonus], strict=True))
    verify = Verify(order=kept, argmax=[chosen.get(node, bonus) for node in kept],
                    logprob=[0, *[-NATS] * (len(kept) - 1)], walk=[
        Walked(node=node, tokens=[after], logprobs=[-NATS // 2], children=[], ranks=[], entropy=NATS)
        for node, after in chosen.items()])
    count = len(token)
    return Round(index=index, context=context, root=token[0], times={"draft": 9000, "verify": 50_000, "total": 60_000},
                 nodes=Nodes(token=token, parent=parent, origin=[-1, *[0] * (count - 1)], score=score,
                             proposers=[0, *[1] * (count - 1)]),
                 events=[verify, Accept(rule="greedy", path=path, tried=[], bonus=bonus)])
