"""The target's states are the same whether computed or read back, and a folder of another corpus is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests import tiny
from tests.distill.examples import random_examples
from treegraft.distill.data import collate
from treegraft.distill.errors import DistillError
from treegraft.distill.states import TargetStates, check_head, fingerprint

CPU = torch.device("cpu")


def test_states_are_read_back_as_they_were_computed(tmp_path):
    examples = random_examples(6)
    states = TargetStates(tiny.target("llama"), examples, (0, 1), tmp_path)
    batch = collate(examples, np.array([4, 1, 3]), CPU)
    first = states(batch)
    again = TargetStates(tiny.target("llama"), examples, (0, 1), tmp_path)
    again._compute = None
    inside = torch.arange(batch.tokens.shape[1]) < torch.from_numpy(batch.lengths)[:, None]
    for computed, read in zip(first, again(batch), strict=True):
        assert torch.equal(computed[inside], read[inside])


def test_states_are_those_of_the_model():
    examples = random_examples(3)
    batch = collate(examples, np.arange(3), CPU)
    aux, last = TargetStates(tiny.target("llama"), examples, (0, 1), None)(batch)
    output = tiny.target("llama").base_model(batch.tokens, output_hidden_states=True)
    wanted = torch.cat((output.hidden_states[1], output.hidden_states[2]), -1)
    assert torch.allclose(aux, wanted, rtol=1e-2, atol=1e-2)
    assert torch.allclose(last, output.last_hidden_state, rtol=1e-2, atol=1e-2)


def test_a_folder_of_another_corpus_is_refused(tmp_path):
    TargetStates(tiny.target("llama"), random_examples(6), (0,), tmp_path)
    with pytest.raises(DistillError, match="another corpus"):
        TargetStates(tiny.target("llama"), random_examples(7), (0,), tmp_path)


def test_models_of_one_shape_are_told_apart():
    assert fingerprint(tiny.target("llama")) == fingerprint(tiny.target("llama"))
    assert fingerprint(tiny.target("llama")) != fingerprint(tiny.drafter("llama"))


def test_a_disk_that_is_too_small_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 100})())
    with pytest.raises(DistillError, match="larger disk"):
        TargetStates(tiny.target("llama"), random_examples(6), (0,), tmp_path)


def test_a_target_that_bends_its_logits_is_refused(monkeypatch):
    check_head(tiny.target("llama"))
    model = tiny.target("gemma3")
    monkeypatch.setattr(model.config, "final_logit_softcapping", 0.5)
    with pytest.raises(DistillError, match="capping"):
        check_head(model)
