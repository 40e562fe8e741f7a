"""Sequoia: the static tree that suits how often the drafter's first, second, ... choice is right (arXiv 2402.12374)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from treegraft.analysis.costs import microseconds
from treegraft.policies.base import Constants, Policy, Role, Round
from treegraft.policies.best_shape import best_trees
from treegraft.policies.drawn import CHOICES, DRAFTING
from treegraft.policies.list_settings import parse_list, with_files_read
from treegraft.policies.static import draft_along
from treegraft.policies.templates import Template
from treegraft.settings import SettingError, setting
from treegraft.trace.records import TARGET, CostCurve

MOST_RATES = 32
"""Most children of one node."""

MEASURED: Mapping[str, tuple[float, ...]] = {
    "smollm2-eagle3": (0.280, 0.129, 0.060, 0.051, 0.048, 0.021, 0.021, 0.021, 0.010, 0.010),
    "smollm2-strong": (0.493, 0.055, 0.055, 0.039, 0.017, 0.017, 0.017, 0.017, 0.017, 0.017),
}
"""Acceptance rates by rank of the default pair's drafters: from runs of `eagle2` on bundled tuning prompts (216 and 92
rounds, fp32), by `treegraft.analysis.ranks`. Ranks that differ by chance, a later one above an earlier one, share their
mean."""


@dataclass
class Sequoia(Policy):
    """Draft the fixed tree whose expected acceptance is the greatest for measured acceptance rates by rank.

    A dynamic programme finds that tree for every number of nodes and layers (section 4.1). `size` says which of them is
    drafted: the one with `budget` nodes, or the one for which the measured costs promise the most tokens a second,
    `(layers * drafter forward + target forward) / expected tokens` being the least (section 4.3).

    The children are the drafter's best tokens, or drawn without replacement, as in the paper, where the target samples.
    """

    name = "sequoia"
    roles = (Role("drafter", "ranks the next tokens"),)

    budget: int = setting(63, "Drafted nodes that the target verifies in a round, at most.", low=1, high=767)
    depth: int = setting(8, "Most layers drafted in a round, one drafter forward each.", low=1, high=32)
    acceptance: str = setting(
        "smollm2-eagle3", "How often the child of each rank is the accepted one: the name of measured rates, a list "
                          "such as [0.6, 0.2, 0.1], or the path of a JSON file with one.")
    size: str = setting("budget", "Use the whole budget, or as much of it as the measured costs make fastest.",
                        choices=("budget", "fastest"))
    drafting: str = setting("best", DRAFTING, choices=CHOICES)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._rates = rates_of(self.acceptance)
        self._drafted: tuple[Constants | None, Template | None] = (None, None)

    @classmethod
    def from_text(cls, values: Mapping[str, str]) -> Sequoia:
        """As `Configurable.from_text`; the path of a file gives way to what the file holds."""
        return super().from_text(with_files_read(values, "acceptance"))

    @property
    def capacity(self) -> int:
        return 1 + self.budget

    @property
    def drafts(self) -> str:
        return self.drafting

    @property
    def needs_costs(self) -> bool:
        return self.size == "fastest"

    def draft(self, round: Round) -> None:
        if self._drafted[0] is not round.constants:
            self._drafted = round.constants, self.template(round.constants, round.drafters[0].id)
        draft_along(round, self._drafted[1], self.drafting)

    def template(self, constants: Constants, drafter: int) -> Template:
        """The tree that is drafted with these costs. Errors: `SettingError` where they are needed and missing."""
        trees = best_trees(self._rates, self.budget + 1, self.depth)
        if self.size == "budget":
            nodes = int((trees.value[self.depth] > 0).nonzero()[0].max())
            depth = int(trees.value[:, nodes].argmax())
        else:
            depth, nodes = fastest(trees.value, *(curve_of(constants.costs, model) for model in (drafter, TARGET)))
        return trees.shape(depth, nodes)


def fastest(value: np.ndarray, drafting: Callable[[float], float],
            verifying: Callable[[float], float]) -> tuple[int, int]:
    """The layers and nodes (root included) with the least time a token, `value` being the expected tokens.

    `drafting` and `verifying` give the time of a forward by its tokens; a layer's forward has its share of the nodes.
    """
    times = {(depth, nodes): (depth * drafting(nodes / depth) + verifying(nodes)) / value[depth, nodes]
             for depth in range(1, len(value)) for nodes in range(2, value.shape[1]) if value[depth, nodes] > 0}
    return min(times, key=times.__getitem__)


def curve_of(costs: Sequence[CostCurve], model: int) -> Callable[[float], float]:
    """What a forward of a model over n tokens costs. Errors: `SettingError` where it was not measured."""
    for curve in costs:
        if curve.model == model:
            return lambda tokens: microseconds(curve, tokens)
    raise SettingError("size was 'fastest', for which the costs of forwards must be measured; there are none here. "
                       "Record with costs, or set size=budget.")


def rates_of(text: str) -> tuple[float, ...]:
    """Acceptance rates by rank, named or written as a JSON list. Errors: `SettingError`."""
    if text in MEASURED:
        return MEASURED[text]
    allowed = (f"{', '.join(MEASURED)}, or a list of 1 to {MOST_RATES} numbers from 0 to 1 that add up to at most 1, "
               "such as [0.6, 0.2, 0.1] (where settings are typed also the path of a .json file with one)")
    rates = parse_list(text, "acceptance", allowed)
    if not (1 <= len(rates) <= MOST_RATES and all(type(rate) in (int, float) and 0 <= rate <= 1 for rate in rates)
            and sum(rates) <= 1 + 1e-6 and rates[0] > 0):
        raise SettingError(f"acceptance was {text[:60]!r}; allowed: {allowed}. The first rate must be above 0.")
    return tuple(map(float, rates))
