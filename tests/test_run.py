"""What `record` asks of its arguments, and how it runs within small contexts, on tiny random models."""

from __future__ import annotations

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import treegraft as tg
from tests.models import tokenizers_of
from tests.models.tiny_folders import save_llama
from treegraft.models import load
from treegraft.run import RunError

PROMPT = "the quick brown fox jumps over"
POLICIES = [tg.Chain(length=4), tg.Eagle2(budget=12, top_k=4, depth=4), tg.Eagle2(budget=1, top_k=1, depth=32),
            tg.Eagle2(budget=1023, top_k=64, depth=1)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def target(folders):
    return save_llama(folders / "target")


@pytest.fixture(scope="module")
def drafters(folders):
    """The target again, but with a short context, and a model whose positions are learned, so that they end."""
    torch.manual_seed(5)
    tokenizer = tokenizers_of.byte_level()
    learned = folders / "learned"
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), n_embd=32, n_layer=1, n_head=4, n_positions=24))
    model.save_pretrained(learned)
    tokenizer.save_pretrained(learned)
    return {"short": str(save_llama(folders / "short", max_position_embeddings=24)), "learned": str(learned)}


def load_tiny(target, drafters=None, **options):
    return load(target, drafters, device="cpu", dtype="float32", **options)


@pytest.mark.parametrize(("arguments", "words"), [
    ({"policy": "eagle2"}, "policy was 'eagle2'; give a policy"),
    ({"policy": tg.Eagle2}, "give a policy with its settings"),
    ({"max_new_tokens": 0}, "max_new_tokens was 0; allowed: whole numbers from 1"),
    ({"max_new_tokens": 2.5}, "max_new_tokens was 2.5"),
    ({"max_new_tokens": None}, "max_new_tokens was None"),
    ({"max_context": "9"}, "max_context was '9'; allowed: 2 to 128"),
    ({"max_context": 129}, "max_context was 129"),
    ({"stop": [""]}, "stop had ''"),
    ({"stop": ["a", None]}, "stop had None"),
    ({"stop": "\udcff"}, "stop had"),
    ({"policy": tg.Lookup(), "drafters": "lookup"}, r"give a list of names, such as \['lookup'\]"),
])
def test_arguments_of_the_wrong_kind_are_refused(target, arguments, words):
    with pytest.raises(RunError, match=words):
        tg.record(load_tiny(target), PROMPT, **{"policy": tg.Plain(), **arguments})


def test_one_stop_text_is_not_taken_letter_by_letter(target):
    run = tg.record(load_tiny(target), PROMPT, tg.Plain(), max_new_tokens=3, stop="xyz, never written").run
    assert (run.header.decoding.stop, run.end.reason) == (["xyz, never written"], "length")


@pytest.mark.parametrize("context", [2, 4, 40])
def test_a_first_run_in_a_small_context_measures_what_fits(target, drafters, context):
    """Costs are measured before the first run, in a cache that may hold fewer tokens than they are measured over."""
    pair = load_tiny(target, [drafters["short"]])
    run = tg.record(pair, "a", tg.Chain(), raw=True, max_context=context).run
    assert len(run.output) == context - 1
    assert [size for size, _ in run.header.costs[0].points] == [size for size in (1, 8, 16, 32, 64) if size <= context]


@pytest.mark.parametrize("name", ["short", "learned"])
def test_a_drafter_whose_context_ends_first_leaves_the_rest_to_the_target(target, drafters, name):
    pair = load_tiny(target, [drafters[name]])
    pair.target.eos_ids = set()
    for prompt in (PROMPT, PROMPT * 3):
        plain = tg.record(pair, prompt, tg.Plain(), max_new_tokens=24).run.output
        for policy in POLICIES:
            run = tg.record(pair, prompt, policy, max_new_tokens=24).run
            assert run.output == plain
            assert any(f"{name} is at the end of its context of 24 tokens" in note for note in run.end.notes)


@pytest.mark.parametrize("schedule", ["2", "2,3", "always"])
def test_a_strong_drafter_whose_context_ends_first_is_not_asked_beyond_it(target, drafters, folders, schedule):
    weak = str(save_llama(folders / "weak", seed=3))
    pair = load_tiny(target, [weak, drafters["learned"]])
    pair.target.eos_ids = set()
    plain = tg.record(pair, PROMPT, tg.Plain(), max_new_tokens=24).run.output
    policy = tg.TreeGraft(schedule=schedule, budget=20, top_k=3, layers=4)
    run = tg.record(pair, PROMPT, policy, drafters=list(pair.drafters), max_new_tokens=24).run
    assert run.output == plain
    assert any("learned is at the end of its context of 24 tokens" in note for note in run.end.notes)


def test_what_exhaustive_recordings_need_is_measured_all_the_same(target, drafters):
    pair = load_tiny(target, ["lookup", drafters["short"]])
    run = tg.record(pair, PROMPT, tg.TreeGraft(schedule="1", top_k=3, layers=2), drafters=list(pair.drafters),
                    max_new_tokens=3, costs=False, level="exhaustive").run
    assert run.header.clock.strong > 0
    assert {curve.model for curve in run.header.costs} == {-1, 1}


@pytest.mark.parametrize("stop_at", [1, 3])
def test_probing_that_is_stopped_is_noted_at_the_end(target, drafters, stop_at):
    """Each position has a probe of each drafter that gives probabilities."""
    pair = load_tiny(target, [*drafters.values()])
    pair.target.eos_ids = set()

    def stop(done: int, of: int) -> None:
        assert of == 7
        if done == stop_at:
            raise KeyboardInterrupt

    run = tg.record(pair, "a", tg.TreeGraft(schedule="1", budget=6, top_k=2, layers=2), drafters=[*drafters],
                    raw=True, max_new_tokens=8, level="dense", on_probe=stop).run
    assert [probe.context for probe in run.probes] == [place + 2 for place in range(stop_at) for _ in drafters]
    assert (run.end.reason, run.end.status) == ("length", "speculating")
    assert run.end.notes == [f"probing was stopped at position {stop_at} of 7, so what-ifs will lack the rest"]


def test_a_run_that_is_stopped_before_it_was_probed_says_so(target, drafters):
    def stop(round):
        raise KeyboardInterrupt

    pair = load_tiny(target, [drafters["short"]])
    pair.target.eos_ids = set()
    dense = tg.record(pair, "a", tg.Chain(length=1), max_new_tokens=9, level="dense", on_round=stop, raw=True).run
    assert dense.end.reason == "interrupted"
    assert [note.startswith("probing was stopped at position 0 of") for note in dense.end.notes] == [True]
    assert not tg.record(pair, "a", tg.Chain(length=1), max_new_tokens=9, on_round=stop, raw=True).run.end.notes


def test_probing_that_is_stopped_at_its_end_lacks_nothing(target, drafters):
    def stop(done: int, of: int) -> None:
        if done == of:
            raise KeyboardInterrupt

    pair = load_tiny(target, [*drafters.values()])
    run = tg.record(pair, "a", tg.Chain(length=1), max_new_tokens=4, level="dense", on_probe=stop, raw=True).run
    assert not run.end.notes
    assert len(run.probes) == len(run.output) - 1
