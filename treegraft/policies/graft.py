"""Graft: stop drafting where the drafter doubts, and retrieve what it leaves undrafted (arXiv 2605.20104)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from treegraft.drafters.base import Growth, RankingDrafter
from treegraft.policies import templates
from treegraft.policies.base import Policy, Role, Round, highest
from treegraft.policies.templates import Template
from treegraft.settings import SettingError, setting
from treegraft.trace import records
from treegraft.trace.records import NATS, Gate
from treegraft.tree import NEG_INF, ROOT, DraftTree

STAGES = ("d0", "d1", "d5")
"""The gates in the order of their layers, each named like the template that fills a round which it stops."""

DEPTHS = (0, 1, 5)
THRESHOLDS = (0.14, 0.14, 0.5)
"""The paper's gates, for models that nobody has calibrated: the middle of what it prints for Qwen3-8B."""

BESIDE = ThreadPoolExecutor(1, "retrieval")
"""Retrieves beside the drafter, whose forwards leave the interpreter free."""

CALIBRATED = -1.0
TAU_HELP = "0 switches the gate off; -1: as calibrated for the models, else the paper's"


@dataclass
class Graft(Policy):
    """EAGLE-2 that stops drafting at a doubtful gate, and fills the places left over with retrieved nodes.

    Behind a gate's layer the probability of the best path so far is compared with its threshold. A round that stops
    keeps the best of what was drafted, as many as its stage says, and the others of the `budget` nodes are
    retrieved: a template of ranks, followed from the root's token from row to row of a matrix of successors. A node
    that was drafted already is not added twice; its place, and that of an empty row, goes to the next node of the full
    envelope, then to the next drafted node. A round that no gate stops is EAGLE-2's.

    The matrix lies in the host's memory and the template is first order, so a round is 9 gathers of one row of 8 ids a
    node. A thread of the host follows them while the drafter runs, on whatever device; no CUDA stream is needed.
    """

    name = "graft"
    roles = (Role("drafter", "gives the probabilities that the tree grows by"),
             Role("retriever", "knows the next tokens that fill the places left over", scores_tokens=False,
                  kinds=("successors",)))

    budget: int = setting(60, "Nodes that the target verifies in a round.", low=2, high=1024)
    top_k: int = setting(10, "Nodes expanded a layer, and children drafted for each.", low=1, high=64)
    depth: int = setting(9, "Layers drafted in a round that no gate stops, one drafter forward each.", low=1, high=32)
    gates: str = setting("", "Depths of the gates d0, d1 and d5, each behind that layer + 1; empty: as calibrated for "
                             "the models, else 0,1,5. The paper can also be read as 0,2,6.")
    tau_d0: float = setting(CALIBRATED, f"Gate d0 stops unless the best path is likelier. {TAU_HELP} 0.14.",
                            low=-1.0, high=1.0)
    tau_d1: float = setting(CALIBRATED, f"Gate d1 stops unless the best path is likelier. {TAU_HELP} 0.14.",
                            low=-1.0, high=1.0)
    tau_d5: float = setting(CALIBRATED, f"Gate d5 stops unless the best path is likelier. {TAU_HELP} 0.5.",
                            low=-1.0, high=1.0)
    root_counts: bool = setting(True, "The budget holds the root, too, so one node fewer is drafted.")
    placement: str = setting(
        "root", "Where retrieved nodes go: root (Graft); tail (chains below the best drafted leaves); none (pruning "
                "alone, which is ECHO's gating of one request); fixed (at the root, every round as if stopped at d5, "
                "but drafted in full).", choices=("root", "tail", "none", "fixed"))

    def __post_init__(self) -> None:
        super().__post_init__()
        self._layers = [depth + 1 for depth in gate_depths(self.gates)]

    @property
    def nodes(self) -> int:
        """Drafted and retrieved nodes of a full round."""
        return self.budget - self.root_counts

    @property
    def capacity(self) -> int:
        return 1 + self.top_k + (self.depth - 1) * self.top_k**2 + self.nodes

    @property
    def thresholds(self) -> tuple[float, ...]:
        """Those of the three gates, the paper's for those that are not set."""
        given = (self.tau_d0, self.tau_d1, self.tau_d5)
        return tuple(paper if tau < 0 else tau for tau, paper in zip(given, THRESHOLDS, strict=True))

    @property
    def is_set(self) -> bool:
        """Whether all gates and thresholds are the user's own."""
        return bool(self.gates) and min(self.tau_d0, self.tau_d1, self.tau_d5) >= 0

    def with_gates(self, gates: str = "", thresholds: Sequence[float] = THRESHOLDS) -> Graft:
        """The same with these gates and thresholds where it has none of its own, by default the paper's.

        Thresholds belong to their gates: where its own gates stand elsewhere, the paper's are taken.
        """
        depths = gate_depths(self.gates or gates)
        if depths != gate_depths(gates):
            thresholds = THRESHOLDS
        own = (self.tau_d0, self.tau_d1, self.tau_d5)
        taus = {f"tau_{stage}": known if given < 0 else given
                for stage, given, known in zip(STAGES, own, thresholds, strict=True)}
        return replace(self, gates=",".join(map(str, depths)), **taus)

    def draft(self, round: Round) -> None:
        prepared = self._prepare(round)
        self.finish(round, *self.grow(round), prepared)
        if prepared:
            prepared.exception()  # waits for the rows of a round that did not need them

    def finish(self, round: Round, stage: str, layer: int, prepared: Future[np.ndarray] | None = None) -> None:
        """Choose what goes to the target of a round that `grow` has drafted, and retrieve where it was stopped."""
        if not stage:
            round.prune(self.nodes)
        elif self.placement == "none":
            round.prune(self.shares(stage)[0])
        else:
            self._graft(round, stage, layer, prepared or self._prepare(round))

    @property
    def drafting(self) -> tuple:
        """What the outcome of `grow` depends on."""
        return self.top_k, self.depth, self.gates, self.thresholds, self.placement == "fixed"

    # --- drafting, and where it stops ---

    def grow(self, round: Round) -> tuple[str, int]:
        """Draft until a gate stops; returns its stage (empty where none did) and the last layer."""
        frontier = np.array([ROOT])
        for layer in range(1, self.depth + 1):
            growth = round.expand(round.drafters[0], frontier, layer, self.top_k)
            frontier = highest(round.tree, growth.candidates, self.top_k)
            if len(frontier) == 0:
                return "", layer
            stage = self._stops(round, layer, frontier)
            if stage:
                return stage, layer
        return ("d5" if self.placement == "fixed" else ""), self.depth

    def _stops(self, round: Round, layer: int, frontier: np.ndarray) -> str:
        """The stage that the gate behind `layer` decides for, empty to go on."""
        gate = self._layers.index(layer) if layer in self._layers else None
        if gate is None or layer == self.depth or self.placement == "fixed" or self.thresholds[gate] == 0:
            return ""
        value, threshold = confidence(round.tree, frontier), self.thresholds[gate]
        stop = not value > threshold
        round.events.append(Gate(layer=layer, measure="confidence", value=value, threshold=threshold, stop=stop,
                                 stage=STAGES[gate]))
        return STAGES[gate] if stop else ""

    def shares(self, stage: str) -> tuple[int, int]:
        """How many drafted nodes a round that stopped at `stage` keeps, and how many are retrieved."""
        drafted = max(1, templates.envelope(self.budget).drafted[stage] - self.root_counts)
        return drafted, self.nodes - drafted

    # --- retrieving ---

    def _prepare(self, round: Round) -> Future[np.ndarray] | None:
        """Begin to follow the envelope from row to row, while the drafter runs; None where no round needs it."""
        if self.placement in ("none", "tail") or (self.placement == "root" and not any(self.thresholds)):
            return None
        template = templates.envelope(self.budget).template
        return BESIDE.submit(walk, round.drafters[1], int(round.tree.token[ROOT]), template)

    def _graft(self, round: Round, stage: str, layer: int, prepared: Future[np.ndarray] | None) -> None:
        """Fill the places that the drafted share of `stage` leaves with retrieved nodes, then with drafted ones."""
        tree, retriever = round.tree, round.drafters[1]
        places = round.clip(self.nodes, self.nodes)
        share, wanted = self.shares(stage)
        ranked = 1 + np.lexsort((tree.depth[1:], -tree.score[1:]))
        drafted = ranked[: min(share, places)]
        filling = Filling(tree, drafted, places)
        if self.placement == "tail":
            parents = leaves(tree, drafted)
            hang_chains(filling, retriever, parents)
        else:
            parents = np.array([ROOT])
            hang_template(filling, prepared.result(), templates.envelope(self.budget), wanted)
        round.grew(retriever, parents, layer, filling.growth(retriever.id))
        filling.draft(ranked.tolist())
        round.events.append(records.Graft(
            stage=stage, drafter=retriever.id, drafted=share, retrieved=wanted, nodes=filling.retrieved,
            merged=filling.merged, replaced=filling.late + filling.redrafted, shortfall=filling.free))
        if filling.free:
            round.note = round.note or f"{filling.free} of {places} places are empty: no more was drafted or retrieved"
        round.keep(np.array(filling.kept), places, "graft")

    # --- the same round under other thresholds ---

    def stopping(self, stage: str) -> Graft:
        """The same policy with one gate that always stops, the others switched off; no stage: with none at all."""
        taus = {f"tau_{name}": float(name == stage) for name in STAGES}
        return replace(self, **taus)

    def settled(self, tree: DraftTree) -> Graft:
        """The policy as its gates decide at one position, by the `tree` that grew there with the gates off."""
        stage, _ = self.stage_of(tree)
        return self.stopping("" if self.placement == "fixed" else stage)

    def stage_of(self, tree: DraftTree) -> tuple[str, int]:
        """Where a round stops (empty: nowhere) and its last layer, by the tree that grows with the gates off."""
        if self.placement == "fixed":
            return "d5", self.depth
        for stage, layer, threshold in zip(STAGES, self._layers, self.thresholds, strict=True):
            level = np.flatnonzero(tree.depth == layer)
            if threshold and layer < self.depth and len(level) and not confidence(tree, level) > threshold:
                return stage, layer
        return "", self.depth

    @property
    def ungated(self) -> Graft:
        return self.stopping("")

    def variants(self) -> Iterable[Policy]:
        """Every stage, with retrieved nodes in every place, whatever the thresholds are now."""
        yield self.ungated
        for placement in ("root", "tail"):
            yield from (replace(self, placement=placement).stopping(stage) for stage in STAGES)


def gate_depths(text: str) -> tuple[int, ...]:
    """The depths that a user typed, the paper's for none. Errors: `SettingError`."""
    found = tuple(map(int, text.split(","))) if re.fullmatch(r"\d{1,2},\d{1,2},\d{1,2}", text) else ()
    if text and not (len(found) == len(STAGES) and found[0] < found[1] < found[2]):
        raise SettingError(f"gates was {text!r}; allowed: three depths that increase, such as 0,1,5, or nothing for "
                           "those of the models or the paper.")
    return found or DEPTHS


def confidence(tree: DraftTree, nodes: np.ndarray) -> float:
    """The probability, under the drafter, of the best of the paths to `nodes`."""
    return math.exp(int(tree.score[nodes].max()) / NATS)


def leaves(tree: DraftTree, nodes: np.ndarray) -> np.ndarray:
    """Those of `nodes` that have no child among them, in their order."""
    return nodes[~np.isin(nodes, tree.parent[nodes])]


@dataclass
class Filling:
    """The places of a round while they are filled: `free` of them are left.

    `drafted` are the drafted nodes kept from the start. `retrieved` are the retrieved nodes so far, of which the
    `merged` had been drafted; `late` and `redrafted` count those that took a place which another one left free.
    """

    tree: DraftTree
    drafted: np.ndarray
    places: int
    retrieved: list[int] = field(default_factory=list)
    merged: list[int] = field(default_factory=list)
    late: int = 0
    redrafted: int = 0

    def __post_init__(self) -> None:
        self._kept = {ROOT, *self.drafted.tolist()}
        self.free = self.places - len(self.drafted)
        self._nodes: dict[tuple[int, int], int] = {}
        self._new: list[tuple[int, int, int]] = []

    @property
    def kept(self) -> list[int]:
        return sorted(self._kept)

    def retrieve(self, above: int, token: int, rank: int, *, late: bool = False) -> int:
        """The node of a retrieved token below `above`; it takes a place unless it is there already."""
        if (above, token) in self._nodes:
            return self._nodes[above, token]
        node = self.tree.child(above, token)
        if node >= 0:
            self.merged.append(node)
        else:
            node = self.tree.size + len(self._new)
            self._new.append((above, token, rank))
        self._nodes[above, token] = node
        self.retrieved.append(node)
        if node not in self._kept:
            self._kept.add(node)
            self.free -= 1
            self.late += late
        return node

    def growth(self, drafter: int) -> Growth:
        """Give the new nodes to the tree; they have no scores, as no drafter has judged them."""
        above, tokens, ranks = np.array(self._new, np.int64).reshape(-1, 3).T
        created = self.tree.append(above, tokens, np.full(len(above), NEG_INF), drafter)
        merged = np.array(self.merged, np.int64)
        self.tree.proposers[merged] |= 1 << drafter
        return Growth(created=created, candidates=np.array(self.retrieved, np.int64), merged=merged,
                      match=np.zeros(len(self.retrieved), np.int64), rank=ranks.tolist())

    def draft(self, ranked: Iterable[int]) -> None:
        """Give the places left over to the next drafted nodes, best first, so that parents come before children."""
        for node in ranked:
            if self.free == 0:
                break
            if node not in self._kept:
                self._kept.add(node)
                self.free -= 1
                self.redrafted += 1


def hang_template(filling: Filling, followed: np.ndarray, envelope: templates.Envelope, wanted: int) -> None:
    """Retrieve the tokens `followed` (see `walk`) below the root until the places are full: the first `wanted` nodes of
    the envelope's order are the stage's template, and those after them take the places that these leave free."""
    template = envelope.template
    tokens = followed.tolist()
    parents, ranks = template.parent.tolist(), template.rank.tolist()
    place = {ROOT: ROOT}
    for number, node in enumerate(envelope.order.tolist()):
        if filling.free == 0:
            break
        if tokens[node] >= 0 and parents[node] in place:
            place[node] = filling.retrieve(place[parents[node]], tokens[node], ranks[node], late=number >= wanted)


def walk(retriever: RankingDrafter, root: int, template: Template) -> np.ndarray:
    """The tokens of a template's nodes, from row to row: [size + 1], -1 where a row has no such rank."""
    tokens = np.full(template.size + 1, -1, np.int64)
    tokens[ROOT] = root
    for depth in range(1, len(template.levels) + 1):
        level = np.flatnonzero(template.depth == depth)
        above, ranks = tokens[template.parent[level]], template.rank[level]
        there = above >= 0
        if not there.any():
            break
        rows = retriever.successors(above[there])
        known = ranks[there] < rows.shape[1]
        tokens[level[there][known]] = rows[known, ranks[there][known]]
    return tokens


def hang_chains(filling: Filling, retriever: RankingDrafter, tips: np.ndarray) -> None:
    """Retrieve chains of best successors below `tips`, until the places are full: one token for each in turn, the best
    tip first, then the next token for each."""
    ends = [(node, int(filling.tree.token[node])) for node in tips.tolist()]
    while ends and filling.free:
        best = retriever.successors(np.array([token for _, token in ends]))[:, 0].tolist()
        ends = [(filling.retrieve(node, token, 0), token)
                for (node, _), token in zip(ends[: filling.free], best, strict=False) if token >= 0]
