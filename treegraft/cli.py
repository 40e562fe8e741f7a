"""The command line: record runs, look at them, and list what there is to choose from.

What needs torch is imported inside the commands that need it, so that the others start at once.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.text import Text

from treegraft.analysis.metrics import summary
from treegraft.analysis.text import RUNNING_TEXT, visible
from treegraft.calibrate_cli import calibrate
from treegraft.compare.cli import compare
from treegraft.datastore.cli import datastore
from treegraft.distill.cli import app as distill_app
from treegraft.sampling import FITTING, Sampling, rule_for
from treegraft.scheduler.cli import distill_scheduler, values
from treegraft.settings import Setting, SettingError, settings_of
from treegraft.shell import INTERRUPTED, console, fail, load_pair, pick, progress_bar, refusing, say
from treegraft.warm_cli import warm

if TYPE_CHECKING:
    from treegraft.models import Pair
    from treegraft.policies import Policy
    from treegraft.prompts import Prompt
    from treegraft.trace.reader import Run, Trace, TracedRound

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
                  help="Record speculative decoding and look at its draft trees.")
models_app = typer.Typer(invoke_without_command=True)
app.add_typer(models_app, name="models")
app.add_typer(distill_app, name="distill")
app.command()(compare)
app.command()(values)
app.command("distill-scheduler")(distill_scheduler)
app.command()(calibrate)
app.command()(warm)
app.command()(datastore)

SAMPLING = {setting.name: setting.help for setting in settings_of(Sampling)}
"""Help for the choices of a run that samples."""

TraceFile = Annotated[Path, typer.Argument(metavar="TRACE", help="A .jsonl or .jsonl.zst file.", show_default=False)]


def main() -> None:
    """Entry point of the `treegraft` script."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")
    app()


# --- record ---------------------------------------------------------------------------------------------------------


@app.command()
def record(
    target: Annotated[str, typer.Option(help="A named target, a hub id, a folder or a GGUF file.")] = "smollm2",
    drafter: Annotated[list[str] | None, typer.Option(
        help="Once for each role of the policy: a drafter of the target by name, or like --target any other model. "
             "By default the target's first that fits.")] = None,
    policy: Annotated[str, typer.Option(help="See `treegraft policies`.")] = "eagle2",
    settings: Annotated[list[str] | None, typer.Option(
        "--set", metavar="NAME=VALUE", help="A setting of the policy, or DRAFTER.NAME=VALUE.")] = None,
    prompt: Annotated[str | None, typer.Option(help="The user's message.")] = None,
    prompt_file: Annotated[Path | None, typer.Option(help="A .txt, .json or .jsonl file with prompts.")] = None,
    messages: Annotated[Path | None, typer.Option(help="A JSON list of chat messages {role, content}.")] = None,
    category: Annotated[str | None, typer.Option(help="Bundled prompts of this category, or `all`.")] = None,
    split: Annotated[str, typer.Option(help="With --category: only `tuning` or `held_out` prompts.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many prompts.")] = None,
    out: Annotated[Path | None, typer.Option(help="The trace to write, .jsonl or .jsonl.zst.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the trace if it exists.")] = False,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, in tokens.")] = 256,
    max_context: Annotated[int | None, typer.Option(min=2, help="Tokens that the caches hold.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="A text that ends the answer.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Continue the prompt as it is, without chat template.")] = False,
    temperature: Annotated[float, typer.Option(help=SAMPLING["temperature"])] = 0.0,
    top_k: Annotated[int, typer.Option(help=SAMPLING["top_k"])] = 0,
    top_p: Annotated[float, typer.Option(help=SAMPLING["top_p"])] = 1.0,
    min_p: Annotated[float, typer.Option(help=SAMPLING["min_p"])] = 0.0,
    seed: Annotated[int | None, typer.Option(
        help="Of the first run's random numbers (the next run has the next seed): with the same one, a machine draws "
             "the same text. By default each run gets its own; its trace holds it.")] = None,
    rule: Annotated[str, typer.Option(help=SAMPLING["rule"])] = FITTING,
    scheduler: Annotated[Path | None, typer.Option(
        help="The folder of a scheduler for the policy treegraft; by default the pair's own.")] = None,
    level: Annotated[str, typer.Option(
        help="run; dense or exhaustive also keep what the drafters would have said elsewhere, for what-ifs.")] = "run",
    dtype: Annotated[str | None, typer.Option(
        help="float32, bfloat16 or float16; by default what the device is fast in.")] = None,
    device: Annotated[str | None, typer.Option(help="cuda, cuda:1, mps or cpu; by default the first there is.")] = None,
    trust_remote_code: Annotated[bool, typer.Option(
        "--trust-remote-code", help="Run Python code that the model's authors ship with it.")] = False,
) -> None:
    """Decode prompts and record every round."""
    from treegraft.policies import POLICIES

    prompts = choose_prompts(prompt, prompt_file, messages, category, split, limit, raw)
    kind = POLICIES[pick("policy", policy, list(POLICIES))]
    of_policy, of_drafters = split_settings(settings or [])
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed, "rule": rule}
    with refusing(SettingError):
        chosen = kind.from_text(of_policy)
        rule_for(chosen, Sampling(**sampling))
    path = trace_path(out, force)
    wanted = None if kind.roles and not drafter else drafter or []
    pair = load_pair(target, wanted, of_drafters, dtype=dtype, device=device, trust_remote_code=trust_remote_code)
    options = sampling | {
        "drafters": list(pair.drafters) if wanted else None, "max_new_tokens": max_new_tokens,
        "max_context": max_context, "stop": stop or (), "raw": raw, "scheduler": scheduler,
        "level": pick("level", level, ["run", "dense", "exhaustive"])}
    write_trace(path, force, pair, prompts, chosen, options)


def choose_prompts(text: str | None, file: Path | None, messages: Path | None, category: str | None, split: str,
                   limit: int | None, raw: bool) -> list[Prompt]:
    """The prompts that the options ask for; exactly one source may be given."""
    from treegraft import prompts

    given = [value for value in (text, file, messages, category) if value is not None]
    if len(given) != 1:
        fail("give one of --prompt, --prompt-file, --messages or --category (`all` for all 64 bundled prompts).")
    if split and category is None:
        fail("--split chooses among the bundled prompts: give --category too (`all` for every category).")
    with refusing(prompts.PromptError):
        if text is not None:
            found = [prompts.Prompt(id="prompt", turns=(text,))]
        elif file is not None:
            found = prompts.load(file)
        elif messages is not None:
            found = [prompts.load_messages(messages)]
        else:
            found = prompts.bundled("" if category == "all" else category, split)
    if raw and any(len(prompt.turns) > 1 or prompt.history for prompt in found):
        fail("--raw continues one text; these prompts have several turns or messages.")
    return found[:limit]


def split_settings(pairs: Sequence[str]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """The policy's settings, and those of drafters by drafter, from `name=value` and `drafter.name=value`."""
    of_policy: dict[str, str] = {}
    of_drafters: dict[str, dict[str, str]] = {}
    for text in pairs:
        name, equals, value = text.partition("=")
        if not (name and equals):
            fail(f"--set was {text!r}; write it as NAME=VALUE, e.g. --set budget=32 or --set lookup.ngram=3.")
        drafter, dot, inner = name.rpartition(".")
        (of_drafters.setdefault(drafter, {}) if dot else of_policy)[inner] = value
    return of_policy, of_drafters


def policy_settings(pairs: Sequence[str]) -> dict[str, str]:
    """The policy's settings from `name=value`, for commands that run no drafter."""
    of_policy, of_drafters = split_settings(pairs)
    for drafter in of_drafters:
        fail(f"--set was given a setting of {drafter}; drafters answer as they were recorded, so only settings of the "
             "policy can be changed.")
    return of_policy


def trace_path(out: Path | None, force: bool) -> Path:
    """Where the trace goes; never over a file that the user did not give up."""
    path = out or Path(f"treegraft-{datetime.now():%Y%m%d-%H%M%S}.jsonl.zst")
    if not path.name.endswith((".jsonl", ".jsonl.zst")):
        fail(f"--out was {path}; a trace's name ends in .jsonl or .jsonl.zst.")
    try:
        if path.exists() and not force:
            fail(f"{path} exists; give --force to replace it, or another --out.")
    except OSError as error:
        fail(f"--out was {path}, which cannot be written: {error.strerror}.")
    if not path.parent.is_dir():
        fail(f"--out was {path}, but there is no folder {path.parent}.")
    return path


def write_trace(path: Path, force: bool, pair: Pair, prompts: Sequence[Prompt], policy: Policy,
                options: dict[str, Any]) -> None:
    """Record the prompts into `path`, with a live line, and say what came of it."""
    from treegraft.batch import REFUSALS, record_prompts
    from treegraft.models.errors import ModelError
    from treegraft.trace import TraceError, Writer

    ticker = Ticker(len(prompts))
    with refusing(TraceError, ModelError), ticker, Writer(path, overwrite=force) as writer:
        for prompt, result in record_prompts(pair, prompts, policy, writer=writer, on_round=ticker.round,
                                             on_probe=ticker.probe, **options):
            if isinstance(result, REFUSALS):
                ticker.skip(prompt, str(result))
            else:
                ticker.finish(prompt, result.run)
            if ticker.interrupted:
                break
    ticker.report(path)


@dataclass
class Tally:
    """What was decoded so far, and in how much time."""

    tokens: int = 0
    rounds: int = 0
    accepted: int = 0
    microseconds: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.tokens + other.tokens, self.rounds + other.rounds, self.accepted + other.accepted,
                     self.microseconds + other.microseconds)

    def __str__(self) -> str:
        tau = f"{1 + self.accepted / self.rounds:.2f}" if self.rounds else "-"
        speed = f"{self.tokens * 1e6 / self.microseconds:.1f}" if self.microseconds else "-"
        return f"{self.tokens} tokens, tau {tau}, {speed} tokens/s"


class Ticker:
    """Tells how far a recording is: one live line for the current run, one line for each finished run.

    While it is entered, the first Ctrl-C ends the recording after the current round, so that the trace ends in good
    order; a second one ends it at once.
    """

    def __init__(self, prompts: int) -> None:
        self.prompts, self.runs, self.problem, self.interrupted = prompts, 0, "", False
        self.current, self.total = Tally(), Tally()
        self.console = console(stderr=True)
        self.progress = Progress(SpinnerColumn(), TextColumn("{task.description}", markup=False), console=self.console,
                                 transient=True, disable=not self.console.is_terminal)
        self.task = self.progress.add_task("reading the prompt")

    def __enter__(self) -> Ticker:
        self.handler = signal.signal(signal.SIGINT, self._interrupt)
        self.progress.start()
        return self

    def __exit__(self, kind: type | None, *rest: object) -> bool:
        self.progress.stop()
        signal.signal(signal.SIGINT, self.handler)
        return kind is KeyboardInterrupt

    def _interrupt(self, *signal_and_frame: object) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True
        self._line("stopping after this round; Ctrl-C again to stop at once")

    def round(self, round: TracedRound) -> None:
        """Show how far the run is; called after every round."""
        accept, header = round.event("accept"), round.run.header
        if round.record.index == 0:
            self.current = Tally(tokens=1, microseconds=round.run.prefill.microseconds)
        self.current += Tally(len(accept.path) + 1 - accept.discarded, 1, round.accepted, round.record.times["total"])
        self.progress.update(self.task, description=f"prompt {header.index + 1} of {self.prompts}: {self.current}")
        if self.interrupted:
            raise KeyboardInterrupt

    def probe(self, done: int, of: int) -> None:
        """Show how far the probes behind a run are; called after every position."""
        self.progress.update(self.task, description=f"probing position {done} of {of}")
        if self.interrupted:
            raise KeyboardInterrupt

    def finish(self, prompt: Prompt, run: Run) -> None:
        """One line on a run that ended; the answer itself where it is the only one."""
        counts = summary(run)
        tally = Tally(counts.tokens, counts.rounds, counts.accepted, counts.speed.microseconds)
        self.runs, self.total = self.runs + 1, self.total + tally
        self.interrupted = self.interrupted or run.end.reason == "interrupted"
        if self.prompts == len(prompt.turns) == 1:
            console().print(Text(visible(run.text, keep=RUNNING_TEXT)))
        turn = f", turn {run.header.turn + 1}" if len(prompt.turns) > 1 else ""
        known = [] if run.end.status == "speculating" else [run.end.status]
        status = f" ({'; '.join([*known, *run.end.notes])})" if known or run.end.notes else ""
        self._line(f"{prompt.id}{turn}: {tally}, ended: {run.end.reason}{status}")

    def skip(self, prompt: Prompt, problem: str) -> None:
        """One line on a prompt that could not run."""
        self.problem = self.problem or problem
        if self.prompts > 1:
            self._line(f"{prompt.id} left out: {problem}")

    def report(self, path: Path) -> None:
        """Where the trace is, and how to look at it; ends the command if there is none or it was interrupted."""
        if self.runs == 0 and self.interrupted:
            self._line("Interrupted before a run had begun; nothing was recorded.")
            raise typer.Exit(INTERRUPTED)
        if self.runs == 0:
            fail(self.problem)
        self._line(f"{path}: {self.runs} run{'s' * (self.runs > 1)}, {self.total}")
        self._line(f"Look at it with `treegraft show {path}` and `treegraft stats {path}`.")
        if self.interrupted:
            self._line("Interrupted: the trace is complete up to there.")
            raise typer.Exit(INTERRUPTED)

    def _line(self, text: str) -> None:
        self.console.print(Text(visible(text)), soft_wrap=True)


# --- show and stats -------------------------------------------------------------------------------------------------


@app.command()
def show(
    file: TraceFile,
    round: Annotated[int | None, typer.Option(help="Draw the tree of this round, from 0.")] = None,
    run: Annotated[int, typer.Option(help="The run in a trace with several, from 0.")] = 0,
) -> None:
    """Draw the draft tree of a round, or without --round the text of a run by rounds."""
    from treegraft.view.tables import run_title
    from treegraft.view.terminal import draw_round, draw_text

    with opened(file) as trace:
        if not 0 <= run < len(trace.runs):
            fail(f"--run was {run}; {file} has runs 0 to {len(trace.runs) - 1}.")
        chosen = trace.runs[run]
        rounds = len(chosen.rounds)
        if round is not None and not 0 <= round < rounds:
            fail(f"--round was {round}; run {run} has " + (f"rounds 0 to {rounds - 1}." if rounds else "no rounds."))
        picture = draw_text(chosen) if round is None else draw_round(chosen.rounds[round])
    screen = console()
    screen.print(run_title(chosen))
    screen.print(picture)
    if round is None:
        screen.print(Text(f"Run {run} of {len(trace.runs)}, {rounds} rounds. Draw one with --round N.", "dim"))


@app.command()
def stats(
    file: TraceFile,
    explain: Annotated[bool, typer.Option("--explain", help="Also say what each number means.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Print acceptance, speed and where the time went."""
    from treegraft.analysis.metrics import as_dict, by_group
    from treegraft.view.tables import definitions, run_title, statistics

    with opened(file) as trace:
        total, groups = summary(trace.runs), by_group(trace.runs)
    screen = console()
    if as_json:
        values = {"all": as_dict(total), "groups": {name: as_dict(counts) for name, counts in groups.items()}}
        screen.out(json.dumps(values, indent=2))
        return
    screen.print(run_title(trace.runs[0]))
    for part in statistics(total, groups):
        screen.print(part)
        screen.print()
    if explain:
        screen.print(definitions())


@app.command()
def whatif(
    file: TraceFile,
    budget: Annotated[str | None, typer.Option(help="Values, such as 8,16,32 or 8..64.")] = None,
    depth: Annotated[str | None, typer.Option(help="Layers drafted, such as 1..5.")] = None,
    threshold: Annotated[str | None, typer.Option(
        help="Of the scheduler (in ms) or of a gate: --threshold=-1..1.")] = None,
    call_budget: Annotated[str | None, typer.Option(help="Calls that the scheduler may make in a round.")] = None,
    settings: Annotated[list[str] | None, typer.Option(
        "--set", metavar="NAME=VALUES", help="Values of any other setting of the policy.")] = None,
    scheduler: Annotated[Path | None, typer.Option(
        help="The folder of a scheduler that decides instead of the recorded one.")] = None,
    run: Annotated[int | None, typer.Option(help="Only this run of the trace, from 0.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Replay a trace under other settings: lengths, rounds and calls exactly (of a float32 recording), times by the
    measured curves.

    Record with --level dense (exhaustive for thresholds and other calls) first.
    """
    from treegraft.analysis.recorded import NotRecorded
    from treegraft.analysis.sweep import as_dict, caveats, setting_of, sweep, values_of
    from treegraft.analysis.whatif import policy_of
    from treegraft.scheduler.files import SchedulerError, load
    from treegraft.view.tables import run_title
    from treegraft.view.whatif_tables import sweep_table

    wanted = {"budget": budget, "depth": depth, "threshold": threshold, "call_budget": call_budget}
    wanted |= policy_settings(settings or [])
    with opened(file) as trace, refusing(NotRecorded, SettingError, SchedulerError), progress_bar() as progress:
        if run is not None and not 0 <= run < len(trace.runs):
            fail(f"--run was {run}; {file} has runs 0 to {len(trace.runs) - 1}.")
        runs = trace.runs if run is None else [trace.runs[run]]
        policy = policy_of(runs[0])
        found = {name: setting_of(policy, name) for name, text in wanted.items() if text is not None}
        values = {setting.name: values_of(wanted[name], setting) for name, setting in found.items()}
        scheduled = not policy.decides or policy.needs_scheduler or "schedule" in values
        if values.keys() & {"threshold", "call_budget"} and not scheduled:
            fail("--threshold and --call-budget are a scheduler's, and this trace was recorded with the schedule "
                 f"{policy.schedule}: add --set schedule=scheduler, and --scheduler FOLDER to say which.")
        outcomes = sweep(runs, values, load(scheduler) if scheduler else None,
                         lambda done, of: progress("replaying", done / of))
    screen = console()
    if as_json:
        screen.out(json.dumps([as_dict(one) for one in outcomes], indent=2))
        return
    screen.print(run_title(runs[0]))
    screen.print(sweep_table(outcomes))
    for caveat in caveats(runs):
        screen.print(caveat, style="dim", markup=False, highlight=False)


@app.command()
def ledger(
    file: TraceFile,
    everywhere: Annotated[bool, typer.Option(
        "--everywhere", help="At every output position, by replays, not only where the rounds began.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers of every round as JSON.")] = False,
) -> None:
    """Print what Graft's pruning cost, what its retrieval brought back, and whether that pays.

    For traces of the policy graft that were recorded with --level dense.
    """
    from treegraft.analysis.ledger import as_dict
    from treegraft.analysis.ledger import ledger as ledger_of
    from treegraft.analysis.recorded import NotRecorded
    from treegraft.view.ledger_tables import ledger_table
    from treegraft.view.tables import run_title

    with opened(file) as trace, refusing(NotRecorded):
        ledgers = [ledger_of(run, everywhere=everywhere) for run in trace.runs]
    screen = console()
    if as_json:
        screen.out(json.dumps([as_dict(one) for one in ledgers], indent=2))
        return
    screen.print(run_title(trace.runs[0]))
    screen.print(ledger_table(ledgers, "positions" if everywhere else "rounds"))


@contextmanager
def opened(file: Path) -> Iterator[Trace]:
    """The trace in `file`; what it lacks is said aloud, and what is found damaged inside the block ends the command."""
    from treegraft import trace as traces

    with refusing(traces.TraceError):
        trace = traces.open(file)
        for warning in trace.warnings:
            say("warning: ", "yellow", warning)
        yield trace


# --- bench ----------------------------------------------------------------------------------------------------------


@app.command()
def bench(
    target: Annotated[str, typer.Option(help="A named target, a hub id, a folder or a GGUF file.")] = "smollm2",
    drafter: Annotated[list[str] | None, typer.Option(
        help="A drafter to load, by name or place; once for each. By default all of a named target.")] = None,
    policy: Annotated[list[str] | None, typer.Option(
        help="NAME, NAME@DRAFTER+DRAFTER, or either with :SETTING=VALUE,DRAFTER.SETTING=VALUE,...; once for each. By "
             "default all that fit.")] = None,
    prompts: Annotated[Path | None, typer.Option(
        help="A .txt, .json or .jsonl file; of several turns the first. By default the 12 bundled ones.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many prompts.")] = None,
    max_new_tokens: Annotated[int, typer.Option(min=2, help="Longest answer, in tokens.")] = 120,
    repeats: Annotated[int, typer.Option(min=1, help="How often each row decodes each prompt.")] = 5,
    dtype: Annotated[str | None, typer.Option(
        help="float32, bfloat16 or float16; by default what the device is fast in.")] = None,
    device: Annotated[str | None, typer.Option(help="cuda, cuda:1, mps or cpu; by default the first there is.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all measurements to this new file.")] = None,
    markdown: Annotated[Path | None, typer.Option(
        help="Write the tables to this new file, or into their place in one that there is.")] = None,
    ui: Annotated[bool, typer.Option("--ui", help="Measure the dashboard in a headless Chromium instead; of the other "
                                                  "options only --repeats and --markdown count.")] = False,
) -> None:
    """Measure policies against transformers' own decoding on the same loaded models."""
    if ui:
        bench_ui(repeats, markdown)
        return
    from treegraft.bench import command
    from treegraft.prompts import BAR, PromptError, load

    with refusing(PromptError):
        chosen = load(prompts or BAR)[:limit]
    with refusing(command.BenchError):
        files = command.Files(json_file, markdown)
    pair = load_pair(target, drafter or None, {}, dtype=dtype, device=device)
    with refusing(*command.REFUSALS):
        result = command.bench(pair, chosen, policy or [], files, max_new_tokens=max_new_tokens, repeats=repeats,
                               screen=console(), progress=console(stderr=True))
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)


def bench_ui(repeats: int, markdown: Path | None) -> None:
    """Measure the dashboard, print a table, and put it into a Markdown file."""
    from treegraft.bench.errors import BenchError
    from treegraft.bench.files import check_file
    from treegraft.bench.ui import measure_ui
    from treegraft.bench.ui_report import PLACE, on_terminal, write_markdown

    screen, progress = console(), console(stderr=True)
    with refusing(BenchError):
        if markdown:
            check_file(markdown, "--markdown", PLACE)
        with progress.status("") as status:
            found = measure_ui(repeats, status.update)
        for part in on_terminal(found):
            screen.print(part)
        if markdown:
            write_markdown(markdown, found)


# --- dashboard ------------------------------------------------------------------------------------------------------


@app.command()
def dashboard(
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="By default 8501, or the next free one.")] = None,
    address: Annotated[str | None, typer.Option(
        help="Where to listen; 0.0.0.0 lets other machines in. By default localhost.")] = None,
) -> None:
    """Open the dashboard in a browser."""
    try:
        from app_pages.server import ServeError, make_server
    except ModuleNotFoundError as error:
        if error.name != "app_pages":
            raise
        fail("the installed package does not hold the dashboard's pages: install it from a clone of the repository, "
             "with `pip install -e .`.")
    with refusing(ServeError):
        make_server(address, port).run()


# --- what there is --------------------------------------------------------------------------------------------------


@models_app.callback()
def models(context: typer.Context) -> None:
    """List the named targets with their drafters, or fetch one."""
    from treegraft.models.pairs import PAIRS
    from treegraft.view.tables import add_row, text_table

    if context.invoked_subcommand:
        return
    screen = console()
    for pair in PAIRS.values():
        place = str(pair.target.folder) if pair.target.is_here else f"not here yet: treegraft models fetch {pair.name}"
        screen.print(Text.assemble((pair.name, "bold"), f": {pair.help}\n{pair.target.licence}, {place}"))
        listing = text_table("drafter", "kind", "")
        for name, drafter in pair.drafters.items():
            add_row(listing, f"  {name}", drafter.kind, drafter.help)
        screen.print(listing)
    screen.print("\nAny Hugging Face causal language model works too: --target takes a hub id, a folder or a GGUF.")


@models_app.command()
def fetch(name: Annotated[str, typer.Argument(help="A name from `treegraft models`.")]) -> None:
    """Download a named target, once, and store it ready to load."""
    from treegraft.models.errors import ModelError
    from treegraft.models.fetch import fetch as fetch_model
    from treegraft.models.pairs import PAIRS

    target = PAIRS[pick("model", name, list(PAIRS))].target
    with refusing(ModelError), progress_bar() as progress:
        fetch_model(target, progress)
    console().print(f"{name} is here: {target.folder}")


@app.command()
def policies() -> None:
    """List the policies and drafters with their settings."""
    from treegraft.drafters import DRAFTERS, drafter_class
    from treegraft.policies import POLICIES

    screen = console()
    for policy in POLICIES.values():
        roles = "; ".join(f"{role.name}, which {role.help}" for role in policy.roles) or "none"
        choice(screen, policy.name, f"{policy.__doc__.splitlines()[0]} Drafters: {roles}.", settings_of(policy))
    for kind in DRAFTERS:
        drafter = drafter_class(kind)
        choice(screen, f"drafter {kind}", drafter.__doc__.splitlines()[0], settings_of(drafter))


def choice(screen: Console, name: str, help: str, settings: Sequence[Setting]) -> None:
    """Print one policy or drafter with its settings."""
    from treegraft.view.tables import settings_table

    screen.print(Text.assemble((name, "bold"), f": {help}"))
    if settings:
        screen.print(settings_table(settings))
    screen.print()
