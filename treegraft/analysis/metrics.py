"""Acceptance, speed and where the time went, over one run or many.

Over many runs every number is micro-averaged: counts are added up first, then divided. A ratio is None where its
denominator is 0. `DEFINITIONS` says what each number means in the words that tables and pages show.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from treegraft.trace.records import TARGET, Nodes, Round
from treegraft.trace.replay import accepted, ending, expected, outcome
from treegraft.trace.runs import Run

DEFINITIONS = {
    "rounds": "Verifications by the target: one draft tree each.",
    "tokens": "Output tokens, the first one (chosen when the prompt was read) included.",
    "accepted": "A: drafted tokens that became part of the text; bonus tokens are not counted.",
    "drafted": "D: nodes that the target verified, the root not counted.",
    "tau": "Mean acceptance length with the bonus: 1 + A / rounds.",
    "mean accepted": "Mean acceptance length without the bonus: A / rounds.",
    "expected": "Expected accepted length: the mean number of tokens that the acceptance rule accepts in a round for"
                " the drafts that were made, computed from the recorded probabilities; over the rounds that recorded"
                " them.",
    "rule": "How drafted tokens were accepted. A lossless rule writes what the target alone would write: the same text"
            " when greedy, the same distribution of texts when sampled.",
    "node yield": "A / D. Small by design for a tree: of siblings at most one can be accepted.",
    "marginal": "Acceptance at depth i: rounds with at least i accepted / all rounds.",
    "conditional": "Acceptance at depth i: rounds with at least i accepted / rounds with at least i - 1 accepted.",
    "proposed": "Rounds whose verified tree reached depth i; beyond it nothing could be accepted.",
    "histogram": "H[j]: rounds with exactly j accepted. The sum of H is the rounds, the sum of j x H[j] is A.",
    "rejected rounds": "Rounds that verified drafted nodes and accepted none.",
    "undrafted rounds": "Rounds in which nothing was drafted: plain decoding of one token.",
    "tokens/s": "Measured: output tokens / time of the decode loop from the start of reading the prompt, recording left"
                " out, over finished runs. Batch size 1.",
    "speedup": "Measured tokens/s / measured tokens/s of plain decoding of the same prompts, where that was run.",
    "phases": "Wall time by phase over all rounds; other is the rest of the rounds' total.",
    "forwards": "Model passes, the tokens that went through them, and their time, which lies inside the phases.",
    "origin": "The drafter that proposed a node first.",
}


def ratio(part: float, whole: float) -> float | None:
    """part / whole, None where whole is 0."""
    return part / whole if whole else None


@dataclass(frozen=True)
class Depth:
    """Acceptance at one depth (1 is the root's children), in rounds: `accepted` at least that deep, `reached` the depth
    above, `proposed` a node there."""

    depth: int
    accepted: int
    reached: int
    proposed: int
    rounds: int

    @property
    def marginal(self) -> float | None:
        return ratio(self.accepted, self.rounds)

    @property
    def conditional(self) -> float | None:
        return ratio(self.accepted, self.reached)


@dataclass(frozen=True)
class Origin:
    """The nodes that one drafter proposed first: drafted at all, sent to the target, accepted into the text, and of the
    accepted ones those that another drafter proposed as well."""

    name: str
    grown: int
    verified: int
    accepted: int
    shared: int


@dataclass(frozen=True)
class ModelTime:
    """All passes of one model over the rounds (the prefill is not among them)."""

    name: str
    forwards: int
    tokens: int
    microseconds: int


@dataclass(frozen=True)
class Speed:
    """Output tokens and the microseconds that they took."""

    tokens: int = 0
    microseconds: int = 0

    @property
    def tokens_per_second(self) -> float | None:
        return ratio(self.tokens * 1e6, self.microseconds)


@dataclass(frozen=True)
class Summary:
    """Counts over some runs and the ratios that follow from them; see `DEFINITIONS`.

    `histogram[j]` counts the rounds with j accepted; `by_draft_length[d][j]` those whose verified tree was d deep.
    `phases` are microseconds. `speed` covers finished runs; `paired` and `baseline` cover the runs with a measured
    baseline. `reasons` and `statuses` count runs; `notes` count rounds, or the run where no round has the note.
    """

    runs: int
    rounds: int
    tokens: int
    accepted: int
    drafted: int
    grown: int
    discarded: int
    rejected_rounds: int
    undrafted_rounds: int
    histogram: list[int]
    by_draft_length: dict[int, list[int]]
    depths: list[Depth]
    origins: list[Origin]
    phases: dict[str, int]
    models: list[ModelTime]
    speed: Speed
    paired: Speed
    baseline: Speed
    recording: int
    reasons: dict[str, int]
    statuses: dict[str, int]
    notes: dict[str, int]
    rules: dict[str, int]
    """Rounds by acceptance rule."""
    expected: float | None
    """Mean expected accepted length, over the rounds that recorded chances."""
    broken: list[str]
    """Identities that the trace does not keep; empty for a sound one."""

    @property
    def tau(self) -> float | None:
        return None if self.rounds == 0 else 1 + self.accepted / self.rounds

    @property
    def mean_accepted(self) -> float | None:
        return ratio(self.accepted, self.rounds)

    @property
    def node_yield(self) -> float | None:
        return ratio(self.accepted, self.drafted)

    @property
    def speedup(self) -> float | None:
        if not self.baseline.tokens_per_second or not self.paired.tokens_per_second:
            return None
        return self.paired.tokens_per_second / self.baseline.tokens_per_second


def summary(runs: Run | Iterable[Run], look: Callable[[int, Round], None] | None = None) -> Summary:
    """The summary of one run, or of several together.

    `look` is shown each round and the number of its run as they are read, for whoever counts more and would otherwise
    read them again."""
    runs = [runs] if isinstance(runs, Run) else list(runs)
    count = _Count()
    for number, run in enumerate(runs):
        count.add_run(run, (lambda record, number=number: look(number, record)) if look else None)
    return count.summary(len(runs))


def drafter_names(run: Run) -> dict[int, str]:
    """The names of a run's drafters by their ids."""
    return {drafter.id: drafter.name for drafter in run.header.drafters}


def name_of(drafter: int, names: dict[int, str]) -> str:
    """A drafter's name, also where the header does not list it."""
    return names.get(drafter, f"drafter {drafter}")


def verified_depths(parent: Sequence[int], order: Sequence[int]) -> dict[int, int]:
    """Depth of each verified node; `order` is that of the verify event, parents first."""
    depth: dict[int, int] = {0: 0}
    for node in order[1:]:
        depth[node] = depth[parent[node]] + 1
    return depth


def by_group(runs: Iterable[Run]) -> dict[str, Summary]:
    """A summary for each `header.group`, in order of appearance."""
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.header.group].append(run)
    return {group: summary(members) for group, members in groups.items()}


class _Count:
    """What is added up over runs and rounds."""

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()
        self.lengths: Counter[tuple[int, int]] = Counter()
        self.origins: dict[str, list[int]] = {}
        self.models: dict[str, list[int]] = {}
        self.phases: Counter[str] = Counter()
        self.rules: Counter[str] = Counter()
        self.expected: list[float] = []
        self.ends: dict[str, Counter[str]] = {"reason": Counter(), "status": Counter(), "note": Counter()}
        self.speeds = {name: [0, 0] for name in ("speed", "paired", "baseline")}
        self.broken: list[str] = []

    def add_run(self, run: Run, look: Callable[[Round], None] | None) -> None:
        names = drafter_names(run)
        notes: Counter[str] = Counter()
        tokens = 1 if len(run.records) or run.prefill else 0
        for record in run.records:
            self._add_round(record, names)
            notes.update([record.note] if record.note else [])
            tokens += outcome(record).taken
            if look:
                look(record)
        notes.update(note for note in (run.end.notes if run.end else []) if note not in notes)
        self.ends["note"] += notes
        self.phases["prefill"] += run.prefill.microseconds if run.prefill else 0
        self._add_end(run, tokens)

    def _add_end(self, run: Run, tokens: int) -> None:
        end = run.end
        self.total["tokens"] += tokens
        self.ends["reason"][end.reason if end else "unfinished"] += 1
        self.ends["status"][end.status if end else "unfinished"] += 1
        if end is None:
            return
        self.total["recording"] += end.recording
        self._add_speed("speed", end.new_tokens, end.microseconds)
        if end.baseline:
            self._add_speed("paired", end.new_tokens, end.microseconds)
            self._add_speed("baseline", end.baseline.tokens, end.baseline.microseconds)
        if end.new_tokens != tokens:
            self.broken.append(f"prompt {run.header.index}, turn {run.header.turn}: its rounds hold {tokens} output "
                               f"tokens, its end record says {end.new_tokens}")

    def _add_speed(self, name: str, tokens: int, microseconds: int) -> None:
        self.speeds[name][0] += tokens
        self.speeds[name][1] += microseconds

    def _add_round(self, record: Round, names: dict[int, str]) -> None:
        verify, accept = ending(record)
        verified, taken = verify.order[1:], accepted(accept)
        length = max(verified_depths(record.nodes.parent, verify.order).values())
        self.lengths[length, taken] += 1
        self.total.update(
            rounds=1, drafted=len(verified), grown=len(record.nodes.token) - 1, discarded=accept.discarded,
            undrafted=not verified, rejected=bool(verified) and taken == 0)
        self.rules[accept.rule] += 1
        self.expected += expected(record)[:1]
        self._add_origins(record.nodes, verified, accept.path[:taken], names)
        self._add_times(record, names)

    def _add_origins(self, nodes: Nodes, verified: list[int], kept: list[int], names: dict[int, str]) -> None:
        """Count nodes grown, verified and accepted by the name of the drafter that they come from."""
        shared = [node for node in kept if nodes.proposers[node].bit_count() > 1]
        columns = [nodes.origin[1:], *([nodes.origin[node] for node in some] for some in (verified, kept, shared))]
        for column, origins in enumerate(columns):
            for drafter, number in Counter(origins).items():
                self.origins.setdefault(name_of(drafter, names), [0, 0, 0, 0])[column] += number

    def _add_times(self, record: Round, names: dict[int, str]) -> None:
        phases = {name: time for name, time in record.times.items() if name != "total"}
        self.phases.update(phases)
        self.phases["other"] += max(record.times.get("total", 0) - sum(phases.values()), 0)
        for forward in record.forwards:
            name = "target" if forward.model == TARGET else name_of(forward.model, names)
            counts = self.models.setdefault(name, [0, 0, 0])
            for column, number in enumerate((1, forward.tokens, forward.microseconds)):
                counts[column] += number

    def summary(self, runs: int) -> Summary:
        total, histogram = self.total, Counter()
        for (_, length), rounds in self.lengths.items():
            histogram[length] += rounds
        taken = sum(counts[2] for counts in self.origins.values())
        return Summary(
            runs=runs, rounds=total["rounds"], tokens=total["tokens"], accepted=taken, drafted=total["drafted"],
            grown=total["grown"], discarded=total["discarded"], rejected_rounds=total["rejected"],
            undrafted_rounds=total["undrafted"], histogram=_dense(histogram), depths=self._depths(),
            by_draft_length={length: _dense(Counter({a: n for (d, a), n in self.lengths.items() if d == length}))
                             for length in sorted({length for length, _ in self.lengths})},
            origins=[Origin(name, *counts) for name, counts in self.origins.items()],
            phases={name: time for name, time in self.phases.items() if time},
            models=[ModelTime(name, *counts) for name, counts in self.models.items()],
            **{name: Speed(*pair) for name, pair in self.speeds.items()}, recording=total["recording"],
            reasons=dict(self.ends["reason"]), statuses=dict(self.ends["status"]), notes=dict(self.ends["note"]),
            rules=dict(self.rules), expected=ratio(sum(self.expected), len(self.expected)),
            broken=self.broken + _identities(total["rounds"], taken, histogram))

    def _depths(self) -> list[Depth]:
        deepest = max((length for length, _ in self.lengths), default=0)
        rounds = self.total["rounds"]
        at_least = [sum(n for (_, accepted), n in self.lengths.items() if accepted >= depth)
                    for depth in range(deepest + 1)]
        proposed = [sum(n for (length, _), n in self.lengths.items() if length >= depth)
                    for depth in range(deepest + 1)]
        return [Depth(depth, at_least[depth], at_least[depth - 1], proposed[depth], rounds)
                for depth in range(1, deepest + 1)]


def _dense(counts: Counter[int]) -> list[int]:
    return [counts[value] for value in range(max(counts, default=-1) + 1)]


def _identities(rounds: int, accepted: int, histogram: Counter[int]) -> list[str]:
    """The identities between the histogram (by round) and the counts (by node) that do not hold."""
    checks = {f"the histogram sums to {histogram.total()}, but there are {rounds} rounds": histogram.total() == rounds,
              f"the histogram says {(by_round := sum(j * n for j, n in histogram.items()))} accepted tokens, "
              f"the nodes say {accepted}": by_round == accepted}
    return [text for text, holds in checks.items() if not holds]


def as_dict(counts: Summary) -> dict[str, object]:
    """A summary as plain values for JSON: all its counts and ratios."""
    return asdict(counts) | {
        "tau": counts.tau, "mean_accepted": counts.mean_accepted, "node_yield": counts.node_yield,
        "speedup": counts.speedup, "tokens_per_second": counts.speed.tokens_per_second,
        "depths": [asdict(row) | {"marginal": row.marginal, "conditional": row.conditional} for row in counts.depths]}
