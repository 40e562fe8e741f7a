"""Every row writes the same text and counts it the same way."""

from __future__ import annotations

import pytest

from treegraft.bench.rows import Question, bare_settings, build_rows, counted
from treegraft.bench.samples import GENERATE
from treegraft.models.tokenizer import encode_prompt
from treegraft.run import RunError
from treegraft.settings import SettingError

NEW_TOKENS = 24
POLICIES = ["plain", "chain:length=3", "lookup", "eagle2:budget=7,top_k=3,depth=3,small.draft_vocab=200"]


LONG = "Say it twice."
ENDS_EARLY = "The quick brown fox, the quick brown fox, the quick"


def ask(pair, text: str) -> Question:
    messages = ({"role": "user", "content": text},)
    return Question(0, messages, encode_prompt(pair.target.tokenizer, messages)[0])


@pytest.fixture(scope="module")
def question(tiny_pair) -> Question:
    return ask(tiny_pair, LONG)


@pytest.fixture(scope="module", params=[LONG, ENDS_EARLY])
def samples(tiny_pair, request, tmp_path_factory):
    rows = build_rows(tiny_pair, POLICIES, NEW_TOKENS, tmp_path_factory.mktemp("traces"))
    with bare_settings(tiny_pair):
        return [row.measure(ask(tiny_pair, request.param), repeat=3) for row in rows]


def test_rows_are_generate_in_three_modes_and_policies_with_and_without_recording(samples):
    assert [(sample.row, sample.recorded) for sample in samples] == [
        (GENERATE, False), ("generate: prompt lookup", False), ("generate: assisted by small", False),
        *((name, recorded) for name in POLICIES for recorded in (False, True))]
    assert {(sample.repeat, sample.prompt) for sample in samples} == {(3, 0)}


def test_all_rows_write_the_same_text(samples):
    assert len({sample.output for sample in samples}) == 1
    assert samples[0].tokens == NEW_TOKENS or samples[0].output[-1] == 2


def test_accepted_tokens_and_rounds_make_up_the_text(samples):
    """`generate` chooses its first token in a counted forward, our loop while it reads the prompt; an accepted bonus
    beyond the end of the text is not in it."""
    for sample in samples:
        written = sample.tokens - (0 if sample.row.startswith("generate") else 1)
        assert sample.rounds + sample.accepted - written in (0, 1)
        assert sample.microseconds > 0


def test_plain_rows_accept_nothing(samples):
    assert {sample.accepted for sample in samples if sample.row in (GENERATE, "plain")} == {0}


def test_our_rows_say_where_their_time_went(samples):
    for sample in samples[3:]:
        assert sample.phases.keys() >= {"draft", "verify", "accept", "commit"}
        assert 0 < sample.forwards < sample.in_rounds < sample.microseconds
        assert 0 < sample.prefill < sample.microseconds
        assert (sample.recording > 0) == sample.recorded


def test_recording_counts_what_the_bare_loop_counts(samples):
    for silent, recorded in zip(samples[3::2], samples[4::2], strict=True):
        assert (silent.rounds, silent.accepted) == (recorded.rounds, recorded.accepted)


@pytest.mark.parametrize("new_tokens", range(2, 8))
def test_tokens_after_the_end_are_not_accepted(tiny_pair, question, tmp_path, new_tokens):
    """The tiny drafter has the target's weights and is always right: in the last round it drafts beyond the limit."""
    for row in build_rows(tiny_pair, ["chain:length=4"], new_tokens, tmp_path)[-2:]:
        sample = row.measure(question, 0)
        assert sample.tokens == new_tokens
        assert (sample.rounds, sample.accepted) == (1 + (new_tokens - 2) // 5, new_tokens - 1 - (new_tokens - 1) // 5)


def test_interrupting_a_recording_interrupts_the_benchmark(tiny_pair, question, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    row = build_rows(tiny_pair, ["plain"], NEW_TOKENS, tmp_path)[-1]
    monkeypatch.setattr("treegraft.run.prefill", interrupt)
    with pytest.raises(KeyboardInterrupt):
        row.measure(question, 0)


def test_penalties_of_the_model_are_off_and_come_back(tiny_pair, question, tmp_path):
    model = tiny_pair.target.model
    row = build_rows(tiny_pair, ["plain"], NEW_TOKENS, tmp_path)[0]
    with bare_settings(tiny_pair):
        expected = row.measure(question, 0).output
    before = model.generation_config
    before.repetition_penalty = 50.0
    try:
        assert row.measure(question, 0).output != expected
        with bare_settings(tiny_pair):
            assert row.measure(question, 0).output == expected
        assert model.generation_config is before
    finally:
        before.repetition_penalty = None


def test_counting_ends_with_its_block(tiny_pair):
    model = tiny_pair.target.model
    with counted(model) as calls:
        model(model.dummy_inputs["input_ids"])
    model(model.dummy_inputs["input_ids"])
    assert len(calls) == 1


def test_policies_that_the_pair_cannot_run_are_no_defaults(tiny_pair, tmp_path, monkeypatch):
    monkeypatch.setattr(tiny_pair, "drafters", {"lookup": tiny_pair.drafters["lookup"]})
    names = {row.name for row in build_rows(tiny_pair, [], NEW_TOKENS, tmp_path)}
    assert names == {GENERATE, "generate: prompt lookup", "plain", "lookup"}


def test_a_policy_is_measured_once_and_needs_its_drafters(tiny_pair, tmp_path, monkeypatch):
    with pytest.raises(SettingError, match="given twice"):
        build_rows(tiny_pair, ["plain", "plain"], NEW_TOKENS, tmp_path)
    monkeypatch.setattr(tiny_pair, "drafters", {})
    with pytest.raises(RunError, match="lookup"):
        build_rows(tiny_pair, ["lookup"], NEW_TOKENS, tmp_path)
