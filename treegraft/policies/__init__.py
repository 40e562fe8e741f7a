"""The policies, by name. A new one is a module and a line here."""

from treegraft.policies.base import Policy, Role, Round
from treegraft.policies.block import Block
from treegraft.policies.cascade import Cascade
from treegraft.policies.chain import Chain
from treegraft.policies.ddd import Ddd
from treegraft.policies.eagle2 import Eagle2
from treegraft.policies.graft import Graft
from treegraft.policies.graft_block import GraftBlock
from treegraft.policies.logitspec import LogitSpec
from treegraft.policies.lookahead import Lookahead
from treegraft.policies.lookup import Lookup
from treegraft.policies.opt_tree import OptTree
from treegraft.policies.plain import Plain
from treegraft.policies.prompt_lookup import PromptLookup
from treegraft.policies.rest import Rest
from treegraft.policies.sequoia import Sequoia
from treegraft.policies.specexec import SpecExec
from treegraft.policies.static import Static
from treegraft.policies.talon import Talon
from treegraft.policies.token_recycling import TokenRecycling
from treegraft.policies.treegraft import TreeGraft

POLICIES: dict[str, type[Policy]] = {policy.name: policy for policy in (
    Plain, Chain, Block,
    Static, Sequoia,
    Eagle2, Ddd, OptTree, Talon, SpecExec,
    Lookup, PromptLookup, LogitSpec, Lookahead, Rest, TokenRecycling,
    Cascade, Graft, GraftBlock, TreeGraft)}

__all__ = ["POLICIES", "Block", "Cascade", "Chain", "Ddd", "Eagle2", "Graft", "GraftBlock", "LogitSpec", "Lookahead",
           "Lookup", "OptTree", "Plain", "Policy", "PromptLookup", "Rest", "Role", "Round", "Sequoia", "SpecExec",
           "Static", "Talon", "TokenRecycling", "TreeGraft"]
