"""The target while it decodes one text: prefill, verify a tree in one pass, commit the accepted path."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from treegraft.drafters.base import Prefilled
from treegraft.models.cache import CachedModel
from treegraft.models.timing import Stopwatch
from treegraft.models.topk import top_tokens
from treegraft.trace.records import NATS, TARGET, Forward, Tried, Verify, Walked
from treegraft.tree import DraftTree

WALK_TOP_K = 8
"""How many of the target's best tokens a trace keeps at each node of the accepted walk."""


@dataclass
class Answers:
    """The target's answers to one tree: `order` the verified nodes, `argmax` its favourite next token after each.

    `logits` [nodes, vocab] stay on the device; `describe` reads from them what a trace keeps."""

    tree: DraftTree
    order: np.ndarray
    argmax: np.ndarray
    logits: torch.Tensor

    def describe(self, path: np.ndarray) -> tuple[Verify, list[Tried]]:
        """The `verify` record, and the children tried along the accepted `path` (node ids, root left out)."""
        place = np.full(self.tree.size, -1)
        place[self.order] = np.arange(len(self.order))
        children = self.order[1:]
        parents = place[self.tree.parent[children]]
        logprob = self._logprobs(parents, self.tree.token[children])
        walk_nodes = np.append(0, path)
        verify = Verify(order=self.order.tolist(), argmax=self.argmax.tolist(), logprob=[0, *logprob.tolist()],
                        walk=self._walk(walk_nodes, place))
        on_walk = np.isin(self.tree.parent[children], walk_nodes)
        accepted = set(path.tolist())
        tried = [Tried(node=node, p=p, accepted=node in accepted)
                 for node, p in zip(children[on_walk].tolist(), logprob[on_walk].tolist(), strict=True)]
        return verify, tried

    def _logprobs(self, rows: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Log-probs [n] of `tokens` in the logits' `rows`, in 1e-5 nats."""
        if len(rows) == 0:
            return np.zeros(0, np.int64)
        inner, back = np.unique(rows, return_inverse=True)
        device = self.logits.device
        logits = self.logits[torch.from_numpy(inner).to(device)].float()
        index = torch.from_numpy(back).to(device), torch.from_numpy(np.ascontiguousarray(tokens)).to(device)
        logprob = logits[index] - logits.logsumexp(-1)[index[0]]
        return np.rint(logprob.double().cpu().numpy() * NATS).astype(np.int64)

    def _walk(self, nodes: np.ndarray, place: np.ndarray) -> list[Walked]:
        """The target's view at the nodes of the accepted walk: its best tokens, its entropy, its children's ranks."""
        logprobs = self.logits[torch.from_numpy(place[nodes]).to(self.logits.device)].float().log_softmax(-1)
        best, ids = logprobs.topk(min(WALK_TOP_K, logprobs.shape[-1]))
        entropy = -(logprobs.exp() * logprobs).nan_to_num(0).sum(-1)
        walk = []
        for row, node in enumerate(nodes.tolist()):
            children = self.order[self.tree.parent[self.order] == node]
            tokens = torch.from_numpy(np.ascontiguousarray(self.tree.token[children])).to(logprobs.device)
            ranks = (logprobs[row] > logprobs[row, tokens][:, None]).sum(-1)
            walk.append(Walked(node=node, tokens=ids[row].tolist(), logprobs=as_units(best[row]),
                               children=children.tolist(), ranks=ranks.tolist(), entropy=as_units(entropy[row])))
        return walk


def as_units(nats: torch.Tensor):
    """Nats as the integers of a trace."""
    return (nats.double() * NATS).round().long().tolist()


class Target:
    """Decodes one text at a time with a cached model of the target."""

    def __init__(self, cached: CachedModel) -> None:
        self.cached = cached
        self.stopwatch = Stopwatch(cached.device)

    def read_forwards(self) -> list[Forward]:
        """The forwards since the last call, with their times."""
        return self.stopwatch.read(TARGET)

    def prefill(self, prompt: list[int], k: int) -> Prefilled:
        """Read the prompt and choose the first root; with k > 0 also the k best next tokens at every position."""
        self.cached.reset()
        tables = []
        with self.stopwatch.lap(len(prompt)):
            for logits in self.cached.append(np.array(prompt, np.int64), logits=0 if k else 1):
                if k:
                    tables.append(top_tokens(logits, k))
        root = int(logits[-1].argmax())
        empty = np.zeros((0, k), np.int64)
        tokens, logprobs = (np.concatenate(parts) for parts in zip(*tables, strict=True)) if k else (empty, empty)
        return Prefilled(prompt=prompt, root=root, tokens=tokens, logprobs=logprobs)

    def verify(self, tree: DraftTree, order: np.ndarray) -> Answers:
        """One forward over the nodes `order` (ascending, closed under parents, the root first)."""
        committed = tree.context - 1
        visible = np.ones((len(order), committed + len(order)), bool)
        visible[:, committed:] = tree.mask[np.ix_(order, order)]
        with self.stopwatch.lap(len(order)):
            logits = self.cached.forward(tree.token[order], tree.positions[order], visible)
        return Answers(tree, order, logits.argmax(-1).cpu().numpy(), logits)

    def commit(self, tree: DraftTree, order: np.ndarray, path: np.ndarray) -> None:
        """Keep the cache rows of the root and the accepted path, and forget the rest of the tree."""
        committed = tree.context - 1
        self.cached.keep(committed, committed + np.searchsorted(order, np.append(0, path)))
