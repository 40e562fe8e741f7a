"""What the target's pass over one tree says, as a trace keeps it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from treegraft.models.scores import IMPOSSIBLE
from treegraft.models.topk import lowest_first, top_columns
from treegraft.trace.records import NATS, Tried, Verify, Walked
from treegraft.tree import DraftTree

WALK_TOP_K = 8
"""How many of the target's best tokens a trace keeps at each node of the accepted walk."""


NOTHING = torch.zeros(0)


@dataclass(frozen=True)
class Facts:
    """What a trace keeps of a target pass, in 1e-5 nats where it is a log-prob.

    `logprob` [children] of each child's token after its parent, `rank` [ranked] of some of them (0 is the target's
    favourite). Of all nodes the favourite next token (`argmax`), where it came along. For some nodes: the best `tokens`
    [nodes, k], their `logprobs`, and the `entropy` [nodes].
    """

    logprob: np.ndarray
    rank: np.ndarray
    argmax: np.ndarray
    tokens: np.ndarray
    logprobs: np.ndarray
    entropy: np.ndarray


def read_facts(logits: torch.Tensor, parents: np.ndarray, tokens: np.ndarray, ranked: np.ndarray,
               rows: np.ndarray, argmax: torch.Tensor) -> Facts:
    """Facts on children (rows of their `parents` in `logits`, their `tokens`), the `ranked` ones among them, and the
    nodes in `rows`; one transfer to the host, which takes `argmax` along."""
    at = functools.partial(torch.as_tensor, device=logits.device)
    needed, place = np.unique(np.concatenate((parents, rows)), return_inverse=True)
    here = logits.index_select(0, at(needed)).float()
    logprobs = here.log_softmax(-1)
    logprob = logprobs[at(place[:len(parents)]), at(tokens)]
    above, seen = at(place[ranked]), at(place[len(parents):])
    rank = (here.index_select(0, above) > here[above, at(tokens[ranked])][:, None]).sum(-1, dtype=torch.int32)
    values, ids = top_columns(here.index_select(0, seen), WALK_TOP_K)
    of_rows = logprobs.index_select(0, seen)
    best = of_rows.gather(1, ids)
    entropy = -(of_rows.exp() * of_rows).nan_to_num_(0).sum(-1)
    parts = (logprob, rank, argmax, values, ids, best, entropy)
    flat = torch.cat([part.flatten().float() for part in parts]).cpu().double().numpy()
    ends = np.cumsum([part.numel() for part in parts])
    logprob, rank, argmax, values, ids, best, entropy = (
        piece.reshape(part.shape) for piece, part in zip(np.split(flat, ends[:-1]), parts, strict=True))
    rank, argmax, ids = (part.astype(np.int64) for part in (rank, argmax, ids))
    order = lowest_first(values, ids)
    tokens, logprobs = np.take_along_axis(ids, order, -1), np.take_along_axis(best, order, -1)
    return Facts(logprob=to_units(logprob), rank=rank, argmax=argmax, tokens=tokens, logprobs=to_units(logprobs),
                 entropy=to_units(entropy))


@dataclass
class Answers:
    """The target's answers to one tree: `order` the verified nodes, `argmax` its favourite next token after each.

    `logits` [nodes, vocab] stay on the device. A GPU is asked once a round, so there `facts` on all nodes come along;
    a CPU works out the few that the accepted walk needs.
    """

    tree: DraftTree
    order: np.ndarray
    logits: torch.Tensor
    argmax: np.ndarray
    facts: Facts | None = None

    def describe(self, path: np.ndarray) -> tuple[Verify, list[Tried]]:
        """The `verify` record, and the children tried along the accepted `path` (node ids, root left out)."""
        children = self.order[1:]
        walk = np.append(0, path)
        tried = np.flatnonzero(np.isin(self.tree.parent[children], walk))
        rows = np.searchsorted(self.order, walk)
        facts = self.facts
        if facts is None:
            facts, here = self.read(tried, rows, NOTHING), np.arange(len(rows))
            rank = facts.rank
        else:
            here, rank = rows, facts.rank[tried]
        logprob = facts.logprob.tolist()
        verify = Verify(order=self.order.tolist(), argmax=self.argmax.tolist(), logprob=[0, *logprob],
                        walk=self._walk(walk, facts, here, children[tried], rank))
        accepted = set(path.tolist())
        return verify, [Tried(node=node, p=logprob[place], accepted=node in accepted)
                        for place, node in zip(tried.tolist(), children[tried].tolist(), strict=True)]

    def logprobs(self, path: np.ndarray, tokens: Sequence[int]) -> np.ndarray:
        """Log-probs, in 1e-5 nats, of the `tokens` that follow the root and the nodes of `path`, one after each.

        They are worked out as `describe` does it, so that a replay scores by the very same numbers.
        """
        rows = torch.from_numpy(np.searchsorted(self.order, np.append(0, path))).to(self.logits.device)
        logprobs = self.logits[rows].float().log_softmax(-1)
        chosen = logprobs.gather(1, torch.tensor(tokens, device=logprobs.device)[:, None])
        return to_units(chosen[:, 0].cpu().double().numpy())

    def best(self, k: int) -> np.ndarray:
        """The target's k best next tokens after each verified node, best first: [nodes, k]."""
        if self.facts is not None and k <= WALK_TOP_K:
            return self.facts.tokens[:, :k]
        return best_columns(self.logits, k)

    def rivals(self, path: np.ndarray, k: int) -> np.ndarray:
        """The target's k best tokens at the end of the accepted `path`, the bonus first: [k]."""
        row = np.searchsorted(self.order, path[-1]) if len(path) else 0
        if self.facts is not None and k <= WALK_TOP_K:
            return self.facts.tokens[row, :k]
        return best_columns(self.logits[row:row + 1], k)[0]

    def read(self, ranked: np.ndarray, rows: np.ndarray, argmax: torch.Tensor) -> Facts:
        """Facts on all children, ranks of the `ranked` ones, and the view at the nodes in `rows`; see `read_facts`."""
        children = self.order[1:]
        parents = np.searchsorted(self.order, self.tree.parent[children])
        return read_facts(self.logits, parents, self.tree.token[children], ranked, rows, argmax)

    def _walk(self, walk: np.ndarray, facts: Facts, here: np.ndarray, tried: np.ndarray,
              rank: np.ndarray) -> list[Walked]:
        """The target's view at each node of the walk; `here` are their places in the facts."""
        above = self.tree.parent[tried]
        return [Walked(node=node, tokens=facts.tokens[row].tolist(), logprobs=facts.logprobs[row].tolist(),
                       children=tried[above == node].tolist(), ranks=rank[above == node].tolist(),
                       entropy=int(facts.entropy[row]))
                for node, row in zip(walk.tolist(), here.tolist(), strict=True)]


def best_columns(logits: torch.Tensor, k: int) -> np.ndarray:
    """The k best columns of each row, of equal ones the lowest first."""
    values, columns = top_columns(logits.float(), k)
    packed = torch.stack((values, columns.float())).cpu().numpy()  # token ids below 2**24 are exact
    return np.take_along_axis(packed[1].astype(np.int64), lowest_first(*packed), -1)


def to_units(nats: np.ndarray) -> np.ndarray:
    """Nats as the integers of a trace."""
    return np.rint(np.maximum(nats, IMPOSSIBLE) * NATS).astype(np.int64)
