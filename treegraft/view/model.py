"""The view-model: a window of a run's rounds as plain JSON-able data, which the player, the figure and exports draw.

Columns are lists aligned with node ids. Scores and log-probs stay integers in 1e-5 nats (`None`: minus infinity, or not
recorded). All text comes escaped: nothing in it moves, hides or reorders what stands beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from treegraft.analysis.oracle import reach
from treegraft.analysis.text import RUNNING_TEXT, Token, chunks, visible
from treegraft.trace.records import Learn
from treegraft.view.acceptance import decoding_line, rule_view
from treegraft.view.arrange import arrange
from treegraft.view.context import context_view
from treegraft.view.events import copied, event_views, grafts, ranks, strong_drafters, wall
from treegraft.view.explain import Explainer
from treegraft.view.feature_words import WORDS
from treegraft.view.labels import cut, label, name
from treegraft.view.learned import Rows
from treegraft.view.story import oracle, story
from treegraft.view.words import FIELDS

if TYPE_CHECKING:
    from treegraft.trace.reader import Run, TracedRound

WINDOW_ROUNDS = 64
WINDOW_BYTES = 1_500_000
"""The most rounds, and about the most JSON, that one view holds; the player asks for more when it gets there."""

TITLE_LENGTH = 120
TEXT_LENGTH = 300
PROMPT_LENGTH = 4000
"""Longest display text of a title, a token in the output, and the prompt, in characters."""

FATES = {"root": "o", "accepted": "a", "rejected": "r", "unreached": "u", "pruned": "p", "discarded": "d"}
"""One letter a fate: the fates of a round are one string."""

KNOWN = {"rank", "pool", "kept", "budget", "p", "parent"}
"""Values in the sentences about a node that are columns of the view already, or one for all its nodes."""


def run_view(run: Run, first: int = 0, rounds: int = WINDOW_ROUNDS, size: int = WINDOW_BYTES) -> dict[str, Any]:
    """The view-model of up to `rounds` rounds of `run`, from number `first` on and of about `size` bytes at most."""
    total = len(run.rounds)
    first = min(max(first, 0), max(total - 1, 0))
    strong = strong_drafters(run.header)
    rows, views, used = Rows(run, first), [], 0
    while first + len(views) < total and len(views) < rounds and used < size:
        views.append(round_view(run.rounds[first + len(views)], strong, rows))
        used += len(msgspec.json.encode(views[-1]))
    return {
        "first": first, "total": total, **_about(run),
        "templates": [[[field.text, field.name, field.kind] for field in fields] for fields in FIELDS.values()],
        "rounds": views,
        "context": context_view(run, views),
        "text": _text(run, first, len(views)),
        "pieces": {token: label(run.pieces.get(token)) for token in sorted(set(_tokens(views)))},
    }


def _about(run: Run) -> dict[str, Any]:
    """What the run was, for headings and legends."""
    header, prompt = run.header, prompt_text(run)
    return {
        "title": title(run),
        "prompt": cut(visible(prompt, keep=RUNNING_TEXT), PROMPT_LENGTH),
        "target": name(header.target.name),
        "policy": name(header.policy.name),
        "decoding": decoding_line(header.decoding), "rule": rule_view(header.decoding.rule),
        "sampled": header.decoding.temperature > 0,
        "drafters": [{"id": drafter.id, "kind": name(drafter.kind), "name": name(drafter.name or drafter.kind)}
                     for drafter in header.drafters],
        "features": {words.title: words.meaning for words in WORDS.values()} if header.scheduler else {},
    }


def round_view(round: TracedRound, strong: set[int], rows: Rows) -> dict[str, Any]:
    """The view-model of one round; the layers of the drafters `strong` are calls, `rows` what was known before it."""
    record, explain = round.record, Explainer(round)
    nodes, accept, events, grown = record.nodes, explain.accept, explain.events, explain.grown
    every, far = range(len(nodes.token)), reach(round)
    drawn = arrange(nodes.parent, [fate != "pruned" for fate in explain.fates], explain.rank,
                    explain.tip)
    return {
        "index": record.index, "context": record.context, "note": visible(record.note), "times": record.times,
        "token": nodes.token, "parent": nodes.parent, "origin": nodes.origin, "score": nodes.score,
        "q": grown.q, "changes": grown.changes,
        "logprob": [explain.logprob.get(node) if node else None for node in every],
        "rank": explain.rank, "fate": "".join(FATES[fate] for fate in explain.fates),
        "born": grown.born,
        "rows": drawn.rows,
        "stubs": [[stub.parent, stub.row, stub.count, stub.nodes] for stub in drawn.stubs],
        "bonus": {"token": accept.bonus, "parent": explain.tip, "row": drawn.bonus_row,
                             "discarded": accept.discarded > 0, "why": [explain.bonus().packed()]},
        "accepted": round.accepted,
        "rejection": explain.stopped_by_target,
        "walk": {walked.node: [walked.tokens, walked.logprobs, walked.entropy] for walked in explain.walk.values()},
        "ranks": {node: rank for walked in explain.walk.values()
                  for node, rank in zip(walked.children, walked.ranks, strict=True)},
        "copied": dict(copied(events)),
        "grafted": sorted(grafts(events)),
        "row": {node: rank for node, (_, rank) in ranks(events).items()},
        "retrieved": sorted(explain.retrieved.all), "merged": sorted(explain.retrieved.merged),
        "wall": wall(events, explain.depth),
        "why": [[sentence.packed(KNOWN) for sentence in explain.node(node)] for node in every],
        "pool": explain.pool, "kept": len(explain.chosen), "budget": explain.budget,
        "events": [{**view, **(rows.view(event, explain.text) if isinstance(event, Learn) else {}),
                    "say": explain.event(event).packed()}
                   for view, event in zip(event_views(events, strong), events, strict=True)],
        "say": explain.summary().packed(),
        "story": [sentence.packed() for sentence in story(explain, min(strong, default=None))],
        "oracle": {"verified": far.verified, "grown": far.grown, "alone": far.alone,
                   "say": [sentence.packed() for sentence in oracle(far, round.accepted)]},
        "chances": dict(zip(explain.verify.order, accept.chances, strict=False)),
        "expected": dict(zip(explain.verify.order, explain.expected, strict=False)),
        "expects": expects.packed() if (expects := explain.expects()) else None,
    }


# --- text -----------------------------------------------------------------------------------------------------------


def prompt_text(run: Run) -> str:
    """What the user asked: the last message of a chat, or the whole prompt."""
    prompt = run.header.prompt
    if prompt.messages:
        return prompt.messages[-1].get("content", "")
    if prompt.text is not None:
        return prompt.text
    return b"".join(run.pieces.get(token, b"") for token in prompt.tokens).decode("utf-8", "replace")


def title(run: Run) -> str:
    """The beginning of the prompt on one line, for headings and lists."""
    text = prompt_text(run)[: 50 * TITLE_LENGTH]
    return cut(visible(" ".join(text.split())), TITLE_LENGTH) or "(no text)"


def _text(run: Run, first: int, rounds: int) -> list[dict[str, Any]]:
    """The output by round: for each token its text, kind (d drafted, c chosen, x discarded), node (-1: the bonus)."""
    found = []
    for chunk in chunks(run, first, rounds):
        nodes = [*(run.rounds[chunk.round].path if chunk.round >= 0 else ()), -1]
        found.append({"round": chunk.round, "tokens": [
            [_text_of(token), {"drafted": "d", "chosen": "c", "discarded": "x"}[token.kind], node]
            for token, node in zip(chunk.tokens, nodes, strict=True)]})
    return found


def _text_of(token: Token) -> str:
    """The token's part of the text; a run of line breaks shows as signs and breaks the line once."""
    text = re.sub("\n+", lambda breaks: "\u21b5" * len(breaks[0]) + "\n", token.text)
    return cut(visible(text, keep=RUNNING_TEXT), TEXT_LENGTH)


def _tokens(views: Sequence[dict[str, Any]]) -> Iterator[int]:
    """Every token id that the views mention."""
    for view in views:
        yield from view["token"]
        if view["bonus"]:
            yield view["bonus"]["token"]
        for tokens, _, _ in view["walk"].values():
            yield from tokens
        for event in view["events"]:
            for token, row, before in event.get("rows", ()):
                yield from (token, *row, *(before or ()))
            for *_, residual in event.get("tried", ()):
                yield from dict(residual)
