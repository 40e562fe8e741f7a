"""The numbers of a run in the words of other engines and papers, which count some things differently."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from treegraft.analysis.metrics import Summary, ratio

Value = float | int | list[float] | list[int] | None


@dataclass(frozen=True)
class Alias:
    """A number under the `name` that a `system` has for it, its `value` for some runs (None where its denominator is
    0), how that system computes it, and where that differs from the number of ours that it is `like`."""

    system: str
    name: str
    value: Value
    computed: str
    like: str
    differs: str = ""


def aliases(counts: Summary) -> list[Alias]:
    """All aliases with their values for the runs of a summary."""
    return [*vllm(counts), *sglang(counts), *tensorrt_llm(counts), *eagle(counts)]


def vllm(counts: Summary) -> Iterator[Alias]:
    drafts = counts.rounds - counts.undrafted_rounds
    length = ratio(counts.accepted, drafts)
    only = "Rounds that drafted nothing are not in its denominator; they are in ours."
    yield Alias("vLLM", "Mean acceptance length", None if length is None else 1 + length,
                "1 + accepted tokens / drafts", "tau", f"The bonus is counted. {only}")
    yield Alias("vLLM", "Avg Draft acceptance rate", counts.node_yield, "accepted tokens / draft tokens", "node yield",
                "Made for chains, where it says how good drafts are; a tree's is small by design.")
    yield Alias("vLLM", "Per-position acceptance rate", [row.accepted / drafts for row in counts.depths],
                "accepted at the position / drafts", "marginal acceptance by depth",
                f"Positions count from 0, depths from 1. Marginal, not conditional. {only}")
    yield Alias("vLLM", "spec_decode_num_drafts", drafts, "rounds that drafted something", "rounds", only)
    yield Alias("vLLM", "spec_decode_num_draft_tokens", counts.drafted, "drafted tokens, root left out", "D")
    yield Alias("vLLM", "spec_decode_num_accepted_tokens", counts.accepted, "accepted tokens, bonus left out", "A",
                "Accepted tokens after the end of the text may be counted there; ours leave them out.")


def sglang(counts: Summary) -> Iterator[Alias]:
    yield Alias("SGLang", "spec_accept_length", ratio(counts.tokens, counts.rounds), "output tokens / verifications",
                "tau", "The bonus is counted, and so is the first token, which reading the prompt chose; tokens after "
                       "the end of the text are not.")
    yield Alias("SGLang", "spec_accept_rate", counts.node_yield, "correct drafts / proposed drafts", "node yield")
    yield Alias("SGLang", "spec_verify_ct", counts.rounds, "verifications", "rounds")
    yield Alias("SGLang", "spec_correct_drafts_histogram", counts.histogram, "verifications by accepted tokens",
                "histogram", "In older versions: spec_accept_histogram.")
    yield Alias("SGLang", "spec_draft_token_num (older versions)", counts.drafted + counts.rounds,
                "draft tokens, the root of each tree counted", "D",
                "One more a round than ours: the root is counted, as in its setting speculative_num_draft_tokens.")


def tensorrt_llm(counts: Summary) -> Iterator[Alias]:
    whole = ratio(counts.tokens, counts.rounds + counts.runs)
    also = "" if whole is None else f" Where the pass over the prompt counts as an iteration, too, it is {whole:.2f}."
    yield Alias("TensorRT-LLM", "avg_decoded_tokens_per_iter", ratio(counts.tokens, counts.rounds),
                "output tokens / iterations", "tau", f"The bonus and the first token are counted.{also}")
    yield Alias("TensorRT-LLM", "total_accepted_draft_tokens", counts.accepted, "accepted tokens", "A")
    yield Alias("TensorRT-LLM", "total_draft_tokens", counts.drafted, "drafted tokens", "D")


def eagle(counts: Summary) -> Iterator[Alias]:
    yield Alias("EAGLE", "average acceptance length (papers)", counts.tau, "tokens a round, bonus counted", "tau")
    yield Alias("EAGLE", "average acceptance length (scripts)", counts.mean_accepted,
                "accepted tokens / rounds, bonus left out", "mean accepted",
                "Exactly 1 lower than in the papers. Of a conversation, take all turns, not the last alone.")
    yield Alias("EAGLE", "n-alpha", [row.conditional for row in counts.depths if row.conditional is not None],
                "accepted at depth n / reached depth n - 1", "conditional acceptance by depth",
                "Conditional, not marginal. The papers measure it with chains.")
    yield Alias("EAGLE", "compression ratio (web demo)", ratio(counts.tokens, counts.rounds),
                "output tokens / target forwards", "tau",
                "The pass over the prompt is not counted as a forward, but the token that it chose is.")
