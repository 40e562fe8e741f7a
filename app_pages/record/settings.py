"""The policy and its settings, and how tokens are drawn: what a setting is comes from its dataclass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

from treegraft.policies import POLICIES, Policy
from treegraft.public import shown
from treegraft.sampling import FITTING, LARGEST_SEED, Sampling, rule_for, rules_for
from treegraft.settings import Setting, SettingError, settings_of
from treegraft.verify import RULES

KEEP = {"persist_state": "session"}
"""Widgets keep their value while another page, or a run, is on the screen."""


def choose_policy() -> Policy | None:
    """A policy with its settings; None after showing what is wrong with a setting."""
    kind = POLICIES[st.selectbox("Policy", list(POLICIES), list(POLICIES).index("eagle2"), key="policy", **KEEP)]
    st.caption(kind.__doc__.partition("\n")[0])
    try:
        return kind(**choose_values(kind))
    except SettingError as error:
        st.error(shown(str(error)))
        return None


def choose_values(kind: type[Policy]) -> dict[str, Any]:
    """The settings of a policy. Switches stand below the others: a column is too narrow for one with its name."""
    items = settings_of(kind)
    switches = [item for item in items if item.type is bool]
    fields = [item for item in items if item not in switches]
    columns = st.columns(min(len(fields), 3)) if fields else []
    values = {}
    for place, item in enumerate(fields):
        with columns[place % len(columns)]:
            values[item.name] = setting_widget(item, f"{kind.name}.{item.name}")
    return values | {item.name: setting_widget(item, f"{kind.name}.{item.name}") for item in switches}


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
