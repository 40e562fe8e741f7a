"""Pairs of rejected and chosen tokens as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from treegraft.analysis.rejections import Pair
from treegraft.trace.runs import Run
from treegraft.view.labels import label, name

if TYPE_CHECKING:
    import pandas

COULD = {True: "yes", False: "no, not in its vocabulary", None: "not known"}

HELP = {
    "Drafted": "The token that the drafter proposed and the target rejected.",
    "Chosen": "The token that the target's text has at this place.",
    "Drafter": "The drafter that proposed the rejected token first.",
    "Times": "How often the target chose this token instead of that one.",
    "Gap": "Mean difference of the two tokens' log-probabilities under the target, in nats. A small one is a close"
           " call; below 0 a less likely token was drawn at random.",
    "p of drafted": "Mean probability of the drafted token under the target.",
    "p of chosen": "Mean probability of the chosen token under the target.",
    "Can propose it": "Whether the drafter can propose the chosen token at all. Where it has a vocabulary of its own,"
                      " the recording knows of the tokens that it proposed somewhere or was asked about.",
    "Was pruned": "How often the chosen token had been drafted at this place, too, and was pruned before the target saw"
                  " it.",
}
"""What each column means."""


def pair_table(run: Run, pairs: Sequence[Pair]) -> pandas.DataFrame:
    """One row a pair, in the order of `pairs`; columns are the keys of `HELP`."""
    import pandas

    names = {drafter.id: name(drafter.name or drafter.kind) for drafter in run.header.drafters}
    return pandas.DataFrame([{
        "Drafted": label(run.pieces.get(pair.drafted)), "Chosen": label(run.pieces.get(pair.chosen)),
        "Times": pair.count, "Gap": pair.gap, "p of drafted": pair.p_drafted, "p of chosen": pair.p_chosen,
        "Drafter": names[pair.drafter], "Can propose it": COULD[pair.could], "Was pruned": pair.pruned,
    } for pair in pairs])
