"""What is asked for before a run: the prompt, the settings, and the button that starts it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app_pages.record.demo import demo_switch
from app_pages.record.limits import choose_level, choose_limits, choose_race
from app_pages.record.models import Models, choose_drafters, choose_models
from app_pages.record.playlist import edit_list, step_buttons
from app_pages.record.prompt import choose_prompt
from app_pages.record.settings import choose_policy, choose_sampling
from app_pages.record.start import begin, offer_fetch
from app_pages.shared.look import emphasis
from treegraft.live import Request, first_turn
from treegraft.models.pairs import PAIRS


@dataclass(frozen=True)
class Chosen:
    """The models, and the request that the settings make, without its prompt; None where a setting does not fit."""

    models: Models
    request: Request | None

    @property
    def must_fetch(self) -> bool:
        return self.models.target in PAIRS and not PAIRS[self.models.target].target.is_here

    def asking(self, prompt: str) -> Request | None:
        """The request for `prompt`; None after saying what is missing."""
        if not prompt.strip():
            st.warning("There is no prompt yet: write one, or take an example.")
        elif not self.models.target:
            st.warning("The target model has no name yet: give a hub id, a folder or a .gguf file.")
        elif self.request:
            return replace(self.request, prompt=first_turn(prompt))
        return None


def choose_settings(models_card: DeltaGenerator, policy_card: DeltaGenerator, limits_card: DeltaGenerator) -> Chosen:
    """Draw the settings into three places."""
    with models_card:
        models = choose_models()
    with policy_card:
        policy = choose_policy()
    with models_card:
        drafters = choose_drafters(models, policy) if policy else None
    with limits_card:
        limit, stop = choose_limits()
        sampling = choose_sampling(policy) if policy else None
        level = choose_level(policy, sampling) if policy and sampling else "run"
        race = choose_race()
    if policy is None or sampling is None or drafters is None or not models.target:
        return Chosen(models, None)
    return Chosen(models, Request(models.target, policy, "", models.load, None if models.load else drafters, limit,
                                  stop, sampling, level=level, race=race))


def compose() -> None:
    """Prompt and settings, and the button that starts a run."""
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.subheader("Record a run", anchor=False)
        demo_switch()
    st.caption("The models run on this machine. Every draft tree is written down, and shown while the text is decoded.")
    ask = st.container()
    chosen = choose_settings(*(column.container(border=True, height="stretch") for column in st.columns([5, 6, 4])))
    with ask:
        prompt = choose_prompt()
        edit_list(prompt)
        if chosen.must_fetch:
            offer_fetch(chosen.models.target)
            return
        with st.container(horizontal=True):
            asked = st.button("Record", type=emphasis())
            step_buttons(chosen.request)
        if asked and (request := chosen.asking(prompt)):
            begin(request)
