"""Random sound runs for property tests: trees grown event by event, pruned, verified and accepted, by several rules.

Sizes are drawn by Hypothesis (and shrink); what fills them comes from a drawn seed.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from pathlib import Path
from random import Random

from hypothesis import strategies as st

from treegraft.trace import Run, Writer
from treegraft.trace.records import (
    NATS,
    TARGET,
    Accept,
    Decide,
    Decoding,
    DrafterInfo,
    End,
    Event,
    Expand,
    Forward,
    Gate,
    Graft,
    Header,
    Learn,
    Nodes,
    PolicyInfo,
    Prefill,
    Prompt,
    Prune,
    Rescore,
    Reselect,
    Round,
    TargetInfo,
    Tried,
    Verify,
    Walked,
)
from treegraft.trace.replay import TreeState, ending

VOCAB = 40
STRONG = 1
"""The drafter that rescores; drafter 0 copies."""
RANKING = 2
"""The drafter that retrieves and learns; it gives no scores."""
RULES = ("greedy", "points", "chain", "mixed", "typical")
"""Acceptance rules: greedy, without draws, with draws alone, with both, and one that compares with a threshold."""
PIECES = {token: piece.encode() for token, piece in enumerate(
    ["<|end|>", "\n", " ", "<b>", "&amp;", '"', "\\", "\u2028", "é", "日", "\x00", "a", " the", "{", "}"])}
PIECES |= {15: b"\xf0\x9f", 16: b"\x98\x80", 17: b"\xff"}
PIECES |= {token: f" w{token}".encode() for token in range(18, VOCAB)}
"""Pieces of the vocabulary: markup, control characters, an emoji split over two tokens, a byte that is no UTF-8."""


@dataclass
class GrownRound:
    """A round, and the tree as it was before its events and after each."""

    record: Round
    states: list[TreeState]


@st.composite
def grown_rounds(draw: st.DrawFn) -> GrownRound:
    """One round of a run whose prompt has 3 tokens, with the tree's states while it grew."""
    seed, layers, width = draw(st.integers(0, 2**32)), draw(st.integers(0, 4)), draw(st.integers(1, 6))
    return grow(Random(seed), layers=layers, width=width, rule=draw(st.sampled_from(RULES)))


@st.composite
def runs(draw: st.DrawFn, min_rounds: int = 0, max_rounds: int = 5) -> Run:
    """One run in memory, ended."""
    seed, count = draw(st.integers(0, 2**32)), draw(st.integers(min_rounds, max_rounds))
    shapes = [(draw(st.integers(0, 3)), draw(st.integers(1, 5))) for _ in range(count)]
    return make_run(Random(seed), shapes, draw(st.sampled_from(RULES)))


def make_run(random: Random, shapes: list[tuple[int, int]], rule: str = "greedy") -> Run:
    """A run with one round for each of `shapes` (layers, width); its last round may run past the end of the text."""
    prompt = [random.randrange(VOCAB) for _ in range(random.randint(1, 6))]
    root, context = random.randrange(VOCAB), len(prompt) + 1
    run = Run(make_header(prompt, rule), dict(PIECES), Prefill(
        microseconds=random.randrange(9999), root=root, k=2, tokens=[random.randrange(VOCAB) for _ in prompt * 2],
        logprobs=[-random.randrange(9999) for _ in prompt * 2]), [], None)
    for index, (layers, width) in enumerate(shapes):
        last = index == len(shapes) - 1
        record = grow(random, index, context, root, layers, width, may_end=last, rule=rule).record
        run.records.append(record)
        accept = ending(record)[1]
        root, context = accept.bonus, context + len(accept.path) + 1
    run.end = End(reason=random.choice(["eos", "length", "stop"]), new_tokens=len(run.output),
                  microseconds=random.randrange(10**6), notes=[])
    return run


def make_header(prompt: list[int], rule: str = "greedy") -> Header:
    sampling = {} if rule == "greedy" else {"temperature": 1.0, "top_p": 0.9, "seed": 1, "rule": rule}
    return Header(
        created="2026-01-31T12:00:00+00:00", target=TargetInfo(name="target", vocab_size=VOCAB),
        drafters=[DrafterInfo(id=0, kind="lookup", name="lookup"), DrafterInfo(id=1, kind="lm", name="small"),
                  DrafterInfo(id=2, kind="successors", name="successors", state="history")],
        policy=PolicyInfo(name="mixed", settings={"budget": 8, "exact": True}, drafters=[0, 1]),
        decoding=Decoding(max_new_tokens=64, eos=[0], **sampling),
        prompt=Prompt(tokens=prompt, text="…"), group="random")


def grow(random: Random, index: int = 0, context: int = 4, root: int = 7, layers: int = 3, width: int = 4,
         may_end: bool = False, rule: str = "greedy") -> GrownRound:
    """Grow a round: `layers` expand events of up to `width` new nodes, each perhaps decided on, or a call that rescores
    and reselects first; a gate may stop that for retrieved nodes. Perhaps a prune, then verification and acceptance by
    `rule`, from which a drafter may learn."""
    tree = Growing(random, root, rule)
    for layer in range(1, layers + 1):
        drafter = tree.decide(layer)
        if drafter == STRONG:
            tree.rescore(layer)
            tree.reselect(layer)
        tree.expand(layer, width, drafter)
        if tree.gate(layer):
            tree.retrieve(layer + 1, width)
            break
    if random.random() < 0.7:
        tree.prune()
    tree.verify()
    accept = tree.accept()
    if may_end and random.random() < 0.5:
        accept.discarded = random.randint(0, len(accept.path) + 1)
    tree.learn()
    times = {phase: random.randrange(9999) for phase in ("draft", "verify", "accept", "commit")}
    record = Round(
        index=index, context=context, root=root, events=tree.events, times=times | {"total": sum(times.values())},
        nodes=Nodes(token=tree.token, parent=tree.parent, origin=tree.origin, score=tree.score,
                    proposers=tree.proposers),
        forwards=[Forward(model=model, tokens=random.randint(1, 9), microseconds=random.randrange(999))
                  for model in (1, TARGET)],
        kv={TARGET: context + len(accept.path), 1: context - 1}, note=random.choice(["", "few matches"]))
    return GrownRound(record, [tree.padded(*state) for state in tree.states])


class Growing:
    """A tree in plain lists, changed in place event by event; `states` keeps a copy before each event.

    `random` makes the tree, `stages` the decisions and what a call does to the scores, `rows` what is retrieved and
    learned, `draws` the verdicts of rules other than greedy."""

    def __init__(self, random: Random, root: int, rule: str) -> None:
        self.random, self.stages, self.rule = random, copy.deepcopy(random), rule
        self.rows = Random(copy.deepcopy(random).random())
        self.draws = copy.deepcopy(self.rows)
        self.tried: list[Tried] = []
        self.token, self.parent, self.origin, self.score, self.proposers = [root], [-1], [-1], [0], [0]
        self.kept = {0}
        self.retrieved: list[int] = []
        self.argmax: dict[int, int] = {}
        self.events: list[Event] = []
        self.states: list[tuple[int, list[int | None], set[int]]] = []
        self.remember()

    def remember(self, *event: Event) -> None:
        self.events += event
        self.states.append((len(self.token), list(self.score), set(self.kept)))

    def padded(self, born: int, score: list[int | None], kept: set[int]) -> TreeState:
        size = len(self.token)
        return TreeState(tuple(node < born for node in range(size)), tuple(score + [None] * (size - born)),
                         tuple(node in kept for node in range(size)))

    def decide(self, layer: int) -> int | None:
        """Perhaps call or skip, by a scheduler or a fixed schedule; returns the drafter whose layer it then is."""
        random = self.stages
        if random.random() < 0.5:
            return None
        call = random.random() < 0.6
        scheduled = {"rule": "scheduler", "margin": random.uniform(-9, 9), "threshold": 0.5,
                     "features": {"layer": layer / 5, "overlap": random.random()}}
        self.remember(Decide(layer=layer, call=call, calls_left=random.randrange(5),
                             **(scheduled if random.random() < 0.5 else {"rule": "1,3"})))
        return STRONG if call else 0

    def rescore(self, layer: int) -> None:
        """Change some scores, to minus infinity and back, too."""
        random = self.stages
        nodes = [node for node in range(1, len(self.token)) if random.random() < 0.7]
        before = [self.score[node] for node in nodes]
        for node in nodes:
            self.score[node] = None if random.random() < 0.1 else -random.randrange(10**6)
        self.remember(Rescore(layer=layer, drafter=STRONG, nodes=nodes, before=before,
                              after=[self.score[node] for node in nodes],
                              unreachable=[node for node in nodes if random.random() < 0.1]))

    def reselect(self, layer: int) -> None:
        """Some nodes instead of others."""
        size, random = len(self.token), self.stages
        before, after = ([node for node in range(size) if random.random() < 0.4] for _ in range(2))
        self.remember(Reselect(layer=layer, pool=random.randint(len(after), size), before=before, after=after))

    def expand(self, layer: int, width: int, drafter: int | None = None) -> None:
        """Add children, some of them below nodes of the same event as a copied span does; meet old ones by chance."""
        drawn, old = self.random.randrange(2), len(self.token)
        drafter = drawn if drafter is None else drafter
        merged, raised = set(), set()
        for _ in range(self.random.randint(0, width)):
            parent, token = self.random.randrange(len(self.token)), self.random.randrange(VOCAB)
            node = self.child(parent, token)
            if node is None:
                self.add(parent, token, drafter)
            else:
                self.proposers[node] |= 1 << drafter
                merged |= {node} if node < old else set()
        for node in merged:
            if self.random.random() < 0.3:
                self.score[node] = -self.random.randrange(10**5)
                raised.add(node)
        nodes = list(range(old, len(self.token)))
        grafted = [node for node in nodes if self.origin[self.parent[node]] not in (-1, drafter)]
        copied = {} if drafter else self.copied(len(nodes))
        self.kept.update(nodes)
        self.remember(Expand(
            layer=layer, drafter=drafter, parents=sorted({self.parent[node] for node in nodes} & set(range(old))),
            nodes=nodes, scores=self.score[old:], merged=sorted(merged), raised=sorted(raised),
            raised_scores=[self.score[node] for node in sorted(raised)], grafted=grafted, **copied))

    def copied(self, count: int) -> dict[str, list[int | None]]:
        """Matches and sources that lie in any text, the shortest of which has two tokens."""
        match = [self.random.randint(1, 5) for _ in range(count)]
        source = [self.random.choice([None, 0, 1]) for _ in range(count)]
        within = [min(size, size if place is None else place) for size, place in zip(match, source, strict=True)]
        return {"match": within, "source": source, "stopped": [0]}

    def child(self, parent: int, token: int) -> int | None:
        pairs = list(zip(self.parent, self.token, strict=True))
        return pairs.index((parent, token)) if (parent, token) in pairs else None

    def add(self, parent: int, token: int, drafter: int) -> None:
        above = self.score[parent]
        lost = above is None or self.random.random() < 0.1
        self.score.append(None if lost else above - self.random.randrange(10**5))
        self.token.append(token)
        self.parent.append(parent)
        self.origin.append(drafter)
        self.proposers.append(1 << drafter)

    def gate(self, layer: int) -> bool:
        """Perhaps compare a confidence with a threshold; returns whether that ends drafting."""
        random = self.rows
        if random.random() < 0.4:
            return False
        value = random.random()
        self.remember(Gate(layer=layer, measure="confidence", value=value, threshold=0.5, stop=value <= 0.5,
                           stage="" if value > 0.5 else f"d{layer - 1}"))
        return value <= 0.5

    def retrieve(self, layer: int, width: int) -> None:
        """Walk down the rows of the ranking drafter, starting from the root, and graft what was found."""
        random, old, ranks = self.rows, len(self.token), []
        for _ in range(random.randint(0, width)):
            parent = random.choice([0, *self.retrieved])
            drafted = [token for above, token in zip(self.parent, self.token, strict=True) if above == parent]
            token = random.choice([*drafted, *range(len(drafted), 4)])
            node = self.child(parent, token)
            if node is None:
                node = len(self.token)
                self.add(parent, token, RANKING)
                self.score[node] = None
                ranks.append(random.randrange(8))
            self.proposers[node] |= 1 << RANKING
            self.retrieved = sorted({*self.retrieved, node})
        nodes, merged = list(range(old, len(self.token))), [node for node in self.retrieved if node < old]
        parents = {self.parent[node] for node in self.retrieved}
        self.kept.update(nodes)
        self.remember(Expand(
            layer=layer, drafter=RANKING, parents=sorted(parents & set(range(old))), nodes=nodes,
            scores=self.score[old:], merged=merged, rank=ranks,
            grafted=[node for node in nodes if self.origin[self.parent[node]] not in (-1, RANKING)]))
        self.remember(Graft(stage=f"d{layer - 2}", drafter=RANKING, drafted=old - 1, retrieved=len(self.retrieved),
                            nodes=self.retrieved, merged=merged, replaced=random.randrange(3),
                            shortfall=random.randrange(3)))

    def learn(self) -> None:
        """Perhaps new rows for tokens that were verified."""
        random = self.rows
        if random.random() < 0.4:
            return
        tokens = sorted({self.token[node] for node in self.kept if random.random() < 0.6})
        known = [random.sample(range(VOCAB), random.randint(0, 3)) for _ in tokens]
        self.remember(Learn(drafter=RANKING, k=3, tokens=tokens,
                            successors=[token for row in known for token in row + [-1] * (3 - len(row))]))

    def prune(self) -> None:
        """Drop some subtrees, but nothing that was retrieved."""
        dropped: set[int] = set()
        for node in range(1, len(self.token)):
            if node not in self.retrieved and (self.parent[node] in dropped or self.random.random() < 0.25):
                dropped.add(node)
        self.kept -= dropped
        self.remember(Prune(budget=len(self.kept) + self.random.randrange(3), rule="score", kept=sorted(self.kept)))

    def verify(self) -> None:
        """The target's answers: mostly a drafted child, so that paths get long."""
        order = sorted(self.kept)
        for node in order:
            tokens = [self.token[child] for child in order if self.parent[child] == node]
            drafted = tokens and self.random.random() < 0.7
            self.argmax[node] = self.random.choice(tokens) if drafted else self.random.randrange(VOCAB)
        logprob = [0, *(-self.random.randrange(10**6) for _ in order[1:])]
        self.try_children(dict(zip(order, logprob, strict=True)))
        walk = [Walked(node=node, tokens=[self.argmax[node], 1], logprobs=[-10, -20], entropy=900,
                       children=[child for child in order if self.parent[child] == node],
                       ranks=[0 if self.token[child] == self.argmax[node] else 3 for child in order
                              if self.parent[child] == node]) for node in self.walk()]
        self.remember(Verify(order=order, argmax=[self.argmax[node] for node in order], walk=walk,
                             logprob=logprob))

    def try_children(self, logprob: dict[int, int]) -> None:
        """Children in turn, down from the root; the verdicts follow from the numbers."""
        parent, random = 0, self.draws
        while parent is not None and self.rule != "greedy":
            children, parent = [node for node in logprob if self.parent[node] == parent], None
            for child in children:
                drawn = self.rule == "chain" or (self.rule == "mixed" and random.random() < 0.5)
                q = -random.randrange(1, 10**5) if drawn else None
                p, u = logprob[child] // 10, random.random()
                chance = math.exp((p - (q or 0)) / NATS)
                accepted = chance > u
                left = [] if accepted or self.rule == "typical" else [
                    (token, -random.randrange(10**5)) for token in random.sample(range(VOCAB), random.randint(1, 8))]
                self.tried.append(Tried(node=child, p=p, q=q, u=u, accepted=accepted, residual=left))
                if accepted:
                    parent = child
                    break

    def chances(self, order: list[int]) -> list[float]:
        """Shares of one among the children of each node."""
        children = [self.parent.count(self.parent[node]) for node in order]
        return [1.0, *(self.draws.random() / count for count in children[1:])]

    def walk(self) -> list[int]:
        """The root and the nodes that follow the target's favourites, or those that a sampling rule accepted."""
        if self.rule != "greedy":
            return [0, *(tried.node for tried in self.tried if tried.accepted)]
        nodes = [0]
        while (child := self.child(nodes[-1], self.argmax[nodes[-1]])) in self.kept:
            nodes.append(child)
        return nodes

    def accept(self) -> Accept:
        nodes = self.walk()
        if self.rule != "greedy":
            chances = [] if self.rule == "typical" else self.chances(sorted(self.kept))
            event = Accept(rule=self.rule, path=nodes[1:], tried=self.tried, chances=chances,
                           bonus=self.draws.randrange(VOCAB))
            self.remember(event)
            return event
        tried = [Tried(node=node, p=-500, accepted=node in nodes) for node in sorted(self.kept)
                 if self.parent[node] in nodes]
        event = Accept(rule="greedy", path=nodes[1:], tried=tried, bonus=self.argmax[nodes[-1]])
        self.remember(event)
        return event


def records_of(run: Run) -> list:
    """The records of a run in the order of a file, pieces left out (`write_runs` writes them)."""
    return [run.header, *([run.prefill] if run.prefill else []), *run.records, *run.probes,
            *([run.end] if run.end else [])]


def write_runs(path: Path, *runs: Run) -> Path:
    """Write runs to a trace file."""
    with Writer(path) as trace:
        for run in runs:
            for record in records_of(run):
                trace.write(record)
                if record is run.header:
                    trace.pieces(run.pieces)
    return path
