"""A run and its rounds as objects: what the records say, and what follows from them.

A run holds records that are read from a file when they are asked for, or records in memory (a run in progress).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from treegraft.trace import replay
from treegraft.trace.records import End, Event, Header, Prefill, Probe, Round

if TYPE_CHECKING:
    import networkx
    import pandas

    from treegraft.tree import DraftTree

MISSING = "\N{REPLACEMENT CHARACTER}".encode()
RECENT = 8
"""Rounds that a run keeps decoded."""


class TracedRound:
    """One round of a run: its `record`, and its tree, fates and path, worked out when they are asked for."""

    def __init__(self, run: Run, record: Round) -> None:
        self.run = run
        self.record = record

    @property
    def index(self) -> int:
        return self.record.index

    @functools.cached_property
    def tree(self) -> DraftTree:
        """The draft tree at the end of the round, pruned nodes included."""
        import numpy as np

        from treegraft.tree import NEG_INF, DraftTree

        nodes = self.record.nodes
        tree = DraftTree(self.record.root, self.record.context, capacity=len(nodes.token))
        score = np.array([NEG_INF if score is None else score for score in nodes.score], np.int64)
        tree.append(np.array(nodes.parent[1:], np.int64), np.array(nodes.token[1:], np.int64), score[1:], 0)
        tree.score[0] = score[0]
        tree.origin[:], tree.proposers[:] = nodes.origin, nodes.proposers
        return tree

    @functools.cached_property
    def fates(self) -> list[str]:
        """What became of each node, one of `replay.FATES`."""
        return replay.fates(self.record)

    @functools.cached_property
    def states(self) -> list[replay.TreeState]:
        """The tree before all events and after each."""
        return replay.states(self.record)

    @property
    def path(self) -> list[int]:
        """The accepted nodes, root left out, discarded ones included."""
        return replay.ending(self.record)[1].path

    @property
    def accepted(self) -> int:
        """Accepted draft tokens that belong to the text; the bonus is not counted."""
        return replay.accepted(replay.ending(self.record)[1])

    @property
    def outcome(self) -> replay.Outcome:
        """What the round added to the text."""
        return replay.outcome(self.record)

    @property
    def output_start(self) -> int:
        """Place in `run.output` of the first token that this round added."""
        return self.record.context - len(self.run.header.prompt.tokens)

    def event(self, kind: str) -> Event | None:
        """The last event of a kind (`expand`, `prune`, `verify`, `accept`), None where there is none."""
        for event in reversed(self.record.events):
            if type(event).__struct_config__.tag == kind:
                return event
        return None

    def to_networkx(self) -> networkx.DiGraph:
        """The tree as a graph; nodes carry the columns of `Trace.nodes_frame`."""
        from treegraft.trace.frames import graph

        return graph(self)

    def show(self) -> None:
        """Draw the tree in the terminal."""
        import rich

        from treegraft.view.terminal import draw_round

        rich.print(draw_round(self))


class Rounds(Sequence[TracedRound]):
    """The rounds of a run over its records; the last few asked for stay decoded."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._round = functools.lru_cache(maxsize=RECENT)(lambda index: TracedRound(run, run.records[index]))

    def __len__(self) -> int:
        return len(self._run.records)

    @overload
    def __getitem__(self, place: int) -> TracedRound: ...
    @overload
    def __getitem__(self, place: slice) -> list[TracedRound]: ...
    def __getitem__(self, place: int | slice) -> TracedRound | list[TracedRound]:
        if isinstance(place, slice):
            return [self._round(index) for index in range(len(self))[place]]
        if not -len(self) <= place < len(self):
            raise IndexError(f"round {place} was asked for; the run has {len(self)}")
        return self._round(place % len(self))


class Run:
    """One decoded prompt. `records` holds its rounds' records and may grow; `end` is None until the run has ended.
    `probes` are what the drafters would have said elsewhere (see `Header.level`)."""

    def __init__(self, header: Header, pieces: dict[int, bytes], prefill: Prefill | None, rounds: Sequence[Round],
                 end: End | None, probes: Sequence[Probe] = ()) -> None:
        self.header = header
        self.pieces = pieces
        self.prefill = prefill
        self.records = rounds
        self.end = end
        self.probes = list(probes)
        self.rounds = Rounds(self)

    @property
    def outcomes(self) -> list[replay.Outcome]:
        """What each round added to the text."""
        return [replay.outcome(record) for record in self.records]

    @property
    def output(self) -> list[int]:
        """Token ids of the text: the first one, which the prefill chose, then what each round added."""
        outcomes = self.outcomes
        first = [outcomes[0].root] if outcomes else [self.prefill.root] if self.prefill else []
        return first + [token for step in outcomes for token in step.tokens[: step.taken]]

    @property
    def text(self) -> str:
        """The text, with U+FFFD for bytes that are no UTF-8 and for tokens without a piece."""
        return b"".join(self.pieces.get(token, MISSING) for token in self.output).decode(errors="replace")

    def show(self, index: int) -> None:
        """Draw a round's tree in the terminal."""
        self.rounds[index].show()

    def rounds_frame(self) -> pandas.DataFrame:
        """One row a round; see `frames.rounds_frame`."""
        from treegraft.trace.frames import rounds_frame

        return rounds_frame([self])

    def nodes_frame(self) -> pandas.DataFrame:
        """One row a node; see `frames.nodes_frame`."""
        from treegraft.trace.frames import nodes_frame

        return nodes_frame([self])
