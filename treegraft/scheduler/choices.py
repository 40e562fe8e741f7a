"""Every way to choose calls and skips in a round, each once, ways that cannot occur left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def every_choice(draft: Callable[[Sequence[bool]], int], layers: int = 16) -> int:
    """Call `draft` with the choices for each layer of a round (True: a call), for every different round there is.

    `draft` returns how many of them the round came to; what lies behind is not varied. Returns how many rounds.
    """
    pending: list[tuple[bool, ...]] = [()]
    rounds = 0
    while pending:
        prefix = pending.pop()
        choices = prefix + (False,) * (layers - len(prefix))
        taken = draft(choices)
        pending += [(*choices[:layer], True) for layer in range(len(prefix), taken)]
        rounds += 1
    return rounds
