"""Widgets that choose what to run: models, a policy and its settings, limits, a prompt. What there is to choose comes
from the registries, and what a setting is from its dataclass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from treegraft.drafters import SCORING
from treegraft.models.pairs import FREE_DRAFTERS, PAIRS, DrafterSpec
from treegraft.policies import POLICIES, Policy
from treegraft.policies.base import Role
from treegraft.prompts import Prompt, bundled
from treegraft.sampling import FITTING, LARGEST_SEED, Sampling, rule_for, rules_for
from treegraft.settings import Setting, SettingError, settings_of
from treegraft.verify import RULES
from treegraft.view.model import cut

OTHER = "another model"
MAX_NEW_TOKENS = 8192
EXAMPLE_LENGTH = 110
KEEP = {"persist_state": "session"}
"""Widgets keep their value while another page, or a run, is on the screen."""


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
    """A named pair, or any other target with a drafter of the user's choice."""
    name = st.selectbox("Target", [*PAIRS, OTHER], key="pair", **KEEP)
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


def choose_policy() -> Policy | None:
    """A policy with its settings; None after showing what is wrong with a setting."""
    kind = POLICIES[st.selectbox("Policy", list(POLICIES), list(POLICIES).index("eagle2"), key="policy", **KEEP)]
    st.caption(kind.__doc__.partition("\n")[0])
    items = settings_of(kind)
    columns = st.columns(min(len(items), 3)) if items else []
    values = {}
    for place, item in enumerate(items):
        with columns[place % len(columns)]:
            values[item.name] = setting_widget(item, f"{kind.name}.{item.name}")
    try:
        return kind(**values)
    except SettingError as error:
        st.error(str(error))
        return None


def setting_widget(item: Setting, key: str) -> Any:
    """The widget for one setting; returns its value."""
    label = f"`{item.name}`"
    if item.choices:
        return st.selectbox(label, item.choices, item.choices.index(item.default), key=key, help=item.help, **KEEP)
    if item.type is bool:
        return st.toggle(label, item.default, key=key, help=item.help, **KEEP)
    if item.type in (int, float):
        low, high = (None if bound is None else item.type(bound) for bound in (item.low, item.high))
        return st.number_input(label, low, high, item.default, key=key, help=item.help, **KEEP)
    return st.text_input(label, item.default, key=key, help=item.help, **KEEP)


def choose_drafters(models: Models, policy: Policy) -> tuple[str, ...] | None:
    """A drafter for each role of the policy; None after saying which role cannot be filled."""
    chosen: list[str] = []
    for role in policy.roles:
        names = models.fitting(role, chosen)
        if not names:
            st.warning(f"Policy {policy.name} needs a drafter that {role.help}. Name a drafter model, or choose "
                       "another policy.")
            return None
        chosen.append(st.selectbox(role.name.capitalize(), names, key=f"{policy.name}.{role.name}",
                                   help=f"{role.help.capitalize()}.", **KEEP))
        if note := models.drafters[chosen[-1]].help:
            st.caption(note)
    return tuple(chosen)


def choose_limits() -> tuple[int, tuple[str, ...]]:
    """The most new tokens, and the texts that end the answer."""
    limit = st.number_input("Most new tokens", 1, MAX_NEW_TOKENS, 256, key="max_new_tokens", **KEEP)
    stop = st.multiselect("Stop texts", [], key="stop", accept_new_options=True, placeholder="None", **KEEP,
                          help="The answer ends at the first of these. Write \\\\n for a line break.")
    st.caption("One sequence, in bfloat16 where this machine is fast in it, else in float32.")
    return limit, tuple(text.replace("\\n", "\n") for text in stop)


def choose_sampling(policy: Policy) -> Sampling | None:
    """Greedy decoding, or how tokens are drawn; None after showing what is wrong."""
    items = {item.name: item for item in settings_of(Sampling)}
    values = {"temperature": setting_widget(items["temperature"], "sampling.temperature")}
    if values["temperature"] > 0:
        items["rule"] = replace(items["rule"], choices=(FITTING, *rules_for(policy)[1:]))
        values |= {name: setting_widget(items[name], f"sampling.{name}") for name in ("top_k", "top_p", "min_p")}
        values["seed"] = st.number_input("`seed`", 0, LARGEST_SEED, None, key="sampling.seed", **KEEP,
                                         placeholder="drawn anew", help="The same seed draws the same text.")
        values["rule"] = setting_widget(items["rule"], f"sampling.rule.{policy.drafts}")
    try:
        sampling = Sampling(**values)
        rule = rule_for(policy, sampling)
    except SettingError as error:
        st.error(str(error))
        return None
    if rule == "greedy":
        st.caption("Greedy decoding: the target's favourite at every place.")
    else:
        st.caption(f"Verified by the rule {rule}: the text is distributed as the target's own." if RULES[rule].lossless
                   else f"Verified by the rule {rule}, which changes the distribution of the text.")
    return sampling


@st.cache_data
def examples() -> dict[str, Prompt]:
    """The bundled prompts by their id."""
    return {prompt.id: prompt for prompt in bundled()}


def choose_prompt() -> str:
    """A text of the user's own, or one of the bundled prompts to start from."""
    prompt = st.text_area("Prompt", key="prompt", height=132, placeholder="Ask something …", **KEEP)
    categories = list(dict.fromkeys(example.category for example in examples().values()))
    category = st.pills("Or take an example", categories, key="category", format_func=str.capitalize,
                        on_change=take_first, **KEEP)
    if category:
        names = [name for name, example in examples().items() if example.category == category]
        st.selectbox("Example", names, key="example", on_change=take, label_visibility="collapsed", **KEEP,
                     format_func=lambda name: cut(" ".join(examples()[name].turns[0].split()), EXAMPLE_LENGTH))
    return prompt or ""


def take_first() -> None:
    """Take the first example of the category that was chosen."""
    if category := st.session_state.category:
        st.session_state.example = next(name for name, one in examples().items() if one.category == category)
        take()


def take() -> None:
    """Put the chosen example into the prompt."""
    st.session_state.prompt = examples()[st.session_state.example].turns[0]
