"""Leaving a recorded text at a node of a draft tree: what a drafter and the target say there, and a new recording that
goes on with a token of one's choice. torch is imported when the models are asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from treegraft.analysis.recorded import NotRecorded
from treegraft.analysis.text import visible
from treegraft.analysis.whatif import policy_of
from treegraft.live import Request, Snapshot, Worker, as_text, load_pair, queue, with_drafter_settings
from treegraft.models.errors import ModelError
from treegraft.models.pairs import PAIRS
from treegraft.policies import Plain
from treegraft.public import check
from treegraft.sampling import FITTING, ON_REQUEST, Sampling
from treegraft.sessions import is_public
from treegraft.settings import SettingError
from treegraft.trace.records import Branch, Header, Logprob, Prompt
from treegraft.trace.runs import MISSING, TracedRound
from treegraft.tree import DraftTree

if TYPE_CHECKING:
    from treegraft.models import Pair

BONUS = "bonus"
"""In place of a node: the target's own token after the accepted path."""

BEST = 10
"""Next tokens of the target and of the drafter that an answer holds."""


class BranchError(ModelError):
    """A branch that cannot be made; the text says why and what to do."""


# --- places ---------------------------------------------------------------------------------------------------------


def context_of(round: TracedRound) -> list[int]:
    """The tokens before the round's root, and the root: prompt and output."""
    return [*round.run.header.prompt.tokens, *round.run.output[: round.output_start]]


def path_to(round: TracedRound, node: int | str) -> list[int]:
    """The tokens from below the root to `node`, which may be the bonus."""
    token = round.record.nodes.token
    if node == BONUS:
        return [*(token[above] for above in round.path), round.event("accept").bonus]
    return [token[above] for above in round.tree.path(int(node)).tolist()[1:]]


def why_not(header: Header) -> str:
    """Why the models of a run cannot be asked on this machine, empty where they can."""
    name = header.target.name
    if name not in PAIRS:
        return (f"This needs the models, and the target {name} is not one of the named pairs "
                f"({', '.join(PAIRS)}). Record with a named pair to go other ways from its trees.")
    if any({"role", "content"} - set(message) for message in header.prompt.messages or ()):
        return "A message of this recording lacks its role or its content, so the models cannot be asked again."
    if not PAIRS[name].target.is_here:
        how = "Fetch it on the Record page"
        if is_public():
            how = f"Whoever runs this dashboard fetches it with `treegraft models fetch {name}`"
        return f"This needs the models, and {name} is not on this machine yet. {how}."
    return ""


# --- a new recording ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BranchRequest(Request):
    """A run that goes on after the tokens of its prompt, which is a `records.Prompt` with a branch."""

    prompt: Prompt

    @property
    def messages(self) -> list[dict[str, str]]:
        """What names the recording."""
        branch = self.prompt.branch
        return [{"role": "user", "content": f"branch of {branch.trace} round {branch.round}"}]


def branch_request(round: TracedRound, node: int | str, token: int, max_new_tokens: int, *, trace: str, number: int = 0,
                   pieces: Mapping[int, bytes] | None = None) -> BranchRequest:
    """The request to decode on after `node` and the forced `token`, with the settings of the run, which is number
    `number` of the recording `trace`. `pieces` are bytes of tokens that the run lacks.

    Errors: `BranchError` for a run that this version cannot repeat, or a token that ends the text.
    """
    header = round.run.header
    if why := why_not(header):
        raise BranchError(why)
    if token in header.decoding.eos:
        raise BranchError("This token ends the text, so nothing would come after it. Force another one.")
    try:
        policy, others = policy_of(round.run), as_recorded(header)
    except (NotRecorded, SettingError) as error:
        raise BranchError(f"The run cannot be repeated: {error}.") from None
    return BranchRequest(policy=policy, prompt=branch_prompt(round, node, token, trace, number, pieces or {}),
                         max_new_tokens=max_new_tokens, **others)


def as_recorded(header: Header) -> dict[str, Any]:
    """What a request that repeats a run takes over from it, besides its policy, its prompt and its length.

    Errors: `BranchError` for drafters that the pair lacks, `SettingError` for a sampling that this version lacks.
    """
    names = drafters_of(header)
    settings = {drafter.name: as_text(drafter.settings) for drafter in header.drafters if drafter.name in names}
    return {"target": header.target.name, "dtype": header.target.dtype, "drafters": names, "drafter_settings": settings,
            "stop": tuple(header.decoding.stop), "sampling": sampling_of(header)}


def branch_prompt(round: TracedRound, node: int | str, token: int, trace: str, number: int,
                  pieces: Mapping[int, bytes]) -> Prompt:
    """The run's prompt, its output up to the round, the path to the node, and the token. What the model has said so far
    is an answer that has begun."""
    base, known = round.run.header.prompt, {**pieces, **round.run.pieces}
    tokens = [*context_of(round), *path_to(round, node), token]
    said = b"".join(known.get(one, MISSING) for one in tokens[len(base.tokens):]).decode(errors="replace")
    messages = [*base.messages] if base.messages else None
    if messages:
        begun = messages.pop()["content"] if messages[-1].get("role") == "assistant" else ""
        messages.append({"role": "assistant", "content": begun + said})
    return Prompt(
        tokens=tokens, text=None if base.text is None else base.text + said, messages=messages,
        branch=Branch(trace=trace, run=number, round=round.index, node=-1 if node == BONUS else int(node), token=token,
                      own=len(base.tokens)))


def drafters_of(header: Header) -> tuple[str, ...]:
    """The run's drafters by their names in the pair. Errors: `BranchError` for one that the pair lacks."""
    names = {drafter.id: drafter.name for drafter in header.drafters}
    found = tuple(names[drafter] for drafter in header.policy.drafters)
    known = PAIRS[header.target.name].drafters
    for name in found:
        if name not in known:
            raise BranchError(f"The run was drafted by {name}, which the pair {header.target.name} lacks; it has: "
                              f"{', '.join(known)}.")
    return found


def sampling_of(header: Header) -> Sampling:
    """How the run's tokens were chosen. Errors: `SettingError`."""
    decoding = header.decoding
    if decoding.temperature == 0:
        return Sampling()
    return Sampling(decoding.temperature, decoding.top_k, decoding.top_p, decoding.min_p,
                    decoding.rule if decoding.rule in ON_REQUEST else FITTING, decoding.seed)


def other_dtype(recorded: str, ran: str) -> str:
    """What to say where the models ran in another number format than the recording's; empty where they did not."""
    if recorded in ("", ran):
        return ""
    return f"Recorded in {visible(recorded)}, this ran in {ran}: scores differ a little, near ties may fall otherwise."


def tokens_left(round: TracedRound, node: int | str) -> int:
    """How many tokens the run's own limit leaves after the forced one, 1 at least."""
    written = round.output_start + len(path_to(round, node)) + 1
    return max(1, round.run.header.decoding.max_new_tokens - written)


# --- asking the models ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """A next token: its bytes, its log-probability in 1e-5 nats and its rank (0 is the best) under the target and under
    the drafter, before temperature, and whether the drafter can propose it; the rank is None beyond its best ones."""

    token: int
    piece: bytes
    target: Logprob
    target_rank: int
    drafter: Logprob
    drafter_rank: int | None
    reachable: bool


@dataclass(frozen=True)
class Question:
    """What is asked of the models of a pair: what comes after `context` (the root is the last of it) and `path`.

    `typed` is one more token to look at: a text, or `#` and an id. `dtype` and the drafter's `settings` are those of
    the recording."""

    target: str
    drafter: str
    context: tuple[int, ...]
    path: tuple[int, ...]
    typed: str = ""
    dtype: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)


class Ask(Worker):
    """Answers one question when its turn comes: `answer` are the choices, the target's favourite first, once its
    snapshot says `finished`, and `dtype` is the number format that the models ran in."""

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.question = question
        self.answer: list[Choice] = []
        self.dtype = ""

    def stop(self) -> None:
        super().stop()
        queue.wake()

    def snapshot(self) -> Snapshot:
        now = super().snapshot()
        return replace(now, ahead=queue.ahead(self)) if now.state == "queued" else now

    def _work(self) -> dict[str, object]:
        asked = self.question
        request = Request(asked.target, Plain(), Prompt(tokens=[*asked.context, *asked.path]), max_new_tokens=1,
                          dtype=asked.dtype, drafter_settings={asked.drafter: asked.settings})
        check(request)
        with queue.turn(self):
            self._progress("starting", None)
            pair = with_drafter_settings(load_pair(request, self._progress), request)
            self._heed_stop()
            self._tell(state="decoding")
            self.dtype = str(pair.target.dtype).removeprefix("torch.")
            self.answer = choices(pair, asked)
        return {"state": "finished"}


def choices(pair: Pair, question: Question) -> list[Choice]:
    """The best next tokens of target and drafter after the path, and the typed one; the target's favourite first.

    Both read the text as they do while decoding, and the path as a branch of a draft tree. Errors: `BranchError`."""
    from treegraft.models.target import Target
    from treegraft.models.tokenizer import piece_bytes
    from treegraft.models.topk import top_tokens

    drafter, path = pair.drafters[question.drafter], question.path
    typed = [typed_token(pair, question.typed)] if question.typed else []
    capacity = len(path) + 2 * BEST + 2
    rows = len(question.context) + capacity
    if rows > pair.target.context_limit:
        raise BranchError(f"The text up to here has {len(question.context)} tokens, too many for the "
                          f"{pair.target.context_limit} of {pair.target.name}.")
    with pair.lock:
        target = Target(pair.target.cached(rows))
        prefilled = target.prefill(list(question.context[:-1]), 0, sorted(drafter.aux_layers))
        prefilled.root = question.context[-1]
        drafter.begin(prefilled, rows, capacity)
        tree = DraftTree(prefilled.root, len(question.context), capacity)
        tree.append(np.arange(len(path)), np.array(path, np.int64), np.zeros(len(path), np.int64), 0)
        tip = tree.size - 1
        if why := drafter.limits(tree, np.array([tip])):
            raise BranchError(f"{why}. Choose an earlier round, or another drafter.")
        logits = target.verify(tree, np.arange(tree.size)).logits[-1].float()
        best, drafted = top_tokens(logits[None], BEST)[0][0], drafter.best(tree, np.array([tip]), BEST)[0][0]
        tokens = list(dict.fromkeys([*best.tolist(), *drafted.tolist(), *typed]))
        children = tree.append(np.full(len(tokens), tip), np.array(tokens), np.zeros(len(tokens), np.int64), 0)
        scores, unreachable = drafter.judge(tree, children, children[:0])
        pieces = piece_bytes(pair.target.tokenizer, tokens)
    ranks = dict(zip(drafted.tolist(), range(len(drafted)), strict=True))
    found = [
        Choice(token, pieces[token], *of_target(logits, token), None if lost else score, ranks.get(token), not lost)
        for token, score, lost in zip(tokens, scores.tolist(), unreachable.tolist(), strict=True)]
    return sorted(found, key=lambda choice: (choice.target_rank, choice.token))


def of_target(logits, token: int) -> tuple[int, int]:
    """Log-probability in 1e-5 nats and rank of a token by the target's logits [vocab]."""
    from treegraft.models.answers import to_units

    logprob = (logits[token] - logits.logsumexp(-1)).item()
    return int(to_units(np.array(logprob))), int((logits > logits[token]).sum())


def typed_token(pair: Pair, typed: str) -> int:
    """The token that a user typed: `#` and its id, or its text. Errors: `BranchError` for what is not one token."""
    size = pair.target.usable_vocab
    if typed.startswith("#") and typed[1:].isdecimal() and len(typed) < 12:
        if (token := int(typed[1:])) < size:
            return token
        raise BranchError(f"There is no token {typed}; {pair.target.name} has those from #0 to #{size - 1}.")
    ids: Sequence[int] = pair.target.tokenizer(typed, add_special_tokens=False)["input_ids"]
    if len(ids) != 1:
        pieces = " ".join(f"#{token}" for token in ids[:8])
        raise BranchError(f"The text is {len(ids)} tokens ({pieces}{' …' if len(ids) > 8 else ''}); give one that is a "
                          "single token (most words begin with a space), or # and an id.")
    return int(ids[0])
