"""Calibrations: made from dense runs, kept in a file, found for their models, and taken by the policy."""

from __future__ import annotations

import functools

import pytest

from tests.analysis.recordings import PROMPTS, drafter_of, recorded_with
from treegraft import calibration
from treegraft.analysis import gates
from treegraft.analysis.whatif import WhatIf, change
from treegraft.calibrate import CALIBRATED, PAPER, UNGATED, Survey, is_cut
from treegraft.calibration import Calibration, CalibrationError, calibrated, find, load, place, save
from treegraft.drafters.successors import Successors
from treegraft.policies import Eagle2
from treegraft.policies.graft import Graft

POLICY = Graft(budget=16, top_k=3, depth=7)


@functools.cache
def survey() -> Survey:
    runs = [recorded_with([drafter_of("strong"), Successors(learn="committed")], prompt, POLICY.ungated, level="dense",
                          new_tokens=20).run for prompt in PROMPTS[:2]]
    return Survey(POLICY, runs)


def made(**changed) -> Calibration:
    values = {"target": "t", "drafter": "d", "retriever": "r", "gates": "0,2,6", "tau_d0": 0.2, "tau_d1": 0.3,
              "tau_d5": 0.6}
    return Calibration(**(values | changed))


# --- making one -----------------------------------------------------------------------------------------------------


def test_thresholds_are_the_fastest_of_those_tried():
    steps = []
    found = survey().calibrate(least_auc=0.3, command="c", on_run=lambda: steps.append(1))
    assert (found.target, found.drafter, found.retriever, found.prompts) == ("tiny", "strong", "successors", 2)
    assert len(steps) == 4
    assert len(found.depths) == POLICY.depth
    assert found.speeds[CALIBRATED] >= max(found.speeds[UNGATED], found.speeds[PAPER]) > 0
    calibrated = change(POLICY, **found.settings)
    replays = [WhatIf(run).replay(calibrated) for run in survey().runs]
    own = sum(one.tokens - 1 for one in replays) * 1000 / sum(one.milliseconds for one in replays)
    assert found.speeds[CALIBRATED] == pytest.approx(own)
    replays = [WhatIf(run).replay(POLICY.with_gates()) for run in survey().runs]
    paper = sum(one.tokens - 1 for one in replays) * 1000 / sum(one.milliseconds for one in replays)
    assert found.speeds[PAPER] == pytest.approx(paper)


def with_speeds(monkeypatch, ungated: float, paper: float, found: float) -> None:
    """Let the replays take these speeds."""
    monkeypatch.setattr(gates, "speeds", lambda _, policies, on_run: [ungated, paper, *[found] * (len(policies) - 2)])


@pytest.mark.parametrize(("paper", "kept"), [(2.0, True), (0.5, False)])
def test_the_papers_gates_stay_where_no_others_are_faster(monkeypatch, paper, kept):
    with_speeds(monkeypatch, 1.0, paper, 1.5)
    found = survey().calibrate(least_auc=0.3)
    assert (found.settings == {"gates": "0,1,5", "tau_d0": 0.14, "tau_d1": 0.14, "tau_d5": 0.5}) == kept
    assert found.speeds[CALIBRATED] == max(paper, 1.5)


def test_depths_that_tell_too_little_get_no_gate(monkeypatch):
    with_speeds(monkeypatch, 1.0, 1.0, 1.5)
    found = survey().calibrate(least_auc=1.0)
    chosen = {one.chosen for one in found.depths if one.auc == 1.0} - {""}
    assert {one.chosen for one in found.depths} - {""} == chosen
    for stage in {"d0", "d1", "d5"} - chosen:
        assert found.settings[f"tau_{stage}"] == 0


def test_without_times_the_thresholds_are_youdens(monkeypatch):
    monkeypatch.setattr(WhatIf, "estimate", lambda self, forwards: None)
    found = survey().calibrate(least_auc=0.3)
    assert found.speeds == {}
    assert any(found.settings[f"tau_{one.chosen}"] > 0 for one in found.depths if one.chosen)


def test_no_rounds_are_nothing_to_calibrate_by():
    with pytest.raises(CalibrationError, match="give other prompts"):
        Survey(POLICY).calibrate()


def test_a_run_whose_probes_were_cut_is_known(monkeypatch):
    run = survey().runs[0]
    assert not is_cut(run)
    monkeypatch.setattr(run, "probes", run.probes[:-1])
    assert is_cut(run)


# --- keeping and finding it -----------------------------------------------------------------------------------------


@pytest.fixture
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("TREEGRAFT_HOME", str(tmp_path))
    monkeypatch.setattr(calibration, "BUNDLED", tmp_path / "bundled")
    return tmp_path


def test_a_file_holds_all_of_it(own_home):
    found = survey().calibrate(least_auc=0.3)
    save(found, own_home / "deep" / "c.json")
    assert load(own_home / "deep" / "c.json") == found
    assert not list((own_home / "deep").glob(".*"))


def test_the_users_own_goes_before_the_bundled_one(own_home):
    assert find("t", "d", "r") is None
    save(made(tau_d0=0.5), own_home / "bundled" / calibration.file_name("t", "d", "r"))
    assert find("t", "d", "r").tau_d0 == 0.5
    save(made(), place("t", "d", "r"))
    assert find("t", "d", "r").tau_d0 == 0.2


def test_names_of_models_never_leave_the_folder(own_home):
    assert place("../../a/b", "d", "..").parent == own_home / "calibrations"


def test_a_file_for_models_of_another_name_is_not_taken(own_home):
    save(made(target="a/b"), place("a/b", "d", "r"))
    assert find("a_b", "d", "r") is None


@pytest.mark.parametrize(("content", "words"), [
    (b"{", "is no calibration"), (b"{}", "missing required field"), (b"x" * 70_000, "70000 bytes"),
    (b'{"x":' + b"[" * 30_000, "is no calibration"),
    (b'{"target":"t","drafter":"d","retriever":"r","gates":"5,1","tau_d0":0,"tau_d1":0,"tau_d5":0}', "gates was '5,1'"),
    (b'{"target":"t","drafter":"d","retriever":"r","gates":"","tau_d0":7,"tau_d1":0,"tau_d5":0}', "tau_d0")])
def test_files_that_are_none_are_refused(own_home, content, words):
    path = own_home / "c.json"
    path.write_bytes(content)
    with pytest.raises(CalibrationError, match=words):
        load(path)


def test_a_place_that_cannot_be_written_is_said(own_home):
    (own_home / "file").write_text("")
    with pytest.raises(CalibrationError, match="Give another --out"):
        save(made(), own_home / "file" / "c.json")


# --- taking it ------------------------------------------------------------------------------------------------------


def test_the_policy_takes_what_the_user_left_open(own_home):
    save(made(), place("t", "d", "r"))
    assert calibrated(Graft(), "t", ["d", "r"]) == Graft(gates="0,2,6", tau_d0=0.2, tau_d1=0.3, tau_d5=0.6)
    assert calibrated(Graft(tau_d1=0.0), "t", ["d", "r"]).thresholds == (0.2, 0.0, 0.6)
    assert calibrated(Graft(gates="0,1,5"), "t", ["d", "r"]).thresholds == (0.14, 0.14, 0.5)
    assert calibrated(Graft(), "other", ["d", "r"]) == Graft(gates="0,1,5", tau_d0=0.14, tau_d1=0.14, tau_d5=0.5)
    assert calibrated(Eagle2(), "t", ["d"]) == Eagle2()


def test_a_policy_that_is_all_set_reads_no_file(own_home):
    place("t", "d", "r").parent.mkdir(parents=True)
    place("t", "d", "r").write_text("{")
    policy = Graft(gates="0,1,5", tau_d0=0.1, tau_d1=0.1, tau_d5=0.1)
    assert calibrated(policy, "t", ["d", "r"]) == policy
    with pytest.raises(CalibrationError):
        calibrated(Graft(), "t", ["d", "r"])


def test_arguments_say_the_same():
    assert made().arguments == "--set gates=0,2,6 --set tau_d0=0.2 --set tau_d1=0.3 --set tau_d5=0.6"
