"""A cascade: who drafts which position."""

from __future__ import annotations

from tests.policies.random_drafters import draft, grown, random_drafter
from tests.policies.scripted import Scripted
from treegraft.policies import Cascade, Eagle2


def backwards(token: int) -> list[float]:
    """The token before is the likely one."""
    return [0.91 if after == (token - 1) % 10 else 0.01 for after in range(10)]


def test_a_chain_by_two_drafters():
    weak, strong = Scripted(id=0, probabilities=backwards), Scripted(id=1)
    round = draft(Cascade(early=2, late=3), weak, strong)
    assert round.tree.parent.tolist() == [-1, 0, 1, 2, 3, 4]
    assert round.tree.token.tolist() == [0, 1, 2, 1, 0, 9]
    assert round.tree.origin.tolist() == [-1, 1, 1, 0, 0, 0]
    assert strong.reads == [[0], [1]]
    assert weak.reads == [[0, 1, 2], [3], [4]]
    assert [event.layer for event in grown(round)] == [1, 2, 3, 4, 5]
    assert grown(round)[2].grafted == [3]


def test_a_cascade_of_one_drafter_with_itself_is_eagle2():
    for seed in range(5):
        round = draft(Cascade(budget=20, top_k=3, early=2, late=2), random_drafter(seed), random_drafter(seed))
        assert round.kept.tolist() == draft(Eagle2(budget=20, top_k=3, depth=4), random_drafter(seed)).kept.tolist()
        assert round.tree.token.tolist() == draft(Eagle2(top_k=3, depth=4), random_drafter(seed)).tree.token.tolist()
