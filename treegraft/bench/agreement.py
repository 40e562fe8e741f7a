"""Whether the rows wrote the same text, and whether rounding can explain it where they did not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from treegraft.analysis.agreement import first_difference
from treegraft.bench.samples import GENERATE, Difference, Sample

Margin = Callable[[int, tuple[int, ...]], float]
"""How much the target prefers its best token after (prompt number, output so far), in nats."""


def differences(samples: Sequence[Sample], margin: Margin, near_tie: float) -> list[Difference]:
    """Every output that is not what plain `generate` wrote first for that prompt, each once a row."""
    references: dict[int, tuple[int, ...]] = {}
    for sample in samples:
        if sample.row == GENERATE:
            references.setdefault(sample.prompt, sample.output)
    found = []
    for row, prompt, output in dict.fromkeys((sample.row, sample.prompt, sample.output) for sample in samples):
        place = first_difference(output, references[prompt])
        if place is not None:
            gap = margin(prompt, references[prompt][:place])
            found.append(Difference(row, prompt, place, gap, gap < near_tie))
    return found


def target_margin(model: torch.nn.Module, prompts: Sequence[Sequence[int]]) -> Margin:
    """The margin in one plain pass of the target over prompt and output."""

    @torch.inference_mode()
    def margin(prompt: int, output: tuple[int, ...]) -> float:
        text = torch.tensor([[*prompts[prompt], *output]], device=model.get_input_embeddings().weight.device)
        best = model(text, logits_to_keep=1).logits[0, -1].float().log_softmax(-1).topk(2).values
        return float(best[0] - best[1])

    return margin
