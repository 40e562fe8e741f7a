"""The target's answers to one tree where its tokens are drawn: the distributions that they are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from treegraft.models.answers import WALK_TOP_K, Answers, to_units
from treegraft.trace.records import NATS, Tried, Verify, Walked


@dataclass
class SampledAnswers(Answers):
    """As `Answers`; `probabilities` [nodes, vocab] are what the next token after each verified node is drawn from.

    So log-probs, ranks and entropies are those after temperature, top-k, top-p and min-p.
    """

    probabilities: np.ndarray = field(kw_only=True)

    def distribution(self, node: int) -> np.ndarray:
        """What the token after a verified node is drawn from, [vocab]."""
        return self.probabilities[np.searchsorted(self.order, node)]

    def describe(self, path: np.ndarray) -> tuple[Verify, list[Tried]]:
        """The `verify` record; which children were tried, the acceptance rule knows."""
        children = self.order[1:]
        rows = np.searchsorted(self.order, self.tree.parent[children])
        chances = self.probabilities[rows, self.tree.token[children]]
        logprob = [round(float(np.log(chance)) * NATS) if chance > 0 else None for chance in chances]
        return Verify(order=self.order.tolist(), argmax=self.argmax.tolist(), logprob=[0, *logprob],
                      walk=[self._walked(node) for node in [0, *path.tolist()]]), []

    def logprobs(self, path: np.ndarray, tokens: Sequence[int]) -> np.ndarray:
        rows = np.searchsorted(self.order, np.append(0, path))
        return to_units(np.log(self.probabilities[rows, tokens]))

    def _walked(self, node: int) -> Walked:
        """The target's view at one node: tokens that cannot be drawn are not among its best."""
        p = self.distribution(node)
        best = np.argpartition(-p, min(WALK_TOP_K, len(p)) - 1)[:WALK_TOP_K]
        best = best[np.lexsort((best, -p[best]))]
        best = best[p[best] > 0]
        children = self.order[self.tree.parent[self.order] == node]
        ranks = (p > p[self.tree.token[children]][:, None]).sum(-1)
        possible = p[p > 0]
        entropy = to_units(np.array([-(possible * np.log(possible)).sum()]))
        return Walked(node=node, tokens=best.tolist(), logprobs=to_units(np.log(p[best])).tolist(),
                      children=children.tolist(), ranks=ranks.tolist(), entropy=int(entropy[0]))
