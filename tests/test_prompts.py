import json
from collections import Counter

import pytest

from treegraft import prompts
from treegraft.prompts import PromptError, bundled, load, load_messages


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_bundled_set_is_balanced_and_distinct():
    everything = bundled()
    assert Counter((prompt.category, prompt.split) for prompt in everything) == {
        (category, split): 4 for category in ("writing", "code", "maths", "questions", "summaries", "extraction",
                                              "translation", "repetitive") for split in ("tuning", "held_out")}
    assert len({prompt.id for prompt in everything}) == len({prompt.turns for prompt in everything}) == 64
    assert sum(len(prompt.turns) > 1 for prompt in everything) >= 8
    assert any(ord(letter) > 0xFFFF for prompt in everything for turn in prompt.turns for letter in turn), "an emoji"
    assert max(len(turn) for prompt in everything for turn in prompt.turns) < 2000, "fits a small model's context"


def test_bundled_set_is_filtered():
    held_out = bundled("code", "held_out")
    assert [(prompt.category, prompt.split) for prompt in held_out] == [("code", "held_out")] * 4
    with pytest.raises(PromptError, match=r"'cod'.*code, extraction"):
        bundled("cod")


def test_bar_prompts():
    assert len(load(prompts.BAR)) == 12


def test_text_file_is_one_prompt(tmp_path):
    assert [prompt.turns for prompt in load(write(tmp_path, "a.txt", "\ufeffTwo\nlines\n"))] == [("Two\nlines",)]


def test_json_list_and_lines(tmp_path):
    assert [p.turns[0] for p in load(write(tmp_path, "a.json", '["one", {"text": "two"}]'))] == ["one", "two"]
    lines = ['"plain"', "", '{"id": "x", "category": "code", "text": "t"}', '{"turns": ["a", "b"]}']
    plain, named, turns = load(write(tmp_path, "b.jsonl", "\n".join(lines)))
    assert (plain.turns, plain.id) == (("plain",), "1")
    assert (named.id, named.category, named.group) == ("x", "code", "code")
    assert (turns.turns, turns.group) == (("a", "b"), "3")


def test_line_separators_inside_a_text_do_not_end_a_line(tmp_path):
    (prompt,) = load(write(tmp_path, "a.jsonl", json.dumps({"text": "a\u2028b"}, ensure_ascii=False)))
    assert prompt.turns == ("a\u2028b",)


def test_mt_bench_questions(tmp_path):
    row = {"question_id": 81, "category": "writing", "turns": ["Compose.", "Rewrite."], "reference": ["x"]}
    (prompt,) = load(write(tmp_path, "question.jsonl", json.dumps(row)))
    assert (prompt.id, prompt.category, prompt.turns) == ("81", "writing", ("Compose.", "Rewrite."))


def test_prompts_of_a_file_are_chosen_by_category(tmp_path):
    rows = [{"question_id": number, "category": category, "turns": ["x"]}
            for number, category in enumerate(["qa", "rag", "qa"], 1)]
    found = load(write(tmp_path, "question.jsonl", "\n".join(map(json.dumps, rows))))
    assert [prompt.id for prompt in prompts.select(found, "qa", "", "them")] == ["1", "3"]
    assert prompts.select(found, "", "", "them") == found
    with pytest.raises(PromptError, match="no category 'q' among them; allowed: qa, rag"):
        prompts.select(found, "q", "", "them")
    with pytest.raises(PromptError, match="no split 'tuning' among them; allowed: none"):
        prompts.select(found, "", "tuning", "them")


def test_answers_are_fed_back_turn_by_turn(tmp_path):
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    prompt = load_messages(write(tmp_path, "m.json", json.dumps(messages)))
    assert prompt.conversation() == messages
    assert load_messages(write(tmp_path, "n.json", json.dumps({"messages": messages}))).conversation() == messages
    two = prompts.Prompt(id="p", turns=("a", "b"))
    assert two.conversation(["answer"]) == [
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "answer"}, {"role": "user", "content": "b"}]


@pytest.mark.parametrize(("name", "content", "complaint"), [
    ("a.csv", "x", r"a\.csv: prompts are read from \.txt"),
    ("a.txt", " \n", r"a\.txt: no prompt"),
    ("a.txt", b"ok\n\xff", r"a\.txt, line 2: not UTF-8"),
    ("a.json", '{"text": "x"}', r"a\.json: expected a list of texts, got dict"),
    ("a.json", '["a",\n]', r"a\.json, line \d: not JSON"),
    ("a.json", '["a", 3]', r"a\.json, item 2: expected a text, or an object with .*, got int"),
    ("a.json", r'["\ud800"]', r"a\.json, item 1: not valid text"),
    ("a.jsonl", r'{"messages": [{"role": "user", "content": "a\udc00"}]}', r"a\.jsonl, line 1: not valid text"),
    ("a.jsonl", r'{"messages": [{"role": "\ud800", "content": "a"}]}', r"a\.jsonl, line 1: not valid text"),
    ("a.json", "9" * 5000, r"a\.json, line 1: Exceeds the limit"),
    ("a.json", "[" * 200_000, r"a\.json, line 1: nested too deeply"),
    ("a.jsonl", '{"text": "x"}\n{"text": ', r"a\.jsonl, line 2: not JSON"),
    ("a.jsonl", '{"text": ""}', r"a\.jsonl, line 1: Expected `str` of length >= 1 - at `\$\.text`"),
    ("a.jsonl", '\n{"prompt": "x"}', r"a\.jsonl, line 2: give exactly one of text, messages or turns"),
    ("a.jsonl", '{"text": "x", "turns": ["y"]}', "exactly one of"),
    ("a.jsonl", json.dumps({"category": "x" * 201, "text": "x"}), r"line 1: Expected `str` of length <= 200"),
    ("a.jsonl", '{"messages": [{"role": "robot", "content": "x"}]}', r"Invalid enum value 'robot'"),
    ("a.jsonl", '{"messages": [{"role": "assistant", "content": "x"}]}', "last message must be the user's"),
])
def test_a_bad_file_is_named_with_its_line(tmp_path, name, content, complaint):
    with pytest.raises(PromptError, match=complaint):
        load(write(tmp_path, name, content))


def test_half_a_letter_that_is_not_read_is_no_mistake(tmp_path):
    (prompt,) = load(write(tmp_path, "a.jsonl", r'{"text": "\ud83d\ude00", "reference": ["\ud800"]}'))
    assert prompt.turns == ("\U0001f600",)


def test_a_conversation_of_half_letters_is_refused(tmp_path):
    with pytest.raises(PromptError, match="not valid text"):
        load_messages(write(tmp_path, "m.json", r'[{"role": "user", "content": "\ud800"}]'))


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(PromptError, match="No such file"):
        load(tmp_path / "none.txt")
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(PromptError, match="directory"):
        load(tmp_path / "folder.txt")


@pytest.mark.parametrize(("bound", "value", "complaint"), [
    ("MAX_BYTES", 8, "larger than"), ("MAX_PROMPTS", 1, "more than 1")])
def test_bounds(tmp_path, monkeypatch, bound, value, complaint):
    monkeypatch.setattr(prompts, bound, value)
    with pytest.raises(PromptError, match=complaint):
        load(write(tmp_path, "a.json", '["one", "two"]'))
