"""The default pair: every policy writes what plain decoding writes, in fp32, and says how it went."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import treegraft as tg
from tests.analysis.recordings import made_scheduler
from tests.analysis.test_whatif import same_rounds
from tests.decoding import assert_same_text, plain_generate
from tests.default_pair import HERE
from treegraft.analysis.whatif import WhatIf
from treegraft.policies import POLICIES
from treegraft.run import RunError
from treegraft.trace import replay
from treegraft.trace.records import Gate

pytestmark = pytest.mark.pair

SMALL = {"eagle2": {"budget": 24, "top_k": 6, "depth": 4}, "treegraft": {"budget": 24, "top_k": 6, "schedule": "1,2"},
         "graft": {"budget": 30, "top_k": 6, "depth": 6, "gates": "0,1,3"},
         "ddd": {"budget": 24, "top_k": 6, "depth": 6, "checks": "2,4"},
         "opt-tree": {"budget": 24, "threshold": 0.2, "depth": 6}, "talon": {"budget": 24}, "sequoia": {"budget": 24},
         "specexec": {"budget": 32, "beams": 8, "width": 8, "depth": 8}, "cascade": {"top_k": 3, "late": 3}}
PROMPTS = [
    "Why is the sky blue?",
    "Write a Python function that reverses a list.",
    "List three fruits.",
    "Repeat after me: the cat sat on the mat. The cat sat on the mat. The cat",
    "Переведи на английский: доброе утро",
    "東京はどこですか？",
    "😀😃😄 what do these mean? 🏳️‍🌈",
    "Summarize: The library opened in 1912 and was rebuilt after a fire in 1954.",
    "1 2 3 4 5 6 7 8",
    "مرحبا",
]
NEW_TOKENS = 20


@pytest.fixture(scope="module")
def references(pair) -> dict[str, list[int]]:
    """Plain greedy output of transformers by prompt."""
    run = tg.record(pair, PROMPTS[0], policy=tg.Plain(), max_new_tokens=1).run
    assert run.header.target.dtype == "float32"
    texts = {}
    for prompt in PROMPTS:
        tokens = tg.record(pair, prompt, policy=tg.Plain(), max_new_tokens=1).run.header.prompt.tokens
        texts[prompt] = plain_generate(pair.target.model, tokens, NEW_TOKENS)
    return texts


def policy_of(name: str):
    return POLICIES[name](**SMALL.get(name, {}))


THOROUGH = [("plain", []), ("lookup", ["lookup"]), ("treegraft", ["lookup", "strong"]),
            ("graft", ["eagle3", "successors"]),
            *((policy, [drafter]) for policy in ("chain", "eagle2") for drafter in ("eagle3", "strong"))]
"""Compared on all prompts; the other policies, with the first drafters that fit, on three."""

CASES = [*((*case, PROMPTS) for case in THOROUGH),
         *((name, None, PROMPTS[1:6:2]) for name in HERE if name not in dict(THOROUGH))]


@pytest.mark.parametrize(("name", "drafters", "prompts"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
def test_output_equals_plain_greedy_decoding(pair, references, name, drafters, prompts):
    for prompt in prompts:
        reference = references[prompt]
        run = tg.record(pair, prompt, policy=policy_of(name), drafters=drafters, max_new_tokens=NEW_TOKENS).run
        assert_same_text(pair.target.model, run.header.prompt.tokens, run.output, reference)
        assert run.end.new_tokens == len(run.output)


@pytest.mark.parametrize(("learn", "settings"), [
    ("all", {"tau_d0": 1.0}), ("committed", {"tau_d1": 1.0, "tau_d0": 0.0}),
    ("all", {"placement": "none", "tau_d5": 1.0}), ("all", {"placement": "tail", "tau_d5": 1.0}),
    ("all", {"placement": "fixed"})], ids=str)
def test_output_of_graft_equals_plain_greedy_decoding(pair, references, learn, settings, monkeypatch):
    """In every stage and with every placement; a stopped round is full, or says why not."""
    monkeypatch.setattr(pair.drafters["successors"], "learn", learn)
    for prompt in PROMPTS[1:4:2]:
        policy = tg.Graft(**(SMALL["graft"] | settings))
        run = tg.record(pair, prompt, policy=policy, drafters=["eagle3", "successors"], max_new_tokens=NEW_TOKENS).run
        assert_same_text(pair.target.model, run.header.prompt.tokens, run.output, references[prompt])
        for traced in run.rounds:
            graft = traced.event("graft")
            stopped = any(event.stop for event in traced.record.events if isinstance(event, Gate))
            assert (graft is not None) == (policy.placement == "fixed" or (stopped and policy.placement != "none"))
            if graft:
                assert len(traced.event("prune").kept) == policy.budget - graft.shortfall
                assert bool(graft.shortfall) == ("empty" in traced.record.note)


@pytest.mark.parametrize(("drafters", "settings"), [
    (["lookup", "strong"], {"schedule": "never"}), (["lookup", "strong"], {"schedule": "always"}),
    (["lookup", "strong"], {"schedule": "scheduler", "threshold": -5.0}),
    (["lookup", "strong"], {"schedule": "2,4", "survive_empty": True, "skip_expanded": True}),
    (["lookup", "eagle3"], {"schedule": "always"}), (["lookup", "eagle3"], {"schedule": "2", "survive_empty": True}),
    (["eagle3", "strong"], {"schedule": "1,3"})], ids=str)
def test_output_of_treegraft_equals_plain_greedy_decoding(pair, references, drafters, settings):
    for prompt, reference in list(references.items())[1:4:2]:
        run = tg.record(pair, prompt, policy=tg.TreeGraft(budget=40, **settings), drafters=drafters,
                        scheduler=made_scheduler(), max_new_tokens=NEW_TOKENS).run
        assert_same_text(pair.target.model, run.header.prompt.tokens, run.output, reference)
        assert any(forward.model == 1 for record in run.records for forward in record.forwards) or (
            settings["schedule"] == "never")


@pytest.mark.parametrize(("drafters", "prompts"), [
    (["lookup", "strong"], PROMPTS[:3]), (["lookup", "eagle3"], PROMPTS[3:4])], ids=str)
def test_what_ifs_equal_live_runs(pair, drafters, prompts):
    """A replay of an exhaustive trace and a live run with the same threshold and budget: token by token, round by
    round."""
    shared = {"drafters": drafters, "scheduler": made_scheduler(), "max_new_tokens": 32}
    for prompt in prompts:
        recorded = tg.record(pair, prompt, policy=tg.TreeGraft(schedule="always"), level="exhaustive", **shared).run
        whatif = WhatIf(recorded)
        whatif.use(made_scheduler())
        for threshold, budget in ((0.0, 63), (-0.4, 20)):
            policy = tg.TreeGraft(threshold=threshold, budget=budget)
            live = tg.record(pair, prompt, policy=policy, clock=recorded.header.clock, **shared).run
            assert live.header.clock == recorded.header.clock
            assert live.output == recorded.output
            same_rounds(whatif.replay(policy), live)


@pytest.mark.parametrize("name", HERE)
def test_prompt_of_one_token(pair, name):
    run = tg.record(pair, "The", policy=policy_of(name), max_new_tokens=8, raw=True).run
    assert len(run.header.prompt.tokens) == 1
    assert_same_text(pair.target.model, run.header.prompt.tokens, run.output,
                     plain_generate(pair.target.model, run.header.prompt.tokens, 8))


@pytest.mark.parametrize("name", HERE)
def test_prompt_near_the_context_limit(pair, name):
    prompt = "one two three four five six seven eight one two three four five six seven"
    length = len(pair.target.tokenizer(prompt)["input_ids"])
    run = tg.record(pair, prompt, policy=policy_of(name), raw=True, max_context=length + 3).run
    assert run.end.reason == "context"
    assert len(run.output) == 3
    assert_same_text(pair.target.model, run.header.prompt.tokens, run.output,
                     plain_generate(pair.target.model, run.header.prompt.tokens, 3))


@pytest.mark.parametrize("name", HERE)
def test_limit_of_one_token_and_immediate_end(pair, name, monkeypatch):
    run = tg.record(pair, PROMPTS[0], policy=policy_of(name), max_new_tokens=1).run
    assert (len(run.output), run.end.reason, len(run.rounds)) == (1, "length", 0)
    monkeypatch.setattr(pair.target, "eos_ids", {run.output[0]})
    run = tg.record(pair, PROMPTS[0], policy=policy_of(name)).run
    assert (len(run.output), run.end.reason, len(run.rounds)) == (1, "eos", 0)


def test_stop_string_inside_a_block_ends_the_text_there(pair):
    whole = tg.record(pair, PROMPTS[1], policy=tg.Plain(), max_new_tokens=30).text
    needle = whole[20:24]
    for name in dict(THOROUGH):
        run = tg.record(pair, PROMPTS[1], policy=policy_of(name), max_new_tokens=30, stop=[needle]).run
        assert run.end.reason == "stop"
        assert needle in run.text
        assert run.text.index(needle) + len(needle) > len(run.text) - 12


def test_live_events_rebuild_the_live_tree(pair):
    """The trace's event replay ends in the tree that the run had, at every event of every round."""
    for name in ("chain", "lookup", "eagle2", "treegraft", "graft"):
        run = tg.record(pair, PROMPTS[3], policy=policy_of(name), max_new_tokens=16).run
        for traced in run.rounds:
            last = replay.states(traced.record)[-1]
            assert all(last.born)
            assert [None if s is None else s for s in last.scores] == traced.record.nodes.score


def test_interrupt_keeps_a_valid_trace(pair, tmp_path):
    def stop_after_two(traced):
        if traced.index == 1:
            raise KeyboardInterrupt

    path = tmp_path / "run.jsonl.zst"
    tg.record(pair, PROMPTS[0], policy=tg.Plain(), out=path, on_round=stop_after_two)
    trace = tg.open(path)
    assert trace.runs[0].end.reason == "interrupted"
    assert len(trace.rounds) == 2
    assert not trace.warnings


def test_written_trace_equals_the_run_in_memory(pair, tmp_path):
    path = tmp_path / "run.jsonl.zst"
    recording = tg.record(pair, PROMPTS[0], policy=policy_of("eagle2"), out=path, max_new_tokens=12)
    read = tg.open(path).runs[0]
    assert read.header == recording.run.header
    assert [r.record for r in read.rounds] == [r.record for r in recording.run.rounds]
    assert (read.output, read.text, read.end) == (recording.run.output, recording.text, recording.run.end)


def test_recorded_probabilities_are_the_targets(pair):
    run = tg.record(pair, PROMPTS[0], policy=policy_of("eagle2"), max_new_tokens=10).run
    traced = run.rounds[1]
    verify = traced.event("verify")
    text = run.header.prompt.tokens + run.output[: traced.output_start]
    with torch.inference_mode():
        logprobs = pair.target.model(torch.tensor([text])).logits[0, -1].float().log_softmax(-1)
    walked = verify.walk[0]
    assert walked.tokens[0] == int(logprobs.argmax())
    expected = np.rint(logprobs[walked.tokens].numpy() * 1e5)
    assert np.abs(np.array(walked.logprobs) - expected).max() <= 50
    assert abs(walked.entropy - float(-(logprobs.exp() * logprobs).sum()) * 1e5) <= 500
    place = dict(zip(verify.order, verify.logprob, strict=True))
    for child, rank in zip(walked.children, walked.ranks, strict=True):
        token = traced.record.nodes.token[child]
        assert rank == int((logprobs > logprobs[token]).sum())
        assert abs(place[child] - float(logprobs[token]) * 1e5) <= 50


@pytest.mark.parametrize(("drafters", "policy", "words"), [
    (["strong", "lookup"], "eagle2", "takes 1 drafter"),
    (["nobody"], "eagle2", "is not there"),
    (["lookup"], "eagle2", "cannot fill"),
    (["strong"], "lookup", "cannot fill"),
])
def test_drafters_that_do_not_fit_are_refused_in_plain_words(pair, drafters, policy, words):
    with pytest.raises(RunError, match=words):
        tg.record(pair, "Hi", policy=policy_of(policy), drafters=drafters)


def test_prompt_longer_than_the_context_is_refused(pair):
    with pytest.raises(RunError, match="no room for an answer"):
        tg.record(pair, "word " * 50, policy=tg.Plain(), max_context=20)


def test_shared_tensors(pair):
    strong = pair.drafters["strong"].model
    assert strong.get_input_embeddings().weight.data_ptr() == pair.target.model.get_input_embeddings().weight.data_ptr()
