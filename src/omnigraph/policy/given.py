"""The guard of a graph that is opened: by the policy and the actor that were given, or that the environment names."""

import os
from pathlib import Path

from omnigraph.policy.deciding import Policy
from omnigraph.policy.guard import Guard
from omnigraph.policy.opening import policy_of

_SUFFIX = ".omni"


def graph_id(uri: str) -> str:
    """What policies and servers call a graph unless it is named otherwise: the last part of its place."""
    return uri.rstrip("/").rpartition("/")[2].removesuffix(_SUFFIX) or "graph"


def guard_of(uri: str, policy: Policy | str | Path | None, actor: str | None, id: str | None = None) -> Guard:
    """The guard of the graph at a place. Without a policy, here and in ``OMNIGRAPH_POLICY``, it allows everything."""
    given = policy if policy is not None else os.environ.get("OMNIGRAPH_POLICY") or None
    who = actor if actor is not None else os.environ.get("OMNIGRAPH_ACTOR") or None
    rules = given if given is None or isinstance(given, Policy) else policy_of(given)
    return Guard(rules, id or graph_id(uri), who)
