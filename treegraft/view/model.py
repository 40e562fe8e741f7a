"""The view-model: a window of a run's rounds as plain JSON-able data, which the player, the figure and exports draw.

Columns are lists aligned with node ids. Scores and log-probs stay integers in 1e-5 nats (`None`: minus infinity, or not
recorded). All text comes escaped: nothing in it moves, hides or reorders what stands beside it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from treegraft.analysis.text import RUNNING_TEXT, Token, chunks, visible
from treegraft.trace.records import Expand, Other
from treegraft.view.arrange import arrange
from treegraft.view.explain import Explainer, kind_of
from treegraft.view.words import FIELDS

if TYPE_CHECKING:
    from treegraft.trace.reader import Run, TracedRound
    from treegraft.trace.records import Event, Logprob, Nodes, Round

WINDOW_ROUNDS = 64
WINDOW_BYTES = 1_500_000
"""The most rounds, and about the most JSON, that one view holds; the player asks for more when it gets there."""

LABEL_LENGTH = 80
TITLE_LENGTH = 120
TEXT_LENGTH = 300
PROMPT_LENGTH = 4000
"""Longest display text of a token in the tree, a title, a token in the output, and the prompt, in characters."""

FATES = {"root": "o", "accepted": "a", "rejected": "r", "unreached": "u", "pruned": "p", "discarded": "d"}
"""One letter a fate: the fates of a round are one string."""

KNOWN = {"rank", "pool", "kept", "budget", "p", "parent"}
"""Values in the sentences about a node that are columns of the view already, or one for all its nodes."""

SIGNS = str.maketrans({" ": "\u00b7", "\n": "\u21b5", "\t": "\u21e5"} | {
    chr(0xDC00 + byte): f"\\x{byte:02x}" for byte in range(0x80, 0x100)})
"""Signs for what has no shape of its own; stray bytes come from decoding with surrogate escapes."""

FREE = {"lookup", "successors"}
"""Kinds of drafters without a model; an expansion by any other drafter is a call."""


def run_view(run: Run, first: int = 0, rounds: int = WINDOW_ROUNDS, size: int = WINDOW_BYTES) -> dict[str, Any]:
    """The view-model of up to `rounds` rounds of `run`, from number `first` on and of about `size` bytes at most."""
    total = len(run.rounds)
    first = min(max(first, 0), max(total - 1, 0))
    free = {drafter.id for drafter in run.header.drafters if drafter.kind in FREE}
    views, used = [], 0
    while first + len(views) < total and len(views) < rounds and used < size:
        views.append(round_view(run.rounds[first + len(views)], free))
        used += len(msgspec.json.encode(views[-1]))
    return {
        "first": first, "total": total, **_about(run),
        "templates": [[[field.text, field.name, field.kind] for field in fields] for fields in FIELDS.values()],
        "rounds": views,
        "text": _text(run, first, len(views)),
        "pieces": {token: label(run.pieces.get(token)) for token in sorted(set(_tokens(views)))},
    }


def _about(run: Run) -> dict[str, Any]:
    """What the run was, for headings and legends."""
    header, prompt = run.header, prompt_text(run)
    return {
        "title": title(run),
        "prompt": cut(visible(prompt, keep=RUNNING_TEXT), PROMPT_LENGTH),
        "target": cut(visible(header.target.name), LABEL_LENGTH),
        "policy": cut(visible(header.policy.name), LABEL_LENGTH),
        "drafters": [{"id": drafter.id, "kind": cut(visible(drafter.kind), LABEL_LENGTH),
                      "name": cut(visible(drafter.name or drafter.kind), LABEL_LENGTH)} for drafter in header.drafters],
    }


def round_view(round: TracedRound, free: set[int]) -> dict[str, Any]:
    """The view-model of one round; `free` are the ids of drafters that cost no model forward."""
    record, explain = round.record, Explainer(round)
    nodes, accept, events = record.nodes, explain.accept, timeline(round.record)
    grown = growth(events, nodes)
    every = range(len(nodes.token))
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
        "why": [[sentence.packed(KNOWN) for sentence in explain.node(node)] for node in every],
        "pool": explain.pool, "kept": len(explain.kept), "budget": explain.budget,
        "events": [{**event_view(event, free), "say": explain.event(event).packed()} for event in events],
        "say": explain.summary().packed(),
    }


def event_view(event: Event | Other, free: set[int]) -> dict[str, Any]:
    """Kind and title of an event, the nodes it started from or met again, and whether it was a call."""
    kind = cut(visible(kind_of(event)), LABEL_LENGTH)
    view: dict[str, Any] = {"kind": kind, "title": kind.capitalize()}
    if isinstance(event, Expand):
        view |= {"title": f"Layer {event.layer}", "layer": event.layer, "drafter": event.drafter,
                 "from": event.parents, "again": event.merged, "call": event.drafter not in free}
    return view


def timeline(record: Round) -> list[Event | Other]:
    """All events in order, those of kinds that this version does not know included."""
    events: list[Event | Other] = list(record.events)
    for place, fields in record.unknown_events or ():
        events.insert(place, Other(kind=str(fields.get("kind", "")), fields=fields))
    return events


@dataclass
class Growth:
    """How the nodes of a round came to be.

    `born` is the number of the event that brought a node, -1 for the root. `q` is a node's log-probability under its
    drafter given its parent: the step from the parent's score to its own, as they were then. `changes` lists later
    changes of scores as (event, node, before, after)."""

    born: list[int]
    q: list[Logprob]
    changes: list[tuple[int, int, Logprob, Logprob]]


def growth(events: Sequence[Event | Other], nodes: Nodes) -> Growth:
    """Replay the events that add nodes or change scores."""
    size = len(nodes.token)
    grown = Growth([-1] * size, [None] * size, [])
    score: list[Logprob] = list(nodes.score)
    for number, event in enumerate(events):
        if isinstance(event, Expand):
            for node, own in zip(event.nodes, event.scores, strict=True):
                grown.born[node], score[node] = number, own
                above = score[nodes.parent[node]]
                grown.q[node] = None if own is None or above is None else own - above
            for node, after in zip(event.raised, event.raised_scores, strict=True):
                grown.changes.append((number, node, score[node], after))
                score[node] = after
    return grown


def copied(events: Sequence[Event | Other]) -> Iterator[tuple[int, list[int | None]]]:
    """For each copied node the length of its match and the position in the text that its token came from."""
    for event in events:
        if isinstance(event, Expand) and event.match and event.source:
            yield from zip(event.nodes, map(list, zip(event.match, event.source, strict=True)), strict=True)


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
    return cut(visible(" ".join(prompt_text(run).split())), TITLE_LENGTH)


def label(piece: bytes | None) -> str:
    """One token for display on one line, with signs for spaces, line breaks and stray bytes.

    A mark that combines with the letter before it gets a circle to stand on."""
    if piece is None:
        return "?"
    text = cut(piece.decode("utf-8", "surrogateescape"), LABEL_LENGTH)
    if unicodedata.category(text[:1] or " ").startswith("M"):
        text = "\u25cc" + text
    return visible(text.translate(SIGNS)) or "\u2205"


def cut(text: str, length: int) -> str:
    """At most `length` characters of `text`."""
    return text if len(text) <= length else text[: length - 1] + "\u2026"


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
