"""Access control: rules in a file, decided by Cedar.

Reading a rule file and deciding load pyyaml and cedarpy; a graph without a policy loads neither.
"""

from omnigraph.policy.deciding import Decision, Policy, policy_of
from omnigraph.policy.guard import Guard, graph_id, guard_of
from omnigraph.policy.rules import Action
