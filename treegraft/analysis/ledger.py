"""Graft's ledger: what pruning costs, what retrieval brings back, and whether that pays (arXiv 2605.20104).

At one position three trees can be compared: the dense one that grows without gates (accepted length A_0), the drafted
nodes that a stopped round keeps (A_pi), and these with the retrieved ones (A_g). The paper compares with the base
policy's tree, of which it says that the pruned one is a part. Where the base policy keeps the best nodes of all that it
drafted, deeper ones can push a node out that the pruned tree has, so A_0 is that of everything drafted, and the base
policy's own length (A_base) stands beside it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from treegraft.analysis.costs import microseconds
from treegraft.analysis.recorded import NotRecorded
from treegraft.analysis.whatif import Grown, WhatIf, policy_of
from treegraft.policies.eagle2 import Eagle2
from treegraft.policies.graft import Graft
from treegraft.trace.records import TARGET, PolicyInfo
from treegraft.trace.runs import Run


@dataclass(frozen=True)
class Entry:
    """One position: `context` counts the tokens up to the root; `stage` is empty where no gate stops.

    Accepted lengths, the bonus not counted and cut where the text ends: of everything drafted without gates (`dense`),
    of the base policy (`base`), of the drafted nodes kept (`pruned`), with the retrieved ones (`grafted`). Estimated
    microseconds, None without cost curves: of drafting, and of verifying the pruned and the grafted tree.
    """

    context: int
    stage: str
    dense: int
    base: int
    pruned: int
    grafted: int
    draft_us: float | None
    verify_pruned_us: float | None
    verify_grafted_us: float | None


@dataclass(frozen=True)
class Ledger:
    """The entries of a run. `retrieval_us` is what retrieving adds to a stopped round, where it was measured."""

    entries: Sequence[Entry]
    retrieval_us: float = 0.0

    def mean(self, name: str) -> float:
        """The mean of a column of the entries."""
        return statistics.fmean(getattr(one, name) for one in self.entries)

    @property
    def regret(self) -> float:
        """R_pi = A_0 - A_pi: accepted tokens a round that pruning costs."""
        return self.mean("dense") - self.mean("pruned")

    @property
    def gain(self) -> float:
        """Gamma_g = A_g - A_pi: accepted tokens a round that retrieval brings."""
        return self.mean("grafted") - self.mean("pruned")

    @property
    def above_base(self) -> int:
        """Positions where the pruned tree is accepted further than the base policy's."""
        return sum(one.pruned > one.base for one in self.entries)

    @property
    def needed_gain(self) -> float | None:
        """The gain above which retrieving is faster than pruning alone, estimated; None without cost curves, or where
        they say that forwards take no time:

        Gamma_g > (A_pi + 1) (T_ret + T_verify(T_g) - T_verify(T_pi)) / (T_draft + T_verify(T_pi)).
        """
        if any(one.draft_us is None for one in self.entries):
            return None
        pruned = self.mean("draft_us") + self.mean("verify_pruned_us")
        if not pruned:
            return None
        stopped = sum(bool(one.stage) for one in self.entries) / len(self.entries)
        more = self.mean("verify_grafted_us") - self.mean("verify_pruned_us") + stopped * self.retrieval_us
        return (self.mean("pruned") + 1) * more / pruned

    @property
    def pays(self) -> bool | None:
        """Whether retrieval brings more than it costs, by the estimate."""
        return None if self.needed_gain is None else self.gain > self.needed_gain


def as_dict(ledger: Ledger) -> dict[str, Any]:
    """The numbers of a ledger, by name."""
    means = {name: ledger.mean(name) for name in ("dense", "base", "pruned", "grafted")}
    return {"positions": len(ledger.entries), **means, "regret": ledger.regret, "gain": ledger.gain,
            "above_base": ledger.above_base, "needed_gain": ledger.needed_gain, "pays": ledger.pays,
            "entries": [asdict(one) for one in ledger.entries]}


def ledger(run: Run, *, everywhere: bool = False, retrieval_us: float = 0.0) -> Ledger:
    """The ledger of a dense trace of `graft`: at the positions where its rounds began, or at every output position.

    The rounds' own lengths are the recorded ones, whatever the retriever learned from; `everywhere` replays it, which
    needs `learn=committed`. `retrieval_us` is the time that retrieving takes in a round.

    Errors: `NotRecorded` for a trace of another policy, one that is not dense, or one without rounds.
    """
    policy = policy_of(run)
    if not isinstance(policy, Graft):
        raise NotRecorded(f"the ledger is Graft's, and this run was recorded with {policy.name}; record with --policy "
                          "graft --level dense")
    found = replayed(run, policy) if everywhere else recorded(run)
    entries = list(Book(run, policy).entries(found))
    if not entries:
        raise NotRecorded("the run has no rounds")
    return Ledger(entries, retrieval_us)


def recorded(run: Run) -> Iterator[tuple[int, int, int]]:
    """Of every round of the run: output position, accepted length within the text, verified rows."""
    for round in run.rounds:
        accept = round.event("accept")
        left = len(accept.path) + 1 - accept.discarded
        yield (round.record.context - len(run.header.prompt.tokens) - 1, min(len(accept.path), left),
               len(round.event("prune").kept))


def replayed(run: Run, policy: Graft) -> Iterator[tuple[int, int, int]]:
    """The same at every output position, by a replay."""
    whatif = WhatIf(run)
    for place in range(len(run.output) - 1):
        verified = whatif.verify(place, policy)
        yield place, len(verified.path), len(verified.kept)


class Book:
    """Grows the trees of the base policy at any position, by the probes of the drafter alone.

    The tree of a round that stopped is the base policy's, grown to that layer with the stage's share as its budget.
    """

    def __init__(self, run: Run, policy: Graft) -> None:
        self._policy = policy
        self._base = Eagle2(budget=max(1, policy.nodes), top_k=policy.top_k, depth=policy.depth)
        info = PolicyInfo(name=Eagle2.name, settings=self._base.settings, drafters=run.header.policy.drafters[:1])
        header = msgspec.structs.replace(run.header, policy=info)
        self._whatif = WhatIf(Run(header, run.pieces, run.prefill, run.records, run.end, run.probes))

    def entries(self, lengths: Iterator[tuple[int, int, int]]) -> Iterator[Entry]:
        """The entry at each position, given the lengths and rows of its grafted tree. Errors: `NotRecorded`."""
        whatif, prompt = self._whatif, len(self._whatif.prompt)
        for place, grafted, rows in lengths:
            dense = whatif.grow(place, self._base)
            stage, pruned = self._pruned(dense)
            kept = whatif.verify(place, pruned)
            grown = whatif.grow(place, pruned)
            yield Entry(
                context=prompt + place + 1, stage=stage, dense=len(whatif.follow(place, dense.tree)),
                base=len(whatif.verify(place, self._base).path), pruned=len(kept.path), grafted=grafted,
                draft_us=self._draft_us(grown), verify_pruned_us=self._verify_us(len(kept.kept)),
                verify_grafted_us=self._verify_us(rows))

    def _pruned(self, dense: Grown) -> tuple[str, Eagle2]:
        """The stage of a position, and the base policy that grows and keeps what a round stopped there does."""
        stage, layer = self._policy.stage_of(dense.tree)
        share = self._policy.shares(stage)[0] if stage else self._policy.nodes
        return stage, Eagle2(budget=max(1, share), top_k=self._policy.top_k, depth=layer)

    def _draft_us(self, grown: Grown) -> float | None:
        return self._whatif.estimate((drafter, nodes) for drafter, passes in grown.passes.items() for nodes in passes)

    def _verify_us(self, rows: int) -> float | None:
        curve = self._whatif.curves.get(TARGET)
        return float(microseconds(curve, rows)) if curve else None
