"""Calibrate Graft's gates for a pair: record warm-up texts without gates, then replay them with gates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from treegraft.analysis import gates
from treegraft.analysis.gates import LEAST_AUC, Readings
from treegraft.batch import REFUSALS, record_prompts
from treegraft.calibration import Calibration, CalibrationError, GateReport
from treegraft.models import Pair
from treegraft.policies.graft import DEPTHS, STAGES, THRESHOLDS, Graft
from treegraft.prompts import Prompt
from treegraft.run import choose_drafters
from treegraft.trace.runs import Run

UNGATED, PAPER, CALIBRATED = "no gates", "the paper's thresholds", "calibrated"


@dataclass
class Survey:
    """Runs of the ungated policy, recorded densely: all that a calibration is computed from."""

    policy: Graft
    runs: list[Run] = field(default_factory=list)

    def record(self, pair: Pair, prompts: Sequence[Prompt], drafters: Sequence[str] | None,
               max_new_tokens: int) -> Iterator[str]:
        """Record the first turn of every prompt; yields after each one why it was left out, empty where it was not.

        Errors: `RunError` for drafters that do not fit; `CalibrationError` for a retriever that learns from rejected
        nodes, whose rounds cannot be replayed; `KeyboardInterrupt` where the user stops it.
        """
        for drafter in choose_drafters(pair, self.policy, drafters):
            if drafter.state != "context":
                raise CalibrationError(f"{drafter.label} proposes by what earlier rounds verified, so its rounds "
                                       "cannot be replayed. Calibrate with its setting learn=committed.")
        firsts = [Prompt(one.id, one.turns[:1], one.history, one.category, one.split) for one in prompts]
        for _, result in record_prompts(pair, firsts, self.policy.ungated, drafters=drafters, level="dense",
                                        max_new_tokens=max_new_tokens):
            if isinstance(result, REFUSALS):
                yield str(result)
                continue
            if is_cut(result.run):
                raise KeyboardInterrupt
            self.runs.append(result.run)
            yield ""

    def calibrate(self, least_auc: float = LEAST_AUC, command: str = "",
                  on_run: Callable[[], None] = lambda: None) -> Calibration:
        """The gates that suit the runs. `on_run` is called twice for each run, when it was read and when it was
        replayed.

        Errors: `CalibrationError` where no run has a round.
        """
        parts = []
        for run in self.runs:
            parts.append(gates.read(run, self.policy))
            on_run()
        if not sum(len(part.accepted) for part in parts):
            raise CalibrationError("no prompt was answered with more than one token; give other prompts.")
        readings = Readings.concatenate(parts)
        chosen, taus, found = self._thresholds(readings, gates.choose_depths(readings, least_auc), on_run)
        header = self.runs[0].header
        return Calibration(
            target=header.target.name, drafter=header.drafters[0].name, retriever=header.drafters[1].name,
            gates=gates.gates_text(chosen), **{f"tau_{stage}": tau for stage, tau in zip(STAGES, taus, strict=True)},
            depths=report(readings, chosen), speeds=found, prompts=len(self.runs),
            created=datetime.now(UTC).isoformat(timespec="seconds"), command=command)

    def _thresholds(self, readings: Readings, chosen: dict[str, int],
                    on_run: Callable[[], None]) -> tuple[dict[str, int], gates.Thresholds, dict[str, float]]:
        """The gates and thresholds that are fastest, and the estimated speeds; the paper's, where no others are faster.

        Without times they are the thresholds by Youden's J, and there are no speeds.
        """
        tried, text = gates.candidates(readings, chosen), gates.gates_text(chosen)
        policies = [gates.with_thresholds(self.policy, text, taus) for taus in tried]
        ungated, paper, *found = gates.speeds(
            self.runs, [self.policy.ungated, self.policy.with_gates(), *policies], on_run)
        if not ungated:
            own = {stage: round(gates.youden(*readings.at(depth)), 4) for stage, depth in chosen.items()}
            return chosen, tuple(own.get(stage, 0.0) for stage in STAGES), {}
        best = max(range(len(tried)), key=lambda number: (found[number], -sum(tried[number])))
        speeds = {UNGATED: ungated, PAPER: paper, CALIBRATED: max(found[best], paper)}
        if paper > found[best]:
            return dict(zip(STAGES, DEPTHS, strict=True)), THRESHOLDS, speeds
        return chosen, tried[best], speeds


def is_cut(run: Run) -> bool:
    """Whether the user stopped it, perhaps while its probes were taken."""
    return run.end.reason == "interrupted" or len(run.probes) < len(run.header.drafters) * (len(run.output) - 1)


def report(readings: Readings, chosen: dict[str, int]) -> list[GateReport]:
    """What was read at every depth, and which gate stands there."""
    names = {depth: stage for stage, depth in chosen.items()}
    found = []
    for depth in range(readings.confidence.shape[1]):
        values, labels = readings.at(depth)
        found.append(GateReport(depth=depth, positions=len(labels), beyond=float(labels.mean()) if len(labels) else 0.0,
                                auc=gates.auc(values, labels), chosen=names.get(depth, "")))
    return found
