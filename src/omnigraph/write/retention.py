"""The one lock between those who make an old commit matter again, and those who remove what no longer matters."""

from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.storage import Location
from omnigraph.write.fence import WriteFence

_HISTORY = "history"
_OF_ALL_BRANCHES = "__history__"


@contextmanager
def holding_history(graph: Location, purpose: str) -> Iterator[None]:
    """Nobody removes old commits, names one, or begins a branch on one while another does.

    It is taken before any other lock. A commit that is found inside the block and named there is one that stays.
    """
    with WriteFence(graph, _OF_ALL_BRANCHES, purpose) as fence:
        fence.take([_HISTORY])
        yield
