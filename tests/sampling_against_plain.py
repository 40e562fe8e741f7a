"""Compare sampled runs with plain sampling on the default pair. Not a test: it takes an hour on two cores.

    python -m tests.sampling_against_plain --runs 200

Every policy writes `runs` short texts; the target then reads each of them in one pass. Printed are
- the mean log-likelihood of a token with its standard error (over texts), and its distance from that of plain sampling
  in standard errors;
- `surprise`: the sum of log-likelihood + entropy over all tokens, which has mean 0 if each token is drawn from the
  target's distribution, in standard deviations;
- `p`: of a chi-square test that the places of the tokens in the target's distributions (likeliest first, a random place
  within the token) are evenly spread over 20 bins, as they are if and only if every token is drawn from them.
A lossless rule stays below 3.5 deviations and above p = 0.001; `typical` is there to fail.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

import treegraft as tg
from treegraft.models import Pair
from treegraft.models.sampler import Sampler
from treegraft.prompts import Prompt, bundled
from treegraft.sampling import Sampling
from treegraft.trace.runs import Run

POLICIES = {
    "plain": (tg.Plain(), "fitting"),
    "chain, drawn": (tg.Chain(length=4, drafting="iid"), "fitting"),
    "static, iid": (tg.Static(drafting="iid"), "fitting"),
    "static, distinct": (tg.Static(drafting="distinct"), "fitting"),
    "static, distinct, traversal": (tg.Static(drafting="distinct"), "traversal"),
    "eagle2": (tg.Eagle2(budget=32), "fitting"),
    "lookup": (tg.Lookup(), "fitting"),
    "eagle2, typical": (tg.Eagle2(budget=32), "typical"),
}
BINS = 20


@dataclass
class Tokens:
    """Of the tokens of one text: log-likelihoods, what to expect of them, their variances, and places in [0, 1)."""

    logprob: np.ndarray
    expected: np.ndarray
    variance: np.ndarray
    place: np.ndarray


@torch.inference_mode()
def read(pair: Pair, run: Run, sampling: Sampling, random: np.random.Generator) -> Tokens:
    """What the target says of the tokens of a text, in one pass without any cache."""
    prompt, output = run.header.prompt.tokens, run.output
    logits = pair.target.model(torch.tensor([[*prompt, *output]])).logits[0, len(prompt) - 1: -1]
    p = Sampler(sampling, "points", pair.target.usable_vocab).probabilities(logits[:, : pair.target.usable_vocab])
    own = p[np.arange(len(output)), output][:, None]
    logs = np.log(np.where(p > 0, p, 1))
    expected = (p * logs).sum(1)
    before = np.where(p > own, p, 0).sum(1)
    return Tokens(np.log(own[:, 0]), expected, (p * logs**2).sum(1) - expected**2,
                  before + random.random(len(output)) * own[:, 0])


def texts(pair: Pair, policy: tg.policies.Policy, rule: str, options: argparse.Namespace,
          prompts: Sequence[Prompt]) -> tuple[list[Tokens], float]:
    """Of every run its tokens, and the mean accepted length."""
    found, accepted, rounds = [], 0, 0
    random = np.random.default_rng(0)
    sampling = Sampling(options.temperature, top_p=options.top_p, seed=0)
    for number in range(options.runs):
        prompt = prompts[number % len(prompts)]
        run = tg.record(pair, prompt.conversation() if prompt.history else prompt.turns[0], policy, costs=False,
                        rule=rule, temperature=options.temperature, top_p=options.top_p, seed=number,
                        max_new_tokens=options.new_tokens).run
        found.append(read(pair, run, sampling, random))
        accepted, rounds = accepted + sum(round.accepted for round in run.rounds), rounds + len(run.rounds)
    return found, accepted / rounds


def mean_of(found: Sequence[Tokens]) -> tuple[float, float]:
    """Log-likelihood a token and its standard error, texts being independent of one another."""
    sums, counts = np.array([one.logprob.sum() for one in found]), np.array([len(one.logprob) for one in found])
    mean = sums.sum() / counts.sum()
    return mean, np.sqrt(((sums - mean * counts) ** 2).sum()) / counts.sum()


def spread(found: Sequence[Tokens]) -> tuple[float, float]:
    """The surprise in standard deviations, and the p-value of the places."""
    excess = sum((one.logprob - one.expected).sum() for one in found)
    deviation = np.sqrt(sum(one.variance.sum() for one in found))
    counts = np.histogram(np.concatenate([one.place for one in found]), BINS, (0, 1))[0]
    even = counts.sum() / BINS
    half = torch.tensor([(BINS - 1) / 2, ((counts - even) ** 2).sum() / even / 2], dtype=torch.float64)
    return excess / deviation, float(torch.special.gammaincc(*half))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--new-tokens", type=int, default=24)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--only", choices=list(POLICIES), action="append")
    options = parser.parse_args()
    pair, prompts = tg.load("smollm2", dtype="float32"), [one for one in bundled() if not one.history][::3]
    plain = None
    for name in options.only or POLICIES:
        found, length = texts(pair, *POLICIES[name], options, prompts)
        (mean, error), (surprise, p) = mean_of(found), spread(found)
        plain = plain or (mean, error)
        apart = (mean - plain[0]) / max(1e-12, np.hypot(error, plain[1]))
        print(f"{name}: {mean:.4f} +- {error:.4f} nats a token, {apart:+.2f} from the first policy, surprise "
              f"{surprise:+.2f}, p {p:.4f}, accepted {length:.2f}", flush=True)


if __name__ == "__main__":
    main()
