"""Static trees: the same shape of ranks every round (Medusa, arXiv 2401.10774; EAGLE-1, arXiv 2401.15077)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from treegraft.policies.base import Policy, Role, Round
from treegraft.policies.drawn import CHOICES, DRAFTING, draw_along
from treegraft.policies.list_settings import parse_list, with_files_read
from treegraft.policies.offers import ask, take
from treegraft.policies.templates import Template, from_paths
from treegraft.settings import SettingError, setting
from treegraft.tree import ROOT

RANKS = 64
"""Most next tokens asked of a drafter after one node."""

MOST_NODES = 1023
"""Most nodes of a shape."""

SHAPES: Mapping[str, Mapping[str, int]] = {
    "eagle1": {"": 4, "0": 3, "1": 2, "2": 2, "3": 1, "00": 3, "01": 2, "02": 2, "10": 1, "000": 3, "0000": 2},
    "medusa": {"": 10, "0": 10, "1": 7, "2": 3, "3": 2} | dict.fromkeys("456789", 1) | {
        "00": 10, "01": 3, "02": 2, "10": 2} | dict.fromkeys(("03", "04", "05", "06", "07", "20"), 1) | {"000": 2},
}
"""The published shapes: how many children each inner node has, by its ranks (EAGLE-1's 25 nodes, Medusa's 63)."""


@dataclass
class Static(Policy):
    """Draft one fixed shape of ranks: "the best next token, and after it the two best ones", and so on.

    The shapes that come with it are those of EAGLE-1's code (levels 4/8/8/3/2) and of Medusa's (10/28/23/2). A shape of
    one's own is a list of rank paths, each with its beginnings: [[0], [1], [0, 0]] has two nodes below the root, and
    one below the better of them. Where children are drawn, a rank is the place of a draw (SpecInfer, arXiv 2305.09781).
    """

    name = "static"
    roles = (Role("drafter", "ranks the next tokens"),)

    tree: str = setting("eagle1", "eagle1, medusa, a list of rank paths such as [[0], [1], [0, 0]], or the path of a "
                                  "JSON file with one.")
    drafting: str = setting("best", DRAFTING, choices=CHOICES)

    @functools.cached_property
    def template(self) -> Template:
        """The shape. Errors: `SettingError`."""
        return shape(self.tree)

    @classmethod
    def from_text(cls, values: Mapping[str, str]) -> Static:
        """As `Configurable.from_text`; the path of a file gives way to what the file holds.

        So a trace holds the whole shape, and reading a trace reads no other file.
        """
        return super().from_text(with_files_read(values, "tree"))

    @property
    def capacity(self) -> int:
        return 1 + self.template.size

    @property
    def drafts(self) -> str:
        return self.drafting

    def draft(self, round: Round) -> None:
        draft_along(round, self.template, self.drafting)


def draft_along(round: Round, template: Template, drafting: str) -> None:
    """Fill the template, one drafter forward a level, with the best tokens or with draws; see `drawn.DRAFTING`."""
    if drafting == "best":
        rank_along(round, template)
    else:
        draw_along(round, template, replacement=drafting == "iid")


def rank_along(round: Round, template: Template) -> None:
    """Fill the template with the tokens of its ranks, and keep what could be filled."""
    drafter, width = round.drafters[0], int(template.rank.max()) + 1
    node = np.full(template.size + 1, -1)
    node[ROOT] = ROOT
    for layer in range(1, int(template.depth.max()) + 1):
        level = np.flatnonzero((template.depth == layer) & (node[template.parent] >= 0))
        if len(level) == 0:
            break
        parents, row = np.unique(node[template.parent[level]], return_inverse=True)
        offers = ask(round, drafter, parents, width)
        if len(offers) == 0:
            break
        known = template.rank[level] < offers.width
        node[level[known]] = take(round, drafter, layer, offers, (row * offers.width + template.rank[level])[known])
    round.prune(template.size)


def shape(text: str) -> Template:
    """The named shape, or the one that is written as a JSON list of rank paths. Errors: `SettingError`."""
    if text in SHAPES:
        counts = SHAPES[text].items()
        return from_paths([[*map(int, path), rank] for path, count in counts for rank in range(count)], RANKS)
    paths = parse_list(text, "tree", f"{', '.join(SHAPES)}, a list of rank paths such as [[0], [1], [0, 0]], or (where "
                       "settings are typed) the path of a .json file with one")
    if not 1 <= len(paths) <= MOST_NODES:
        raise SettingError(f"tree has {len(paths)} paths; allowed: 1 to {MOST_NODES}.")
    return from_paths(paths, RANKS)
