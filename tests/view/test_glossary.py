"""Terms are found in running text, explained once each, and nothing in the text becomes markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from treegraft.trace.replay import FATES
from treegraft.view.glossary import FORMS, TERMS, explained, found, marked, meaning, search

DESIGN_WORDS = ("target", "drafter", "policy", "round", "layer", "call", "skip", "root", "bonus", "accepted length",
                "tau", "fate", "origin", "weak drafter", "strong drafter")


def terms(text: str) -> list[tuple[str, str]]:
    return [(text[start:end], term) for start, end, term in found(text)]


def test_the_glossary_has_every_word_of_the_design_and_every_fate():
    assert set(DESIGN_WORDS) | set(FATES) <= set(TERMS)
    assert set(FORMS.values()) <= set(TERMS)


@pytest.mark.parametrize("term", TERMS)
def test_meanings_are_sentences(term):
    assert re.fullmatch(r"[A-Za-z].*\.", TERMS[term])
    assert len(TERMS[term]) < 220
    assert not term.endswith("s") or term in ("bonus", "nats", "successors", "lossless", "forward pass")


def test_terms_are_found_in_any_form_but_not_inside_words():
    assert terms("Targets called; the KV cache, a surround-sound rootless tree") == [
        ("Targets", "target"), ("called", "call"), ("KV cache", "KV cache")]
    assert terms("a strong drafter, accepted length") == [
        ("strong drafter", "strong drafter"), ("accepted length", "accepted length")]


class Text(HTMLParser):
    """The text and the terms of some HTML."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.told: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.told.append(dict(attrs)["data-means"])

    def handle_data(self, data):
        self.words.append(data)


def test_only_the_first_use_is_marked_and_all_else_is_escaped():
    text = 'The target <img src=x onerror="hack()"> asks the target & a drafter'
    read = Text(marked(text))
    assert "".join(read.words) == text
    assert read.tags == ["abbr", "abbr"]
    assert read.told == [TERMS["target"], TERMS["drafter"]]


def test_help_texts_hold_the_terms_of_a_text_once():
    assert explained("A round, a root, and a round") == meaning("round", "root")
    assert explained("nothing to say") == ""
    with pytest.raises(KeyError):
        meaning("flux capacitor")


def test_search_puts_names_first_and_wants_all_words():
    assert next(iter(search("drafter"))) == "drafter"
    assert next(iter(search("kv CACHE"))) == "KV cache"
    assert "root" in search("kv cache")
    assert search("zebra") == {}
    assert search("  ") == TERMS
