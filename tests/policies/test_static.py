"""Static trees: the published shapes, shapes of one's own, and texts that are none."""

from __future__ import annotations

import json

import pytest

from tests.policies.random_drafters import draft, grown
from tests.policies.scripted import Scripted, nats
from treegraft.policies import Sequoia, Static
from treegraft.settings import SettingError


@pytest.mark.parametrize(("name", "levels"), [("eagle1", (4, 8, 8, 3, 2)), ("medusa", (10, 28, 23, 2))])
def test_published_shapes(name, levels):
    template = Static(tree=name).template
    assert template.levels == levels
    assert (0,) * len(levels) in template.paths


def test_a_shape_of_ones_own_is_filled_by_rank():
    drafter = Scripted(id=0)
    round = draft(Static(tree="[[0], [2], [0, 1]]"), drafter)
    assert round.tree.parent.tolist() == [-1, 0, 0, 1]
    assert round.tree.token.tolist() == [0, 1, 3, 3]
    assert round.tree.score.tolist() == [0, nats(0.6), nats(0.09), nats(0.6) + nats(0.3)]
    assert round.kept.tolist() == [0, 1, 2, 3]
    wider = draft(Static(tree="[[0], [1], [0, 0], [1, 1]]"), Scripted(id=0)).tree
    assert (wider.parent.tolist(), wider.token.tolist()) == ([-1, 0, 0, 1, 2], [0, 1, 2, 2, 4])


def test_a_level_is_one_forward_over_its_inner_nodes():
    drafter = Scripted(id=0)
    events = grown(draft(Static(), drafter))
    assert [len(nodes) for nodes in drafter.reads] == [1, 4, 4, 1, 1]
    assert [event.parents for event in events] == drafter.reads


def test_ranks_that_the_drafter_does_not_have_are_left_out():
    round = draft(Static(tree="[[0], [30], [30, 0], [0, 0]]"), Scripted(id=0))
    assert round.tree.parent.tolist() == [-1, 0, 1]


@pytest.mark.parametrize(("tree", "words"), [
    ("bushy", "tree was 'bushy'; allowed: eagle1, medusa, a list of rank paths"), ("{}", "tree was '{}'; allowed"),
    ("", "allowed: eagle1"), ("[[0],\n[0 0]]", "in line 2"), ("[]", "has 0 paths; allowed: 1 to 1023"),
    ("[[0], [0, 0, 1]]", r"\[0, 0, 1\] but not \[0, 0\]"), ("[[0], [0]]", "twice"), ("[[64]]", "ranks from 0 to 63"),
    ("[[true]]", "ranks from 0 to 63"), ("[0]", "ranks from 0 to 63"), ("[[0.5]]", "ranks from 0 to 63"),
    ("[" * 100_000, "beyond all bounds"), (json.dumps([[0]] * 1024), "has 1024 paths")])
def test_texts_that_are_no_shape(tree, words):
    with pytest.raises(SettingError, match=words) as raised:
        Static(tree=tree)
    assert len(str(raised.value)) < 400


# --- files ----------------------------------------------------------------------------------------------------------


def test_a_file_gives_way_to_what_it_holds(tmp_path):
    file = tmp_path / "shape.json"
    file.write_text("[[0],\n [1]]")
    policy = Static.from_text({"tree": str(file)})
    assert policy.settings["tree"] == "[[0], [1]]"
    assert policy == Static(tree="[[0], [1]]")
    assert Static.from_text({}) == Static()
    file.write_text("[0.5, 0.25]")
    assert Sequoia.from_text({"acceptance": str(file), "budget": "9"}).acceptance == "[0.5, 0.25]"


def test_only_what_is_typed_is_looked_up_as_a_file(tmp_path):
    file = tmp_path / "shape.json"
    file.write_text("[[0]]")
    with pytest.raises(SettingError, match="where settings are typed"):
        Static(tree=str(file))


@pytest.mark.parametrize(("content", "words"), [
    (None, "which is not there"), (b"\xff\xfe", "cannot be read as text"), (b"[[0],", "in line 1"),
    (b" " * 70_000, "has 70000 bytes; a list for tree has at most 65536"), (b'{"tree": []}', "a JSON list")])
def test_files_that_hold_no_list(tmp_path, content, words):
    file = tmp_path / "shape.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingError, match=words):
        Static.from_text({"tree": str(file)})
