"""Texts written side by side are those that the model writes one by one."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests import tiny
from treegraft.distill.batch import BatchCache, BatchDecoder, Job, sample
from treegraft.models.cache import UnsupportedModel

STOP = {2, 17, 40}
PROMPT_LENGTHS = (3, 17, 1, 30, 9, 2, 22, 5, 14)
LIMITS = (25, 4, 30, 16, 1, 28, 12, 30, 21)


def make_jobs(temperature: float = 0.0) -> list[Job]:
    chance = np.random.default_rng(5)
    return [Job(chance.integers(3, tiny.VOCAB, length).tolist(), temperature, chance.random(limit))
            for length, limit in zip(PROMPT_LENGTHS, LIMITS, strict=True)]


def written(family: str, rows: int, jobs: list[Job], **options) -> dict[int, list[int]]:
    decoder = BatchDecoder(tiny.target(family), rows, length=64, vocab=tiny.VOCAB)
    return dict(decoder.write(jobs, STOP, **options))


def generated(family: str, job: Job) -> list[int]:
    """What transformers writes for one job by itself."""
    prompt = torch.tensor([job.prompt])
    text = tiny.target(family).generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False,
                                        max_new_tokens=len(job.uniforms), eos_token_id=list(STOP), pad_token_id=0)
    return text[0, len(job.prompt):].tolist()


@pytest.mark.parametrize("rows", [1, 3, 16])
@pytest.mark.parametrize("family", tiny.CONFIGS)
def test_greedy_texts_are_those_of_generate(family, rows):
    jobs = make_jobs()
    texts = written(family, rows, jobs)
    assert [texts[number] for number in range(len(jobs))] == [generated(family, job) for job in jobs]


def test_some_texts_stop_and_some_are_cut():
    """What the comparison with `generate` is worth: rows end at different times, for both reasons."""
    texts = written("llama", 3, make_jobs())
    stopped = {number for number, text in texts.items() if text[-1] in STOP}
    assert 2 <= len(stopped) <= len(texts) - 2
    assert max(len(texts[number]) for number in stopped) > 1
    assert list(texts) != sorted(texts)


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_sampled_texts_do_not_depend_on_their_neighbours(family):
    jobs = make_jobs(temperature=0.9)
    texts = written(family, 3, jobs)
    assert texts == written(family, 1, jobs)
    assert {number: texts[number] for number in (7, 8)} == {
        number + 7: text for number, text in written(family, 2, jobs[7:]).items()}
    assert texts != written(family, 3, make_jobs())


def test_a_decoder_writes_again_after_it_was_left():
    decoder = BatchDecoder(tiny.target("llama"), 3, length=64, vocab=tiny.VOCAB)
    jobs = make_jobs()
    next(decoder.write(jobs, STOP))
    assert dict(decoder.write(jobs, STOP)) == written("llama", 3, jobs)
    assert dict(decoder.write([], STOP)) == {}


def test_no_token_beyond_the_vocabulary_is_written():
    decoder = BatchDecoder(tiny.target("llama"), 3, length=64, vocab=20)
    texts = dict(decoder.write(make_jobs(temperature=3.0), set()))
    assert {token for text in texts.values() for token in text} <= set(range(20))


def test_a_model_without_plain_keys_and_values_is_refused():
    with pytest.raises(UnsupportedModel, match="Layer 0 of the model keeps SimpleNamespace state"):
        BatchCache(SimpleNamespace(layers=[SimpleNamespace()]), rows=2, length=8)


# --- sampling -------------------------------------------------------------------------------------------------------

LOGITS = torch.tensor([-torch.inf, 1.5, -0.5, 0.0, 2.0, -3.0, 0.7, 0.7, -torch.inf])
DRAWS = 20_000


def draws(temperature: float, top_p: float = 1.0, logits: torch.Tensor = LOGITS) -> np.ndarray:
    """How often each token is drawn."""
    uniforms = torch.from_numpy(np.random.default_rng(1).random(DRAWS))
    tokens = sample(logits.expand(DRAWS, -1), torch.full((DRAWS,), temperature).double(), uniforms, top_p)
    return np.bincount(tokens, minlength=len(logits))


def fit(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """The p-value of Pearson's chi-square test; 0 where something impossible was drawn."""
    possible = probabilities > 0
    if counts[~possible].any():
        return 0.0
    expected = probabilities[possible] * counts.sum()
    statistic = ((counts[possible] - expected) ** 2 / expected).sum()
    return 1 - torch.special.gammainc(torch.tensor((possible.sum() - 1) / 2.0), torch.tensor(statistic / 2)).item()


def wanted(temperature: float, top_p: float = 1.0) -> np.ndarray:
    """Probabilities by their definition: the fewest likeliest tokens that reach `top_p` together."""
    weights = np.exp(LOGITS.double().numpy() / temperature)
    weights /= weights.sum()
    kept, total = np.zeros_like(weights), 0.0
    for token in np.argsort(-weights, kind="stable"):
        if total < top_p:
            kept[token], total = weights[token], total + weights[token]
    return kept / kept.sum()


@pytest.mark.parametrize("temperature", [0.7, 1.0])
@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_draws_follow_the_distribution(temperature, top_p):
    counts = draws(temperature, top_p)
    assert fit(counts, wanted(temperature, top_p)) > 0.001
    assert fit(counts, wanted(temperature + 0.1, top_p)) < 0.001
    assert fit(counts, wanted(temperature, 1.9 - top_p)) < 0.001


def test_temperature_zero_draws_the_favourite():
    assert draws(0.0)[LOGITS.argmax()] == DRAWS


def test_rows_have_temperatures_of_their_own():
    logits = LOGITS.expand(2000, -1)
    temperatures = torch.tensor([0.0, 1.0]).double().repeat(1000)
    tokens = sample(logits, temperatures, torch.from_numpy(np.random.default_rng(2).random(2000)), 1.0)
    assert (tokens[::2] == LOGITS.argmax()).all()
    assert fit(np.bincount(tokens[1::2], minlength=len(LOGITS)), wanted(1.0)) > 0.001


@pytest.mark.parametrize("uniform", [0.0, np.nextafter(1.0, 0.0)])
@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_the_ends_of_the_unit_interval_draw_possible_tokens(uniform, top_p):
    tokens = sample(LOGITS[None], torch.ones(1).double(), torch.tensor([uniform]).double(), top_p)
    assert wanted(1.0, top_p)[tokens] > 0


def test_first_tokens_follow_the_model():
    model, prompt = tiny.target("llama"), [5, 9, 33]
    chance = np.random.default_rng(8)
    decoder = BatchDecoder(model, 100, length=8, vocab=tiny.VOCAB)
    texts = dict(decoder.write([Job(prompt, 2.0, chance.random(1)) for _ in range(3000)], set()))
    with torch.inference_mode():
        expected = (model(torch.tensor([prompt])).logits[0, -1] / 2).softmax(-1).double().numpy()
    counts = np.bincount([text[0] for text in texts.values()], minlength=tiny.VOCAB)
    rare = expected < 0.002
    counts, expected = (np.append(part[~rare], part[rare].sum()) for part in (counts, expected))
    assert fit(counts, expected) > 0.001
