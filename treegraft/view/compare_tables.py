"""Tables of the Compare page: what runs did, and which of their settings differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from treegraft.analysis.align import Stretch
from treegraft.analysis.metrics import DEFINITIONS, Summary
from treegraft.trace.runs import Run
from treegraft.view.labels import label, name

NOT_THERE = "–"


def numbers(summaries: Sequence[Summary], titles: Sequence[str]) -> pd.DataFrame:
    """What the runs did, a row a run; all of it was measured or counted. None: not recorded."""
    return pd.DataFrame([{
        "recording": title, "tau": found.tau, "rounds": found.rounds, "tokens": found.tokens, "nodes": found.drafted,
        "draft forwards": sum(model.forwards for model in found.models if model.name != "target"),
        "tokens/s": found.speed.tokens_per_second, "against plain": found.speedup,
    } for found, title in zip(summaries, titles, strict=True)])


HELP = {
    "tau": DEFINITIONS["tau"], "rounds": DEFINITIONS["rounds"], "tokens": DEFINITIONS["tokens"],
    "nodes": "Draft nodes that the target verified, roots not counted.",
    "draft forwards": "Forwards of all drafters that run a model.",
    "tokens/s": DEFINITIONS["tokens/s"], "against plain": DEFINITIONS["speedup"],
}
"""What the columns of `numbers` mean."""


def settings(run: Run) -> dict[str, str]:
    """How a run was made, by name: the policy and its drafters, the target, the decoding, the machine."""
    header = run.header
    found: dict[str, Any] = {"policy": header.policy.name}
    found |= {f"policy: {key}": value for key, value in header.policy.settings.items()}
    drafters = {one.id: one for one in header.drafters}
    used = [drafters[number] for number in header.policy.drafters if number in drafters] or header.drafters
    found["drafters"] = " + ".join(one.name or one.kind for one in used) or "none"
    for one in used:
        found |= {f"{one.name or one.kind}: {key}": value for key, value in one.settings.items()}
    target, decoding, host = header.target, header.decoding, header.host
    found |= {"target": target.name, "target: revision": target.revision, "target: numbers": target.dtype,
              "target: device": target.device}
    found |= {f"decoding: {key}": getattr(decoding, key) for key in decoding.__struct_fields__}
    found |= {"machine": host.machine, "accelerator": host.accelerator, "threads": host.threads, "level": header.level,
              "scheduler": header.scheduler.name if header.scheduler else ""}
    return {name(key): shown(value) for key, value in found.items()}


def shown(value: Any) -> str:
    """The value of a setting for display."""
    if isinstance(value, list):
        return name(", ".join(map(str, value))) or NOT_THERE
    return name(f"{value:g}" if isinstance(value, float) else str(value)) or NOT_THERE


def differing(runs: Sequence[Mapping[str, str]], titles: Sequence[str]) -> pd.DataFrame:
    """The settings that are not the same in all runs, a row each and a column a run."""
    keys = dict.fromkeys(key for one in runs for key in one)
    rows = [[key, *(one.get(key, NOT_THERE) for one in runs)] for key in keys]
    return pd.DataFrame([row for row in rows if len(set(row[1:])) > 1], columns=["setting", *titles])


def stretch_table(found: Sequence[Stretch], run: Run, titles: Sequence[str]) -> pd.DataFrame:
    """Where accepted lengths differ: positions, their text, and the round and accepted length of each run."""
    output = run.output
    return pd.DataFrame([{
        "positions": f"{one.start} to {one.end - 1}" if one.end - one.start > 1 else str(one.start),
        "text": "".join(label(run.pieces.get(token)) for token in output[one.start:one.end]),
        "difference": one.difference,
        **{title: f"{accepted} in round {round}" for title, round, accepted in zip(titles, one.rounds, one.accepted,
                                                                                  strict=True)},
    } for one in found])
