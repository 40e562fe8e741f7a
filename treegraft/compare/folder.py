"""The folder of a comparison: what it is for, the traces of finished jobs, and one trace a policy made of them.

    compare.json            what was asked for
    measured.json           the machine and the date of each start
    parts/POLICY/0007.jsonl.zst      prompt number 7 by this policy, a run a turn
    parts/POLICY/policy.json         the policy's settings
    parts/POLICY/costs.json          what forwards cost, for a policy that decides by it
    POLICY.jsonl.zst        all prompts by this policy
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from treegraft import trace
from treegraft.calibration import CalibrationError, calibrated
from treegraft.compare.job import PLAIN, Job, Request, Result, work
from treegraft.compare.table import Session
from treegraft.files import write_whole
from treegraft.jobs import run_jobs
from treegraft.policy_text import ChosenPolicy
from treegraft.prompt_jobs import Models, claim, shared_costs
from treegraft.prompts import Prompt
from treegraft.run import RunError, choose_drafters

NOTE, SESSIONS, POLICY, COSTS = "compare.json", "measured.json", "policy.json", "costs.json"
LONGEST_NAME = 100
LARGEST_TRACE = 200 << 20
"""Bytes up to which a policy's prompts are also put into one trace; a reader refuses much larger ones."""


def file_name(policy: str) -> str:
    """A name for the files of a policy."""
    name = quote(policy.replace(":", "_"), safe="@+=,")
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]}-{hashlib.sha256(policy.encode()).hexdigest()[:8]}"


def settings_in_use(chosen: ChosenPolicy) -> dict[str, Any]:
    """The settings that a policy's runs will have: a calibration made since the folder was begun changes them.

    Errors: `RunError` for a calibration that cannot be used.
    """
    names = [drafter.label for drafter in choose_drafters(chosen.pair, chosen.policy, chosen.drafters)]
    try:
        return calibrated(chosen.policy, chosen.pair.target.name, names).settings
    except CalibrationError as error:
        raise RunError(str(error)) from None


@dataclass(frozen=True)
class Comparing:
    """A comparison that is under way: what was asked for, and where it goes. `policies` begin with plain decoding."""

    folder: Path
    models: Models
    policies: Sequence[ChosenPolicy]
    prompts: Sequence[Prompt]
    max_new_tokens: int

    def claim(self) -> None:
        """Note in the folder what it is for.

        Errors: `RunError` where it holds other prompts, or was begun with other settings.
        """
        names = {file_name(chosen.text): chosen.text for chosen in self.policies}
        if len(names) < len(self.policies):
            raise RunError("two policies would share a file name; put them into folders of their own.")
        claim(self.folder / NOTE, self.models.described() | {"max_new_tokens": self.max_new_tokens}, self.prompts)
        for chosen in self.policies:
            claim(self._place(chosen.text) / POLICY, {"policy": chosen.text, "settings": settings_in_use(chosen),
                                                      "drafters": chosen.drafters}, ())

    def jobs(self) -> list[Job]:
        """The prompts that lack the trace of a policy, and for a policy that decides by costs, those measured now.

        Errors: `RunError` for a file of costs that is damaged.
        """
        texts = [chosen.text for chosen in self.policies]
        missing = [tuple(text for text in texts if not self._is_finished(text, number))
                   for number in range(len(self.prompts))]
        if not any(missing):
            return []
        request = Request(self.models, self.max_new_tokens, {
            chosen.text: shared_costs(chosen.pair, chosen.policy, chosen.drafters, self._place(chosen.text) / COSTS)
            for chosen in self.policies if chosen.policy.needs_clock or chosen.policy.needs_costs})
        return [Job(request, lacking, number, prompt)
                for number, (prompt, lacking) in enumerate(zip(self.prompts, missing, strict=True)) if lacking]

    def run(self, jobs: Sequence[Job], *, engine: str, workers: int) -> Iterator[tuple[Job, str]]:
        """Do the jobs and keep their traces; yields each with what kept (part of) it from being decoded, if anything.

        Errors: `JobError`, `OSError`.
        """
        for job, result in run_jobs(work, jobs, engine=engine, workers=workers):
            self._keep(job, result)
            yield job, result.problem

    def note_session(self, session: Session) -> None:
        """Write down where and when jobs began."""
        write_whole(self.folder / SESSIONS, msgspec.json.format(msgspec.json.encode([*self.sessions(), session])))

    def sessions(self) -> list[Session]:
        """Where and when jobs began. Errors: `RunError`."""
        path = self.folder / SESSIONS
        try:
            return msgspec.json.decode(path.read_bytes(), type=list[Session]) if path.exists() else []
        except msgspec.DecodeError as error:
            raise RunError(f"{path} is damaged ({error}); remove it and run again.") from None

    def finished(self, policy: str) -> dict[int, Path]:
        """The traces of a policy by prompt number."""
        places = {number: self._part(policy, number) for number in range(len(self.prompts))}
        return {number: path for number, path in places.items() if path.exists()}

    def join(self, policy: str) -> bool:
        """Put a policy's prompts into one trace, in order; whether there is room for them in one."""
        parts = self.finished(policy).values()
        if sum(part.stat().st_size for part in parts) > LARGEST_TRACE:
            return False
        write_whole(self.folder / f"{file_name(policy)}.jsonl.zst", b"".join(part.read_bytes() for part in parts))
        return True

    def _keep(self, job: Job, result: Result) -> None:
        """Write a job's traces, that of plain decoding first: without it the others cannot be judged."""
        for policy in sorted(result.traces, key=PLAIN.__ne__):
            write_whole(self._part(policy, job.number), result.traces[policy])

    def _is_finished(self, policy: str, number: int) -> bool:
        """Whether a trace is there, whole."""
        path = self._part(policy, number)
        try:
            return path.exists() and not trace.open(path).warnings
        except trace.TraceError:
            return False

    def _place(self, policy: str) -> Path:
        return self.folder / "parts" / file_name(policy)

    def _part(self, policy: str, number: int) -> Path:
        return self._place(policy) / f"{number:04d}.jsonl.zst"
