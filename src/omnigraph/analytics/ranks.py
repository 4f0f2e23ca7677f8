"""What PageRank finds, in memory and in blocks. Tasks import it, which may have no scipy."""

from omnigraph.analytics.edges import Floats
from omnigraph.dataclass_later import dataclass


@dataclass(frozen=True, slots=True)
class Ranks:
    """The rank of each node, which sum up to 1, and how they were found."""

    values: Floats
    iterations: int
    converged: bool
    change: float
    """The change of the ranks in the last iteration, summed over all nodes."""
