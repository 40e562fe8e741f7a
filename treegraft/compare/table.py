"""The numbers of a comparison: pure functions of the traces of its policies. No torch.

Counts are added up over all rounds before they are divided. Speeds are compared prompt by prompt with plain decoding by
the same worker in the same job, and only then summed up as median and quartiles.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from treegraft.analysis.agreement import NEAR_TIE, first_difference, margins
from treegraft.analysis.metrics import Speed, Summary, ratio, summary
from treegraft.analysis.spread import Spread, spread
from treegraft.trace.records import TargetInfo
from treegraft.trace.runs import Run

BOTH = "both"
"""Origin of accepted tokens that several drafters proposed."""

STRICTEST = min(NEAR_TIE.values())


@dataclass(frozen=True)
class Session:
    """One start of a comparison: `busy` if other work took much of the machine just before."""

    date: str
    machine: dict[str, str | int | float | bool | None]
    busy: bool
    engine: str
    workers: int


@dataclass(frozen=True)
class Setup:
    """What was compared, and where. `hosts` are the machines, accelerators and threads that decoded."""

    target: str
    parameters: int
    dtype: str
    device: str
    prompts: int
    turns: int
    prompt_tokens: int
    max_new_tokens: int
    first_date: str
    last_date: str
    hosts: list[str]
    sessions: list[Session]
    left_out: list[str]
    """Ids of the prompts that could not be asked."""


@dataclass(frozen=True)
class Row:
    """One policy on the prompts of one category, or on all of them (`category` is None).

    `tau` counts the bonus token, `mean_accepted` does not; `node_yield` is accepted / verified nodes. `forwards` are
    drafter forwards a round by drafter; `phases` milliseconds a round, `prefill` milliseconds a turn. `over_plain` is
    the ratio of tokens/s to plain decoding, a value a prompt; `set_over_plain` that of all prompts together. `origins`
    counts accepted tokens by the drafter that alone proposed them. `same`, `near_ties` and `differing` count turns by
    their text against that of plain decoding.
    """

    policy: str
    category: str | None
    prompts: int
    turns: int
    rounds: int
    tokens: int
    tau: float | None
    mean_accepted: float | None
    node_yield: float | None
    forwards: dict[str, float]
    phases: dict[str, float]
    prefill: float | None
    tokens_per_second: float | None
    over_plain: Spread | None
    set_over_plain: float | None
    origins: dict[str, int]
    same: int
    near_ties: int
    differing: int

    @property
    def draft_forwards(self) -> float:
        """Drafter forwards a round."""
        return sum(self.forwards.values())


@dataclass(frozen=True)
class Difference:
    """A text that is not that of plain decoding, of the prompt with this number and id.

    It differs from the new token at `place` on, where the target preferred its own by `margin` nats (None where the
    trace does not say); `near_tie` says that rounding can explain the difference."""

    policy: str
    prompt: int
    id: str
    turn: int
    place: int
    margin: float | None
    near_tie: bool


@dataclass(frozen=True)
class Comparison:
    """A finished comparison. `rows` hold all policies for all prompts, then for each category; the first policy is
    plain decoding."""

    setup: Setup
    rows: list[Row]
    differences: list[Difference]

    @property
    def total(self) -> list[Row]:
        """A row for each policy, over all prompts."""
        return [row for row in self.rows if row.category is None]

    @property
    def categories(self) -> list[str]:
        return list(dict.fromkeys(row.category for row in self.rows if row.category is not None))

    def of_category(self, category: str) -> list[Row]:
        """A row for each policy, over the prompts of one category."""
        return [row for row in self.rows if row.category == category]


@dataclass(frozen=True)
class Decoded:
    """What is counted of one run. `margins` are those of plain decoding, in nats."""

    prompt: int
    turn: int
    category: str
    prompt_tokens: int
    output: list[int]
    counts: Summary
    target: TargetInfo
    date: str
    host: str
    margins: list[float | None] = field(default_factory=list)


def read_run(run: Run, is_plain: bool) -> Decoded:
    """Read a run once. Errors: `TraceError` for a damaged one."""
    header = run.header
    host = ", ".join(filter(None, (header.host.machine, header.host.accelerator, f"threads: {header.host.threads}")))
    return Decoded(header.index, header.turn, header.group, len(header.prompt.tokens), run.output, summary(run),
                   header.target, header.created[:10], host, margins(run) if is_plain else [])


def compare_runs(runs: Mapping[str, Sequence[Decoded]], plain: str, ids: Sequence[str], *, max_new_tokens: int,
                 sessions: Sequence[Session] = ()) -> Comparison:
    """The comparison of the policies' runs, all of them over the same turns of the same prompts, with those of `plain`.

    `ids` are the names of the prompts by number; those without a run could not be asked.
    """
    reference = runs[plain]
    asked = {one.prompt for one in reference}
    everything = [one for decoded in runs.values() for one in decoded]
    dates = [one.date for one in everything]
    target = reference[0].target
    setup = Setup(
        target=target.name, parameters=target.parameters, dtype=target.dtype, device=target.device,
        prompts=len(asked), turns=len(reference), prompt_tokens=sum(one.prompt_tokens for one in reference),
        max_new_tokens=max_new_tokens, first_date=min(dates), last_date=max(dates),
        hosts=list(dict.fromkeys(one.host for one in everything)), sessions=list(sessions),
        left_out=[name for number, name in enumerate(ids) if number not in asked])
    differences = find_differences(runs, plain, ids)
    return Comparison(setup, make_rows(runs, differences), differences)


# --- rows -----------------------------------------------------------------------------------------------------------


def make_rows(runs: Mapping[str, Sequence[Decoded]], differences: Sequence[Difference]) -> list[Row]:
    """The rows of all policies, plain decoding first, over all prompts and then by category (if there are several)."""
    found = {(one.policy, one.prompt, one.turn): one for one in differences}
    categories = list(dict.fromkeys(one.category for decoded in runs.values() for one in decoded))
    rows = [make_row(policy, None, decoded, found) for policy, decoded in runs.items()]
    for category in categories if len(categories) > 1 else []:
        for policy, decoded in runs.items():
            part = [one for one in decoded if one.category == category]
            if part:
                rows.append(make_row(policy, category, part, found))
    return rows


def make_row(policy: str, category: str | None, runs: Sequence[Decoded],
             differences: Mapping[tuple[str, int, int], Difference]) -> Row:
    """A policy's row over some of its runs, of which there is at least one."""
    counts = [one.counts for one in runs]
    rounds, accepted = (sum(getattr(one, name) for one in counts) for name in ("rounds", "accepted"))
    phases = sum((Counter(one.phases) for one in counts), Counter())
    prefill = phases.pop("prefill", 0)
    judged = [differences.get((policy, one.prompt, one.turn)) for one in runs]
    near = sum(one is not None and one.near_tie for one in judged)
    speed, paired, baseline = (total(getattr(one, name) for one in counts) for name in ("speed", "paired", "baseline"))
    return Row(
        policy=policy, category=category, prompts=len({one.prompt for one in runs}), turns=len(runs), rounds=rounds,
        tokens=speed.tokens, tau=None if rounds == 0 else 1 + accepted / rounds, mean_accepted=ratio(accepted, rounds),
        node_yield=ratio(accepted, sum(one.drafted for one in counts)),
        forwards={name: number / rounds for name, number in draft_forwards(counts).items()},
        phases={name: time / 1000 / rounds for name, time in phases.items() if rounds},
        prefill=prefill / 1000 / len(runs), tokens_per_second=speed.tokens_per_second,
        over_plain=spread(ratios(runs)), set_over_plain=times_faster(paired, baseline), origins=accepted_by(counts),
        same=judged.count(None), near_ties=near, differing=len(judged) - judged.count(None) - near)


def total(speeds: Iterable[Speed]) -> Speed:
    speeds = list(speeds)
    return Speed(sum(speed.tokens for speed in speeds), sum(speed.microseconds for speed in speeds))


def ratios(runs: Sequence[Decoded]) -> list[float]:
    """Tokens/s over those of plain decoding for each prompt, all its turns together."""
    by_prompt: dict[int, list[Summary]] = defaultdict(list)
    for one in runs:
        by_prompt[one.prompt].append(one.counts)
    found = [times_faster(total(one.paired for one in counts), total(one.baseline for one in counts))
             for counts in by_prompt.values()]
    return [value for value in found if value is not None]


def times_faster(mine: Speed, plain: Speed) -> float | None:
    """Tokens/s over tokens/s, None where one of them is not known."""
    if not mine.tokens_per_second or not plain.tokens_per_second:
        return None
    return mine.tokens_per_second / plain.tokens_per_second


def draft_forwards(counts: Iterable[Summary]) -> Counter[str]:
    """Forwards of each drafter that runs a model."""
    found: Counter[str] = Counter()
    for one in counts:
        found.update({model.name: model.forwards for model in one.models if model.name != "target"})
    return found


def accepted_by(counts: Iterable[Summary]) -> dict[str, int]:
    """Accepted tokens by the drafter that alone proposed them, and those that several did."""
    found: Counter[str] = Counter()
    for one in counts:
        for origin in one.origins:
            found.update({origin.name: origin.accepted - origin.shared, BOTH: origin.shared})
    return {name: number for name, number in found.items() if number}


# --- texts ----------------------------------------------------------------------------------------------------------


def find_differences(runs: Mapping[str, Sequence[Decoded]], plain: str, ids: Sequence[str]) -> list[Difference]:
    """Every text that is not the one that `plain` wrote for the same turn."""
    references = {(one.prompt, one.turn): one for one in runs[plain]}
    found = []
    for policy, decoded in runs.items():
        for one in decoded:
            reference = references[one.prompt, one.turn]
            place = first_difference(one.output, reference.output)
            if place is not None:
                margin = reference.margins[place] if place < len(reference.margins) else None
                near = margin is not None and margin < NEAR_TIE.get(reference.target.dtype, STRICTEST)
                found.append(Difference(policy, one.prompt, ids[one.prompt], one.turn, place, margin, near))
    return found
