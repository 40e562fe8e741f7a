"""Decoding with tiny models, and what its text is compared with."""

from __future__ import annotations

import torch

from treegraft.engine import decode, prefill
from treegraft.models.target import Target
from treegraft.stop import Stop

PROMPTS = [[5], [3, 4, 5, 3, 4], [9, 8, 7, 6, 9, 8, 7, 6, 9, 8, 7] * 2, list(range(3, 40))]
NEW_TOKENS = 40
NEAR_TIE = 1e-4


def plain_generate(model: torch.nn.Module, prompt: list[int], new_tokens: int) -> list[int]:
    """Greedy decoding by transformers itself."""
    output = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                            do_sample=False, max_new_tokens=new_tokens, eos_token_id=2, pad_token_id=0)
    return output[0, len(prompt):].tolist()


def run(target: Target, policy, drafters, prompt, new_tokens=NEW_TOKENS, max_context=256, eos=(2,)):
    stop = Stop(eos, [], new_tokens, max_context - len(prompt), None)
    prefilled = prefill(target, drafters, prompt, max_context, policy.capacity)
    steps = list(decode(target, policy, drafters, prefilled, stop, max_context))
    return [prefilled.root] + [token for step in steps for token in step.tokens[: step.taken]], steps, stop.reason


def margin(model: torch.nn.Module, text: list[int]) -> float:
    """How much more the model likes its favourite next token than its second, in nats."""
    with torch.inference_mode():
        best = model(torch.tensor([text])).logits[0, -1].float().log_softmax(-1).topk(2).values
    return float(best[0] - best[1])


def assert_same_text(model, prompt, output, reference) -> None:
    """Equal, or different first where plain decoding itself is within a near tie."""
    for place, (token, expected) in enumerate(zip(output, reference, strict=False)):
        if token != expected:
            gap = margin(model, prompt + reference[:place])
            assert gap < NEAR_TIE, f"token {place}: {token} instead of {expected}, margin {gap}"
            return
    assert len(output) == len(reference)
