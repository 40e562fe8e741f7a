"""Whether outputs are the same text, and whether rounding explains where they are not."""

from __future__ import annotations

import pytest
import torch

from tests import tiny
from treegraft.analysis.agreement import first_difference
from treegraft.bench.agreement import differences, target_margin
from treegraft.bench.samples import GENERATE, Difference, Sample


def sample(row: str, prompt: int, output: tuple[int, ...], repeat: int = 0) -> Sample:
    return Sample(row, repeat, prompt, output, 1, 1, 0)


@pytest.mark.parametrize(("output", "place"), [
    ((1, 2, 3), None), ((1, 2, 4), 2), ((9, 2, 3), 0), ((1, 2), 2), ((1, 2, 3, 4), 3), ((), 0)])
def test_first_difference(output, place):
    assert first_difference(output, (1, 2, 3)) == place


def test_differences_name_the_place_and_the_margin_of_generate():
    asked = []

    def margin(prompt, output):
        asked.append((prompt, output))
        return 0.01 if prompt == 0 else 0.5

    samples = [sample(GENERATE, 0, (1, 2, 3)), sample(GENERATE, 1, (4, 5)), sample("row", 0, (1, 9, 3)),
               sample("row", 1, (4,)), sample("good", 0, (1, 2, 3)), sample("row", 0, (1, 9, 3), repeat=1)]
    assert differences(samples, margin, near_tie=0.1) == [
        Difference("row", 0, 1, 0.01, True), Difference("row", 1, 1, 0.5, False)]
    assert asked == [(0, (1,)), (1, (4,))]


def test_generate_itself_must_repeat_its_text():
    samples = [sample(GENERATE, 0, (1, 2)), sample("row", 0, (1, 2)), sample(GENERATE, 0, (1, 3), repeat=1)]
    assert [found.row for found in differences(samples, lambda *_: 1.0, near_tie=0.1)] == [GENERATE]


def test_margin_is_the_distance_of_the_two_best_tokens():
    model = tiny.target("llama")
    with torch.inference_mode():
        logprobs = model(torch.tensor([[5, 6, 7, 8]])).logits[0, -1].log_softmax(-1).sort(descending=True).values
    margin = target_margin(model, [[1], [5, 6]])(1, (7, 8))
    assert margin == pytest.approx(float(logprobs[0] - logprobs[1]), abs=1e-5)
