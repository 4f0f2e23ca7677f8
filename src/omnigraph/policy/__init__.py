"""Access control: rules in a file, decided by Cedar.

Reading a rule file and deciding load pyyaml and cedarpy; a graph without a policy loads neither.
"""

from typing import TYPE_CHECKING

from omnigraph.lazy import lazy_names
from omnigraph.policy.actions import Action
from omnigraph.policy.guard import Guard, graph_id, guard_of

if TYPE_CHECKING:
    from omnigraph.policy.deciding import Decision, Policy, policy_of
else:
    __getattr__ = lazy_names(__name__, {"deciding": "Decision Policy policy_of"})
