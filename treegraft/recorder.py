"""Turns finished rounds into trace records, in memory and in a file, and keeps its own time apart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from treegraft.drafters.base import Prefilled
from treegraft.engine import Step
from treegraft.policies.base import as_scores
from treegraft.trace.reader import Run
from treegraft.trace.records import Accept, Baseline, End, Forward, Header, Nodes, Prefill, Probe, Record, Round, Verify
from treegraft.trace.writer import Writer
from treegraft.verify import node_chances

PROBING_STOPPED = "probing was stopped"
"""How the note begins of an end whose recording level was not kept to the last position."""


class Recorder:
    """Records one run. `run` holds the records so far; `writer`, if given, gets them as they come.

    `pieces_of` gives the bytes of token ids, `baseline` is what plain decoding took. `seconds` is the time that
    recording has taken.
    """

    def __init__(self, header: Header, pieces_of: Callable[[Sequence[int]], dict[int, bytes]],
                 writer: Writer | None = None, baseline: Baseline | None = None) -> None:
        self.header = header
        self.run = Run(header, {}, None, [], None)
        self.seconds = 0.0
        self._notes: list[str] = []
        self._pieces_of, self._writer, self._baseline = pieces_of, writer, baseline
        self._rounds: list[Round] = self.run.records
        self._write(header)
        self._know(header.prompt.tokens)

    def piece(self, token: int) -> bytes:
        """The bytes of one token."""
        self._know([token])
        return self.run.pieces[token]

    def prefill(self, prefilled: Prefilled, seconds: float, forwards: list[Forward]) -> None:
        with self._timed():
            self._know([prefilled.root, *prefilled.tokens.ravel().tolist()])
            self.run.prefill = Prefill(
                microseconds=round(seconds * 1e6), root=prefilled.root, k=prefilled.tokens.shape[1],
                tokens=prefilled.tokens.ravel().tolist(), logprobs=prefilled.logprobs.ravel().tolist(),
                forwards=forwards)
            self._write(self.run.prefill)

    def round(self, step: Step, forwards: list[Forward], cached: dict[int, int]) -> None:
        with self._timed():
            tree = step.round.tree
            verify, accept = verified(step)
            nodes = Nodes(token=tree.token.tolist(), parent=tree.parent.tolist(), origin=tree.origin.tolist(),
                          score=as_scores(tree.score), proposers=tree.proposers.tolist())
            times = {phase: round(seconds * 1e6) for phase, seconds in step.seconds.items()}
            record = Round(
                index=len(self._rounds), context=tree.context, root=nodes.token[0], nodes=nodes,
                events=[*step.round.events, verify, accept, *step.learned],
                times=times | {"total": sum(times.values())},
                forwards=forwards, kv=cached, note=step.round.note)
            self._know(nodes.token, verify.argmax, *(walked.tokens for walked in verify.walk),
                       *(dict(child.residual) for child in accept.tried),
                       *(set(learn.successors) - {-1} for learn in step.learned))
            self._write(record)
            self._rounds.append(record)

    def probe(self, probe: Probe) -> None:
        self._know(probe.token, set(probe.best) - {-1})
        self.run.probes.append(probe)
        self._write(probe)

    def stop_probing(self, probed: int) -> None:
        """Note for the end how far the recording level was kept: up to position number `probed`."""
        positions = max(len(self.run.output) - 1, 0)
        if self.header.level != "run" and probed < positions:
            self._notes = [f"{PROBING_STOPPED} at position {probed} of {positions}, so what-ifs will lack the rest"]

    def end(self, reason: str, new_tokens: int) -> None:
        status, notes = self._status()
        prefill = self.run.prefill.microseconds if self.run.prefill else 0
        self.run.end = End(reason=reason, new_tokens=new_tokens, status=status, notes=notes + self._notes,
                           microseconds=prefill + sum(record.times["total"] for record in self._rounds),
                           recording=round(self.seconds * 1e6), baseline=self._baseline)
        self._write(self.run.end)

    def _status(self) -> tuple[str, list[str]]:
        """Whether the run speculated, and why not where it did not."""
        notes = list(dict.fromkeys(record.note for record in self._rounds if record.note))
        if not self.header.drafters:
            return "plain", notes
        if self._rounds and all(len(record.nodes.token) == 1 for record in self._rounds):
            return "fell back", notes or ["no drafter proposed a token in any round"]
        return ("clipped" if notes else "speculating"), notes

    def _know(self, *tokens: Iterable[int]) -> None:
        """Make sure that the trace has the bytes of all these tokens before it uses them."""
        new = set().union(*tokens) - self.run.pieces.keys()
        if new:
            pieces = self._pieces_of(sorted(new))
            self.run.pieces.update(pieces)
            if self._writer:
                self._writer.pieces(pieces)

    def _write(self, record: Record) -> None:
        if self._writer:
            self._writer.write(record)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - start


def verified(step: Step) -> tuple[Verify, Accept]:
    """What the target said to the draft, and what was accepted of it."""
    verify, tried = step.answers.describe(step.path)
    accept = Accept(rule=step.rule, path=step.path.tolist(), tried=tried, bonus=step.tokens[-1],
                    discarded=len(step.tokens) - step.taken)
    if step.outcome:
        round, answers = step.round, step.answers
        accept.tried = step.outcome.tried
        accept.chances = node_chances(round.tree, round.kept, answers.distribution, round.draws, step.rule).tolist()
    return verify, accept
