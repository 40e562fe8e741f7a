"""Tokenizers are compared by what they are, tokens are spelled to the byte, prompts are encoded as the model wants."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models import tokenizers_of
from tests.models.tokenizers_of import TEXTS
from treegraft.models.errors import PromptError
from treegraft.models.tokenizer import byte_alphabet, compatibility, encode_prompt, piece_bytes

CHATML = ("{% for m in messages %}<s>{{ m['role'] }}\n{{ m['content'] }}</s>\n{% endfor %}"
          "{% if add_generation_prompt %}<s>assistant\n{% endif %}")
STRICT = "{% if messages[0]['role'] != 'user' %}{{ raise_exception('roles must start with user') }}{% endif %}"


def spelled(tokenizer, ids: list[int]) -> str:
    """The text that the bytes of `ids` make up."""
    pieces = piece_bytes(tokenizer, ids)
    return b"".join(pieces[id] for id in ids).decode()


def encoded(tokenizer, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


# --- bytes of tokens ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["byte_level", "sentencepiece", "metaspace", "wordpiece", "suffixed", "words"])
@pytest.mark.parametrize("text", TEXTS)
def test_joined_bytes_are_the_decoded_text(kind, text):
    tokenizer = getattr(tokenizers_of, kind)()
    ids = encoded(tokenizer, text)
    decoded = tokenizer.decode(ids)
    joined = spelled(tokenizer, ids)
    if kind == "byte_level":
        assert joined == decoded == text
    else:
        assert joined.strip(" ") == decoded.strip(" ")


@pytest.mark.parametrize("bytes_are_added", [False, True])
@pytest.mark.parametrize("text", TEXTS)
def test_byte_fallback_spells_every_text(text, bytes_are_added):
    tokenizer = tokenizers_of.sentencepiece(bytes_are_added)
    ids = encoded(tokenizer, text)
    assert spelled(tokenizer, ids) == " " + text
    pieces = piece_bytes(tokenizer, range(3, 259))
    assert [pieces[id] for id in range(3, 259)] == [bytes([byte]) for byte in range(256)]


def test_a_character_may_be_spread_over_tokens():
    tokenizer = tokenizers_of.byte_level(size=259)
    ids = encoded(tokenizer, "你")
    assert [piece_bytes(tokenizer, ids)[id] for id in ids] == [b"\xe4", b"\xbd", b"\xa0"]


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=30))
def test_any_text_survives_byte_level_spelling(text):
    tokenizer = tokenizers_of.byte_level()
    ids = encoded(tokenizer, text.replace("<", ""))
    assert spelled(tokenizer, ids) == text.replace("<", "")


def test_added_tokens_are_spelled_as_they_are_written():
    tokenizer = tokenizers_of.byte_level(extra=("<é→>", "Ġx", "  "))
    text = "a<é→>bĠx  c"
    ids = encoded(tokenizer, text)
    assert {"<é→>", "Ġx", "  "} <= set(tokenizer.convert_ids_to_tokens(ids))
    assert spelled(tokenizer, ids) == text
    assert piece_bytes(tokenizer, [1, 2]) == {1: b"<s>", 2: b"</s>"}


@pytest.mark.parametrize(("kind", "token", "expected"), [
    ("sentencepiece", "▁", b" "), ("sentencepiece", "qu", b"qu"), ("metaspace", "▁", b" "),
    ("wordpiece", "q", b" q"), ("wordpiece", "##u", b"u"), ("suffixed", "q", b"q"), ("suffixed", "dog</w>", b"dog "),
    ("words", "quick", b" quick")])
def test_pieces_carry_their_inner_spaces(kind, token, expected):
    tokenizer = getattr(tokenizers_of, kind)()
    id = tokenizer.get_vocab()[token]
    assert piece_bytes(tokenizer, [id]) == {id: expected}


def test_padding_rows_stand_for_nothing_and_repeats_are_fine():
    tokenizer = tokenizers_of.byte_level()
    last = len(tokenizer)
    assert piece_bytes(tokenizer, [last, last, 10**6]) == {last: b"", 10**6: b""}
    assert piece_bytes(tokenizer, []) == {}


def test_the_byte_alphabet_is_the_tokenizers_librarys():
    from tokenizers import pre_tokenizers

    assert sorted(byte_alphabet().values()) == list(range(256))
    assert set(byte_alphabet()) == set(pre_tokenizers.ByteLevel.alphabet())
    assert byte_alphabet()["Ġ"] == ord(" ")
    assert byte_alphabet()["Ċ"] == ord("\n")


# --- compatibility --------------------------------------------------------------------------------------------------


def test_the_same_tokenizer_with_the_same_rows():
    one = tokenizers_of.byte_level()
    found = compatibility(one, 400, one, 400)
    assert (found.verdict, found.usable_vocab) == ("same", 400)


@pytest.mark.parametrize(("target_rows", "drafter_rows"), [(512, 400), (400, 512), (512, 448)])
def test_rows_beyond_the_last_token_are_padding(target_rows, drafter_rows):
    one = tokenizers_of.byte_level()
    found = compatibility(one, target_rows, one, drafter_rows)
    assert (found.verdict, found.usable_vocab) == ("padded", len(one))
    assert f"target {target_rows}, drafter {drafter_rows}" in found.details


def test_a_token_that_one_model_has_no_row_for_makes_a_difference():
    one = tokenizers_of.byte_level()
    last = len(one) - 1
    found = compatibility(one, 512, one, last)
    assert found.verdict == "different"
    assert f"id {last}: target {one.convert_ids_to_tokens(last)!r}, drafter None" in found.details


def test_a_token_that_neither_model_has_a_row_for_makes_none():
    one, more = tokenizers_of.byte_level(), tokenizers_of.byte_level(extra=("<unk>",))
    assert compatibility(one, len(one), more, len(one)).verdict == "same"
    assert compatibility(more, len(one), one, len(one)).verdict == "same"


def test_other_tokens_are_named():
    ours = tokenizers_of.byte_level(extra=("<think>",))
    theirs = tokenizers_of.byte_level(extra=("<plan>", "<end>"))
    found = compatibility(ours, 512, theirs, 512)
    assert found.verdict == "different"
    first = len(tokenizers_of.byte_level())
    assert f"id {first}: target '<think>', drafter '<plan>'" in found.details
    assert f"id {first + 1}: target None, drafter '<end>'" in found.details
    assert found.details.startswith("2 of ")


def test_an_added_special_token_makes_a_difference():
    assert compatibility(tokenizers_of.byte_level(), 512, tokenizers_of.byte_level(extra=("<x>",)), 512).verdict == (
        "different")


def test_differences_are_shown_in_bounds():
    found = compatibility(tokenizers_of.byte_level(), 512, tokenizers_of.sentencepiece(), 512)
    assert found.verdict == "different"
    assert found.details.count("target ") == 3
    assert len(found.details) < 300


# --- prompts --------------------------------------------------------------------------------------------------------


def test_text_becomes_a_user_message():
    tokenizer = tokenizers_of.byte_level(chat_template=CHATML)
    ids, text = encode_prompt(tokenizer, "Hi")
    assert text == "<s>user\nHi</s>\n<s>assistant\n"
    assert ids == encoded(tokenizer, text)
    assert ids[0] == 1
    assert encode_prompt(tokenizer, [{"role": "user", "content": "Hi"}]) == (ids, text)


def test_a_conversation_is_set_in_the_template():
    tokenizer = tokenizers_of.byte_level(chat_template=CHATML)
    _, text = encode_prompt(tokenizer, [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                                        {"role": "assistant", "content": "Yo"}, {"role": "user", "content": "Why?"}])
    assert text.count("</s>") == 4
    assert text.endswith("<s>user\nWhy?</s>\n<s>assistant\n")


def test_raw_and_base_models_take_text_as_it_is():
    chat = tokenizers_of.byte_level(chat_template=CHATML)
    assert encode_prompt(chat, "Hi", raw=True) == (encoded(chat, "Hi"), "Hi")
    assert encode_prompt(chat, " ", raw=True) == (encoded(chat, " "), " ")
    base = tokenizers_of.sentencepiece()
    assert encode_prompt(base, "the fox") == ([1, *encoded(base, "the fox")], "the fox")


@pytest.mark.parametrize(("prompt", "raw"), [("", False), ("  \n", False), ("", True), ([], False),
                                             ([{"role": "user", "content": " "}], False)])
def test_an_empty_prompt_is_refused(prompt, raw):
    with pytest.raises(PromptError, match=r"empty|no messages"):
        encode_prompt(tokenizers_of.byte_level(chat_template=CHATML), prompt, raw=raw)


@pytest.mark.parametrize("message", [{"role": "user"}, {"content": "Hi"}, {"role": "user", "content": ["Hi"]}])
def test_a_message_without_role_or_text_is_refused(message):
    with pytest.raises(PromptError, match="Message 1 lacks a role or a content"):
        encode_prompt(tokenizers_of.byte_level(chat_template=CHATML), [message])


def test_messages_without_a_template_are_refused():
    with pytest.raises(PromptError, match="this model has none"):
        encode_prompt(tokenizers_of.byte_level(), [{"role": "user", "content": "Hi"}])
    with pytest.raises(PromptError, match="leave raw out"):
        encode_prompt(tokenizers_of.byte_level(chat_template=CHATML), [{"role": "user", "content": "Hi"}], raw=True)


@pytest.mark.parametrize("text", ["half \ud83d of a smile", "\udcff"])
@pytest.mark.parametrize("raw", [True, False])
def test_text_that_is_no_unicode_is_refused(text, raw):
    with pytest.raises(PromptError, match="half a character"):
        encode_prompt(tokenizers_of.byte_level(chat_template=CHATML), text, raw=raw)


@pytest.mark.parametrize("template", ["{{ 1 / 0 }}", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{% for %}",
                                      "{{ messages[5].content + 1 }}", "{{ messages.x.y }}"])
def test_a_broken_template_is_said(template):
    with pytest.raises(PromptError, match="chat template refuses"):
        encode_prompt(tokenizers_of.byte_level(chat_template=template), "Hi")


def test_messages_are_mappings():
    with pytest.raises(PromptError, match="Message 1 lacks a role"):
        encode_prompt(tokenizers_of.byte_level(chat_template=CHATML), ["Hi"])


def test_what_the_template_refuses_is_passed_on():
    with pytest.raises(PromptError, match="roles must start with user"):
        encode_prompt(tokenizers_of.byte_level(chat_template=STRICT), [{"role": "system", "content": "Hi"}])


# --- the default tokenizer ------------------------------------------------------------------------------------------


@pytest.mark.pair
class TestDefaultTokenizer:
    @pytest.fixture
    def tokenizer(self, pair):
        return pair.target.tokenizer

    @pytest.mark.parametrize("text", TEXTS)
    def test_joined_bytes_are_the_text(self, tokenizer, text):
        ids = encoded(tokenizer, text)
        assert spelled(tokenizer, ids) == tokenizer.decode(ids) == text

    def test_every_token_is_spelled(self, tokenizer):
        pieces = piece_bytes(tokenizer, range(49152))
        assert len(pieces) == 49152
        assert all(pieces.values())
        assert pieces[2] == b"<|im_end|>"

    def test_digits_are_single_tokens_and_spaces_before_them_stay_together(self, tokenizer):
        assert tokenizer.convert_ids_to_tokens(encoded(tokenizer, "x =  2048")) == ["x", "Ġ=", "ĠĠ", "2", "0", "4", "8"]

    def test_the_chat_template_is_the_models_own(self, tokenizer):
        ids, text = encode_prompt(tokenizer, "Hi")
        assert text == ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
                        "<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
        assert ids[0] == 1
        assert ids.count(2) == 2
        assert tokenizer.eos_token_id == 2
