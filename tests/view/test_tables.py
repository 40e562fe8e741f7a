"""What the tables of the command line say."""

from __future__ import annotations

from random import Random

import pytest

from tests.strategies import make_run
from treegraft.trace.records import DrafterInfo
from treegraft.view.tables import run_title


@pytest.mark.parametrize(("proposes", "words"), [
    (None, "head"), (61, "head"), (40, "head (proposes 40 of 61 tokens)")])
def test_a_title_says_what_a_drafter_cannot_propose(proposes, words):
    run = make_run(Random(0), [(2, 3)])
    run.header.target.vocab_size = 61
    run.header.drafters = [DrafterInfo(id=0, kind="eagle3", name="head", proposes=proposes)]
    assert run_title(run).plain.endswith(words)
