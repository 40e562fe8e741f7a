"""Tokenizers: whether two agree, the bytes that each token stands for, and how a prompt becomes tokens."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal
from weakref import WeakKeyDictionary

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

from treegraft.analysis.text import is_unicode
from treegraft.models.errors import PromptError

SHOWN_DIFFERENCES = 3
BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
"""How SentencePiece vocabularies with byte fallback spell a byte."""

Messages = Sequence[Mapping[str, str]]


# --- do two models speak the same tokens? ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Compatibility:
    """Whether a drafter's tokens are the target's.

    `same`: every token has the same id, and both models have as many embedding rows. `padded`: the tokens agree and
    only the number of rows beyond the last token differs; those rows are padding, and logits are cut to
    `usable_vocab` so that nobody proposes or chooses them. `different`: the pair cannot be used.
    """

    verdict: Literal["same", "padded", "different"]
    usable_vocab: int
    details: str


def compatibility(target: PreTrainedTokenizerBase, target_vocab_size: int, drafter: PreTrainedTokenizerBase,
                  drafter_vocab_size: int) -> Compatibility:
    """Compare the token -> id maps, added and special tokens included, and the embedding rows of the two models.

    Tokens without an embedding row do not count: no model can read or write them.
    """
    ours = {token: id for token, id in target.get_vocab().items() if id < target_vocab_size}
    theirs = {token: id for token, id in drafter.get_vocab().items() if id < drafter_vocab_size}
    if ours != theirs:
        return Compatibility("different", 0, describe_difference(ours, theirs))
    if target_vocab_size == drafter_vocab_size:
        return Compatibility("same", target_vocab_size, f"{len(ours)} tokens, all with the same ids")
    tokens = max(ours.values()) + 1
    return Compatibility("padded", tokens, f"same {len(ours)} tokens; target {target_vocab_size}, drafter "
                                           f"{drafter_vocab_size} embedding rows; rows from {tokens} on are padding")


def describe_difference(ours: dict[str, int], theirs: dict[str, int]) -> str:
    """The tokens that the two maps do not share, the first few spelled out by id."""
    wrong = sorted({ours.get(token, theirs.get(token)) for token, _ in ours.items() ^ theirs.items()})
    by_id = [{id: token for token, id in vocab.items()} for vocab in (ours, theirs)]
    shown = "; ".join(f"id {id}: target {by_id[0].get(id)!r}, drafter {by_id[1].get(id)!r}"
                      for id in wrong[:SHOWN_DIFFERENCES])
    return f"{len(wrong)} of {len(ours)} (target) and {len(theirs)} (drafter) tokens differ, the first: {shown}"


def vocabulary_hash(tokenizer: PreTrainedTokenizerBase, vocab_size: int) -> str:
    """Hash of the tokens and their ids, those without one of the `vocab_size` embedding rows left out."""
    known = sorted((id, token) for token, id in tokenizer.get_vocab().items() if id < vocab_size)
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()


# --- bytes of tokens ------------------------------------------------------------------------------------------------


def piece_bytes(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> dict[int, bytes]:
    """The bytes that each token of `ids` adds to a text, as inside of it (some decoders drop a space at the start).

    Ids without a token (padding rows) stand for no bytes. Several tokens may make up one character.
    """
    if tokenizer not in _spellers:
        _spellers[tokenizer] = Speller(tokenizer)
    return _spellers[tokenizer](ids)


class Speller:
    """Spells tokens as bytes, remembering what it has spelled: a decode asks for the same tokens again and again."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self._to_tokens = tokenizer.convert_ids_to_tokens
        self._join = backend_join(backend) if backend is not None else tokenizer.convert_tokens_to_string
        self._byte_level = has_byte_level(backend) if backend is not None else hasattr(tokenizer, "byte_decoder")
        self._behind = len(self._join(["a", "a"])) - 1
        self._size = len(tokenizer)
        self._pieces = {id: token.content.encode() for id, token in tokenizer.added_tokens_decoder.items()
                        if not BYTE_TOKEN.fullmatch(token.content)}

    def __call__(self, ids: Sequence[int]) -> dict[int, bytes]:
        new = [int(id) for id in dict.fromkeys(ids) if id not in self._pieces]
        known = [id for id in new if 0 <= id < self._size]
        self._pieces |= dict.fromkeys(new, b"")
        self._pieces |= {id: self._spell(token) for id, token in zip(known, self._to_tokens(known), strict=True)
                         if token is not None}
        return {int(id): self._pieces[id] for id in ids}

    def _spell(self, token: str) -> bytes:
        alphabet = byte_alphabet()
        if self._byte_level and all(character in alphabet for character in token):
            return bytes(alphabet[character] for character in token)
        if match := BYTE_TOKEN.fullmatch(token):
            return bytes.fromhex(match[1])
        return self._join(["a", token, "a"])[1:-self._behind].encode()


_spellers: WeakKeyDictionary[PreTrainedTokenizerBase, Speller] = WeakKeyDictionary()


def backend_join(backend: Tokenizer) -> Callable[[list[str]], str]:
    """How a `tokenizers` tokenizer turns tokens into text."""
    return backend.decoder.decode if backend.decoder is not None else " ".join


def has_byte_level(backend: Tokenizer) -> bool:
    """Whether tokens are spelled in the byte alphabet (GPT-2's and its heirs')."""
    if backend.decoder is None:
        return False
    decoder = json.loads(backend.decoder.__getstate__())
    return any(part["type"] == "ByteLevel" for part in decoder.get("decoders", [decoder]))


@cache
def byte_alphabet() -> dict[str, int]:
    """GPT-2's spelling of bytes: printable Latin-1 characters stand for themselves, the others for 256, 257, ..."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + rank): byte for rank, byte in enumerate(others)}


# --- prompts --------------------------------------------------------------------------------------------------------


def encode_prompt(tokenizer: PreTrainedTokenizerBase, prompt: str | Messages,
                  raw: bool = False) -> tuple[list[int], str]:
    """Token ids of `prompt` and the text that they spell.

    Text becomes one user message, and messages (`role`, `content`) are set in the model's chat template. `raw`, or a
    model without a template, takes text as it is. Errors: `PromptError`.
    """
    if isinstance(prompt, str):
        if not (prompt if raw else prompt.strip()):
            raise PromptError("The prompt is empty. Give some text.")
        if raw or not tokenizer.chat_template:
            return encode(tokenizer, prompt, special=True)
        prompt = [{"role": "user", "content": prompt}]
    elif raw or not tokenizer.chat_template:
        raise PromptError("Chat messages need a chat template, and " + (
            "raw prompts do without. Give text, or leave raw out." if raw else
            "this model has none. Give text, or use an instruction-tuned model."))
    check_messages(prompt)
    try:
        text = tokenizer.apply_chat_template([dict(message) for message in prompt], tokenize=False,
                                             add_generation_prompt=True)
    except Exception as error:  # a template is a program of the model's authors and may fail in any way
        raise PromptError(f"The model's chat template refuses these messages: {error}. Most want an optional system "
                          "message, then user and assistant in turn.") from error
    return encode(tokenizer, text, special=False)


def check_messages(messages: Messages) -> None:
    """Errors: `PromptError` unless there are messages, each with a role and some content, the last one not empty."""
    if not messages:
        raise PromptError("There are no messages. Give at least one with role 'user'.")
    for number, message in enumerate(messages, start=1):
        if not (isinstance(message, Mapping) and all(isinstance(message.get(key), str) for key in ("role", "content"))):
            raise PromptError(f"Message {number} lacks a role or a content in text. Each message is like "
                              '{"role": "user", "content": "Hello"}.')
    if not messages[-1]["content"].strip():
        raise PromptError("The last message is empty. Give some text.")


def encode(tokenizer: PreTrainedTokenizerBase, text: str, special: bool) -> tuple[list[int], str]:
    if not is_unicode(text):
        raise PromptError("The prompt holds half a character (a lone surrogate) or bytes that are not UTF-8. Give it "
                          "as UTF-8 text.")
    ids = tokenizer(text, add_special_tokens=special)["input_ids"]
    if not ids:
        raise PromptError("The prompt has no tokens. Give some text.")
    return ids, text
