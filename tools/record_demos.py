"""Record the bundled demo traces again, some minutes on two cores: `python tools/record_demos.py [FOLDER]`."""

from __future__ import annotations

import sys
from pathlib import Path

import treegraft as tg
from treegraft.policy_text import parse_policy
from treegraft.trace import Writer
from treegraft.trace.records import Baseline
from treegraft.view.library import DEMOS

EVENS = "Write a JavaScript function that takes an array of numbers and returns only the even ones."
LIGHTHOUSE = ("Repeat this paragraph twice, word for word: The old lighthouse keeper climbed the spiral stairs every "
              "evening, lit the lamp, and wrote one line about the weather in a blue notebook.")
MORNING = "Say good morning in French, Russian, Japanese and emoji."
PRIMES = "List the first ten prime numbers, one in each line."
THUNDER = "Why do we see lightning before we hear the thunder?"

RECORDINGS = (
    ("plain", EVENS, "plain", {}),
    ("chain", EVENS, "chain@eagle3:length=4", {}),
    ("eagle2", EVENS, "eagle2@eagle3:budget=40,depth=6", {"level": "dense"}),
    ("graft", EVENS, "graft@eagle3+successors:successors.learn=committed", {"level": "dense"}),
    ("treegraft", EVENS, "treegraft@lookup+eagle3:survive_empty=true,threshold=-100", {"level": "exhaustive"}),
    ("scheduler", EVENS, "treegraft@lookup+eagle3:survive_empty=true", {"level": "exhaustive"}),
    ("sampled", EVENS, "eagle2@eagle3:budget=16,depth=4", {"temperature": 1.0, "seed": 7}),
    ("repetition", LIGHTHOUSE, "lookup", {"level": "dense"}),
    ("question", THUNDER, "eagle2@strong:budget=63,depth=5", {}),
    ("languages", MORNING, "eagle2@eagle3:budget=40", {}),
    ("stopped", PRIMES, "eagle2@eagle3:budget=40", {"stop": "8."}),
)
"""Name, prompt, policy and other arguments of `record`; those of one prompt lie together."""

NEW_TOKENS = 48


def main(folder: Path) -> None:
    pair = tg.load("smollm2", dtype="float32", device="cpu")
    baselines: dict[str, Baseline] = {}
    for name, prompt, policy, options in RECORDINGS:
        if prompt not in baselines:
            end = tg.record(pair, prompt, tg.Plain(), max_new_tokens=NEW_TOKENS).run.end
            baselines[prompt] = Baseline(tokens=end.new_tokens, microseconds=end.microseconds)
        chosen = parse_policy(policy, pair)
        run = tg.record(chosen.pair, prompt, chosen.policy, drafters=chosen.drafters, max_new_tokens=NEW_TOKENS,
                        **options).run
        run.end.baseline = baselines[prompt]
        write(run, folder / f"{name}.jsonl.zst")
        print(f"{name}: {len(run.rounds)} rounds, {run.end.new_tokens} tokens: {run.text!r}", flush=True)


def write(run: tg.Run, path: Path) -> None:
    with Writer(path, overwrite=True) as trace:
        trace.write(run.header)
        trace.pieces(run.pieces)
        for record in (run.prefill, *run.records, *run.probes, run.end):
            trace.write(record)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEMOS)
