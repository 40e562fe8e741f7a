"""Which models run: a target, and a drafter for each role of the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from app_pages.record.settings import KEEP
from treegraft import public
from treegraft.drafters import SCORING
from treegraft.models.pairs import FREE_DRAFTERS, PAIRS, DrafterSpec
from treegraft.policies import Policy
from treegraft.policies.base import Role
from treegraft.view.labels import name as shown

OTHER = "another model"


@dataclass(frozen=True)
class Models:
    """A target (a pair's name, hub id, folder or GGUF file), and its drafters by name. `load` are those to load, None
    for all of the named pair."""

    target: str
    drafters: dict[str, DrafterSpec]
    load: tuple[str, ...] | None = None

    def fitting(self, role: Role, taken: Sequence[str]) -> list[str]:
        """The drafters that can fill a role, those `taken` by others left out."""
        return [name for name, spec in self.drafters.items()
                if role.fits(spec.kind, spec.kind in SCORING) and name not in taken]


def choose_models() -> Models:
    """A named pair or, among friends, any other target with a drafter of the user's choice."""
    names = public.MODELS if public.is_public() else [*PAIRS, OTHER]
    name = st.selectbox("Target", names, key="pair", **KEEP)
    if name in PAIRS:
        st.caption(PAIRS[name].help)
        return Models(name, PAIRS[name].drafters)
    target = st.text_input("Target model", key="target", placeholder="hub id, folder or .gguf file", **KEEP)
    drafter = st.text_input("Drafter model", key="drafter", placeholder="hub id, folder or .gguf file", **KEEP,
                            help="A smaller model with the same tokens. Leave it empty to copy from the text alone.")
    drafters = dict(FREE_DRAFTERS)
    if drafter := (drafter or "").strip():
        drafters[drafter] = DrafterSpec("lm", drafter)
    return Models((target or "").strip(), drafters, tuple(drafters))


def way_out(models: Models, role: Role) -> str:
    """What can be done where no drafter fills a role. A drafter that is named on this page is a language model."""
    another = "Choose another policy"
    if role.fits("lm", "lm" in SCORING) and models.load is not None:
        return f"{another}, or name a drafter model."
    if public.is_public():
        return f"{another}."
    if role.fits("lm", "lm" in SCORING):
        return f"{another}, or “{OTHER}” as target, for which a drafter can be named."
    return f"{another}; on the command line, `treegraft record --drafter` takes such a drafter."


def choose_drafters(models: Models, policy: Policy) -> tuple[str, ...] | None:
    """A drafter for each role of the policy; None after saying which role cannot be filled."""
    chosen: list[str] = []
    for role in policy.roles:
        names = models.fitting(role, chosen)
        if not names:
            st.warning(f"Policy {policy.name} needs a drafter that {role.help}. {way_out(models, role)}")
            return None
        chosen.append(st.selectbox(role.name.capitalize(), names, key=f"{policy.name}.{role.name}", format_func=shown,
                                   help=f"{role.help.capitalize()}.", **KEEP))
        if note := models.drafters[chosen[-1]].help:
            st.caption(note[0].upper() + note[1:])
    return tuple(chosen)
