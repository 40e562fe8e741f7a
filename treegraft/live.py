"""Recording in a worker thread, for somebody who watches: a queue, loaded pairs, and snapshots of how far a run is.

A page must not decode in its own thread, where the next click would break a round off half-way. Runs take turns, so
that none slows another down and times mean what they say. torch is imported when a run begins.
"""

from __future__ import annotations

import re
import sys
import threading
import time
import traceback
import unicodedata
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from treegraft.home import recordings
from treegraft.models.errors import ModelError
from treegraft.models.fetch import Progress, WheelModel, fetch
from treegraft.prompts import Prompt, bundled
from treegraft.public import PublicError, check, is_public, shown, sweep, why_not_queued
from treegraft.sampling import FITTING, Sampling, seed_of
from treegraft.sessions import session
from treegraft.settings import SettingError
from treegraft.trace import Run, TracedRound, TraceError, Writer
from treegraft.trace import open as open_trace
from treegraft.trace.records import Baseline, Header

if TYPE_CHECKING:
    import torch

    from treegraft.models import Pair
    from treegraft.policies import Policy

State = Literal["queued", "loading", "measuring", "decoding", "probing", "finished", "stopped", "failed"]
"""`measuring` is plain decoding before a race, `probing` what a recording level adds after the run."""

LIVE_STATES = ("queued", "loading", "measuring", "decoding", "probing")

MAX_PAIRS = 2
"""Pairs that stay loaded; the one that was used longest ago makes room for another."""

CONVERSATION = "conversation"
"""Group of the runs in a trace that are turns of one conversation."""

SLUG_LENGTH = 40

MEMORY_SIGNS = ("out of memory", "can't allocate memory", "not enough memory", "failed to allocate")


@dataclass(frozen=True)
class Request:
    """What to record.

    `models` are the drafters to load (None: those of the named pair), `drafters` the ones for the policy's roles
    (None: the first that fit). `prompt` is a text, or the messages of a chat whose earlier turns lie in the trace
    `earlier`; `turn` counts them. `level` is how much is recorded (see `treegraft.record`); a `race` decodes the prompt
    plainly first, and measures that. `dtype` is the number format to load the models in, as far as the device can
    (empty: what it is fast in), `drafter_settings` what drafters of the pair are set to, as text by name.
    """

    target: str
    policy: Policy
    prompt: str | list[dict[str, str]]
    models: tuple[str, ...] | None = None
    drafters: tuple[str, ...] | None = None
    max_new_tokens: int = 256
    stop: tuple[str, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    earlier: Path | None = None
    turn: int = 0
    level: str = "run"
    race: bool = False
    dtype: str = ""
    drafter_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def question(self) -> str:
        """What the user asks in this turn."""
        return self.messages[-1]["content"]

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation up to this question."""
        return [{"role": "user", "content": self.prompt}] if isinstance(self.prompt, str) else self.prompt


@dataclass(frozen=True)
class Snapshot:
    """How far a worker is, at one moment.

    While it loads, `stage` says what is being done and `fraction` how much of it (None: not known). `run` holds the
    rounds so far (None before the first one), `accepted`, `tokens` and `microseconds` sum them up. `plain` is the plain
    run of a race, whole once this run decodes. `path` is the trace, once there is something in it. `started` and
    `ended` are seconds since the epoch. `error` is for the user.
    """

    state: State = "queued"
    ahead: int = 0
    """Runs of other sessions that come first."""
    stage: str = ""
    fraction: float | None = None
    run: Run | None = None
    plain: Run | None = None
    tokens: int = 0
    accepted: int = 0
    microseconds: int = 0
    path: Path | None = None
    started: float = 0.0
    ended: float = 0.0
    error: str = ""

    @property
    def is_live(self) -> bool:
        return self.state in LIVE_STATES

    @property
    def seconds(self) -> float:
        """Since its start, up to its end."""
        return (self.ended or time.time()) - self.started if self.started else 0.0

    @property
    def rounds(self) -> int:
        return len(self.run.rounds) if self.run else 0

    @property
    def tau(self) -> float | None:
        """Mean acceptance length so far, the bonus counted."""
        return 1 + self.accepted / self.rounds if self.rounds else None

    @property
    def tokens_per_second(self) -> float | None:
        """Over the decode loop from the start of reading the prompt."""
        return self.tokens * 1e6 / self.microseconds if self.microseconds else None

    @property
    def plain_tokens_per_second(self) -> float | None:
        """Of plain decoding in a race, once it has ended."""
        end = self.plain.end if self.plain else None
        return end.new_tokens * 1e6 / end.microseconds if end and end.microseconds else None

    @property
    def ratio(self) -> float | None:
        """How many times as fast as plain decoding the whole run was; None before its end and without a race."""
        ended = self.run and self.run.end and self.tokens_per_second and self.plain_tokens_per_second
        return self.tokens_per_second / self.plain_tokens_per_second if ended else None


# --- turns of a conversation ----------------------------------------------------------------------------------------


def first_turn(text: str) -> str | list[dict[str, str]]:
    """The prompt for `text`: itself, or with what goes before it where it is an example that has a history."""
    return next((one.conversation() for one in bundled() if one.history and one.turns[0] == text), text)


def with_prompt(request: Request, prompt: Prompt) -> Request:
    """The request that asks the first turn of `prompt`, as the beginning of a conversation."""
    return replace(request, prompt=prompt.conversation() if prompt.history else prompt.turns[0], earlier=None, turn=0)


def next_turn(request: Request, now: Snapshot, text: str) -> Request:
    """The request that asks `text` after the answer to `request`."""
    from treegraft.batch import answer

    said = {"role": "assistant", "content": answer(now.run)}
    return replace(request, prompt=[*request.messages, said, {"role": "user", "content": text}], earlier=now.path,
                   turn=request.turn + 1)


def suggested_turn(request: Request) -> str | None:
    """What a bundled prompt asks after the turn that `request` is."""
    later = request.turn + 1
    return next((one.turns[later] for one in bundled()
                 if len(one.turns) > later and one.turns[request.turn] == request.question), None)


# --- workers --------------------------------------------------------------------------------------------------------


class Worker(ABC):
    """A task in a thread of its own. Its snapshot is replaced as a whole, so that any thread may read it. It is made in
    the thread of a session, its `owner`."""

    def __init__(self) -> None:
        self.owner = session()
        self._now = Snapshot()
        self._stopping = threading.Event()

    def start(self) -> Self:
        WorkerThread(self).start()
        return self

    def stop(self) -> None:
        """Ask it to stop; it does so after the current round or stage."""
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def snapshot(self) -> Snapshot:
        return self._now

    @abstractmethod
    def _work(self) -> dict[str, object]:
        """Do the task; returns the last news for the snapshot."""

    def work_to_end(self) -> None:
        self._tell(started=time.time())
        try:
            news = self._work()
        except KeyboardInterrupt:
            news = {"state": "stopped"}
        except Exception as error:  # of any kind: nobody else sees what goes wrong in a thread
            if is_out_of_memory(error):
                _pairs.clear()
            news = {"state": "failed", "error": explain(error)}
        self._tell(**news, ended=time.time())

    def _tell(self, **news: object) -> None:
        self._now = replace(self._now, **news)

    def _progress(self, stage: str, fraction: float | None) -> None:
        self._heed_stop()
        self._tell(state="loading", stage=stage, fraction=fraction)

    def _heed_stop(self) -> None:
        if self.is_stopping:
            raise KeyboardInterrupt


class WorkerThread(threading.Thread):
    """The thread of a worker. It does not keep the process alive; `stop_workers` goes before the process may end."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(target=worker.work_to_end, name=type(worker).__name__, daemon=True)
        self.worker = worker


def stop_workers() -> int:
    """Ask all workers to stop; returns how many have not ended yet. Where the process ends before them, torch aborts
    it."""
    threads = [thread for thread in threading.enumerate() if isinstance(thread, WorkerThread)]
    for thread in threads:
        thread.worker.stop()
    return len(threads)


class LiveFetch(Worker):
    """Fetches a named target."""

    def __init__(self, model: WheelModel) -> None:
        super().__init__()
        self._model = model

    def _work(self) -> dict[str, object]:
        self._progress("starting", None)
        fetch(self._model, self._progress)
        return {"state": "finished"}


class LiveRun(Worker):
    """Records one run into `folder`, by default `recordings()`. `start` it, look at `snapshot()`, perhaps `stop` it."""

    def __init__(self, request: Request, folder: Path | None = None) -> None:
        super().__init__()
        self.request = request
        self._folder = folder or recordings()

    def stop(self) -> None:
        super().stop()
        queue.wake()

    def snapshot(self) -> Snapshot:
        now = self._now
        return replace(now, ahead=queue.ahead(self)) if now.state == "queued" else now

    def _work(self) -> dict[str, object]:
        check(self.request)
        with queue.turn(self):
            self._progress("starting", None)
            pair = load_pair(self.request, self._progress)
            self._heed_stop()
            baseline = self._decode_plainly(pair) if self.request.race else None
            self._tell(state="decoding")
            path = new_path(self._folder, self.request)
            run = self._record(pair, Writer(path), baseline)
            sweep()
        return {"state": "stopped" if was_stopped(run) else "finished", "run": run, "path": path,
                "tokens": run.end.new_tokens, "microseconds": run.end.microseconds}

    def _decode_plainly(self, pair: Pair) -> Baseline:
        """Decode the same prompt without drafting, alone on the machine."""
        self._tell(state="measuring")
        run = decode(pair, plainly(self.request), None, self._see_plain)
        self._heed_stop()
        self._tell(plain=run)
        return Baseline(tokens=run.end.new_tokens, microseconds=run.end.microseconds)

    def _record(self, pair: Pair, writer: Writer, baseline: Baseline | None) -> Run:
        try:
            with writer:
                if self.request.earlier:
                    copy_turns(self.request.earlier, writer)
                return decode(pair, self.request, writer, self._see, self._see_probe, baseline)
        except BaseException:
            if not self._now.rounds:  # a trace that broke off before its first round is of no use
                with suppress(OSError):
                    writer.path.unlink()
            raise
        finally:
            if self._now.rounds:
                self._tell(path=writer.path)

    def _see_plain(self, round: TracedRound) -> None:
        self._tell(plain=so_far(round))
        self._heed_stop()

    def _see_probe(self, done: int, of: int) -> None:
        self._tell(state="probing", stage=f"probing place {done} of {of}", fraction=done / of)
        self._heed_stop()

    def _see(self, round: TracedRound) -> None:
        """Take in a round that has just ended."""
        run, now = round.run, self._now
        if round.index == 0:
            now = replace(now, tokens=1, microseconds=run.prefill.microseconds if run.prefill else 0)
        self._tell(run=so_far(round), tokens=now.tokens + round.outcome.taken, accepted=now.accepted + round.accepted,
                   microseconds=now.microseconds + round.record.times.get("total", 0))
        self._heed_stop()


# --- one at a time --------------------------------------------------------------------------------------------------


class Queue:
    """Lets runs decode one at a time, first come, first served."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[Worker] = []

    @contextmanager
    def turn(self, worker: Worker) -> Iterator[None]:
        """Wait for the turn of `worker`, and hold it. Raises `KeyboardInterrupt` if it is stopped before, and
        `PublicError` where its session may not wait here."""
        with self._changed:
            if why := why_not_queued(worker.owner, [one.owner for one in self._waiting]):
                raise PublicError(why)
            self._waiting.append(worker)
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting[0] is worker or worker.is_stopping)
            if worker.is_stopping:
                raise KeyboardInterrupt
            yield
        finally:
            with self._changed:
                self._waiting.remove(worker)
                self._changed.notify_all()

    def ahead(self, worker: Worker) -> int:
        """How many come before `worker`."""
        with self._changed:
            return self._waiting.index(worker) if worker in self._waiting else 0

    def wake(self) -> None:
        """Let those that wait look whether they were stopped."""
        with self._changed:
            self._changed.notify_all()


queue = Queue()
_pairs: OrderedDict[tuple, Pair] = OrderedDict()


def load_pair(request: Request, progress: Progress) -> Pair:
    """The pair of `request`, kept from earlier runs if it was among the last `MAX_PAIRS`. Called in turn only."""
    progress("starting torch", None)
    from treegraft.models import load

    dtype = dtype_for(request.dtype)
    key = (request.target, request.models, dtype)
    if key not in _pairs:
        while len(_pairs) >= MAX_PAIRS:
            _pairs.popitem(last=False)
        _pairs[key] = load(request.target, request.models, dtype=dtype, progress=progress)
    _pairs.move_to_end(key)
    return _pairs[key]


def dtype_for(wanted: str) -> torch.dtype:
    """The wanted number format where there is one of that name and the device computes in it, else the device's own."""
    import torch

    from treegraft.models.device import DTYPES, pick_device, pick_dtype

    device = pick_device()
    if wanted in DTYPES:
        try:
            ones = torch.ones((1, 1), dtype=DTYPES[wanted], device=device)
            return (ones @ ones).dtype
        except (RuntimeError, TypeError):  # some devices and versions of torch lack a number format
            pass
    return pick_dtype(device)


def with_drafter_settings(pair: Pair, request: Request) -> Pair:
    """The pair with the drafter settings of `request`. Drafters that have them already keep their caches.

    Errors: `SettingError`.
    """
    from treegraft.policy_text import with_settings

    def has(name: str, settings: Mapping[str, str]) -> bool:
        return name in pair.drafters and settings.items() <= as_text(pair.drafters[name].settings).items()

    other = {name: settings for name, settings in request.drafter_settings.items() if not has(name, settings)}
    return with_settings(pair, other) if other else pair


def as_text(settings: Mapping[str, object]) -> dict[str, str]:
    """Settings the way a user types them."""
    return {name: str(value) for name, value in settings.items()}


def decode(pair: Pair, request: Request, writer: Writer | None, on_round: Callable[[TracedRound], None],
           on_probe: Callable[[int, int], None] | None = None, baseline: Baseline | None = None) -> Run:
    """Record the run of `request`; its end says how long plain decoding took, if that was measured."""
    from treegraft.run import record

    return record(with_drafter_settings(pair, request), request.prompt, request.policy, drafters=request.drafters,
                  writer=writer, group=CONVERSATION if request.earlier else "", turn=request.turn, level=request.level,
                  max_new_tokens=request.max_new_tokens, stop=request.stop, on_round=on_round, on_probe=on_probe,
                  baseline=baseline, seed=seed_of(request.sampling.seed, request.turn),
                  **request.sampling.settings).run


def plainly(request: Request) -> Request:
    """The same request without drafting."""
    from treegraft.policies import Plain

    return replace(request, policy=Plain(), drafters=(), level="run", race=False,
                   sampling=replace(request.sampling, rule=FITTING))


def so_far(round: TracedRound) -> Run:
    """The run up to the round that has just ended, as it will stay."""
    run = round.run
    return Run(run.header, run.pieces, run.prefill, run.records[:], None)


def was_stopped(run: Run) -> bool:
    """Whether something is missing because the user stopped it: text, or probes."""
    from treegraft.recorder import PROBING_STOPPED

    return run.end.reason == "interrupted" or any(note.startswith(PROBING_STOPPED) for note in run.end.notes)


def copy_turns(trace: Path, writer: Writer) -> None:
    """Write the turns in `trace` again, as the beginning of a conversation."""
    for record in open_trace(trace).records():
        if isinstance(record, Header):
            record.group = CONVERSATION
        writer.write(record)


# --- files and errors -----------------------------------------------------------------------------------------------


def new_path(folder: Path, request: Request) -> Path:
    """A new name in `folder`: the beginning of the question, policy and time."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = unicodedata.normalize("NFKD", request.question).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain)[:SLUG_LENGTH].strip("-")
    stem = "-".join(filter(None, (words, request.policy.name, f"{datetime.now():%Y%m%d-%H%M%S}")))
    names = (f"{stem}{suffix}.jsonl.zst" for suffix in ("", *(f"-{number}" for number in range(2, 1000))))
    return next(folder / name for name in names if not (folder / name).exists())


def explain(error: Exception) -> str:
    """What to tell the user about an error; one that nobody foresaw also goes to the terminal in full."""
    if isinstance(error, ImportError):
        return (f"Recording needs torch and transformers, and they could not be imported: {shown(str(error))}. Install "
                "them with `pip install -r requirements.txt`; recordings can be opened without them.")
    if is_out_of_memory(error):
        return ("The memory of this machine is full. Choose a smaller model, a smaller budget or fewer new tokens, "
                "then record again.")
    if isinstance(error, OSError):
        if is_public():
            return "The recording could not be written on this machine. Tell whoever runs this dashboard."
        return (f"The recording could not be written: {error.strerror or error} ({error.filename or recordings()}). "
                "Set TREEGRAFT_HOME to a folder that you can write to, then start the app again.")
    if is_for_users(error):
        return shown(str(error))
    traceback.print_exception(error, file=sys.stderr)
    what = type(error).__name__ if is_public() else f"{type(error).__name__}: {error}"
    return (f"Something went wrong that treegraft did not foresee: {what}. What was recorded until then is kept, and "
            "the terminal shows where it happened.")


def is_for_users(error: Exception) -> bool:
    """Whether the error's own text says what is wrong and what to do."""
    if isinstance(error, (ModelError, SettingError, TraceError)):
        return True
    from treegraft.models.cache import UnsupportedModel
    from treegraft.run import RunError

    return isinstance(error, (RunError, UnsupportedModel))


def is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in MEMORY_SIGNS)
