"""The records of a trace: one JSON object a line, told apart by `kind`.

A trace file is one or more runs, each a `header`, then `pieces`, `prefill`, `round` lines and an `end`.
Units, everywhere: log-probabilities and scores are integers in 1e-5 nats (`None` is minus infinity), times are
integers in microseconds, node ids number the nodes of one round's tree with the root as 0.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

SCHEMA = 2
"""Version of the format below; a reader refuses files that claim a higher one.

New fields, kinds of records and kinds of events that only tell more come without a new version: older readers keep
them aside, say so, and write them back. What changes a tree (its nodes, scores or selection) takes a new version.
"""

NATS = 100_000
"""How many integer units one nat has in scores and log-probabilities."""

TARGET = -1
"""`Forward.model` of the target; drafters use their id (0, 1, ...)."""

LARGEST = 2**53
"""Bound of every number in a trace: exact in JavaScript and in a 64-bit column, sums included."""

Id = Annotated[int, Meta(ge=0, lt=2**31)]
"""Of a token or a node."""

Parent = Annotated[int, Meta(ge=-1, lt=2**31)]
DrafterId = Annotated[int, Meta(ge=0, le=52)]
ModelId = Annotated[int, Meta(ge=-1, le=52)]
"""A drafter id, or -1: the target, or no drafter where an origin is meant."""

Count = Annotated[int, Meta(ge=0, le=LARGEST)]
Units = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
"""A log-probability, a score or an entropy, in 1e-5 nats."""

Logprob = Units | None

Value = bool | Units | float | str | None
"""Of a setting."""


class Plain(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of the records and their parts.

    `unknown` keeps the fields that this version does not know, by name; they are written back beside the others."""

    unknown: dict[str, Any] | None = msgspec.field(default=None, name="+")


# --- the header and its parts ---------------------------------------------------------------------------------------


class TargetInfo(Plain, kw_only=True):
    name: str
    revision: str = ""
    dtype: str = ""
    device: str = ""
    vocab_size: Count = 0
    context_limit: Count = 0
    parameters: Count = 0


class DrafterInfo(Plain, kw_only=True):
    id: DrafterId
    kind: str
    name: str
    parameters: Count = 0
    state: str = "context"
    """`context`: proposals depend on the context alone; `history`: also on what earlier rounds verified."""
    proposes: Count | None = None
    """How many of the target's tokens it can propose; None for all of them."""
    context_limit: Count = 0
    """How many tokens of any text it can read; 0 where nothing bounds it."""
    memory: str = ""
    """What it had learned before the run, in words that identify it; empty for nothing."""
    settings: dict[str, Value | list[Value]] = {}


class PolicyInfo(Plain, kw_only=True):
    name: str
    settings: dict[str, Value | list[Value]] = {}
    drafters: list[DrafterId] = []
    """Drafter ids in the order of the policy's roles."""


class Decoding(Plain, kw_only=True):
    """How the output was chosen. At temperature 0 it is the target's favourite; else it is drawn from the target's
    distribution after temperature, `top_k` (0: all), `top_p` and `min_p`. `rule` names the acceptance rule."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: Count = 0
    min_p: float = 0.0
    rule: str = "greedy"
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    max_new_tokens: Count = 0
    max_context: Count = 0
    stop: list[str] = []
    eos: list[Id] = []


class Branch(Plain, kw_only=True):
    """Where a prompt comes from that goes on in the middle of another run: `own` counts its tokens that are that run's
    prompt; then come its output up to `round`, the path to `node` (-1: the bonus), and the `token` that was forced."""

    trace: str
    run: Count = 0
    round: Count
    node: Parent
    token: Id
    own: Count


class Prompt(Plain, kw_only=True):
    tokens: list[Id]
    text: str | None = None
    messages: list[dict[str, str]] | None = None
    branch: Branch | None = None


class Host(Plain, kw_only=True):
    machine: str = ""
    accelerator: str = ""
    threads: Count = 0
    python: str = ""
    torch: str = ""
    transformers: str = ""
    treegraft: str = ""


class CostCurve(Plain, kw_only=True):
    """Measured time of one forward over n tokens, `points` being [n, microseconds] pairs, at one context length."""

    model: ModelId
    context: Count
    points: list[tuple[Count, Count]]


class Clock(Plain, kw_only=True):
    """Constants frozen at warm-up, so that a replay decides with the numbers of the run.

    `target` and `strong` are the microseconds of a forward of the target over a full draft tree and of the strong
    drafter over one frontier; `call_budget` is the most calls of the strong drafter in a round."""

    target: Count
    strong: Count
    call_budget: Count


class SchedulerInfo(Plain, kw_only=True):
    """The scheduler that decided in this run: its description and the safetensors file of its network, whole."""

    name: str
    description: dict[str, Any]
    weights: Annotated[bytes, Meta(max_length=2**18)]


class Header(Plain, kw_only=True, tag="header", tag_field="kind"):
    schema: Count = msgspec.field(default_factory=lambda: SCHEMA)  # a factory, so that it is always written
    created: str
    target: TargetInfo
    policy: PolicyInfo
    prompt: Prompt
    drafters: list[DrafterInfo] = []
    decoding: Decoding = msgspec.field(default_factory=Decoding)
    group: str = ""
    """Name shared by the turns of one conversation, or by the prompts of one category."""
    index: Count = 0
    """Number of the prompt in its file, from 0."""
    turn: Count = 0
    """Number of the user turn in its conversation, from 0."""
    host: Host = msgspec.field(default_factory=Host)
    costs: list[CostCurve] = []
    clock: Clock | None = None
    scheduler: SchedulerInfo | None = None
    level: Literal["run", "dense", "exhaustive"] = "run"
    """What was recorded: what happened; what the drafters would have said at every output position, too (`dense`); and
    under every choice of calls (`exhaustive`)."""


# --- time, text and prefill -----------------------------------------------------------------------------------------


class Forward(Plain, kw_only=True):
    """One model pass: whose (`TARGET` or a drafter id), over how many tokens, for how long."""

    model: ModelId
    tokens: Count
    microseconds: Count


class Pieces(Plain, kw_only=True, tag="pieces", tag_field="kind"):
    """Bytes of tokens, before their first use: as text where they are UTF-8, else base64. Keys are token ids."""

    text: dict[Id, str] = {}
    base64: dict[Id, str] = {}


class Prefill(Plain, kw_only=True, tag="prefill", tag_field="kind"):
    """The target's pass over the prompt, which chose `root`, the first output token. Row i of the flat [prompt, k]
    tables predicts the token at position i + 1."""

    microseconds: Count
    root: Id
    k: Count = 0
    tokens: list[Id] = []
    logprobs: list[Units] = []
    forwards: list[Forward] = []


# --- a round --------------------------------------------------------------------------------------------------------


class Nodes(Plain, kw_only=True):
    """The columns of all nodes of a round at its end, pruned ones included; `parent` of the root is -1.

    `origin` is the id of the drafter that proposed the node first (-1 for the root), `proposers` the bit set of all."""

    token: list[Id]
    parent: list[Parent]
    origin: list[ModelId]
    score: list[Logprob]
    proposers: list[Count]


class Expand(Plain, kw_only=True, tag="expand", tag_field="kind"):
    """A drafter proposed children for `parents`: `nodes` are new, `merged` were there already.

    `lookup` also gives, aligned with `nodes`, the `match` length (tokens) of the copied span that a node belongs to and
    the `source` position in the context that its token was copied from (`None` for a token that is not in the context);
    `stopped` lists parents without enough matches, `raised` the nodes that were there already and whose score rose to
    the one in `raised_scores`. `grafted` are the new nodes that continue a branch of another drafter. `rank`, aligned
    with `nodes`, is given by `successors`: the place of the token in the row of its parent's token (0 is the best).
    """

    layer: Count
    drafter: DrafterId
    parents: list[Id]
    nodes: list[Id]
    scores: list[Logprob]
    merged: list[Id] = []
    match: list[Count] | None = None
    source: list[Count | None] | None = None
    stopped: list[Id] | None = None
    raised: list[Id] = []
    raised_scores: list[Logprob] = []
    grafted: list[Id] = []
    rank: list[Count] | None = None


class Decide(Plain, kw_only=True, tag="decide", tag_field="kind"):
    """Whether the strong drafter is called in `layer`. `rule` is the schedule that decided; `calls_left` counts the
    calls that the round may still make.

    A scheduler calls if its `margin` (milliseconds that calling saves, as it predicts) is above `threshold`;
    `features` are what it looked at."""

    layer: Count
    rule: str
    call: bool
    calls_left: Count = 0
    margin: float | None = None
    threshold: float | None = None
    features: dict[str, float] = {}


class Rescore(Plain, kw_only=True, tag="rescore", tag_field="kind"):
    """A strong drafter replaced the scores of all nodes by its own; `nodes` are those whose score changed.

    It cannot itself propose the tokens of the `unreachable` nodes, and scored them below all that it can."""

    layer: Count
    drafter: DrafterId
    nodes: list[Id]
    before: list[Logprob]
    after: list[Logprob]
    unreachable: list[Id] = []


class Reselect(Plain, kw_only=True, tag="reselect", tag_field="kind"):
    """The frontier was chosen anew by score, among `pool` nodes."""

    layer: Count
    pool: Count
    before: list[Id]
    after: list[Id]


class Gate(Plain, kw_only=True, tag="gate", tag_field="kind"):
    """Whether drafting went on after `layer`: a policy compared what it `measure`d, `value`, with `threshold`.

    Where `stop` is true the round drafts no more, and `stage` names what follows from that (Graft: `d0`, `d1`, ...)."""

    layer: Count
    measure: str
    value: float
    threshold: float
    stop: bool
    stage: str = ""


class Graft(Plain, kw_only=True, tag="graft", tag_field="kind"):
    """Retrieved nodes that take the place of drafted ones which a pruned round left undrafted.

    `stage` names the template, `drafted` and `retrieved` are the shares of the budget that it gives. `nodes` are all
    retrieved nodes that are to be verified; the `merged` among them had been drafted already. `replaced` slots, which
    merged nodes and empty rows left free, went to other nodes; `shortfall` slots found none.
    """

    stage: str
    drafter: DrafterId
    drafted: Count
    retrieved: Count
    nodes: list[Id]
    merged: list[Id] = []
    replaced: Count = 0
    shortfall: Count = 0


class Prune(Plain, kw_only=True, tag="prune", tag_field="kind"):
    """Selection of the nodes that go to the target: `kept` ids in ascending order, the root included."""

    budget: Count
    rule: str
    kept: list[Id]


class Walked(Plain, kw_only=True):
    """The target's view at one node of the accepted walk.

    `tokens`, `logprobs`: the target's best next tokens. `children`, `ranks`: the node's verified children and the rank
    of each under the target (0 is its favourite). `entropy` of the target's distribution, in 1e-5 nats."""

    node: Id
    tokens: list[Id]
    logprobs: list[Units]
    children: list[Id]
    ranks: list[Count]
    entropy: Units


class Verify(Plain, kw_only=True, tag="verify", tag_field="kind"):
    """One target forward. Aligned with `order`: the target's favourite next token after the node (`argmax`) and the
    log-probability of the node's own token after its parent (`logprob`, 0 for the root), as the run draws: after
    temperature, top-k, top-p and min-p."""

    order: list[Id]
    argmax: list[Id]
    logprob: list[Logprob]
    walk: list[Walked] = []


class Tried(Plain, kw_only=True):
    """One child that the acceptance rule looked at, and its verdict.

    `p` is the log-probability of its token in what was then left of the target's distribution, `q` that in the
    drafter's distribution (`None` for a token that was not drawn at random). A random number `u` below p, or below
    p / q, accepts. Under the rule `traversal`, p is such that p / q is the chance of the whole path to the node; under
    `typical`, `u` is the threshold that p must be above. `residual` are the best tokens of what a rejection leaves of
    the target's distribution, for the next sibling or the bonus."""

    node: Id
    p: Logprob
    accepted: bool
    u: float | None = None
    q: Logprob = None
    residual: list[tuple[Id, Units]] = []


class Accept(Plain, kw_only=True, tag="accept", tag_field="kind"):
    """The accepted `path` (node ids, root left out) and the `bonus` token that follows it. The last `discarded` tokens
    of path + bonus lie after the end of the text.

    `tried` are the children in the order in which the rule looked at them; one that was drawn twice may be tried twice.
    `chances`, aligned with the `order` of the verify event, are computed from the distributions alone: how likely the
    rule is to accept a node once it has accepted its parent (1 for the root). Empty for rules that have none."""

    rule: str
    path: list[Id]
    tried: list[Tried]
    bonus: Id
    discarded: Count = 0
    chances: list[float] = []


class Learn(Plain, kw_only=True, tag="learn", tag_field="kind"):
    """A drafter changed what it knows: after each of the `tokens` it now proposes the next tokens in the rows of the
    flat [tokens, k] table `successors`, best first (-1: none). Rows that stayed as they were are left out."""

    drafter: DrafterId
    k: Count
    tokens: list[Id]
    successors: list[Parent]


Event = Expand | Decide | Rescore | Reselect | Gate | Graft | Prune | Verify | Accept | Learn


class Round(Plain, kw_only=True, tag="round", tag_field="kind"):
    """One draft tree and its verification.

    `context` counts the tokens before and including the root. `times` holds wall time by phase: `draft`, `verify`,
    `accept`, `commit`, `total`; `forwards` lie inside `draft` and `verify`. `kv` holds the cached tokens by model after
    the round (key -1 is the target). `note` says why the round drafted less than the policy asked for."""

    index: Count
    context: Count
    root: Id
    nodes: Nodes
    events: list[Event]
    times: dict[str, Count] = {}
    forwards: list[Forward] = []
    kv: dict[ModelId, Count] = {}
    note: str = ""
    unknown_events: list[tuple[Count, dict[str, Any]]] | None = msgspec.field(default=None, name="+events")
    """Events of kinds that this version does not know, each with its place among all events of the round."""


# --- probes -------------------------------------------------------------------------------------------------------


class Probe(Plain, kw_only=True, tag="probe", tag_field="kind"):
    """What a drafter that runs a model answers at one position of the output, whatever the policy then makes of it.

    `context` counts the tokens up to the root, which is the last of them. `token` and `parent` are the columns of a
    tree of all the places that it was asked about, numbered like a round's nodes. `logprob` is the log-probability of
    a node's token after its parent (None where it was not asked), `unreachable` the nodes that it cannot propose. For
    each node in `expanded` the rows of the flat [expanded, k] tables hold its `best` next tokens and their
    log-probabilities. A drafter without probabilities has no `best_logprobs`, and fills its rows up with -1.
    """

    drafter: DrafterId
    context: Count
    token: list[Id]
    parent: list[Parent]
    logprob: list[Logprob]
    unreachable: list[Id] = []
    expanded: list[Id] = []
    k: Count = 0
    best: list[Parent] = []
    best_logprobs: list[Units] = []


# --- the end --------------------------------------------------------------------------------------------------------


class Baseline(Plain, kw_only=True):
    """Plain decoding of the same prompt, measured in the same process."""

    tokens: Count
    microseconds: Count


class End(Plain, kw_only=True, tag="end", tag_field="kind"):
    """`reason`: eos, stop, length, context, interrupted or error. `status`: speculating, plain, clipped or fell back;
    `notes` say why. `microseconds` is the decode loop from the prefill's start, recording left out."""

    reason: str
    new_tokens: Count
    microseconds: Count
    status: str = "speculating"
    notes: list[str] = []
    recording: Count = 0
    """Microseconds that writing this trace took, on top of the loop."""
    baseline: Baseline | None = None


class Other(msgspec.Struct, kw_only=True):
    """A record or event of a kind that this version does not know, as it came; `fields` includes `kind`."""

    kind: str
    fields: dict[str, Any]


Record = Header | Pieces | Prefill | Round | Probe | End | Other
