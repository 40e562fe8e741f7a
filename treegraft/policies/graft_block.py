"""Graft on a block drafter: the confident beginning of the block, continued with a retrieved chain.

It is the extension to DFlash of arXiv 2605.20104 ("tail" placement). The paper does not print how the beginning is
found; here it ends before the first token whose own probability is below `tau`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treegraft.drafters.base import Growth
from treegraft.policies.base import Policy, Role, Round
from treegraft.policies.block import BLOCK_ROLE
from treegraft.settings import setting
from treegraft.trace.records import NATS, Gate, Graft
from treegraft.tree import ROOT

STAGE = "tail"


@dataclass
class GraftBlock(Policy):
    """Block drafting that keeps the tokens before the first improbable one, and goes on with a chain of successors.

    As many tokens are verified as without: where no successor is known, the rest of the block keeps its places.
    """

    name = "graft-block"
    roles = (BLOCK_ROLE, Role("retriever", "continues what was kept of the block", scores_tokens=False,
                              kinds=("successors",)))

    length: int = setting(15, "Tokens that are verified in a round; a drafter with a smaller block gives fewer.",
                          low=1, high=255)
    tau: float = setting(0.3, "The block is cut before its first token that is less probable than this.", low=0.0,
                         high=1.0)

    @property
    def capacity(self) -> int:
        return 1 + 2 * self.length

    def draft(self, round: Round) -> None:
        drafted = round.expand(round.drafters[0], np.array([ROOT]), 1, self.length).created
        budget = round.clip(len(drafted), len(drafted))
        cut = self.cut(round, drafted)
        first, rest = drafted[:cut], drafted[cut:]
        retrieved = np.zeros(0, np.int64)
        if cut < budget:
            retrieved = retrieve(round, int(first[-1]) if cut else ROOT, budget - cut)
            spare = rest[~np.isin(rest, retrieved)][: budget - cut - len(retrieved)]
            round.events.append(Graft(
                stage=STAGE, drafter=round.drafters[1].id, drafted=cut, retrieved=budget - cut,
                nodes=retrieved.tolist(), merged=retrieved[np.isin(retrieved, rest)].tolist(), replaced=len(spare)))
            rest = spare
        kept = np.concatenate((first[:budget], retrieved, rest[: max(0, budget - cut)]))
        round.keep(np.sort(np.append(ROOT, kept)), len(drafted), "confidence")

    def cut(self, round: Round, drafted: np.ndarray) -> int:
        """How many tokens of the block come before the first improbable one; the gate is written down."""
        if len(drafted) == 0:
            return 0
        probability = np.exp(np.diff(round.tree.score[np.append(ROOT, drafted)]) / NATS)
        below = np.flatnonzero(probability < self.tau)
        place = int(below[0]) if len(below) else int(probability.argmin())
        stop = len(below) > 0
        round.events.append(Gate(layer=1, measure="confidence", value=float(probability[place]), threshold=self.tau,
                                 stop=stop, stage=STAGE if stop else ""))
        return place if stop else len(drafted)


def retrieve(round: Round, tip: int, count: int) -> np.ndarray:
    """A chain of up to `count` nodes below `tip`: of each token its first successor. Nodes that are there are used."""
    drafter, tree = round.drafters[1], round.tree
    before, chain, rank = tree.size, [tip], np.zeros(1, np.int64)
    while len(chain) <= count:
        node = int(drafter.follow(tree, np.array(chain[-1:]), rank)[0][0])
        if node < 0:
            break
        chain.append(node)
    nodes = np.array(chain[1:], np.int64)
    created = np.arange(before, tree.size)
    round.grew(drafter, np.array([tip]), 2, Growth(
        created=created, candidates=nodes, merged=nodes[nodes < before], match=np.zeros(len(nodes), np.int64),
        rank=[0] * len(created), stopped=[] if len(nodes) else [tip]))
    return nodes
