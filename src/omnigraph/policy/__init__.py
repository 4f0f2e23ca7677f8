"""Who may do what: rules in a file, decided by Cedar, asked by the façade.

Reading a rule file and deciding load pyyaml and cedarpy; a graph without a policy loads neither.
"""

from omnigraph.policy.deciding import Decision, Policy
from omnigraph.policy.given import graph_id, guard_of
from omnigraph.policy.guard import Guard
from omnigraph.policy.opening import policy_of
from omnigraph.policy.rules import Action

__all__ = ["Action", "Decision", "Guard", "Policy", "graph_id", "guard_of", "policy_of"]
