"""What a path is to a query: the values that it has, and which types of nodes its ends can have."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from omnigraph.catalog import EdgeType, List, Property, Scalar
from omnigraph.compiler.ir import Direction
from omnigraph.dataclass_later import dataclass

NODES, EDGES, LENGTH, WEIGHT = "nodes", "edges", "length", "weight"

_UNWEIGHTED: Mapping[str, Property] = {
    name: Property(identity=0, name=name, type=type)
    for name, type in ((NODES, List(Scalar.STRING)), (EDGES, List(Scalar.STRING)), (LENGTH, Scalar.I64))
}
_WEIGHTED = {**_UNWEIGHTED, WEIGHT: Property(identity=0, name=WEIGHT, type=Scalar.F64)}


@dataclass(frozen=True, slots=True)
class PathType:
    """The values of a path, as types of nodes and edges have their properties. No table of a graph has paths."""

    table_key: str
    """What tells the paths of one clause from those of all others."""
    is_weighted: bool
    name: ClassVar[str] = "path"
    system_columns: ClassVar[tuple[str, ...]] = ()

    @property
    def properties(self) -> Mapping[str, Property]:
        """The values, in the order in which a whole path has them."""
        return _WEIGHTED if self.is_weighted else _UNWEIGHTED


# --- the types of the nodes of a path ---

Ends = frozenset[tuple[str, str]]
"""Pairs of types: that of the first node of a path, and that of its last."""


def node_types(edges: Iterable[EdgeType]) -> tuple[str, ...]:
    """The types of the nodes that edges connect, each once, in the order of their names."""
    return tuple(sorted({type for edge in edges for type in (edge.source, edge.destination)}))


def possible_ends(edges: Sequence[EdgeType], direction: Direction, minimum: int) -> Ends:
    """The types that the ends of a path can have together."""
    leads = {(edge.source, edge.destination) for edge in edges}
    if direction is not Direction.FORWARD:
        turned = {(end, begin) for begin, end in leads}
        leads = turned if direction is Direction.BACKWARD else leads | turned
    found = set(leads)
    while True:
        longer = {(begin, end) for begin, middle in found for other, end in leads if middle == other} - found
        if not longer:
            break
        found |= longer
    if minimum == 0:
        found |= {(type, type) for type in node_types(edges)}
    return frozenset(found)


def fitting_ends(ends: Ends, sources: frozenset[str] | None, destinations: frozenset[str] | None) -> Ends:
    """Those whose types are among the given ones; None stands for all types."""
    return frozenset(
        (begin, end)
        for begin, end in ends
        if (sources is None or begin in sources) and (destinations is None or end in destinations)
    )
