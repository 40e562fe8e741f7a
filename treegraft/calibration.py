"""Calibrations: the gates of Graft as `treegraft calibrate` chose them for a pair of models, in a small JSON file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from treegraft.home import home
from treegraft.policies.base import Policy
from treegraft.policies.graft import Graft
from treegraft.settings import SettingError

BUNDLED = Path(__file__).parents[1] / "assets" / "calibrations"
LARGEST = 1 << 16
"""Bytes of a file."""

Text = Annotated[str, Meta(max_length=4096)]
Share = Annotated[float, Meta(ge=0, le=1)]


class CalibrationError(ValueError):
    """A calibration that cannot be used or written; the text says why and what to do."""


class GateReport(msgspec.Struct, frozen=True, kw_only=True):
    """How well the confidence at one depth tells whether more is accepted: `auc` is the chance that it is higher at a
    position where the text is accepted beyond the depth than at one where it is not (None without both kinds).

    Of the `positions`, a share of `beyond` are accepted further. `chosen` names the gate that stands there.
    """

    depth: int
    positions: int
    beyond: Share
    auc: Share | None = None
    chosen: str = ""


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """Gates for a pair: their depths, and a threshold for each, 0 for a gate that is switched off.

    `speeds` are estimated tokens per second on the warm-up texts, by name; empty where nothing was timed.
    """

    target: Text
    drafter: Text
    retriever: Text
    gates: Text
    tau_d0: Share
    tau_d1: Share
    tau_d5: Share
    depths: list[GateReport] = []
    speeds: dict[str, float] = {}
    prompts: int = 0
    created: Text = ""
    command: Text = ""

    @property
    def settings(self) -> dict[str, str | float]:
        """The settings of `graft`."""
        return {"gates": self.gates, "tau_d0": self.tau_d0, "tau_d1": self.tau_d1, "tau_d5": self.tau_d5}

    @property
    def arguments(self) -> str:
        """The settings as arguments of a command."""
        return " ".join(f"--set {name}={value}" for name, value in self.settings.items())


def file_name(target: str, drafter: str, retriever: str) -> str:
    return "-".join(re.sub(r"[^\w.]+", "_", name) for name in (target, drafter, retriever)) + ".json"


def place(target: str, drafter: str, retriever: str) -> Path:
    """Where a calibration that the user made for these models is kept."""
    return home() / "calibrations" / file_name(target, drafter, retriever)


def find(target: str, drafter: str, retriever: str) -> Calibration | None:
    """The user's calibration for these models, else the one that comes with them, else None.

    Errors: `CalibrationError`.
    """
    for path in (place(target, drafter, retriever), BUNDLED / file_name(target, drafter, retriever)):
        if path.is_file():
            found = load(path)
            if (found.target, found.drafter, found.retriever) == (target, drafter, retriever):
                return found
    return None


def load(path: Path) -> Calibration:
    """The calibration in a file. Errors: `CalibrationError`."""
    try:
        if path.stat().st_size > LARGEST:
            raise CalibrationError(f"{path} has {path.stat().st_size} bytes; a calibration takes at most {LARGEST}.")
        found = msgspec.json.decode(path.read_bytes(), type=Calibration)
        Graft(**found.settings)
    except OSError as error:
        raise CalibrationError(f"{path} cannot be read: {error.strerror}.") from None
    except (msgspec.DecodeError, RecursionError, SettingError) as error:
        raise CalibrationError(f"{path} is no calibration: {error} Make one with `treegraft calibrate`, or remove the "
                               "file.") from None
    return found


def save(calibration: Calibration, path: Path) -> None:
    """Write a calibration, whole or not at all. Errors: `CalibrationError`."""
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(msgspec.json.format(msgspec.json.encode(calibration), indent=2) + b"\n")
        part.replace(path)
    except OSError as error:
        raise CalibrationError(f"{path} cannot be written: {error.strerror}. Give another --out.") from None


def calibrated(policy: Policy, target: str, drafters: Sequence[str]) -> Policy:
    """A policy `graft` with all its gates and thresholds as numbers: the user's, where they are not set those of the
    calibration for these models, and else the paper's. Other policies stay as they are.

    Thresholds belong to their gates: with gates of the user's own, those of a calibration for others are not taken.
    Errors: `CalibrationError` for a file that cannot be used.
    """
    if not isinstance(policy, Graft):
        return policy
    found = None if policy.is_set else find(target, *drafters)
    return policy.with_gates(found.gates, (found.tau_d0, found.tau_d1, found.tau_d5)) if found else policy.with_gates()
