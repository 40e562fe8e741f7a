"""Corpora are read as they were written, refused with a line that helps, and rendered with the chat template."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
import zstandard
from transformers import LlamaTokenizer

from tests import tiny
from tests.distill import tiny_chat
from tests.models import tokenizers_of
from treegraft.distill import conversations
from treegraft.distill.conversations import (
    Conversation,
    CorpusError,
    append,
    pack,
    read_conversations,
    render,
    rewrite,
    split_prompt,
)

SOME = [Conversation([5, 9], 0.0, [7, 8, 2]), Conversation([60], 0.7, [4]), Conversation([3, 3, 3], 1.0, [12, 2])]
LINE = '{"question_ids":[5,9],"temperature":0,"answer_ids":[7,8,2]}\n'
CHECKSUM = 4
"""Bytes at the end of a frame without which its text is still whole."""
NAMES = ["corpus.jsonl", "corpus.jsonl.zst"]


@pytest.fixture(params=NAMES)
def corpus(request, tmp_path) -> Path:
    path = tmp_path / request.param
    append(path, SOME[:2])
    append(path, SOME[2:])
    return path


def test_what_was_written_is_read(corpus):
    assert read_conversations(corpus, tiny.VOCAB) == SOME
    assert read_conversations(corpus, tiny.VOCAB, limit=2) == SOME[:2]
    assert read_conversations(corpus, tiny.VOCAB, limit=0) == []
    assert corpus.read_bytes() == pack(SOME[:2], corpus) + pack(SOME[2:], corpus)


def test_lines_are_those_of_the_format(tmp_path):
    path = tmp_path / "corpus.jsonl"
    append(path, SOME)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [list(line) for line in lines] == [["question_ids", "temperature", "answer_ids"]] * 3
    assert lines[0] == json.loads(LINE)


def test_any_frames_are_read_whatever_the_name(tmp_path):
    path = tmp_path / "anything"
    text = b"".join(pack([conversation], Path("c.jsonl")) for conversation in SOME)
    path.write_bytes(zstandard.compress(text[:50]) + zstandard.compress(text[50:]))
    assert read_conversations(path, tiny.VOCAB) == SOME


def test_a_cut_last_line_is_left_out(corpus):
    whole, sound = corpus.read_bytes(), len(pack(SOME[:2], corpus))
    needed = len(whole) - len("\n") - (CHECKSUM if corpus.suffix == ".zst" else 0)
    for size in range(sound, needed):
        corpus.write_bytes(whole[:size])
        assert read_conversations(corpus, tiny.VOCAB) == SOME[:2]


def test_a_last_line_without_its_newline_is_read(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text(LINE + LINE.rstrip())
    assert read_conversations(path, tiny.VOCAB) == [SOME[0], SOME[0]]


@pytest.mark.parametrize(("line", "message"), [
    ('{"question_ids":[5,9],"temperature":0}', "missing required field `answer_ids`"),
    ('{"question_ids":[5,"9"],"temperature":0,"answer_ids":[2]}', r"`int`, got `str` - at `\$.question_ids\[1\]`"),
    ('{"question_ids":[5],"temperature":0,"answer_ids":[2,-1]}', r"`int` >= 0 - at `\$.answer_ids\[1\]`"),
    ('{"question_ids":[],"temperature":0,"answer_ids":[2]}', r"length >= 1 - at `\$.question_ids`"),
    ('{"question_ids":[5],"temperature":-1,"answer_ids":[2]}', r">= 0.0 - at `\$.temperature`"),
    ('{"question_ids":[5],"temperature":1e9,"answer_ids":[2]}', r"<= 100.0 - at `\$.temperature`"),
    ('{"question_ids":[61],"temperature":0,"answer_ids":[2]}', "question_ids holds token 61; allowed: 0 to 60"),
    ('{"question_ids":[5],"temperature":0,"answer_ids":[2,99]}', "answer_ids holds token 99; allowed: 0 to 60"),
    ("[1, 2]", "Expected `object`, got `array`"),
    ("", "not a JSON object of question_ids, temperature and answer_ids"),
    ("what?", "not a JSON object"),
    ('{"more":' + "[" * 100_000, "not a JSON object"),
    ('{"question_ids":[%s5],"temperature":0,"answer_ids":[2]}' % ("5," * (1 << 16)), r"<= 65536 - at `\$.question"),
])
def test_other_lines_are_refused(tmp_path, line, message):
    path = tmp_path / "corpus.jsonl"
    path.write_text(LINE + line + "\n" + LINE)
    with pytest.raises(CorpusError, match=rf"corpus.jsonl, line 2: .*{message}"):
        read_conversations(path, tiny.VOCAB)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "corpus.jsonl"
    with pytest.raises(CorpusError, match="cannot be read: No such file or directory"):
        read_conversations(path, tiny.VOCAB)
    with pytest.raises(CorpusError, match="cannot be read: Is a directory"):
        read_conversations(tmp_path, tiny.VOCAB)
    with pytest.raises(CorpusError, match="null byte"):
        read_conversations(Path("a\0b"), tiny.VOCAB)
    path.write_bytes(b"")
    with pytest.raises(CorpusError, match="no conversation in it"):
        read_conversations(path, tiny.VOCAB)
    path.write_bytes(b"x" * (2 << 20))
    with pytest.raises(CorpusError, match="a line of more than 1 MiB"):
        read_conversations(path, tiny.VOCAB)


def test_damaged_and_greedy_frames_are_refused(tmp_path):
    path = tmp_path / "corpus.jsonl.zst"
    path.write_bytes(pack(SOME, path) + b"rubbish")
    with pytest.raises(CorpusError, match="cannot be unpacked"):
        read_conversations(path, tiny.VOCAB)
    wide = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    path.write_bytes(zstandard.ZstdCompressor(compression_params=wide).compressobj().compress(os.urandom(1 << 20)))
    with pytest.raises(CorpusError, match="window of at most 8 MiB"):
        read_conversations(path, tiny.VOCAB)
    path.write_bytes(zstandard.compress(b" " * (64 << 20)))
    with pytest.raises(CorpusError, match="a line of more than 1 MiB"):
        read_conversations(path, tiny.VOCAB)


@pytest.mark.parametrize("limit", ["MAX_CONVERSATIONS", "MAX_TOKENS"])
def test_too_large_a_corpus_is_refused(corpus, monkeypatch, limit):
    monkeypatch.setattr(conversations, limit, 2)
    with pytest.raises(CorpusError, match="the most that a corpus may have"):
        read_conversations(corpus, tiny.VOCAB)


# --- writing --------------------------------------------------------------------------------------------------------


def fail(*arguments: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_failed_write_changes_nothing(corpus, monkeypatch):
    before = corpus.read_bytes()
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(CorpusError, match="cannot be written: No space left on device"):
        append(corpus, SOME)
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(CorpusError, match="cannot be written: No space left on device"):
        rewrite(corpus, SOME[:1], chunk=2)
    assert corpus.read_bytes() == before
    assert list(corpus.parent.iterdir()) == [corpus]


def test_rewritten_chunks_are_those_that_were_appended(corpus):
    before = corpus.read_bytes()
    rewrite(corpus, SOME, chunk=2)
    assert corpus.read_bytes() == before
    assert list(corpus.parent.iterdir()) == [corpus]


# --- the chat template ----------------------------------------------------------------------------------------------


def test_the_question_is_spliced_into_the_template():
    tokenizer = tiny_chat.tokenizer()
    words = tokenizer("so: why, you")["input_ids"]
    ids, prompt_length = render(Conversation(words, 0.0, [50, 2]), tokenizer)
    assert ids[prompt_length:] == [50, 2]
    assert ids[:prompt_length] == tokenizer.apply_chat_template(
        [{"role": "user", "content": "so: why, you"}], add_generation_prompt=True, return_dict=False)


def test_question_tokens_are_kept_as_they_are():
    tokenizer = tokenizers_of.byte_level(chat_template=tiny_chat.TEMPLATE)
    letters = [tokenizer.convert_tokens_to_ids(letter) for letter in "the"]
    ids, prompt_length = render(Conversation(letters, 0.0, [9]), tokenizer)
    around = tokenizer("<s>user:")["input_ids"], tokenizer("</s>\n<s>assistant:")["input_ids"]
    assert ids == [*around[0], *letters, *around[1], 9]
    assert prompt_length == len(ids) - 1


def test_a_space_before_the_words_belongs_to_them():
    """SentencePiece writes `[INST] Why` as `[INST]` and ` Why`."""
    template = "{{ '[INST] ' + messages[0]['content'] + ' [/INST]' }}"
    vocab = {piece: id for id, piece in enumerate(["<unk>", "<s>", "</s>", "▁", "▁a", "▁ab", *"abAQITNS[/]uestion"])}
    tokenizer = LlamaTokenizer(vocab=vocab, merges=[("▁", "a"), ("▁a", "b")], chat_template=template)
    head, words, tail = split_prompt(tokenizer, "ab")
    pieces = tokenizer.convert_ids_to_tokens
    assert pieces(words) == ["▁ab"]
    assert pieces(head)[-6:] == list("[INST]")
    assert pieces(tail) == ["▁", *"[/INST]"]


@pytest.mark.parametrize(("template", "message"), [
    (None, "The target has no chat template"),
    ("{{ messages[0]['content'] | upper }}", "does not repeat the user's words"),
    ("{{ raise_exception('no user') }}", "no user"),
])
def test_templates_that_cannot_be_split_are_refused(template, message):
    with pytest.raises(ValueError, match=message):
        render(SOME[0], tiny_chat.tokenizer(template))
