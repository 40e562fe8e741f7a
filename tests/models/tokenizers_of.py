"""Tiny tokenizers, one for each way in which vocabularies spell bytes."""

from __future__ import annotations

import json
from functools import cache

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

TEXTS = [
    "The quick brown fox jumps over the lazy dog, twice; 12345 times!",
    "def f(x):\n    return  x **  2  # two\tspaces\n",
    "Съешь же ещё этих мягких французских булок",
    "مرحبا بالعالم، كيف حالك؟",
    "नमस्ते दुनिया, आप कैसे हैं?",
    "你好，世界！今天天气很好。",
    "こんにちは世界、元気ですか",
    "안녕하세요 세계",
    "สวัสดีชาวโลก",
    "naïve café ﬁ Å e\u0301 ‰ £ ñ",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 👍🏽 🦜",
]


def wrap(backend: Tokenizer, **options) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=backend, clean_up_tokenization_spaces=False, **options)


@cache
def byte_level(size: int = 400, chat_template: str | None = None,
               extra: tuple[str, ...] = ()) -> PreTrainedTokenizerFast:
    """As GPT-2, Llama 3 and Qwen: BPE on bytes."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<pad>", "<s>", "</s>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    backend.add_tokens(list(extra))
    return wrap(backend, bos_token="<s>", eos_token="</s>", pad_token="<pad>", chat_template=chat_template)


@cache
def sentencepiece(bytes_are_added: bool = False) -> PreTrainedTokenizerFast:
    """As Llama 2 and Gemma: BPE on characters, a space marker, and bytes for what is not in the vocabulary."""
    backend = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                         decoders.Strip(" ", 1, 0)])
    backend.train_from_iterator(TEXTS[:3], trainers.BpeTrainer(
        vocab_size=500, show_progress=False,
        special_tokens=["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]))
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    state = json.loads(backend.to_str())
    if not bytes_are_added:
        state["added_tokens"] = state["added_tokens"][:3]
    return wrap(Tokenizer.from_str(json.dumps(state)), bos_token="<s>", eos_token="</s>", unk_token="<unk>")


@cache
def metaspace() -> PreTrainedTokenizerFast:
    """As T5 and ALBERT: unigram pieces with a space marker."""
    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    backend.train_from_iterator(TEXTS, trainers.UnigramTrainer(
        vocab_size=400, special_tokens=["<unk>", "</s>"], unk_token="<unk>", show_progress=False))
    return wrap(backend, unk_token="<unk>", eos_token="</s>")


@cache
def wordpiece() -> PreTrainedTokenizerFast:
    """As BERT: words cut into a head and ## tails."""
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(cleanup=False)
    backend.train_from_iterator(TEXTS, trainers.WordPieceTrainer(
        vocab_size=400, special_tokens=["[UNK]", "[SEP]"], show_progress=False))
    return wrap(backend, unk_token="[UNK]", sep_token="[SEP]")


@cache
def suffixed() -> PreTrainedTokenizerFast:
    """As GPT-1 and CLIP: the last piece of a word carries a mark."""
    backend = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.decoder = decoders.BPEDecoder(suffix="</w>")
    backend.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False))
    return wrap(backend, unk_token="<unk>")


@cache
def words() -> PreTrainedTokenizerFast:
    """Whole words, without a decoder."""
    backend = Tokenizer(models.WordLevel(unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.train_from_iterator(TEXTS, trainers.WordLevelTrainer(special_tokens=["<unk>"], show_progress=False))
    return wrap(backend, unk_token="<unk>")
