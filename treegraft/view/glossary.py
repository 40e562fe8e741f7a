"""What the words of the pages mean, and how a page's own texts explain theirs.

Only texts that come with the program are marked: token texts and names of a trace are never searched for terms.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

TERMS = {
    "acceptance rule": "How drafted tokens are held against the target: greedily they must be its favourites; when"
                       " sampling, random numbers decide so that the text keeps the target's distribution.",
    "accepted": "Fate of a node: the target would have written this token, so it became part of the text.",
    "accepted length": "A: how many drafted tokens of a round became part of the text. The bonus is not counted.",
    "B0": "The call budget: the most calls of the strong drafter that one round may make.",
    "baseline": "Plain decoding of the same prompt, measured in the same process.",
    "bonus": "The token that the target adds after the accepted path. It becomes the root of the next round.",
    "budget": "The most drafted tokens of a round that may go to the target.",
    "call": "A layer that uses the strong drafter. It rescores the tree, then drafts from the best nodes.",
    "chain": "A policy without branches: each drafted token follows the one before it.",
    "child": "A node that directly follows another one, its parent.",
    "conditional": "Acceptance at depth i among the rounds that accepted depth i - 1.",
    "depth": "How many tokens a node lies below the root; the root's children have depth 1.",
    "discarded": "Fate of a node: accepted, but after the end of the text, and so left out of it.",
    "drafter": "Anything that proposes tokens: a copy from the context, a table of successors, or a small model.",
    "eagle2": "A policy that grows a tree with one drafter layer by layer, always going on from the best nodes by"
              " score, and prunes it to a budget.",
    "eagle3": "A drafter: one small layer that reads inner states of the target and predicts its next tokens.",
    "entropy": "How undecided a distribution is, in nats: 0 when one token is certain.",
    "fate": "What became of a node: accepted, rejected, unreached, pruned, discarded, or root.",
    "forward pass": "One run of a model over some tokens. The target reads a whole draft tree in one.",
    "frontier": "The nodes that the next layer starts from.",
    "gate": "A test after a layer that lets drafting go on, or stops it, by comparing a confidence with a threshold.",
    "graft": "A branch of one source of tokens that is joined to another's: in TreeGraft, tokens of one drafter below"
             " another's; in Graft, retrieved tokens in the places that drafting left free.",
    "KV cache": "What a model keeps of the tokens that it has read, so that it need not read them again.",
    "layer": "One drafting iteration inside a round: a call uses the strong drafter, a skip the weak one.",
    "lookup": "A drafter that searches the context for the last few tokens and copies what followed them.",
    "lossless": "Writes what the target alone would write: the same text when greedy, the same distribution of texts"
                " when sampling.",
    "margin": "The milliseconds that the scheduler expects a call to save. It calls when this is above the threshold.",
    "marginal": "Acceptance at depth i among all rounds.",
    "mask": "What each token of the tree may look at: the context, its ancestors and itself, no other branch.",
    "nats": "The unit of log-probabilities and scores: a probability p has ln p nats.",
    "near tie": "Two tokens that the target finds almost equally likely. Rounding may decide between them.",
    "node": "One token in a draft tree, at its place below the root.",
    "node yield": "Accepted drafted tokens / verified drafted tokens. Small by design for a tree: of siblings at most"
                  " one can be accepted.",
    "oracle": "What a perfect choice would have done, knowing the text. No policy can know as much; it is a bound.",
    "origin": "The drafter that proposed a node first.",
    "p": "The probability that the target gives a token after its parent.",
    "plain decoding": "Writing with the target alone: one token a forward pass.",
    "policy": "The rule that grows one draft tree from its drafters.",
    "prefill": "The target's pass over the prompt, which chooses the first token.",
    "probe": "What a drafter would have said at a place that the run did not draft from; taken after the run.",
    "prune": "To leave drafted nodes out, so that no more than the budget go to the target.",
    "pruned": "Fate of a node: drafted, but never sent to the target.",
    "q": "The probability that a drafter gives a token after its parent.",
    "rank": "A token's place in an order, by score among drafted nodes or by probability under the target.",
    "regret": "The time that decisions lose against the best ones, by the measured costs and the recorded text.",
    "rejected": "Fate of a node: its parent was reached, but the target chose otherwise.",
    "replayed exactly": "Worked out by running the policy again along the recorded text. It is what would have"
                        " happened.",
    "rescoring": "The strong drafter reads the whole tree and replaces the scores of its nodes by its own.",
    "reselection": "The frontier is chosen anew among all nodes after a rescoring, also from earlier layers.",
    "residual": "What is left of the target's distribution after a rejection. The next token is drawn from it.",
    "retrieved": "Found in a table of what followed before, without running a drafter's model.",
    "root": "Node 0 of a tree: the last token that the target chose. It is not yet in the target's KV cache.",
    "round": "One draft tree and one verification by the target. Papers also say step.",
    "scheduler": "A small network that predicts for each layer whether a call saves time.",
    "score": "The logarithm of the probability of the whole path to a node, as its drafter sees it, in nats.",
    "sibling": "A node with the same parent.",
    "skip": "A layer that uses the weak drafter and leaves the strong one alone.",
    "speculative decoding": "Guessing several tokens cheaply and letting the target check them in one forward pass.",
    "stage": "Which gate stopped drafting, and so how many of the budget's places go to retrieved tokens. Graft's"
             " stages d0, d1 and d5 are named after layers, counted from 0.",
    "strong drafter": "The expensive one of a policy's drafters; it runs a model and guesses better.",
    "successors": "A drafter that keeps for each token a row of the tokens that followed it, best first.",
    "target": "The model whose output must be preserved. It verifies what the drafters propose.",
    "tau": "Tokens per round: 1 + the mean accepted length. The 1 is the bonus.",
    "temperature": "How freely tokens are drawn: 0 always takes the favourite, 1 draws from the target's distribution.",
    "threshold": "The number that a measurement must exceed: a call's margin at a scheduler, a confidence at a gate.",
    "token": "The unit that models read and write: a word, a part of one, or a sign.",
    "top-k": "The k most probable next tokens. A layer proposes that many after each node of the frontier.",
    "u": "A number drawn at random between 0 and 1, which decides whether a sampled run accepts a token; the rule"
         " typical compares with a threshold in its place.",
    "unreached": "Fate of a node: its parent was not accepted, so it was never compared.",
    "verify": "The target reads the kept nodes in one forward pass, and so says at each what it would write next.",
    "weak drafter": "The cheap one of a policy's drafters, as a rule a copy from the context.",
}
"""Meaning by term."""

FORMS = {"calls": "call", "called": "call", "gates": "gate", "grafted": "graft", "grafts": "graft", "prunes": "prune",
         "pruning": "prune", "rescores": "rescoring", "rescored": "rescoring", "reselects": "reselection",
         "skips": "skip", "skipped": "skip", "verifies": "verify", "verified": "verify",
         "children": "child", "forward passes": "forward pass", "policies": "policy", "entropies": "entropy"}
"""Other forms of some terms; those with an s at the end need none."""


def meaning(*terms: str) -> str:
    """The meanings of one or more terms as a help text. Errors: `KeyError` for a term that is not in the glossary."""
    return "\n\n".join(f"**{term[0].upper()}{term[1:]}**: {TERMS[term]}" for term in terms)


def explained(text: str) -> str:
    """A help text with the meanings of all terms that `text` uses, in the order of their first use."""
    return meaning(*dict.fromkeys(term for _, _, term in found(text)))


def marked(text: str, told: set[str] | None = None) -> str:
    """`text` as HTML, the first use of each term as an `abbr` that tells its meaning. Everything is escaped.

    Terms in `told` are not marked again; those that are marked are added to it."""
    parts, end, told = [], 0, set() if told is None else told
    for start, stop, term in found(text):
        if term not in told:
            told.add(term)
            parts += [html.escape(text[end:start]), _abbr(text[start:stop], TERMS[term])]
            end = stop
    return "".join([*parts, html.escape(text[end:])])


def found(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and term of each use of a term in running text; terms of one letter are not looked for."""
    for use in _USES.finditer(text):
        yield use.start(), use.end(), _TERM_OF[use.group().lower()]


def search(wanted: str) -> dict[str, str]:
    """The terms and their meanings that hold all words of `wanted`, those whose name does first."""
    words = wanted.lower().split()
    in_name = {term: text for term, text in TERMS.items() if all(word in term.lower() for word in words)}
    return in_name | {term: text for term, text in TERMS.items()
                      if all(word in f"{term} {text}".lower() for word in words)}


def _abbr(shown: str, means: str) -> str:
    """A term that can be reached with the Tab key or a finger; its style shows `data-means` below it."""
    means = html.escape(means, quote=True)
    return f'<abbr tabindex="0" data-means="{means}" aria-description="{means}">{html.escape(shown)}</abbr>'


_TERM_OF = {term.lower(): term for term in TERMS if len(term) > 1}
_TERM_OF = {f"{term}s": _TERM_OF[term] for term in _TERM_OF} | _TERM_OF
_TERM_OF |= {form.lower(): term for form, term in FORMS.items()}
_USES = re.compile(r"(?<![\w-])(?:" + "|".join(map(re.escape, sorted(_TERM_OF, key=len, reverse=True))) + r")(?![\w-])",
                   re.IGNORECASE)
