"""A tiny target that chats: a random model whose turns end soon, and a tokenizer of letters with a chat template."""

from __future__ import annotations

import copy
from functools import cache
from string import ascii_letters

import torch
from tokenizers import Tokenizer, decoders, models
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from tests import tiny
from treegraft.models.loader import TargetModel

MARKERS = ["<pad>", "<s>", "</s>", "<unk>"]
END = MARKERS.index("</s>")
TOKENS = [*MARKERS, *ascii_letters, *" \n:,?"]
TEMPLATE = ("{% for message in messages %}<s>{{ message['role'] }}:{{ message['content'] }}</s>\n{% endfor %}"
            "{% if add_generation_prompt %}<s>assistant:{% endif %}")
ENDS_SOON, NEVER = 1.5, -20.0
"""Added to the logits of the end token, and of the other markers."""


@cache
def tokenizer(chat_template: str | None = TEMPLATE) -> PreTrainedTokenizerFast:
    """A token for each letter, as many as the tiny models have."""
    assert len(TOKENS) == tiny.VOCAB
    backend = Tokenizer(models.BPE({token: id for id, token in enumerate(TOKENS)}, [], unk_token="<unk>"))
    backend.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="<pad>",
                                   unk_token="<unk>", chat_template=chat_template)


@cache
def target(family: str = "llama", chat_template: str | None = TEMPLATE, end: float = ENDS_SOON) -> TargetModel:
    """A target of two layers that is unsure what to say."""
    return TargetModel(name="tiny", revision="", model=model(family, end), tokenizer=tokenizer(chat_template),
                       context_limit=512, usable_vocab=tiny.VOCAB, eos_ids={END})


def model(family: str, end: float) -> PreTrainedModel:
    config = copy.deepcopy(tiny.CONFIGS[family])
    config.num_hidden_layers, config.initializer_range = 2, 0.3
    torch.manual_seed(3)
    made = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    bias = torch.zeros(tiny.VOCAB)
    bias[: len(MARKERS)] = NEVER
    bias[END] = end
    made.lm_head.bias = torch.nn.Parameter(bias)
    return made
