"""A comparison from its prompts to its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from treegraft import trace
from treegraft.bench.machine import describe_machine
from treegraft.compare.folder import LARGEST_TRACE, Comparing, file_name
from treegraft.compare.job import PLAIN, Job
from treegraft.compare.report import CSV, JSON, MARKDOWN, as_csv, as_json, as_markdown
from treegraft.compare.table import Comparison, Session, compare_runs, read_run
from treegraft.files import write_whole
from treegraft.models import Pair
from treegraft.models.loader import load, wanted_drafters
from treegraft.models.memory import keep_memory
from treegraft.models.pairs import FREE_DRAFTERS, PAIRS, DrafterSpec
from treegraft.policy_text import choose_policies, parse_policy
from treegraft.prompt_jobs import Models, lend
from treegraft.prompts import Prompt, bundled
from treegraft.run import RunError, check_request
from treegraft.view.comparison import comparison_figure
from treegraft.view.still import save_html, save_png

HTML, PNG = "plots.html", "plots.png"


def compare_policies(target: str | Path = "smollm2", policies: Sequence[str] = (), *, out: str | Path,
                     prompts: Sequence[Prompt] | None = None,
                     drafters: Sequence[str] | Mapping[str, DrafterSpec] | None = None, max_new_tokens: int = 120,
                     engine: str = "local", workers: int = 1, dtype: str | None = None, device: str | None = None,
                     on_prompt: Callable[[str, str], None] = lambda prompt, problem: None) -> Comparison:
    """Decode `prompts` (by default the bundled ones) with each policy and plainly; keep traces, tables and plots in
    the folder `out`, where an interrupted comparison goes on.

    `policies` are texts such as `eagle2:budget=15` or `treegraft@lookup+eagle3`, by default those that the pair has
    drafters for; `target`, `drafters`, `dtype` and `device` are as for `load`. `engine` and `workers` are as for
    `treegraft.jobs.run_jobs`. `on_prompt` hears the id of each finished prompt, and what kept it from being decoded.

    Errors: `RunError`, `SettingError`, `ModelError`, `PromptError`, `JobError`, `TraceError`, `OSError`.
    """
    known = PAIRS[str(target)].drafters if str(target) in PAIRS else FREE_DRAFTERS
    models = Models(str(target), dict(wanted_drafters(drafters, known)), {"dtype": dtype, "device": device})
    pair = load(models.target, models.drafters, **models.options)
    comparing = plan(models, pair, policies, bundled() if prompts is None else prompts, Path(out), max_new_tokens)
    for job, problem in decode_missing(comparing, comparing.jobs(), engine=engine, workers=workers):
        on_prompt(job.prompt.id, problem)
    comparison = read(comparing)
    write(comparing, comparison)
    return comparison


def plan(models: Models, pair: Pair, policies: Sequence[str], prompts: Sequence[Prompt], folder: Path,
         max_new_tokens: int) -> Comparing:
    """What is to be compared on the loaded `pair`, and a folder that belongs to it.

    Errors: `SettingError` and `RunError` for what cannot run, and for a folder that belongs to another comparison.
    """
    plain = parse_policy(PLAIN, pair)
    check_request(plain.policy, max_new_tokens, ())
    if not prompts:
        raise RunError("there are no prompts; give one or more.")
    lend(models, pair)
    chosen = [one for one in choose_policies(policies, pair) if one.text != PLAIN]
    comparing = Comparing(folder, models, [plain, *chosen], list(prompts), max_new_tokens)
    comparing.claim()
    return comparing


def decode_missing(comparing: Comparing, jobs: Sequence[Job], *, engine: str,
                   workers: int) -> Iterator[tuple[Job, str]]:
    """Do the jobs of a comparison; yields each that is done, with what kept (part of) it from being decoded.

    Errors: `RunError`, `JobError`, `OSError`.
    """
    machine = describe_machine(comparing.policies[0].pair.target.device, keep_memory())
    session = Session(f"{datetime.now(UTC):%Y-%m-%d}", asdict(machine), machine.is_busy, engine, workers)
    for number, done in enumerate(comparing.run(jobs, engine=engine, workers=workers)):
        if number == 0:
            comparing.note_session(session)
        yield done


def read(comparing: Comparing, on_prompt: Callable[[], None] = lambda: None) -> Comparison:
    """The comparison of all prompts that every policy has decoded; `on_prompt` is called after each.

    Errors: `RunError` where there is none, `TraceError` for a damaged trace.
    """
    texts = [chosen.text for chosen in comparing.policies]
    places = {text: comparing.finished(text) for text in texts}
    numbers = sorted(set.intersection(*(set(finished) for finished in places.values())))
    if not numbers:
        raise RunError("no prompt could be decoded by all policies; there is nothing to compare.")
    runs = {text: [] for text in texts}
    for number in numbers:
        for text in texts:
            runs[text] += [read_run(run, text == PLAIN) for run in trace.open(places[text][number]).runs]
        on_prompt()
    return compare_runs(runs, PLAIN, [prompt.id for prompt in comparing.prompts],
                        max_new_tokens=comparing.max_new_tokens, sessions=comparing.sessions())


def write(comparing: Comparing, comparison: Comparison) -> list[str]:
    """Write one trace a policy, the tables and the plots; returns what could not be written, and why.

    Errors: `OSError`.
    """
    folder, problems = comparing.folder, []
    for chosen in comparing.policies:
        if not comparing.join(chosen.text):
            problems.append(f"{file_name(chosen.text)}.jsonl.zst would be larger than {LARGEST_TRACE >> 20} MiB; its "
                            "prompts are single traces in the folder `parts`.")
    write_whole(folder / JSON, as_json(comparison))
    write_whole(folder / CSV, as_csv(comparison).encode())
    write_whole(folder / MARKDOWN, as_markdown(comparison).encode())
    figure = comparison_figure(comparison)
    save_html(figure, folder / HTML)
    problem = save_png(figure, folder / PNG)
    return problems + ([problem] if problem else [])
