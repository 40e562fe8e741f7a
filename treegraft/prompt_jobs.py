"""Jobs that decode prompts and fill a folder, a file a job, so that the work can go on after an interrupt and be shared
among workers: what `treegraft values` and `treegraft compare` have in common."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from treegraft.files import write_whole
from treegraft.models import Pair, load
from treegraft.models.pairs import DrafterSpec
from treegraft.models.target import Target
from treegraft.policies import Policy
from treegraft.prompts import Prompt
from treegraft.run import DEFAULT_CONTEXT, RunError, choose_drafters, measure_costs
from treegraft.trace.records import CostCurve


@dataclass(frozen=True)
class Models:
    """The pair that every worker loads: a target, its drafters, and further options of `load`."""

    target: str
    drafters: Mapping[str, DrafterSpec]
    options: Mapping[str, Any]

    def described(self) -> dict[str, Any]:
        """What tells it from other pairs, for `claim`."""
        drafters = {name: [spec.kind, str(spec.weights or ""), spec.settings] for name, spec in self.drafters.items()}
        return {"target": self.target, "drafters": drafters, "load_options": dict(self.options)}


_loaded: list[tuple[Models, Pair]] = []


def loaded(models: Models) -> Pair:
    """The pair, loaded once a worker. Errors: as `load`."""
    if not _loaded or _loaded[0][0] != models:
        _loaded[:] = [(models, load(models.target, models.drafters, **models.options))]
    return _loaded[0][1]


def lend(models: Models, pair: Pair) -> None:
    """Let jobs in this process use a pair that is loaded already."""
    _loaded[:] = [(models, pair)]


def digests(prompts: Sequence[Prompt]) -> list[str]:
    """What tells prompts apart, for `claim`."""
    whole = [[*prompt.conversation(), *prompt.turns[1:]] for prompt in prompts]
    return [hashlib.sha256(json.dumps(messages).encode()).hexdigest()[:16] for messages in whole]


def claim(note: Path, asked: Mapping[str, Any], prompts: Sequence[Prompt]) -> None:
    """Make the folder of `note`, and write there what it is for: its files are told apart by prompts' numbers alone.

    Errors: `RunError` for a folder of other prompts (more or fewer of the same are no others) or other settings.
    """
    asked = json.loads(json.dumps({**asked, "prompts": digests(prompts)}))
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"the folder {note.parent} cannot be made: {error.strerror}. Give another --out.") from None
    try:
        before = json.loads(note.read_bytes()) if note.exists() else {}
        known = before.get("prompts", [])
        shared = min(len(known), len(prompts))
        same = asked["prompts"][:shared] == known[:shared]
        expected = asked | ({"prompts": known} if same else {})
        other = [name for name, value in expected.items() if before and before.get(name) != value]
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(f"{note} is damaged ({error}); give another --out, or remove the folder.") from None
    if other:
        raise RunError(f"{note.parent} was begun with other {' and '.join(other)}; give another --out, or the same "
                       "options.")
    if not before or len(known) < len(prompts):
        write_whole(note, (json.dumps(asked, indent=1) + "\n").encode())


def shared_costs(pair: Pair, policy: Policy, drafters: Sequence[str] | None, path: Path) -> tuple[CostCurve, ...]:
    """The cost curves that all jobs decide by: those in the file at `path`, else measured now and written there."""
    if path.exists():
        try:
            return tuple(msgspec.json.decode(path.read_bytes(), type=list[CostCurve]))
        except msgspec.DecodeError as error:
            raise RunError(f"{path} is damaged ({error}); remove it and run again.") from None
    chosen = choose_drafters(pair, policy, drafters)
    found = measure_costs(Target(pair.target.cached(DEFAULT_CONTEXT)), chosen)
    write_whole(path, msgspec.json.encode(found))
    return tuple(found)
