"""Runs of one prompt side by side. What they have in common is the place in the output: its tokens are numbered from 0,
and every one was written by one round of each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from treegraft.analysis.agreement import NEAR_TIE, first_difference
from treegraft.analysis.text import PREFILL
from treegraft.trace.records import NATS
from treegraft.trace.runs import Run

Node = int | Literal["bonus"]

ROOT_ORIGIN = -1
"""`drafter` of a token that the target chose itself."""

STRICTEST = min(NEAR_TIE.values())


@dataclass(frozen=True)
class Written:
    """Who wrote one token of the output: the `round` and the `node` of its tree that holds the token.

    `depth` counts from 1 below the root. The `drafter` is the id of the one that proposed the token first. The first
    token is the root of round 0, at depth 0; its `round` is `PREFILL`."""

    token: int
    round: int
    node: Node
    depth: int
    drafter: int = ROOT_ORIGIN

    @property
    def drafted(self) -> bool:
        return self.drafter != ROOT_ORIGIN


def writers(run: Run) -> list[Written]:
    """Who wrote each token of `run.output`, in order. Errors: `TraceError` for a damaged round."""
    found = [Written(token, PREFILL, 0, 0) for token in run.output[:1]]
    for number, round in enumerate(run.rounds):
        step, nodes = round.outcome, round.record.nodes
        path: list[Node] = [*round.path, "bonus"]
        for depth, (token, node) in enumerate(zip(step.tokens[: step.taken], path, strict=False), start=1):
            found.append(Written(token, number, node, depth, ROOT_ORIGIN if node == "bonus" else nodes.origin[node]))
    return found


def accepted_by_round(written: Sequence[Written]) -> dict[int, int]:
    """Accepted length of each round that wrote something."""
    found: dict[int, int] = {}
    for one in written:
        found[one.round] = found.get(one.round, 0) + one.drafted
    return found


def same_for(columns: Sequence[Sequence[Written]]) -> int:
    """How many tokens all the outputs begin with alike."""
    return next((place for place, row in enumerate(zip(*columns, strict=False)) if len({one.token for one in row}) > 1),
                min(map(len, columns), default=0))


def branched(run: Run, other: Run) -> tuple[int, int] | None:
    """Of a branch of `run` how many tokens of its answer its prompt holds, and how many of these begin the text of
    `run`; None for a run that is no branch of it."""
    prompt = other.header.prompt
    if not prompt.branch or prompt.tokens[: prompt.branch.own] != run.header.prompt.tokens:
        return None
    held = prompt.tokens[prompt.branch.own:]
    parted = first_difference(held, run.output[: len(held)])
    return len(held), len(held) if parted is None else parted


def other_tokens(run: Run, other: Run) -> bool:
    """Whether a token that both runs know stands for different bytes in them."""
    return any(run.pieces[token] != piece for token, piece in other.pieces.items() if token in run.pieces)


# --- where accepted lengths differ ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stretch:
    """Output positions from `start` up to `end` (not included) that one round of each run wrote, and how many drafted
    tokens each of these rounds had accepted."""

    start: int
    end: int
    rounds: tuple[int, ...]
    accepted: tuple[int, ...]

    @property
    def difference(self) -> int:
        return max(self.accepted) - min(self.accepted)


def stretches(columns: Sequence[Sequence[Written]]) -> list[Stretch]:
    """The common beginning of the outputs, from position 1 on, cut wherever one of the runs begins a round."""
    lengths, found = [accepted_by_round(column) for column in columns], []
    start, common = 1, same_for(columns)
    for place in range(1, common):
        rounds = tuple(column[place].round for column in columns)
        if place + 1 == common or rounds != tuple(column[place + 1].round for column in columns):
            accepted = tuple(length[round] for length, round in zip(lengths, rounds, strict=True))
            found.append(Stretch(start, place + 1, rounds, accepted))
            start = place + 1
    return found


def widest(found: Sequence[Stretch], most: int) -> list[Stretch]:
    """The stretches where accepted lengths differ most, at most one for each round that had most tokens accepted."""
    kept: dict[tuple[int, int], Stretch] = {}
    for one in sorted(found, key=lambda one: (-one.difference, one.start)):
        furthest = one.accepted.index(max(one.accepted))
        if one.difference:
            kept.setdefault((furthest, one.rounds[furthest]), one)
    return list(kept.values())[:most]


# --- progress -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Progress:
    """Output tokens after the prompt was read and after each round, and the milliseconds from the start of reading the
    prompt until then; none where the run did not record its times."""

    tokens: list[int]
    milliseconds: list[float] | None


def progress(run: Run) -> Progress:
    """How the output grew. Errors: `TraceError` for a damaged round."""
    first = len(run.output[:1])
    times = [record.times.get("total") for record in run.records]
    tokens = list(accumulate((step.taken for step in run.outcomes), initial=first))
    if run.prefill is None or None in times:
        return Progress(tokens, None)
    return Progress(tokens, [time / 1000 for time in accumulate(times, initial=run.prefill.microseconds)])


# --- where texts part -----------------------------------------------------------------------------------------------

Verdict = Literal["ended", "sampled", "other model", "near tie", "other type", "unknown", "unexplained"]


@dataclass(frozen=True)
class Parting:
    """The first output position at which two runs differ: the token of each, None behind the end of a text, and by how
    much the target preferred its best token to its second there, in nats, None where the run does not say.

    `limit` is the margin below which rounding alone can swap the two. The `verdict` is one of: `ended` (one text stops
    there), `sampled` (tokens were drawn), `other model`, `near tie`, `other type` (of the target's numbers), `unknown`
    (no margin was recorded), `unexplained`."""

    position: int
    tokens: tuple[int | None, int | None]
    margins: tuple[float | None, float | None]
    limit: float
    verdict: Verdict


def parting(one: Run, other: Run) -> Parting | None:
    """Where two texts part and whether that is all right; None where they are equal. Errors: `TraceError`."""
    outputs = one.output, other.output
    place = first_difference(*outputs)
    if place is None:
        return None
    tokens = tuple(output[place] if place < len(output) else None for output in outputs)
    margins = tuple(margin_at(run, place) for run in (one, other))
    limit = max(NEAR_TIE.get(run.header.target.dtype, STRICTEST) for run in (one, other))
    return Parting(place, tokens, margins, limit, judge(one, other, tokens, margins, limit))


def judge(one: Run, other: Run, tokens: Sequence[int | None], margins: Sequence[float | None],
          limit: float) -> Verdict:
    """What explains that two texts part."""
    targets = one.header.target, other.header.target
    known = [margin for margin in margins if margin is not None]
    if None in tokens:
        return "ended"
    if one.header.decoding.temperature > 0 or other.header.decoding.temperature > 0:
        return "sampled"
    if targets[0].name != targets[1].name or targets[0].revision != targets[1].revision:
        return "other model"
    if known and min(known) < limit:
        return "near tie"
    if targets[0].dtype != targets[1].dtype:
        return "other type"
    return "unexplained" if known else "unknown"


def margin_at(run: Run, position: int) -> float | None:
    """By how much the target preferred its best token to its second at an output position, in nats; None where the run
    does not say. Errors: `TraceError`."""
    if position == 0:
        prefill = run.prefill
        row = prefill.logprobs[-prefill.k:] if prefill and prefill.k else []
    else:
        written = writers(run)
        row = parent_row(run, written[position]) if position < len(written) else []
    return (row[0] - row[1]) / NATS if len(row) > 1 else None


def parent_row(run: Run, written: Written) -> list[int]:
    """Log-probabilities of the target's best tokens at the place of a token that a round wrote."""
    round = run.rounds[written.round]
    parent = [0, *round.path][written.depth - 1]
    return next((walked.logprobs for walked in round.event("verify").walk if walked.node == parent), [])
