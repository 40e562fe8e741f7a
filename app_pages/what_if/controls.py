"""The settings that a replay may change, as widgets; the address keeps those that differ from the recorded ones."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app_pages.record.words import plain
from app_pages.shared.recording import Opened
from treegraft.analysis.cost_profile import CostProfile
from treegraft.analysis.text import visible
from treegraft.policies.base import Policy
from treegraft.settings import Setting, SettingError, settings_of
from treegraft.view.labels import cut

REACH = 4
"""A slider goes up to this many times the recorded value, where the setting's own range does not end before."""

UNBOUNDED = 200.0
"""How far a slider without bounds goes to both sides of the recorded value."""

LONGEST = 24
"""Characters of a recorded text that stand in a label."""

COSTS = ("what if target", "what if drafters")
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


def choose_settings(opened: Opened, policy: Policy) -> dict[str, Any]:
    """The settings that were changed, by name."""
    follow_link(opened, policy)
    changed = {}
    columns = st.columns(2)
    for place, item in enumerate(settings_of(type(policy))):
        recorded = getattr(policy, item.name)
        with columns[place % 2]:
            value = widget(item, recorded, key_of(opened, item.name))
        if value != recorded:
            changed[item.name] = value
    if changed:
        st.query_params["set"] = ",".join(f"{name}:{value}" for name, value in changed.items())
    elif "set" in st.query_params:
        del st.query_params["set"]
    st.button("Back to the recorded settings", icon=":material/undo:", disabled=not changed, on_click=forget,
              args=(opened, policy))
    return changed


def key_of(opened: Opened, name: str) -> str:
    return f"what if {opened.key} {name}"


def forget(opened: Opened, policy: Policy) -> None:
    for item in settings_of(type(policy)):
        st.session_state[key_of(opened, item.name)] = getattr(policy, item.name)


def follow_link(opened: Opened, policy: Policy) -> None:
    """Take the settings that the address names, once for each recording."""
    seen = f"what if link {opened.key}"
    if st.session_state.get(seen):
        return
    st.session_state[seen] = True
    known = {item.name: item for item in settings_of(type(policy))}
    for name, _, text in (one.partition(":") for one in st.query_params.get("set", "").split(",")[: len(known)]):
        if name in known:
            try:
                value = known[name].parse(text)
                known[name].check(value)
            except SettingError:
                st.warning(f"The link asks for what cannot be set: {name}. Allowed: {known[name].allowed}.")
                continue
            st.session_state[key_of(opened, name)] = within(known[name], getattr(policy, name), value)


def within(item: Setting, recorded: Any, value: Any) -> Any:
    """What a link asks for, as far as the slider goes, with a word where that is not all the way."""
    if item.type not in (int, float):
        return value
    low, high = limits(item, recorded)
    if not low <= value <= high:
        st.warning(f"The link asks for {item.name} {value}; here it can be from {low} to {high}.")
    return min(max(value, low), high)


def widget(item: Setting, recorded: Any, key: str) -> Any:
    """The widget of one setting, at first at the recorded value; returns its value."""
    st.session_state.setdefault(key, recorded)
    before = plain(cut(visible(recorded), LONGEST)) if item.type is str else recorded
    label = f"{item.name} (recorded: {before})"
    options = {"key": key, "help": item.help, "persist_state": "session"}
    if item.choices:
        return st.selectbox(label, item.choices, **options)
    if item.type is bool:
        return st.toggle(label, **options)
    if item.type is str:
        return st.text_input(label, **options)
    low, high = limits(item, recorded)
    return st.slider(label, low, high, step=None if item.type is int else step_of(low, high), **options)


def limits(item: Setting, recorded: Any) -> tuple[Any, Any]:
    """How far a slider goes."""
    if item.low is None or item.high is None:
        return item.type(recorded - UNBOUNDED), item.type(recorded + UNBOUNDED)
    reach = max(item.low + 1, REACH * abs(recorded), 8) if item.type is int else item.high
    wide = item.high - item.low > 2 * UNBOUNDED
    if item.type is float and wide:
        return max(item.low, recorded - UNBOUNDED), min(item.high, recorded + UNBOUNDED)
    return item.type(item.low), item.type(min(item.high, reach))


def step_of(low: float, high: float) -> float:
    return 0.01 if high - low <= 2 else 1.0


def choose_costs() -> CostProfile:
    """How expensive forwards are, against what was measured."""
    def times(factor: float) -> str:
        return "as measured" if factor == 1 else f"{factor:g} times as long"

    follow_costs()
    with st.container(horizontal=True):
        target = st.selectbox("A forward of the target takes", FACTORS, format_func=times, key=COSTS[0],
                              persist_state="session", help="The measured curve of the target, stretched.")
        drafters = st.selectbox("A forward of a drafter takes", FACTORS, format_func=times, key=COSTS[1],
                                persist_state="session", help="The measured curves of all drafters, stretched.")
    if (target, drafters) != (1.0, 1.0):
        st.query_params["costs"] = f"{target:g},{drafters:g}"
    elif "costs" in st.query_params:
        del st.query_params["costs"]
    return CostProfile(target, drafters)


def follow_costs() -> None:
    """Take the costs that the address names when one comes to the page; those on offer, the rest is left out."""
    if COSTS[0] in st.session_state:
        return
    offered = {f"{factor:g}": factor for factor in FACTORS}
    linked = st.query_params.get("costs", "").split(",")
    for place, key in enumerate(COSTS):
        st.session_state[key] = offered.get(linked[place], 1.0) if len(linked) == len(COSTS) else 1.0
