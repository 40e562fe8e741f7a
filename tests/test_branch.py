"""Branches: what is asked of the models is what a decode would ask, and a branch goes on where it left."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import treegraft as tg
from tests.fake_decode import wait_until
from tests.view.examples import IS, MOON, SEA, SKY, example
from treegraft import branch, live
from treegraft.branch import (
    BONUS,
    Ask,
    BranchError,
    Question,
    branch_request,
    choices,
    context_of,
    drafters_of,
    other_dtype,
    path_to,
    sampling_of,
    tokens_left,
    typed_token,
    why_not,
)
from treegraft.live import LiveRun
from treegraft.models.pairs import FREE_DRAFTERS, PAIRS, DrafterSpec
from treegraft.policy_text import with_settings
from treegraft.run import RunError
from treegraft.trace.records import NATS, Decoding, Prompt

PROMPT = "one two three one two"


@pytest.fixture(scope="module")
def run(tiny_pair):
    """A run of the tiny pair, as though the pair had a name."""
    return tg.record(tiny_pair, PROMPT, tg.Eagle2(budget=12, top_k=4, depth=3), max_new_tokens=12, costs=False).run


@pytest.fixture
def named(tiny_pair, monkeypatch):
    """Makes the tiny pair one of the named pairs, on this machine."""
    spec = replace(PAIRS["smollm2"], name=tiny_pair.target.name, target=_Here(),
                   drafters=FREE_DRAFTERS | {"small": DrafterSpec("lm", "x")})
    monkeypatch.setitem(PAIRS, tiny_pair.target.name, spec)
    monkeypatch.setattr(branch, "load_pair", lambda request, progress: tiny_pair)
    monkeypatch.setattr(live, "load_pair", lambda request, progress: tiny_pair)
    return tiny_pair


class _Here:
    is_here = True


def test_tokens_up_to_a_node():
    round = example().rounds[0]
    prompt = round.run.header.prompt.tokens
    assert context_of(round) == [*prompt, round.record.root]
    assert path_to(round, 0) == []
    assert path_to(round, 5) == [SEA, IS]
    assert path_to(round, BONUS) == [SKY, IS, round.event("accept").bonus]


def test_models_that_cannot_be_asked():
    header = example().header
    assert "is not one of the named pairs (smollm2)" in why_not(header)
    with pytest.raises(BranchError, match="named pairs"):
        branch_request(example().rounds[0], 0, MOON, 5, trace="x")


def test_a_pair_that_is_not_here_yet(monkeypatch, tmp_path):
    monkeypatch.setenv("TREEGRAFT_HOME", str(tmp_path))
    header = example().header
    header.target.name = "smollm2"
    assert "Fetch it on the Record page" in why_not(header)
    monkeypatch.setenv("TREEGRAFT_PUBLIC", "1")
    assert "Whoever runs this dashboard fetches it with `treegraft models fetch smollm2`" in why_not(header)


def test_a_conversation_that_lacks_something_cannot_be_asked_again(monkeypatch):
    header = example().header
    header.target.name = "smollm2"
    header.prompt.messages = [{"role": "user", "content": "hello"}, {"role": "assistant"}]
    assert "lacks its role or its content" in why_not(header)


def test_the_request_repeats_the_run(run, named):
    request = branch_request(run.rounds[1], 0, 7, 5, trace="mine", number=2)
    assert request.policy == tg.Eagle2(budget=12, top_k=4, depth=3)
    assert (request.drafters, request.max_new_tokens, request.sampling.temperature) == (("small",), 5, 0)
    assert (request.dtype, request.drafter_settings) == ("float32", {"small": {"draft_vocab": "0"}})
    assert request.prompt.tokens == [*context_of(run.rounds[1]), 7]
    told = request.prompt.branch
    assert (told.trace, told.run, told.round, told.node, told.token, told.own) == (
        "mine", 2, 1, 0, 7, len(run.header.prompt.tokens))
    assert request.question == "branch of mine round 1"
    assert request.prompt.messages[-1]["role"] == "assistant"
    assert request.prompt.messages[:-1] == run.header.prompt.messages
    assert request.prompt.text == run.header.prompt.text + request.prompt.messages[-1]["content"]


def test_a_branch_of_a_branch_goes_on_with_the_answer(run, named):
    first = branch_request(run.rounds[0], 0, 7, 5, trace="mine").prompt
    header = run.header
    try:
        run.header = tg.trace.records.Header(**{**{field: getattr(header, field) for field in header.__struct_fields__},
                                                "prompt": first})
        again = branch_request(run.rounds[0], 0, 8, 5, trace="mine").prompt
    finally:
        run.header = header
    assert len(again.messages) == len(first.messages)
    assert again.messages[-1]["content"].startswith(first.messages[-1]["content"])


def test_a_token_that_ends_the_text_is_refused(run, named):
    with pytest.raises(BranchError, match="ends the text"):
        branch_request(run.rounds[0], 0, run.header.decoding.eos[0], 5, trace="mine")


def test_a_drafter_that_the_pair_lacks(run, named, monkeypatch):
    monkeypatch.setitem(PAIRS, run.header.target.name, replace(PAIRS[run.header.target.name], drafters=FREE_DRAFTERS))
    with pytest.raises(BranchError, match="drafted by small"):
        drafters_of(run.header)


def test_sampling_is_that_of_the_run():
    header = example().header
    header.decoding = Decoding(temperature=0.7, top_k=5, top_p=0.9, min_p=0.1, rule="points", seed=3)
    found = sampling_of(header)
    assert (found.temperature, found.top_k, found.top_p, found.min_p, found.rule, found.seed) == (
        0.7, 5, 0.9, 0.1, "fitting", 3)
    header.decoding.rule = "typical"
    assert sampling_of(header).rule == "typical"


def test_the_limit_counts_what_was_written():
    round = example().rounds[0]
    round.run.header.decoding.max_new_tokens = 10
    assert tokens_left(round, 3) == 10 - 1 - 2 - 1
    round.run.header.decoding.max_new_tokens = 2
    assert tokens_left(round, 3) == 1


def test_forcing_what_the_target_chose_gives_the_same_text(run, named, tmp_path):
    round = run.rounds[1]
    place = round.output_start
    chosen, left = run.output[place], len(run.output) - place - 1
    now = record_branch(branch_request(round, 0, chosen, left, trace="mine"), tmp_path)
    assert now.run.output == run.output[place + 1:]
    trace = tg.open(now.path)
    trace.check()
    assert trace.runs[0].header.prompt.branch.token == chosen
    assert trace.runs[0].header.policy == run.header.policy


def test_a_branch_is_drafted_with_the_recorded_settings(named, tmp_path):
    pair = with_settings(named, {"lookup": {"ngram": "2", "relax": "true"}})
    run = tg.record(pair, PROMPT, tg.Lookup(budget=8), max_new_tokens=6, costs=False).run
    made = record_branch(branch_request(run.rounds[0], 0, 7, 3, trace="mine"), tmp_path).run
    assert made.header.drafters == run.header.drafters
    assert made.header.drafters[0].settings["ngram"] == 2


def record_branch(request, folder):
    work = LiveRun(request, folder).start()
    wait_until(lambda: not work.snapshot().is_live)
    assert work.snapshot().state == "finished", work.snapshot().error
    return work.snapshot()


def log_probs(model, tokens: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        return model(torch.tensor([tokens])).logits[0, -1].float().log_softmax(-1)


@pytest.mark.parametrize("node", [0, -1])
def test_answers_are_those_of_the_models(run, tiny_pair, node):
    round = run.rounds[1]
    node = node % len(round.record.nodes.token)
    context, path = context_of(round), path_to(round, node)
    found = choices(tiny_pair, Question("x", "small", tuple(context), tuple(path), typed="#9"))
    target = log_probs(tiny_pair.target.model, context + path)
    small = log_probs(tiny_pair.drafters["small"].model, context + path)
    assert found[0].token == int(target.argmax())
    assert {int(token) for token in target.topk(branch.BEST).indices} <= {choice.token for choice in found}
    assert {int(token) for token in small.topk(branch.BEST).indices} == {
        choice.token for choice in found if choice.drafter_rank is not None}
    assert 9 in [choice.token for choice in found]
    for choice in found:
        assert choice.target / NATS == pytest.approx(float(target[choice.token]), abs=2e-4)
        assert choice.drafter / NATS == pytest.approx(float(small[choice.token]), abs=2e-4)
        assert choice.target_rank == int((target > target[choice.token]).sum())
        assert choice.reachable


def test_a_text_that_is_too_long_is_refused(tiny_pair):
    with pytest.raises(BranchError, match=r"too many for the \d+ of"):
        choices(tiny_pair, Question("x", "small", tuple([3] * tiny_pair.target.context_limit), ()))


@pytest.mark.parametrize(("typed", "words"), [("one two three", r"is \d+ tokens"), ("#99999999", "There is no token")])
def test_what_is_not_one_token_is_refused(tiny_pair, typed, words):
    with pytest.raises(BranchError, match=words):
        typed_token(tiny_pair, typed)


def test_a_typed_token(tiny_pair):
    assert typed_token(tiny_pair, "#17") == 17
    single = tiny_pair.target.tokenizer.convert_ids_to_tokens([20])[0]
    assert typed_token(tiny_pair, single) == 20


def test_questions_take_turns_and_can_be_stopped(run, named, tmp_path):
    question = Question("x", "small", tuple(context_of(run.rounds[0])), ())
    with live.queue.turn(LiveRun(live.Request("x", tg.Plain(), ""))):
        work, stopped = Ask(question).start(), Ask(question).start()
        wait_until(lambda: stopped.snapshot().ahead == 2)
        stopped.stop()
        wait_until(lambda: stopped.snapshot().state == "stopped")
        assert work.snapshot().state == "queued"
    wait_until(lambda: work.snapshot().state == "finished")
    assert work.answer
    assert math.isclose(sum(math.exp(choice.target / NATS) for choice in work.answer), 1, abs_tol=1)


def test_a_drafter_is_asked_as_the_run_set_it(run, named, monkeypatch):
    wishes = []
    monkeypatch.setattr(branch, "load_pair", lambda request, progress: wishes.append(request.dtype) or named)
    work = Ask(Question("x", "small", tuple(context_of(run.rounds[0])), (), dtype="float32",
                        settings={"draft_vocab": "16"})).start()
    wait_until(lambda: not work.snapshot().is_live)
    assert (work.snapshot().error, wishes, work.dtype) == ("", ["float32"], "float32")
    assert {choice.reachable for choice in work.answer} == {True, False}


def test_another_number_format_is_said():
    assert other_dtype("float32", "float32") == other_dtype("", "bfloat16") == ""
    assert other_dtype("float32", "bfloat16").startswith("Recorded in float32, this ran in bfloat16:")


def test_what_goes_wrong_is_a_sentence(run, named):
    work = Ask(Question("x", "small", tuple(context_of(run.rounds[0])), (), typed="#99999999")).start()
    wait_until(lambda: work.snapshot().state == "failed")
    assert "There is no token #99999999" in work.snapshot().error


def test_the_public_asks_listed_models_about_texts_of_bounded_length(named, monkeypatch):
    monkeypatch.setenv("TREEGRAFT_PUBLIC", "1")
    work = Ask(Question("elsewhere", "small", (3, 4), ())).start()
    wait_until(lambda: work.snapshot().state == "failed")
    assert "listed models only" in work.snapshot().error
    work = Ask(Question("smollm2", "small", (3,) * 5000, ())).start()
    wait_until(lambda: work.snapshot().state == "failed")
    assert "takes at most" in work.snapshot().error


def test_a_prompt_of_tokens_is_taken_as_it_is(tiny_pair, tmp_path):
    asked = Prompt(tokens=[5, 6, 7], text="abc")
    made = tg.record(tiny_pair, asked, tg.Plain(), max_new_tokens=2, costs=False, out=tmp_path / "x.jsonl").run
    assert made.header.prompt == asked
    with pytest.raises(RunError, match="has token 99999; allowed"):
        tg.record(tiny_pair, Prompt(tokens=[99999]), tg.Plain(), costs=False)
    with pytest.raises(RunError, match="has no tokens"):
        tg.record(tiny_pair, Prompt(tokens=[]), tg.Plain(), costs=False)


@pytest.mark.pair
def test_a_branch_of_the_default_pair(pair, tmp_path, monkeypatch):
    monkeypatch.setattr(live, "load_pair", lambda request, progress: pair)
    run = tg.record(pair, "Why is the sky blue?", tg.Eagle2(budget=8, top_k=4, depth=2), max_new_tokens=6,
                    costs=False).run
    round = run.rounds[0]
    question = Question("smollm2", "eagle3", tuple(context_of(round)), tuple(path_to(round, 1)), typed=" is")
    found = choices(pair, question)
    asked = log_probs(pair.target.model, [*question.context, *question.path])
    assert found[0].token == int(asked.argmax())
    assert {choice.reachable for choice in found} <= {True, False}
    drafted = [choice for choice in found if choice.drafter_rank is not None]
    assert len(drafted) == branch.BEST
    assert all(choice.reachable for choice in drafted)
    other = found[1].token
    now = record_branch(branch_request(round, 1, other, 4, trace="sky"), tmp_path)
    assert now.run.header.prompt.tokens[-1] == other
    assert now.run.output[0] == int(log_probs(pair.target.model, now.run.header.prompt.tokens).argmax())
