"""The policies, by name. A new one is a module and a line here."""

from treegraft.policies.base import Policy, Role, Round
from treegraft.policies.chain import Chain
from treegraft.policies.eagle2 import Eagle2
from treegraft.policies.lookup import Lookup
from treegraft.policies.plain import Plain
from treegraft.policies.treegraft import TreeGraft

POLICIES: dict[str, type[Policy]] = {policy.name: policy for policy in (Plain, Chain, Lookup, Eagle2, TreeGraft)}

__all__ = ["POLICIES", "Chain", "Eagle2", "Lookup", "Plain", "Policy", "Role", "Round", "TreeGraft"]
