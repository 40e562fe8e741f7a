"""A round small enough to check by hand.

    7 "The"─┬─ 1 " sky"  ─┬─ 3 " is"   accepted; then the target adds " blue"
            │             └─ 4 " was"  rejected
            ├─ 2 " sea"  ──── 5 " is"  rejected, unreached
            └─ 6, 7, 8: pruned (8 without a score)
"""

from __future__ import annotations

import msgspec

from tests.strategies import make_header
from treegraft.trace import Run
from treegraft.trace.records import (
    TARGET,
    Accept,
    Decide,
    Decoding,
    Event,
    Expand,
    Forward,
    Gate,
    Graft,
    Learn,
    Nodes,
    PolicyInfo,
    Prefill,
    Prune,
    Rescore,
    Reselect,
    Round,
    Tried,
    Verify,
    Walked,
)

THE, SKY, SEA, IS, WAS, BLUE, AIR, SUN, MOON = range(18, 27)
PIECES = {THE: b"The", SKY: b" sky", SEA: b" sea", IS: b" is", WAS: b" was", BLUE: b" blue", AIR: b" air", SUN: b" sun",
          MOON: b" moon"}

NODES = Nodes(
    token=[THE, SKY, SEA, IS, WAS, IS, AIR, SUN, MOON], parent=[-1, 0, 0, 1, 1, 2, 0, 0, 0],
    origin=[-1, 1, 1, 1, 1, 0, 1, 1, 0], proposers=[0, 2, 2, 2, 2, 1, 2, 2, 1],
    score=[0, -50_000, -100_000, -60_000, -150_000, -130_000, -192_000, -300_000, None])

VERIFY = Verify(
    order=[0, 1, 2, 3, 4, 5], argmax=[SKY, IS, IS, BLUE, THE, THE],
    logprob=[0, -40_000, -120_000, -10_000, -250_000, -5_000],
    walk=[Walked(node=0, tokens=[SKY, SEA, SUN], logprobs=[-40_000, -120_000, -400_000], children=[1, 2], ranks=[0, 1],
                 entropy=95_000),
          Walked(node=1, tokens=[IS, WAS], logprobs=[-10_000, -250_000], children=[3, 4], ranks=[0, 1], entropy=30_000),
          Walked(node=3, tokens=[BLUE, THE], logprobs=[-70_000, -90_000], children=[], ranks=[], entropy=80_000)])


def example(prune: Prune | None = None, discarded: int = 0) -> Run:
    """A run of this one round, drafted in two layers and pruned to a budget of five."""
    events: list[Event] = [
        Expand(layer=1, drafter=1, parents=[0], nodes=[1, 2], scores=[-50_000, -100_000]),
        Expand(layer=2, drafter=1, parents=[1], nodes=[3, 4], scores=[-60_000, -150_000]),
        Expand(layer=2, drafter=0, parents=[2], nodes=[5], scores=[-130_000], match=[2], source=[2]),
        Expand(layer=3, drafter=1, parents=[0], nodes=[6, 7], scores=[-192_000, -300_000]),
        Expand(layer=3, drafter=0, parents=[0], nodes=[8], scores=[None], match=[1], source=[None]),
        prune or Prune(budget=5, rule="score", kept=[0, 1, 2, 3, 4, 5]), VERIFY,
        Accept(rule="greedy", path=[1, 3], tried=[], bonus=BLUE, discarded=discarded)]
    round = Round(index=0, context=4, root=THE, nodes=NODES, events=events, note="",
                  times={"draft": 1_500, "verify": 900, "total": 2_500},
                  forwards=[Forward(model=1, tokens=1, microseconds=400),
                            Forward(model=TARGET, tokens=6, microseconds=850)])
    header = make_header([THE, SKY, SEA])
    header.prompt.text, header.prompt.messages = "rendered", [{"role": "user", "content": "Why is the sky blue?"}]
    return Run(header, dict(PIECES), Prefill(microseconds=5, root=THE), [round], None)


def grafted() -> Run:
    """A run of one round in which lookup drafts a chain and a call grafts two tokens onto it.

        7 "The"─── 1 " sky" ─┬─ 2 " is"  ─┬─ 3 " blue"   unreachable for the strong drafter
                             │            └─ 4 " was"    grafted
                             └─ 5 " air"  grafted

    " is" rises by rescoring, " sky" falls, " blue" had no score.
    """
    nodes = Nodes(token=[THE, SKY, IS, BLUE, WAS, AIR], parent=[-1, 0, 1, 2, 2, 1], origin=[-1, 0, 0, 0, 1, 1],
                  proposers=[0, 1, 1, 1, 2, 2], score=[0, -80_000, -20_000, -900_000, -60_000, -120_000])
    events: list[Event] = [
        Decide(layer=1, rule="scheduler", call=False, calls_left=3, margin=0.25, threshold=0.5),
        Expand(layer=1, drafter=0, parents=[0], nodes=[1, 2, 3], scores=[-50_000, -70_000, None], match=[2, 2, 2],
               source=[2, 3, None]),
        Decide(layer=2, rule="scheduler", call=True, calls_left=3, margin=1.25, threshold=0.5,
               features={"layer": 0.4, "overlap": 0.5}),
        Rescore(layer=2, drafter=1, nodes=[1, 2, 3], before=[-50_000, -70_000, None],
                after=[-80_000, -20_000, -900_000], unreachable=[3]),
        Reselect(layer=2, pool=4, before=[2, 3], after=[1, 2]),
        Expand(layer=2, drafter=1, parents=[1, 2], nodes=[4, 5], scores=[-60_000, -120_000], grafted=[4, 5]),
        Prune(budget=4, rule="score", kept=[0, 1, 2, 4, 5]),
        Verify(order=[0, 1, 2, 4, 5], argmax=[SKY, IS, WAS, BLUE, THE], logprob=[0, -1_000, -2_000, -3_000, -400_000],
               walk=[Walked(node=0, tokens=[SKY], logprobs=[-1_000], children=[1], ranks=[0], entropy=5_000)]),
        Accept(rule="greedy", path=[1, 2, 4], tried=[], bonus=BLUE)]
    round = Round(index=0, context=4, root=THE, nodes=nodes, events=events)
    return Run(make_header([THE, SKY, SEA]), dict(PIECES), Prefill(microseconds=5, root=THE), [round], None)


def retrieved() -> Run:
    """A run of one round that a gate stops after two layers; four tokens come from rows, two more had been drafted.

        7 "The"─┬─ 1 " sky" ─┬─ 7 " blue"  retrieved; accepted; then the target adds " moon"
                │            ├─ 3 " is"
                │            └─ 4 " was"   retrieved, too; the worst by score
                ├─ 2 " sea" ──── 5 " is"   pruned
                └─ 6 " air" ──── 8 " sun"  retrieved

    " sky" is retrieved, too. The prompt has taught the rows of "The", " sky" and " sea".
    """
    nodes = Nodes(token=[THE, SKY, SEA, IS, WAS, IS, AIR, BLUE, SUN], parent=[-1, 0, 0, 1, 1, 2, 0, 1, 6],
                  origin=[-1, 1, 1, 1, 1, 1, 2, 2, 2], proposers=[0, 6, 2, 2, 6, 2, 4, 4, 4],
                  score=[0, -50_000, -100_000, -60_000, -150_000, -130_000, None, None, None])
    events: list[Event] = [
        Expand(layer=1, drafter=1, parents=[0], nodes=[1, 2], scores=[-50_000, -100_000]),
        Gate(layer=1, measure="confidence", value=0.6065, threshold=0.14, stop=False, stage="d0"),
        Expand(layer=2, drafter=1, parents=[1, 2], nodes=[3, 4, 5], scores=[-60_000, -150_000, -130_000]),
        Gate(layer=2, measure="confidence", value=0.5488, threshold=0.55, stop=True, stage="d1"),
        Expand(layer=2, drafter=2, parents=[0], nodes=[6, 7, 8], scores=[None] * 3, merged=[1, 4], rank=[1, 2, 0],
               grafted=[7]),
        Graft(stage="d1", drafter=2, drafted=2, retrieved=6, nodes=[1, 6, 4, 7, 8], merged=[1, 4], replaced=2,
              shortfall=1),
        Prune(budget=8, rule="graft", kept=[0, 1, 2, 3, 4, 6, 7, 8]),
        Verify(order=[0, 1, 2, 3, 4, 6, 7, 8], argmax=[SKY, BLUE, IS, THE, THE, SUN, MOON, THE],
               logprob=[0, -10_000, -200_000, -300_000, -310_000, -320_000, -5_000, -40_000],
               walk=[Walked(node=0, tokens=[SKY, SEA], logprobs=[-10_000, -200_000], children=[1, 2, 6],
                            ranks=[0, 1, 7], entropy=50_000)]),
        Accept(rule="greedy", path=[1, 7], tried=[], bonus=MOON),
        Learn(drafter=2, k=3, tokens=[SKY, AIR, THE], successors=[BLUE, IS, -1, SUN, -1, -1, SKY, SEA, SUN])]
    header = make_header([SEA, THE, SKY])
    header.policy = PolicyInfo(name="graft", drafters=[1, 2])
    prefill = Prefill(microseconds=5, root=THE, k=3, tokens=[IS, SUN, WAS, SKY, AIR, SUN, WAS, IS, BLUE],
                      logprobs=[-1, -2, -3] * 3)
    round = Round(index=0, context=4, root=THE, nodes=nodes, events=events)
    return Run(header, dict(PIECES), prefill, [round], None)


def drawn(rule: str = "points", tried: list[Tried] | None = None, path: list[int] | None = None) -> Run:
    """The round of `example`, sampled: " sky" is rejected, then " sea" accepted, then " is" rejected; the bonus " blue"
    is drawn from what is left. Other verdicts on the same tree may be given."""
    run = example()
    record = run.records[0]
    run.header.decoding = Decoding(temperature=1.0, top_p=0.9, seed=1, rule=rule)
    verify = msgspec.structs.replace(VERIFY, walk=[
        VERIFY.walk[0],
        Walked(node=2, tokens=[IS, WAS, BLUE], logprobs=[-5_000, -330_000, -470_000], children=[5], ranks=[0],
               entropy=20_000)])
    record.events[-2:] = [verify, Accept(
        rule=rule, path=[2] if path is None else path, bonus=BLUE, tried=tried or [
            Tried(node=1, p=-40_000, u=0.75, accepted=False, residual=[(SEA, -9_100), (SUN, -289_000)]),
            Tried(node=2, p=-9_100, u=0.25, accepted=True),
            Tried(node=5, p=-5_000, u=0.97, accepted=False, residual=[(WAS, -28_000), (BLUE, -168_000)])],
        chances=[] if rule == "typical" else [1, 0.670, 0.301, 0.905, 0.082, 0.951])]
    return run
