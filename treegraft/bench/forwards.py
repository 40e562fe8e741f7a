"""What single forwards cost: engine against bare model, a tree against its root, a drafter against the target."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from transformers import DynamicCache

from treegraft.bench.rows import PolicyRow, Row
from treegraft.bench.samples import BARE, ENGINE, VERIFY, ForwardTime
from treegraft.drafters.base import Committed, Drafter, Prefilled
from treegraft.engine import prefill
from treegraft.models import Pair
from treegraft.models.cache import cache_argument
from treegraft.models.target import Target
from treegraft.models.timing import Stopwatch
from treegraft.run import choose_drafters
from treegraft.tree import ROOT, DraftTree

CONTEXT = 256
"""Cached tokens behind which forwards are timed, fewer for a model with a small context."""

ENGINE_SIZES = (1, 16, 64)
VERIFY_SIZES = (1, 16, 32, 64)
"""Tokens a forward."""

DRAFTED = 10
"""Nodes that a drafter's second forward expands: a layer of `eagle2` at its defaults."""

TREE = 1 + DRAFTED + DRAFTED**2
"""Nodes of the tree that a drafter grows in two layers."""

PER_REPEAT = 4
"""Forwards of each kind in one repeat of the benchmark."""

Action = Callable[[], object]


@dataclass(frozen=True)
class Timed:
    """A forward that can be timed again and again: `undo` brings the caches back."""

    what: str
    tokens: int
    run: Action
    undo: Action


@torch.inference_mode()
def measure_forwards(pair: Pair, rows: Sequence[Row], text: Sequence[int], repeats: int) -> Iterator[ForwardTime]:
    """Time every kind of forward in turn, another one first each time; the first turn warms up and is dropped.

    `text` are token ids to fill the context with, repeated as needed.
    """
    largest = VERIFY_SIZES[-1]
    context = min(CONTEXT, pair.target.context_limit - largest)
    text = np.resize(np.array(text, np.int64), context + largest)
    target = Target(pair.target.cached(context + largest))
    drafters = model_drafters(rows)
    prefilled = prefill(target, list(drafters.values()), text[:context].tolist(), context + largest, TREE)
    kinds = [*bare_forwards(pair, text, context), *engine_forwards(target, text, context),
             *verify_forwards(target, text, prefilled)]
    stopwatch = Stopwatch(pair.target.device)
    for repeat in range(-1, repeats * PER_REPEAT):
        times = list(one_turn(kinds, stopwatch, repeat))
        for name, drafter in drafters.items():
            times += drafter_forwards(name, drafter, prefilled, repeat)
        if repeat >= 0:
            yield from times


def one_turn(kinds: Sequence[Timed], stopwatch: Stopwatch, repeat: int) -> Iterator[ForwardTime]:
    """Time each kind once, starting with another one in every turn."""
    first = repeat % len(kinds)
    for kind in (*kinds[first:], *kinds[:first]):
        with stopwatch.lap(kind.tokens):
            kind.run()
        kind.undo()
        yield ForwardTime(kind.what, kind.tokens, repeat, stopwatch.read(model=0)[0].microseconds)


def bare_forwards(pair: Pair, text: np.ndarray, context: int) -> Iterator[Timed]:
    """Calls of the model as transformers' own decoding makes them: its cache, its mask."""
    model = pair.target.model
    argument = cache_argument(model)
    ids = torch.from_numpy(text)[None].to(pair.target.device)
    filled = DynamicCache(config=model.config)
    model(ids[:, :context], use_cache=True, **{argument: filled})
    state = {"cache": copy.deepcopy(filled)}

    def undo() -> None:
        state["cache"] = copy.deepcopy(filled)

    for size in ENGINE_SIZES:
        tokens = ids[:, context:context + size]
        yield Timed(BARE, size, lambda tokens=tokens: model(tokens, use_cache=True, **{argument: state["cache"]}), undo)


def engine_forwards(target: Target, text: np.ndarray, context: int) -> Iterator[Timed]:
    """The same tokens through the engine's cache and mask."""
    for size in ENGINE_SIZES:
        positions = np.arange(context, context + size)
        visible = np.arange(context + size) <= positions[:, None]
        yield Timed(ENGINE, size, lambda p=positions, v=visible: target.cached.forward(text[p], p, v),
                    lambda: forget(target, context))


def verify_forwards(target: Target, text: np.ndarray, prefilled: Prefilled) -> Iterator[Timed]:
    """Whole verifications: mask, forward, and the choice of a next token after every node. The trees are chains."""
    context = len(prefilled.prompt)
    for size in VERIFY_SIZES:
        tree = DraftTree(prefilled.root, context + 1, size)
        tree.append(np.arange(size - 1), text[context:context + size - 1], np.zeros(size - 1, np.int64), 0)
        yield Timed(VERIFY, size, lambda tree=tree: target.verify(tree, np.arange(tree.size)),
                    lambda: forget(target, context))


def forget(target: Target, context: int) -> None:
    """Drop the cache rows behind the first `context`, and the lap that a verification left."""
    target.cached.keep(context, np.zeros(0, np.int64))
    target.read_forwards()


def drafter_forwards(name: str, drafter: Drafter, prefilled: Prefilled, repeat: int) -> Iterator[ForwardTime]:
    """Two layers of drafting, the root's and one over `DRAFTED` nodes; nothing is committed, so the context stays."""
    tree = DraftTree(prefilled.root, len(prefilled.prompt) + 1, TREE)
    drafter.read_forwards()
    growth = drafter.grow(tree, np.array([ROOT]), 1, DRAFTED)
    if len(growth.candidates):
        drafter.grow(tree, growth.candidates, 2, DRAFTED)
    for forward in drafter.read_forwards():
        if forward.tokens:  # a drafter may know the root already
            yield ForwardTime(name, forward.tokens, repeat, forward.microseconds)
    drafter.commit(tree, Committed(np.zeros(0, np.int64), []))


def model_drafters(rows: Sequence[Row]) -> dict[str, Drafter]:
    """The drafters with a model that the policies use, by name and settings."""
    found = {}
    for row in rows:
        if isinstance(row, PolicyRow):
            for drafter in choose_drafters(row.pair, row.policy, row.drafters):
                if drafter.parameters:
                    found.setdefault(describe_drafter(drafter), drafter)
    return found


def describe_drafter(drafter: Drafter) -> str:
    """Its label, and the settings that are not the defaults."""
    defaults = {field.name: field.default for field in fields(drafter)}
    changed = [f"{name}={value}" for name, value in drafter.settings.items() if value != defaults[name]]
    return " ".join((drafter.label, *changed))
