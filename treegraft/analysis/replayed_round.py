"""What a policy would have drafted at a position of a recorded text, as a round of a trace, so that it can be drawn.

Tokens, scores, selection and the accepted path are the replay's. What the target says is known along the recorded text
alone: its best tokens there, and the probabilities of those drafted tokens that are among them.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from treegraft.analysis.recorded import NotRecorded
from treegraft.analysis.whatif import WhatIf
from treegraft.policies.base import Policy, as_scores
from treegraft.trace.records import Accept, Nodes, PolicyInfo, Round, Verify, Walked
from treegraft.trace.replay import ending, outcome
from treegraft.trace.runs import Run
from treegraft.tree import ROOT, DraftTree


def replayed_run(whatif: WhatIf, place: int, policy: Policy) -> Run:
    """A run of the one round that `policy` drafts at output position `place`. Errors: `NotRecorded`."""
    run = whatif.run
    info = PolicyInfo(name=policy.name, settings=policy.settings, drafters=run.header.policy.drafters)
    header = msgspec.structs.replace(run.header, policy=info)
    return Run(header, run.pieces, run.prefill, [replayed_round(whatif, place, policy)], None)


def replayed_round(whatif: WhatIf, place: int, policy: Policy) -> Round:
    """The round that `policy` drafts at output position `place`, verified against the recorded text.

    Errors: `NotRecorded`.
    """
    drafted, text = whatif.draft(place, policy), whole_text(whatif.run)
    tree, kept = drafted.tree, drafted.kept
    path = whatif.follow(place, tree, kept, text)
    after = text[place + len(path) + 1:]
    if not after:
        raise NotRecorded("the text ends inside this tree, and what the target would have said next is not recorded")
    bonus = after[0]
    verify = verified(tree, kept, [ROOT, *path], bonus, walks(whatif.run), len(whatif.prompt) + place)
    nodes = Nodes(token=tree.token.tolist(), parent=tree.parent.tolist(), origin=tree.origin.tolist(),
                  score=as_scores(tree.score), proposers=tree.proposers.tolist())
    accept = Accept(rule="greedy", path=list(path), tried=[], bonus=bonus,
                    discarded=max(0, place + len(path) + 2 - len(whatif.output)))
    return Round(index=0, context=tree.context, root=nodes.token[ROOT], nodes=nodes, note=drafted.note,
                 events=[*drafted.events, verify, accept])


def whole_text(run: Run) -> list[int]:
    """The output, and after it what the last round accepted beyond the end of the text."""
    last = outcome(run.records[-1])
    return run.output + last.tokens[last.taken:]


def walks(run: Run) -> dict[int, Walked]:
    """What the target said along the text, by the place of a token among prompt and output."""
    found = {}
    for record in run.records:
        verify, accept = ending(record)
        depth = {node: place for place, node in enumerate([ROOT, *accept.path])}
        found |= {record.context - 1 + depth[walked.node]: walked for walked in verify.walk if walked.node in depth}
    return found


def verified(tree: DraftTree, kept: np.ndarray, path: list[int], bonus: int, known: Mapping[int, Walked],
             start: int) -> Verify:
    """What the target says to the `kept` nodes: `path` is the way of the text through them, from the root at place
    `start`, and `known` what the target said there. A node of which nothing is known has no log-probability."""
    chosen = dict(zip(path, [*tree.token[path[1:]].tolist(), bonus], strict=True))
    logprob: dict[int, int | None] = {ROOT: 0}
    walk = []
    for depth, node in enumerate(path):
        if (walked := known.get(start + depth)) is None:
            continue
        children = [child for child in tree.children(node).tolist() if child in set(kept.tolist())]
        place = {token: rank for rank, token in enumerate(walked.tokens)}
        ranked = {child: place[token] for child in children if (token := int(tree.token[child])) in place}
        logprob |= {child: walked.logprobs[rank] for child, rank in ranked.items()}
        walk.append(msgspec.structs.replace(walked, node=node, children=list(ranked), ranks=list(ranked.values())))
    order = kept.tolist()
    return Verify(order=order, argmax=[chosen.get(node, bonus) for node in order],
                  logprob=[logprob.get(node) for node in order], walk=walk)
