"""What became of every node, event and round, and why, written from what the trace recorded and nothing else."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from treegraft.analysis.text import visible
from treegraft.trace.replay import expected
from treegraft.tree import NEG_INF
from treegraft.view.acceptance import Verdicts
from treegraft.view.events import growth, kind_of, retrieved, strong_drafters, timeline
from treegraft.view.stages import decide, gate, graft, history, learn, rescore, reselect
from treegraft.view.words import Sentence, say

if TYPE_CHECKING:
    from treegraft.trace.reader import TracedRound
    from treegraft.trace.records import Accept, Event, Expand, Logprob, Other, Prune, Verify


class Explainer:
    """Sentences about one round; ranks are computed once, by the order that selection used.

    `kept` are all nodes that were sent to the target, `chosen` those that their score brought there. `pool` counts the
    drafted nodes; retrieved ones that came without a score are not among them."""

    def __init__(self, round: TracedRound) -> None:
        nodes = round.record.nodes
        self.token, self.parent, self.fates = nodes.token, nodes.parent, round.fates
        self.score = [NEG_INF if score is None else score for score in nodes.score]
        self.depth = _depths(nodes.parent)
        self.events = timeline(round.record)
        self.retrieved = retrieved(self.events)
        self.rank = _ranks(self.score, self.depth, self.retrieved.new)
        self.prune: Prune | None = round.event("prune")
        self.verify: Verify = round.event("verify")
        self.accept: Accept = round.event("accept")
        self.kept = [node for node, fate in enumerate(self.fates) if node and fate != "pruned"]
        self.pool = len(self.token) - 1 - len(self.retrieved.new)
        self.last_kept = max(set(self.kept) - self.retrieved.all, key=self.rank.__getitem__, default=0)
        self.chosen = [node for node in self.kept if self.rank[node] <= self.rank[self.last_kept]]
        self.favourite = dict(zip(self.verify.order, self.verify.argmax, strict=True))
        self.logprob = dict(zip(self.verify.order, self.verify.logprob, strict=True))
        self.walk = {walked.node: walked for walked in self.verify.walk}
        self.sampled = self.accept.rule != "greedy"
        self.verdicts = Verdicts(round.record, self.walk)
        self.expected = expected(round.record)
        self.grown = growth(self.events, nodes)
        self._history = history(self.events, self.grown, nodes)
        self._strong = min(strong_drafters(round.run.header), default=0)
        self._target_time = sum(one.microseconds for one in round.record.forwards if one.model < 0)

    @property
    def budget(self) -> int:
        """The most drafted tokens that selection allowed."""
        return self.prune.budget if self.prune else len(self.kept)

    @property
    def rule(self) -> str:
        """The rule of selection."""
        return self.prune.rule if self.prune else "none"

    @property
    def by_score(self) -> bool:
        """Whether drafted nodes were selected by their score; a graft fills up what that leaves."""
        return self.rule in ("score", "graft")

    @cached_property
    def _drafted(self) -> int:
        """How many of the kept nodes a drafter gave a score."""
        return len(set(self.kept) - self.retrieved.new)

    # --- nodes ---

    def node(self, node: int) -> list[Sentence]:
        """Why it was kept or pruned, what the target made of it, and what its drafters did to it before."""
        if node == 0:
            return [say("root")]
        why = [self._pruned(node)] if self.fates[node] == "pruned" else [self._kept(node), *self._verdict(node)]
        return why + self._history.get(node, [])

    def _kept(self, node: int) -> Sentence:
        if node in self.retrieved.new:
            return say("kept retrieved", chosen=self._drafted)
        if self._drafted == self.pool:
            return say("kept all", pool=self.pool) if self.pool > 1 else say("kept one")
        again = node in self.retrieved.merged and self.rank[node] > self.rank[self.last_kept]
        key = "kept again" if again else "kept" if self.rank[node] <= len(self.chosen) else "kept for others"
        return say(key, rank=self.rank[node], pool=self.pool)

    def _pruned(self, node: int) -> Sentence:
        rank, kept, budget = self.rank[node], len(self.chosen), self.budget
        gap = self.score[self.last_kept] - self.score[node]
        if self.score[node] <= NEG_INF:
            return say("pruned unscored", budget=budget)
        if gap < 0 and self.by_score and self.fates[self.parent[node]] == "pruned":
            return say("pruned with parent", rank=rank, pool=self.pool, budget=budget)
        if gap < 0 or not self.by_score:
            return say("pruned otherwise", rule=visible(self.rule), rank=rank, pool=self.pool)
        if gap == 0:
            return say("pruned level", rank=rank, pool=self.pool, kept=kept)
        return say("pruned", rank=rank, pool=self.pool, kept=kept, gap=gap)

    def _verdict(self, node: int) -> list[Sentence]:
        fate, parent = self.fates[node], self.parent[node]
        if fate == "discarded":
            return [say("discarded")]
        if self.sampled and (told := self.verdicts.node(node, fate)):
            return [told, *([self._own_branch(node, parent)] if fate == "unreached" else [])]
        if fate == "accepted":
            first = self.favourite.get(parent) == self.token[node]
            return [say("accepted first" if first else "accepted", parent=self.token[parent], p=self.logprob[node])]
        if fate == "rejected":
            return [self._rejected(node, parent)]
        return [self._unreached(parent), self._own_branch(node, parent)]

    def _rejected(self, node: int, parent: int) -> Sentence:
        before, chosen = self.token[parent], self._text_after(parent)
        best, own = self._target_logprob(parent, chosen), self.logprob[node]
        if self.sampled or best is None or own is None or best < own:
            return say("rejected unknown", parent=before, chosen=chosen)
        if best == own and chosen < self.token[node]:
            return say("rejected tie", parent=before, chosen=chosen, p=own)
        return say("rejected", parent=before, chosen=chosen, gap=best - own, best=best, p=own)

    def _text_after(self, node: int) -> int:
        """The token that the target's text has after the root or an accepted node."""
        path = [0, *self.accept.path]
        after = path[path.index(node) + 1:]
        return self.token[after[0]] if after else self.accept.bonus

    def _target_logprob(self, node: int, token: int) -> Logprob:
        """Log-probability of `token` after `node`, None where the trace does not hold it."""
        walked = self.walk.get(node)
        return dict(zip(walked.tokens, walked.logprobs, strict=True)).get(token) if walked else None

    def _unreached(self, parent: int) -> Sentence:
        if self.fates[parent] == "rejected":
            return say("unreached parent", parent=self.token[parent])
        ancestor = parent
        while self.fates[ancestor] == "unreached":
            ancestor = self.parent[ancestor]
        if self.fates[ancestor] == "rejected":
            return say("unreached ancestor", ancestor=self.token[ancestor])
        return say("unreached end")

    def _own_branch(self, node: int, parent: int) -> Sentence:
        first = self.favourite.get(parent) == self.token[node]
        return say("own branch first" if first else "own branch", p=self.logprob[node])

    def bonus(self) -> Sentence:
        """Why the target's own token follows the accepted path."""
        before, p = self.token[self.tip], self._target_logprob(self.tip, self.accept.bonus)
        if self.accept.discarded:
            return say("bonus discarded", parent=before)
        if self.sampled:
            return self.verdicts.bonus()
        return say("bonus unknown", parent=before) if p is None else say("bonus", parent=before, p=p)

    # --- events and the round ---

    def event(self, event: Event | Other) -> Sentence:
        """What one event did."""
        kind = kind_of(event)
        tell = {"expand": self._expand, "decide": lambda event: decide(event, self._strong), "rescore": rescore,
                "reselect": lambda event: reselect(event, self.depth), "gate": gate, "graft": graft,
                "prune": self._prune, "verify": self._verify, "accept": self._accept, "learn": learn}.get(kind)
        return tell(event) if tell else say("event", kind=visible(kind))

    def _expand(self, event: Expand) -> Sentence:
        drafter, nodes, merged = event.drafter, len(event.nodes), len(event.merged)
        if nodes + merged == 0:
            return say("expand nothing", drafter=drafter)
        if nodes == 0:
            return say("expand known", drafter=drafter, merged=merged)
        key, values = "expand", {"drafter": drafter, "nodes": nodes}
        if event.match and max(event.match) == 0:
            key = "expand unmatched"
        elif event.match:
            key, values = "expand copied", values | {"match": max(event.match)}
        elif event.rank:
            key, values = ("expand ranked merged", values | {"merged": merged}) if merged else ("expand ranked", values)
        else:
            values |= {"parents": len(event.parents)}
            key, values = ("expand merged", values | {"merged": merged}) if merged else (key, values)
        if event.grafted:
            key, values = f"{key} grafted", values | {"grafted": len(event.grafted)}
        return say(key, **values)

    def _prune(self, event: Prune) -> Sentence:
        kept = len(event.kept) - 1
        if kept == len(self.token) - 1 and not self.retrieved.new:
            return say("prune nothing", kept=kept, budget=event.budget)
        if not self._drafted and self.retrieved.new:
            return say("prune retrieved", kept=kept)
        cut = self.score[self.last_kept]
        if cut > NEG_INF and self.by_score and self.retrieved.all:
            return say("prune grafted", kept=kept, chosen=self._drafted, cut=cut, retrieved=kept - self._drafted)
        if cut <= NEG_INF or not self.by_score:
            return say("prune otherwise", kept=kept, pool=self.pool, rule=visible(event.rule))
        return say("prune", kept=kept, pool=self.pool, cut=cut)

    def _verify(self, event: Verify) -> Sentence:
        order, time = len(event.order), self._target_time
        return say("verify timed", order=order, time=time) if time else say("verify", order=order)

    def _accept(self, event: Accept) -> Sentence:
        key = "accept drawn" if self.sampled else "accept"
        if len(self.token) == 1:
            return say(f"{key} undrafted", bonus=event.bonus)
        if not event.path:
            return say(f"{key} none", bonus=event.bonus)
        tokens = [self.token[node] for node in event.path]
        told = {"path": len(tokens), "tokens": tokens}
        if event.discarded > 1:
            return say("accept cut", **told, taken=len(tokens) + 1 - event.discarded)
        if event.discarded:
            return say("accept ended", **told, bonus=event.bonus)
        key += "" if self.stopped_by_target else " to the end"
        return say(key, **told, bonus=event.bonus)

    def expects(self) -> Sentence | None:
        """The expected accepted length, where the trace holds the chances that it follows from."""
        return say("expected", expected=self.expected[0]) if self.expected else None

    @property
    def stopped_by_target(self) -> bool:
        """Whether the walk ended because the target rejected every child, not for want of drafted tokens."""
        return "rejected" in {self.fates[node] for node in self.kept if self.parent[node] == self.tip}

    @property
    def text(self) -> list[int]:
        """The root's token and those of the accepted path."""
        return [self.token[node] for node in (0, *self.accept.path)]

    @property
    def tip(self) -> int:
        """The last accepted node, the root where there is none."""
        return self.accept.path[-1] if self.accept.path else 0

    def summary(self) -> Sentence:
        """The round in one sentence."""
        accept = self.accept
        written = len(accept.path) + 1 - accept.discarded
        if accept.discarded:
            return say("round at the end", written=written, discarded=accept.discarded)
        if len(self.token) == 1:
            return say("round undrafted", bonus=accept.bonus)
        values = {"path": len(accept.path), "kept": len(self.kept), "bonus": accept.bonus, "written": written}
        if self.retrieved.new:
            return say("round grafted", **values, found=len(self.retrieved.new.intersection(accept.path)))
        return say("round", **values)


def _depths(parent: Sequence[int]) -> list[int]:
    depth = [0] * len(parent)
    for node in range(1, len(parent)):
        depth[node] = depth[parent[node]] + 1
    return depth


def _ranks(score: Sequence[int], depth: Sequence[int], last: Collection[int]) -> list[int]:
    """Rank of every node by (score, shallower, older) from 1, the root having 0: the order of `DraftTree.best`. The
    nodes in `last` come after all others."""
    rank = [0] * len(score)
    best_first = sorted(range(1, len(score)), key=lambda node: (node in last, -score[node], depth[node], node))
    for place, node in enumerate(best_first, start=1):
        rank[node] = place
    return rank
