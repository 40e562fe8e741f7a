"""The numbers of a comparison, counted again from the text of its traces, and texts that differ."""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zstandard

import treegraft as tg
from tests.compare.own import POLICIES
from treegraft.analysis.agreement import margins
from treegraft.analysis.metrics import summary
from treegraft.compare.folder import file_name
from treegraft.compare.report import read_comparison
from treegraft.compare.table import Decoded, accepted_by, compare_runs, read_run
from treegraft.trace import Run

ROWS = ("plain", *POLICIES)


def trace_of(folder: Path, policy: str) -> Path:
    return folder / f"{file_name(policy)}.jsonl.zst"


def run_lines(path: Path) -> list[dict[str, list[dict]]]:
    """The lines of each run by kind, without the reader."""
    found = []
    with path.open("rb") as file:
        text = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        for line in io.TextIOWrapper(text, "utf-8"):
            record = json.loads(line)
            if record["kind"] == "header":
                found.append({})
            found[-1].setdefault(record["kind"], []).append(record)
    return found


def event(record: dict, kind: str) -> dict:
    return next(one for one in record["events"] if one["kind"] == kind)


def count(runs: list[dict[str, list[dict]]]) -> Counter[str]:
    """The sums that a row is made of."""
    total: Counter[str] = Counter()
    for run in runs:
        names = {drafter["id"]: drafter["name"] for drafter in run["header"][0].get("drafters", [])}
        total["prefill"] += run["prefill"][0]["microseconds"]
        for record in run.get("round", []):
            accept = event(record, "accept")
            kept = accept["path"][: len(accept["path"]) + 1 - accept.get("discarded", 0)]
            total.update(rounds=1, accepted=len(kept), verified=len(event(record, "verify")["order"]) - 1)
            for node in kept:
                bits = record["nodes"]["proposers"][node]
                several = bits & (bits - 1)
                total["from both" if several else f"from {names[bits.bit_length() - 1]}"] += 1
            for forward in record.get("forwards", []):
                if forward["model"] != -1:
                    total[f"by {names[forward['model']]}"] += 1
            total.update({f"in {phase}": time for phase, time in record["times"].items()})
    return total


def of_kind(total: Counter[str], kind: str) -> dict[str, int]:
    return {name.removeprefix(kind + " "): value for name, value in total.items() if name.startswith(kind + " ")}


@pytest.mark.parametrize("category", [None, "writing", "qa"])
@pytest.mark.parametrize("policy", ROWS)
def test_rows_are_what_the_traces_say(finished, policy, category):
    folder, _ = finished
    runs = [run for run in run_lines(trace_of(folder, policy)) if category in (None, run["header"][0]["group"])]
    total = count(runs)
    (row,) = [one for one in read_comparison(folder).rows if (one.policy, one.category) == (policy, category)]
    rounds = total["rounds"]
    assert (row.rounds, row.turns) == (rounds, len(runs))
    assert row.tokens == sum(run["end"][0]["new_tokens"] for run in runs)
    assert row.tau == pytest.approx(1 + total["accepted"] / rounds)
    assert row.mean_accepted == pytest.approx(total["accepted"] / rounds)
    assert row.node_yield == (pytest.approx(total["accepted"] / total["verified"]) if total["verified"] else None)
    assert row.forwards == pytest.approx({name: one / rounds for name, one in of_kind(total, "by").items()})
    assert row.draft_forwards == pytest.approx(sum(of_kind(total, "by").values()) / rounds)
    assert row.origins == of_kind(total, "from")
    times = of_kind(total, "in")
    assert sum(row.phases.values()) == pytest.approx(times.pop("total") / 1000 / rounds)
    assert {phase: row.phases.get(phase, 0) for phase in times} == pytest.approx(
        {phase: time / 1000 / rounds for phase, time in times.items()})
    assert row.prefill == pytest.approx(total["prefill"] / 1000 / len(runs))
    assert (row.same, row.near_ties, row.differing) == (len(runs), 0, 0)


def test_the_interesting_numbers_occur(finished):
    """Else the test above could not fail."""
    plain, eagle2, treegraft = read_comparison(finished[0]).total
    assert plain.tau == 1
    assert plain.draft_forwards == 0
    assert eagle2.tau > 1.5
    assert set(eagle2.origins) == {"small"}
    assert treegraft.origins["small"] > 0
    assert set(eagle2.forwards) == set(treegraft.forwards) == {"small"}


def test_accepted_tokens_of_several_drafters_are_told_apart(finished):
    run = tg.open(trace_of(finished[0], POLICIES[1])).runs[0]
    before = accepted_by([summary(run)])
    rounds = run.rounds[:]
    changed = next(round for round in rounds if round.accepted)
    changed.record.nodes.proposers[changed.path[0]] = 0b11
    copy = Run(run.header, run.pieces, run.prefill, [round.record for round in rounds], run.end)
    after = accepted_by([summary(copy)])
    assert after.pop("both") == before.pop("both", 0) + 1
    assert sum(after.values()) == sum(before.values()) - 1


@pytest.mark.parametrize("policy", POLICIES)
def test_ratios_are_taken_prompt_by_prompt(finished, policy):
    folder, _ = finished
    mine, plain = ({}, {})
    for text, speeds in ((policy, mine), ("plain", plain)):
        for run in run_lines(trace_of(folder, text)):
            tokens, time = speeds.get(run["header"][0].get("index", 0), (0, 0))
            end = run["end"][0]
            speeds[run["header"][0].get("index", 0)] = (tokens + end["new_tokens"], time + end["microseconds"])
    ratios = [mine[number][0] / mine[number][1] * plain[number][1] / plain[number][0] for number in mine]
    row = next(one for one in read_comparison(folder).total if one.policy == policy)
    assert len(ratios) == row.over_plain.count == row.prompts == 3
    assert [row.over_plain.low, row.over_plain.median, row.over_plain.high] == pytest.approx(
        np.percentile(ratios, (25, 50, 75)).tolist())
    (tokens, time), (plain_tokens, plain_time) = (np.sum(list(speeds.values()), axis=0) for speeds in (mine, plain))
    assert row.set_over_plain == pytest.approx(tokens / time * plain_time / plain_tokens)
    assert row.tokens_per_second == pytest.approx(tokens * 1e6 / time)


def test_margins_of_plain_decoding_are_those_of_the_model(finished, tiny_pair):
    import torch

    for run in tg.open(trace_of(finished[0], "plain")).runs[:2]:
        found, output, prompt = margins(run), run.output, run.header.prompt.tokens
        assert len(found) == len(output)
        with torch.inference_mode():
            logits = tiny_pair.target.model(torch.tensor([prompt + output])).logits[0, len(prompt) - 1:-1].float()
        best = logits.log_softmax(-1).topk(2).values
        for margin, (first, second) in zip(found[1:], best[1:].tolist(), strict=True):
            assert margin == pytest.approx(first - second, abs=1e-3)


@pytest.fixture(scope="module")
def decoded(finished) -> dict[str, list[Decoded]]:
    return {policy: [read_run(run, policy == "plain") for run in tg.open(trace_of(finished[0], policy)).runs]
            for policy in ROWS}


@pytest.mark.parametrize(("margin", "dtype", "near"), [
    (5e-5, "float32", True), (0.2, "float32", False), (0.2, "bfloat16", True), (None, "float32", False),
    (5e-5, "int4", True), (0.01, "int4", False)])
def test_texts_that_differ_are_judged_by_the_margin_of_plain_decoding(decoded, margin, dtype, near):
    plain, mine = decoded["plain"], decoded[POLICIES[0]]
    margins = [9.0, 9.0, margin, *[9.0] * 9]
    reference = [replace(one, margins=margins, target=replaced(one.target, dtype)) for one in plain]
    output = mine[1].output
    others = [mine[0], replace(mine[1], output=[*output[:2], output[2] + 1, *output[3:]]), *mine[2:]]
    comparison = compare_runs({"plain": reference, "other": others}, "plain", ["a", "a", "c"], max_new_tokens=12)
    (found,) = comparison.differences
    assert (found.policy, found.prompt, found.id, found.turn, found.place) == ("other", 0, "a", 1, 2)
    assert (found.margin, found.near_tie) == (margin, near)
    row = comparison.total[1]
    assert (row.same, row.near_ties, row.differing) == (3, int(near), int(not near))
    assert [(one.category, one.differing) for one in comparison.rows if one.policy == "other"] == [
        (None, int(not near)), ("writing", int(not near)), ("qa", 0)]


def replaced(target, dtype: str):
    import msgspec

    return msgspec.structs.replace(target, dtype=dtype)


def test_prompts_without_categories_make_no_category_tables(decoded):
    bare = {policy: [replace(one, category="") for one in runs] for policy, runs in decoded.items()}
    comparison = compare_runs(bare, "plain", ["a", "b", "c", "d"], max_new_tokens=12)
    assert comparison.categories == []
    assert len(comparison.rows) == len(ROWS)
    assert comparison.setup.left_out == ["d"]
    assert (comparison.setup.prompts, comparison.setup.turns) == (3, 4)
