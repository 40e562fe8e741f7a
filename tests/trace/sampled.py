"""A sampled round small enough to check by hand: 1 and 2 below the root, 3 below 1."""

from __future__ import annotations

from treegraft.trace.records import Accept, Expand, Nodes, Round, Tried, Verify


def sampled(tried: list[Tried], path: list[int], chances: list[float] | None = None, rule: str = "points") -> Round:
    """The round with these verdicts."""
    nodes = Nodes(token=[7, 8, 9, 10], parent=[-1, 0, 0, 1], origin=[-1, 1, 1, 1], proposers=[0, 2, 2, 2],
                  score=[0, -5, -6, -7])
    return Round(index=0, context=4, root=7, nodes=nodes, events=[
        Expand(layer=1, drafter=1, parents=[0], nodes=[1, 2, 3], scores=[-5, -6, -7]),
        Verify(order=[0, 1, 2, 3], argmax=[8, 10, 11, 12], logprob=[0, -60_000, -120_000, -91_629]),
        Accept(rule=rule, path=path, tried=tried, bonus=20, chances=chances or [])])
