"""Runs in a worker thread: their states, stopping, failing, taking turns."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import treegraft
import treegraft.models
from tests.fake_decode import FakeDecode, wait_until
from treegraft import live
from treegraft.batch import answer
from treegraft.live import LiveFetch, LiveRun, Request
from treegraft.models.device import pick_device, pick_dtype
from treegraft.models.errors import FetchError, LoadError
from treegraft.models.pairs import SMOLLM2
from treegraft.policies import Eagle2, Lookup, Plain
from treegraft.prompts import bundled
from treegraft.sampling import Sampling
from treegraft.settings import SettingError
from treegraft.trace import TraceError
from treegraft.trace.records import Header

REQUEST = Request("smollm2", Eagle2(), "Why is the sky blue?")


@pytest.fixture
def fake(monkeypatch) -> FakeDecode:
    return FakeDecode().install(monkeypatch)


def started(tmp_path: Path, request: Request = REQUEST) -> LiveRun:
    return LiveRun(request, tmp_path).start()


def reach(run: live.Worker, state: str) -> live.Snapshot:
    wait_until(lambda: run.snapshot().state == state)
    return run.snapshot()


def after_rounds(run: LiveRun, rounds: int) -> live.Snapshot:
    wait_until(lambda: run.snapshot().rounds == rounds)
    return run.snapshot()


# --- one run --------------------------------------------------------------------------------------------------------


def test_a_run_from_start_to_end(fake, tmp_path):
    run = started(tmp_path)
    now = reach(run, "decoding")
    assert (now.rounds, now.tokens, now.tau, now.tokens_per_second) == (0, 0, None, None)
    assert now.is_live
    assert now.seconds > 0
    fake.let(2)
    now = after_rounds(run, 2)
    seen = now.run
    assert now.tokens == len(seen.output)
    assert now.tau == 1 + sum(round.accepted for round in seen.rounds) / 2
    spent = seen.prefill.microseconds + sum(round.record.times["total"] for round in seen.rounds)
    assert now.tokens_per_second == pytest.approx(now.tokens * 1e6 / spent)
    fake.let(2)
    now = reach(run, "finished")
    assert len(seen.rounds) == 2, "a snapshot does not change after it was taken"
    assert not now.is_live
    assert (now.rounds, now.tokens) == (4, len(now.run.output))
    assert now.tokens_per_second == pytest.approx(now.tokens / 2), "the end's own figures, recording left out"
    assert now.seconds == now.ended - now.started >= 0
    trace = treegraft.open(now.path)
    trace.check()
    assert trace.warnings == []
    assert trace.runs[0].text == now.run.text


def test_loading_tells_what_it_does_and_how_far(fake, tmp_path):
    told = []
    fake.at_load = lambda: told.append(run.snapshot())
    run = LiveRun(REQUEST, tmp_path)
    run.start()
    reach(run, "decoding")
    assert [(now.state, now.stage, now.fraction) for now in told] == [("loading", "loading the target", 0.5)]
    fake.let(4)
    reach(run, "finished")


def test_stopping_keeps_what_was_recorded(fake, tmp_path):
    run = started(tmp_path)
    fake.let(2)
    after_rounds(run, 2)
    run.stop()
    fake.let()
    now = reach(run, "stopped")
    assert now.rounds == 3
    assert treegraft.open(now.path).runs[0].end.reason == "interrupted"


def test_stopping_while_it_loads_leaves_nothing(fake, tmp_path):
    run = LiveRun(REQUEST, tmp_path)
    fake.at_load = run.stop
    run.start()
    now = reach(run, "stopped")
    assert (now.path, now.run, list(tmp_path.iterdir())) == (None, None, [])


def test_a_failure_before_the_first_round_leaves_no_file(fake, tmp_path):
    fake.error = LoadError("no such model")
    run = started(tmp_path)
    fake.let()
    now = reach(run, "failed")
    assert (now.error, now.path, list(tmp_path.iterdir())) == ("no such model", None, [])


def test_a_failure_later_keeps_the_rounds_before_it(fake, tmp_path):
    run = started(tmp_path)
    fake.let(2)
    after_rounds(run, 2)
    fake.error = MemoryError()
    fake.let()
    now = reach(run, "failed")
    assert "memory of this machine is full" in now.error
    trace = treegraft.open(now.path)
    assert (len(trace.runs[0].rounds), trace.runs[0].end.reason) == (2, "error")


def test_a_folder_that_cannot_be_written(fake, tmp_path):
    (tmp_path / "file").touch()
    now = reach(LiveRun(REQUEST, tmp_path / "file" / "recordings").start(), "failed")
    assert "TREEGRAFT_HOME" in now.error


# --- taking turns ---------------------------------------------------------------------------------------------------


def test_runs_take_turns_in_order(fake, tmp_path):
    first = started(tmp_path)
    reach(first, "decoding")
    second = started(tmp_path)
    wait_until(lambda: second.snapshot().ahead == 1)
    third = started(tmp_path)
    wait_until(lambda: third.snapshot().ahead == 2)
    assert second.snapshot().state == "queued"
    second.stop()
    reach(second, "stopped")
    wait_until(lambda: third.snapshot().ahead == 1)
    fake.let(4)
    reach(first, "finished")
    reach(third, "decoding")
    fake.let(4)
    reach(third, "finished")
    assert fake.loaded == [REQUEST, REQUEST], "the stopped one loaded nothing"


def test_a_failure_lets_the_next_one_in(fake, tmp_path):
    fake.load_error = LoadError("no")
    assert reach(started(tmp_path), "failed").error == "no"
    fake.load_error = None
    fake.let(4)
    reach(started(tmp_path), "finished")


def test_two_pairs_stay_loaded(monkeypatch):
    loads = []

    def load(target, drafters, dtype, progress):
        loads.append(target)
        return object()

    monkeypatch.setitem(vars(treegraft.models), "load", load)
    monkeypatch.setattr(live, "_pairs", type(live._pairs)())
    requests = {name: Request(name, Plain(), "x") for name in "abc"}
    pairs = [live.load_pair(requests[name], lambda *_: None) for name in "abaca"]
    assert loads == ["a", "b", "c"], "c took the place of b, which was used longer ago than a"
    assert pairs[0] is pairs[2] is pairs[4]
    assert len(live._pairs) == live.MAX_PAIRS


def test_a_pair_is_loaded_in_the_number_format_of_the_request(monkeypatch):
    loads = []

    def load(target, drafters, dtype, progress):
        loads.append(dtype)
        return object()

    monkeypatch.setitem(vars(treegraft.models), "load", load)
    monkeypatch.setattr(live, "_pairs", type(live._pairs)())
    pairs = [live.load_pair(replace(REQUEST, dtype=dtype), lambda *_: None) for dtype in (
        "float32", "bfloat16", "float32")]
    assert loads == [torch.float32, torch.bfloat16]
    assert pairs[0] is pairs[2] is not pairs[1]
    live.load_pair(REQUEST, lambda *_: None)
    assert len(loads) == 2, "the device's own number format is one of the two"


def test_number_formats_that_the_device_lacks_give_way_to_its_own(monkeypatch):
    own = pick_dtype(pick_device())
    assert [live.dtype_for(wanted) for wanted in ("", "float8", "float32")] == [own, own, torch.float32]
    monkeypatch.setattr(torch, "ones", lambda *_, **__: [][torch])
    assert live.dtype_for("float32") == own


# --- conversations --------------------------------------------------------------------------------------------------


def test_the_next_turn_feeds_the_answer_back_into_one_trace(fake, tmp_path):
    fake.free = True
    now = reach(started(tmp_path), "finished")
    request = live.next_turn(REQUEST, now, "And red?")
    roles = [(message["role"], message["content"]) for message in request.messages]
    assert roles == [("user", "Why is the sky blue?"), ("assistant", answer(now.run)), ("user", "And red?")]
    assert request.question == "And red?"
    later = reach(started(tmp_path, request), "finished")
    assert later.path != now.path
    headers = [record for record in treegraft.open(later.path).records() if isinstance(record, Header)]
    assert [(header.group, header.turn) for header in headers] == [(live.CONVERSATION, 0), (live.CONVERSATION, 1)]
    assert treegraft.open(now.path).runs[0].header.group == "", "the first trace stays as it was"


def test_a_conversation_whose_trace_is_gone(fake, tmp_path):
    request = Request("smollm2", Plain(), [{"role": "user", "content": "x"}], earlier=tmp_path / "gone.jsonl", turn=1)
    now = reach(started(tmp_path, request), "failed")
    assert "there is no such file" in now.error
    assert list(tmp_path.iterdir()) == []


def test_examples_bring_their_history_and_their_next_turn():
    several = next(one for one in bundled() if len(one.turns) > 1)
    asked = Request("smollm2", Plain(), several.turns[0])
    assert live.suggested_turn(asked) == several.turns[1]
    assert live.suggested_turn(REQUEST) is None
    historic = next(one for one in bundled() if one.history)
    assert live.first_turn(historic.turns[0]) == historic.conversation()
    assert live.first_turn("Hello") == "Hello"


# --- what it hands on, names, errors --------------------------------------------------------------------------------


def test_decode_asks_for_what_the_request_says(monkeypatch):
    asked = {}

    def record(pair, prompt, policy, **options):
        asked.update(options, pair=pair, prompt=prompt, policy=policy)
        return SimpleNamespace(run="the run")

    monkeypatch.setattr("treegraft.run.record", record)
    request = Request("smollm2", Eagle2(), "Why?", drafters=("strong",), max_new_tokens=9, stop=("x",),
                      sampling=Sampling(0.7, top_p=0.9, seed=5))
    assert live.decode("pair", request, "writer", print) == "the run"
    assert asked == {"pair": "pair", "prompt": "Why?", "policy": Eagle2(), "drafters": ("strong",), "writer": "writer",
                     "group": "", "turn": 0, "max_new_tokens": 9, "stop": ("x",), "on_round": print, "level": "run",
                     "on_probe": None, "baseline": None,
                     "temperature": 0.7, "top_k": 0, "top_p": 0.9, "min_p": 0.0, "rule": "fitting", "seed": 5}


def test_drafters_get_the_settings_of_the_request(tiny_pair):
    own = {name: live.as_text(drafter.settings) for name, drafter in tiny_pair.drafters.items()}
    assert live.with_drafter_settings(tiny_pair, replace(REQUEST, drafter_settings=own)) is tiny_pair
    request = replace(REQUEST, policy=Lookup(), prompt="one two one", drafters=("lookup",), max_new_tokens=2,
                      drafter_settings=own | {"lookup": own["lookup"] | {"ngram": "2", "relax": "True"}})
    settings = live.decode(tiny_pair, request, None, print).header.drafters[0].settings
    assert settings == {"ngram": 2, "relax": True, "score_generated": False}
    assert tiny_pair.drafters["lookup"].ngram == 5, "the loaded pair stays as it is"
    with pytest.raises(SettingError, match="no drafter 'gone'"):
        live.with_drafter_settings(tiny_pair, replace(REQUEST, drafter_settings={"gone": {}}))


@pytest.mark.parametrize(("question", "words"), [
    ("Why is the sky blue?", "why-is-the-sky-blue-eagle2-"), ("Où est\n l'été?", "ou-est-l-ete-eagle2-"),
    ("日本で一番高い山は?", "eagle2-"), ("../../etc/passwd", "etc-passwd-eagle2-"), ("x" * 300, "x" * 40 + "-eagle2-")])
def test_names_of_recordings(tmp_path, question, words):
    request = Request("smollm2", Eagle2(), question)
    first = live.new_path(tmp_path / "new", request)
    assert first.name.startswith(words)
    assert first.parent == tmp_path / "new"
    first.touch()
    assert live.new_path(tmp_path / "new", request) != first


@pytest.mark.parametrize(("error", "words"), [
    (LoadError("the model is odd"), "the model is odd"), (SettingError("budget was 0"), "budget was 0"),
    (TraceError("the disk is full"), "the disk is full"), (ImportError("No module named 'torch'"), "needs torch"),
    (RuntimeError("CUDA out of memory. Tried to allocate"), "memory of this machine is full"),
    (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "memory of this machine is full"),
    (PermissionError(13, "Permission denied", "/x"), "Permission denied (/x)"), (KeyError("secret"), "KeyError")])
def test_every_error_becomes_a_sentence(error, words, capsys):
    text = live.explain(error)
    assert words in text
    assert "Traceback" not in text
    assert ("KeyError" in capsys.readouterr().err) == isinstance(error, KeyError)


def test_errors_of_a_run_speak_for_themselves():
    from treegraft.models.cache import UnsupportedModel
    from treegraft.run import RunError

    assert live.explain(RunError("drafter 'x' cannot")) == "drafter 'x' cannot"
    assert live.explain(UnsupportedModel("no masks")) == "no masks"


def test_running_out_of_memory_lets_the_pairs_go(fake, tmp_path, monkeypatch):
    monkeypatch.setattr(live, "_pairs", type(live._pairs)(x=object()))
    fake.load_error = RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
    reach(started(tmp_path), "failed")
    assert not live._pairs


def test_fetching_tells_how_far_it_is(monkeypatch):
    told = []

    def fetch(model, progress):
        progress("downloading", 0.25)
        told.append(work.snapshot())

    monkeypatch.setattr(live, "fetch", fetch)
    work = LiveFetch(SMOLLM2)
    work.start()
    reach(work, "finished")
    assert [(now.state, now.stage, now.fraction) for now in told] == [("loading", "downloading", 0.25)]


def test_fetching_can_fail_and_can_be_stopped(monkeypatch):
    def fail(model, progress):
        raise FetchError("no network")

    def stop(model, progress):
        work.stop()
        progress("downloading", 0.5)

    monkeypatch.setattr(live, "fetch", fail)
    assert reach(LiveFetch(SMOLLM2).start(), "failed").error == "no network"
    monkeypatch.setattr(live, "fetch", stop)
    work = LiveFetch(SMOLLM2)
    work.start()
    reach(work, "stopped")


def test_importing_it_loads_no_torch():
    code = "import sys, treegraft.live, treegraft.view.live; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- a race, and probes ---------------------------------------------------------------------------------------------


def test_a_race_measures_plain_decoding_first_and_keeps_it_in_the_trace(fake, tmp_path):
    run = started(tmp_path, replace(REQUEST, race=True, sampling=Sampling(0.5, rule="typical", seed=1)))
    reach(run, "measuring")
    fake.let(2)
    wait_until(lambda: run.snapshot().plain and len(run.snapshot().plain.records) == 2)
    assert (run.snapshot().run, run.snapshot().plain_tokens_per_second, list(tmp_path.iterdir())) == (None, None, [])
    fake.let(2)
    reach(run, "decoding")
    fake.let(2)
    now = after_rounds(run, 2)
    tokens = len(now.plain.output)
    assert now.plain_tokens_per_second == tokens / 5
    assert now.ratio is None, "it is measured once both have ended"
    fake.let(2)
    now = reach(run, "finished")
    assert now.ratio == pytest.approx(2.5)
    baseline = treegraft.open(now.path).runs[0].end.baseline
    assert (baseline.tokens, baseline.microseconds) == (tokens, 5_000_000)
    plain, raced = fake.decoded
    assert (plain.policy, plain.drafters, plain.level, plain.sampling.rule) == (Plain(), (), "run", "fitting")
    assert raced.policy == Eagle2()


def test_a_race_that_is_stopped_while_plain_decoding_is_measured_leaves_nothing(fake, tmp_path):
    run = started(tmp_path, replace(REQUEST, race=True))
    reach(run, "measuring")
    run.stop()
    fake.let()
    assert reach(run, "stopped").path is None
    assert (len(fake.decoded), list(tmp_path.iterdir())) == (1, [])


def test_probes_are_counted_after_the_run(fake, tmp_path):
    run = started(tmp_path, replace(REQUEST, level="dense"))
    reach(run, "decoding")
    fake.let(5)
    now = reach(run, "probing")
    assert (now.fraction, now.is_live, now.rounds) == (pytest.approx(1 / 3), True, 4)
    fake.let(2)
    reach(run, "finished")


def test_probing_that_is_stopped_keeps_the_text_and_says_what_is_missing(fake, tmp_path):
    run = started(tmp_path, replace(REQUEST, level="dense"))
    fake.let(5)
    reach(run, "probing")
    run.stop()
    fake.let()
    now = reach(run, "stopped")
    end = treegraft.open(now.path).runs[0].end
    assert (end.reason, end.status) == ("eos", "speculating")
    assert end.notes == ["probing was stopped at position 2 of 3, so what-ifs will lack the rest"]


# --- public mode ----------------------------------------------------------------------------------------------------


def as_session(monkeypatch, name: str) -> None:
    monkeypatch.setenv("TREEGRAFT_PUBLIC", "1")
    monkeypatch.setattr("treegraft.sessions._identify", lambda: name * 32)


def test_a_stranger_records_into_a_folder_of_the_session(fake, monkeypatch, tmp_path):
    monkeypatch.setenv("TREEGRAFT_HOME", str(tmp_path))
    as_session(monkeypatch, "1")
    fake.free = True
    now = reach(LiveRun(REQUEST).start(), "finished")
    assert now.path.parent == tmp_path / "sessions" / ("1" * 32)


def test_a_stranger_has_one_run_in_the_queue(fake, monkeypatch, tmp_path):
    as_session(monkeypatch, "1")
    first = started(tmp_path)
    reach(first, "decoding")
    assert "one at a time" in reach(started(tmp_path), "failed").error
    as_session(monkeypatch, "2")
    second = started(tmp_path)
    wait_until(lambda: second.snapshot().ahead == 1)
    fake.let(8)
    reach(first, "finished")
    reach(second, "finished")


def test_a_request_beyond_the_bounds_loads_nothing(fake, monkeypatch, tmp_path):
    as_session(monkeypatch, "1")
    assert "at most" in reach(started(tmp_path, replace(REQUEST, max_new_tokens=9999)), "failed").error
    assert fake.loaded == []


@pytest.mark.parametrize("error", [
    LoadError("there is no /srv/secret/place/model.gguf"), PermissionError(13, "Denied", "/srv/secret/place"),
    KeyError("/srv/secret/place"), TraceError("is full", path="/srv/secret/place/x.jsonl"),
    ImportError("no /srv/secret/place/lib.so")])
def test_errors_that_strangers_see_hold_no_paths(monkeypatch, error):
    as_session(monkeypatch, "1")
    assert "secret" not in live.explain(error)
