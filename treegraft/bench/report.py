"""The result of a benchmark as tables for the terminal, as Markdown, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from treegraft.analysis.spread import Spread
from treegraft.analysis.text import visible
from treegraft.bench.files import put
from treegraft.bench.forwards import CONTEXT
from treegraft.bench.runner import Bench
from treegraft.bench.samples import BARE, VERIFY
from treegraft.bench.summary import RowSummary, forward_ratios, summarise
from treegraft.view.grids import Grid, figures, plain
from treegraft.view.tables import number, percent

PLACE = "bench"
"""Where the result goes in a Markdown file, see `files.put`."""

PHASES = ("draft", "verify", "accept", "commit")


def grids(bench: Bench) -> list[Grid]:
    """The tables of a result that has samples."""
    rows = summarise(bench.samples, bench.differences)
    return [speed_grid(rows), time_grid([row for row in rows if row.phases]), *forward_grids(bench)]


def speed_grid(rows: Sequence[RowSummary]) -> Grid:
    """Tokens/s, ratios, tau and equality of the text."""
    return Grid(
        "Speed", ("row", "tokens/s", "x generate", "x on the whole set", "x own plain", "tau", "same text", "near ties",
                  "differ"),
        [(row.name, number(row.tokens_per_second.median, 1), figures(row.over_generate), middle(row.set_over_generate),
          middle(row.over_plain), number(row.tau), str(row.same), str(row.near_ties), str(row.differing))
         for row in rows],
        ("tokens/s: new tokens over time on the whole prompt set, prefill included; median over the repeats.",
         "x generate: ratio of tokens/s to transformers' plain `generate`, taken for each repeat and prompt; median "
         "(quartiles). x on the whole set: the same ratio of all prompts together, median over the repeats. "
         "x own plain: the first ratio, to our own loop without drafting.",
         "tau: 1 + accepted tokens / verifications; for `generate`, new tokens / forwards of the target.",
         "same text, near ties, differ: prompts whose output equals plain `generate`'s, differs first where the "
         "target's two best tokens are so close that rounding decides, and differs otherwise."))


def time_grid(rows: Sequence[RowSummary]) -> Grid:
    """Where the time of a round goes, and what recording costs."""
    return Grid(
        "Time in our loop", ("row", "prefill", *PHASES, "host", "recorder", "time with recording"),
        [(row.name, percent(row.prefill), *(percent(row.phases.get(phase, 0)) for phase in PHASES), shares(row.host),
          shares(row.recording), figures(row.recorded_time, 3)) for row in rows],
        (f"prefill: share of the run. {', '.join(PHASES)}: shares of the rounds. host: share of the rounds outside of "
         "model forwards; median (quartiles) over repeats and prompts.",
         "recorder: its own time over that of the loop. time with recording: that of `record`, which writes a trace "
         "file, over that of the bare loop on the same prompt and repeat. The chat template, the tokenizer and the "
         "trace's header are in it."))


def forward_grids(bench: Bench) -> Iterator[Grid]:
    """What single forwards cost, if they were measured."""
    ratios = forward_ratios(bench.forwards)
    if ratios:
        yield Grid(
            "Single forwards", ("forward", "tokens", "ms", "compared with", "ratio"),
            [(ratio.what, str(ratio.tokens), number(ratio.milliseconds, 1), ratio.against, figures(ratio.spread))
             for ratio in ratios],
            (f"Behind a context of {CONTEXT} tokens, alternating; ratios in one turn, median (quartiles). {BARE}: the "
             f"model with transformers' own cache and mask. {VERIFY}: mask, forward and the choice of a token after "
             "every node of a chain.",))


def middle(values: Spread | None) -> str:
    return number(values.median if values else None)


def shares(values: Spread | None) -> str:
    """Median (quartiles) in percent."""
    return f"{values.median:.1%} ({values.low:.1%} to {values.high:.1%})" if values else "-"


def conditions(bench: Bench) -> list[str]:
    """The machine and the settings, a line each, then what makes the numbers doubtful."""
    setup, machine = bench.setup, bench.machine
    lines = [
        f"{setup.date}; {machine.cpu}, {machine.system}; cores: {machine.cores}, threads: {machine.threads}"
        + (f"; {machine.accelerator}" if machine.accelerator else ""),
        f"{setup.target} ({setup.parameters / 1e6:.0f} M parameters), {setup.dtype} on {setup.device}; fast bfloat16: "
        f"{'yes' if machine.fast_bf16 else 'no'}; freed memory kept: {'yes' if machine.memory_kept else 'no'}",
        f"prompts: {setup.prompts} ({setup.prompt_tokens} tokens), new tokens: up to {setup.max_new_tokens} each, "
        f"greedy, batch size 1; repeats: {setup.repeats}, rows alternating, warm-up dropped",
        f"Python {machine.python}, torch {machine.torch}, transformers {machine.transformers}, "
        f"treegraft {machine.treegraft}"]
    if machine.is_busy:
        lines.append(f"The machine was busy: load {machine.load:.1f} on {machine.cores} cores before the start. "
                     "Measure again when it is quiet.")
    if bench.interrupted:
        pairs = len({(sample.repeat, sample.prompt) for sample in bench.samples})
        lines.append(f"Interrupted after {pairs} of {setup.repeats * setup.prompts} passes over the rows.")
    return lines


# --- forms ----------------------------------------------------------------------------------------------------------


def on_terminal(bench: Bench) -> Iterator[RenderableType]:
    """What the command prints."""
    for line in conditions(bench):
        yield Text(visible(line))
    for grid in grids(bench):
        yield ""
        yield from grid.on_terminal()


def as_markdown(bench: Bench) -> str:
    """The result as a piece of a Markdown document."""
    facts = "\n".join(f"- {plain(line)}" for line in conditions(bench))
    return "\n\n".join([facts, *(grid.as_markdown() for grid in grids(bench))]) + "\n"


def as_json(bench: Bench) -> str:
    """All measurements and what follows from them. Outputs are left out; their lengths are there."""
    samples = [{name: value for name, value in asdict(sample).items() if name != "output"} | {"tokens": sample.tokens}
               for sample in bench.samples]
    return json.dumps({
        "setup": asdict(bench.setup), "machine": asdict(bench.machine), "interrupted": bench.interrupted,
        "rows": [asdict(row) for row in summarise(bench.samples, bench.differences)],
        "forwards": [asdict(ratio) for ratio in forward_ratios(bench.forwards)],
        "differences": [asdict(found) for found in bench.differences],
        "samples": samples, "forward_times": [asdict(time) for time in bench.forwards]}, indent=1) + "\n"


def write_markdown(path: Path, bench: Bench) -> None:
    """Put the result into the file at `path`, or make a file of it. Errors: `BenchError`."""
    put(path, as_markdown(bench), PLACE)
