"""Compare what-ifs with live runs on the default pair, prompt by prompt. Not a test: it takes a quarter of an hour.

    python -m tests.whatif_against_live --prompts 20 --scheduler assets/schedulers/smollm2-lookup-strong

For every prompt a trace is recorded at level `exhaustive`; then runs with other thresholds and budgets decode for real,
and their replays must agree with them in every round: where it starts, which nodes are verified, how many are accepted,
and over how many tokens each model ran.
"""

from __future__ import annotations

import argparse

import treegraft as tg
from treegraft.analysis.whatif import Replay, WhatIf
from treegraft.prompts import bundled
from treegraft.scheduler.files import load
from treegraft.trace.runs import Run

SETTINGS = ({"threshold": 0.0}, {"threshold": -60.0, "budget": 16, "survive_empty": True},
            {"threshold": -120.0, "call_budget": 2, "survive_empty": True})


def differences(replay: Replay, live: Run) -> list[str]:
    """In what a replay and a live run differ."""
    pairs = {
        "rounds": ([one.context for one in replay.rounds], [record.context for record in live.records]),
        "accepted": ([one.accepted for one in replay.rounds], [round.accepted for round in live.rounds]),
        "nodes": ([one.verified.kept.tolist() for one in replay.rounds],
                  [round.event("prune").kept for round in live.rounds]),
        "forwards": ([list(one.forwards) for one in replay.rounds],
                     [[(one.model, one.tokens) for one in record.forwards] for record in live.records]),
    }
    return [name for name, (one, other) in pairs.items() if one != other]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--drafters", default="lookup,strong")
    parser.add_argument("--scheduler", required=True)
    options = parser.parse_args()
    scheduler, drafters = load(options.scheduler), options.drafters.split(",")
    pair = tg.load("smollm2", dtype="float32")
    shared = {"drafters": drafters, "scheduler": scheduler, "max_new_tokens": options.new_tokens}
    compared = rounds = calls = 0
    for prompt in bundled()[:: max(1, 64 // options.prompts)][: options.prompts]:
        text = prompt.conversation() if prompt.history else prompt.turns[0]
        recorded = tg.record(pair, text, tg.TreeGraft(schedule="always", survive_empty=True), level="exhaustive",
                             **shared).run
        whatif = WhatIf(recorded)
        whatif.use(scheduler)
        for settings in SETTINGS:
            policy = tg.TreeGraft(**settings)
            live = tg.record(pair, text, policy, clock=recorded.header.clock, **shared).run
            replay = whatif.replay(policy)
            found = differences(replay, live) + (["text"] if live.output != whatif.output else [])
            compared, rounds = compared + 1, rounds + len(live.rounds)
            if found:
                print(f"{prompt.id}: {settings}: {', '.join(found)} differ")
            calls += replay.calls
        print(f"{prompt.id}: {compared} runs compared so far, {rounds} rounds, {calls} calls", flush=True)


if __name__ == "__main__":
    main()
