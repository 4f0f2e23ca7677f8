"""The edges of one version of a table as numbers: which ordinals are connected, and by which edge."""

from dataclasses import field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from omnigraph.catalog.model import DESTINATION, SOURCE
from omnigraph.compiler.ir import Direction
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged
from omnigraph.resident.ids import flat
from omnigraph.resident.memory import MemoryBound
from omnigraph.resident.numbers import are_among, distinct, occurrences, spread, stretches
from omnigraph.resident.tables import FOLDED_ROWS, Base, Ordinals, ResidentTable, Space
from omnigraph.storage.topology import number_ends, read_late_ends

Steps: TypeAlias = tuple[Ordinals, Ordinals, Ordinals]
"""Edges that are followed: the position of the node where each begins, the node where it ends, and the edge."""

_NOTHING: NDArray[np.int32] = np.empty(0, np.int32)
_SORTED_BITS = 63
_LATE_BYTES = 170
"""What an edge of an overlay takes: its ends, and in both directions its place and the node that it begins at."""

_MANY_NODES = 256
"""From this many nodes on, those that the overlay says something of are followed apart from the others."""


@dataclass(frozen=True, slots=True)
class Csr:
    """Edges by the node they begin at: those of ``n`` are at ``offsets[n]`` to ``offsets[n + 1]``, by their ends."""

    offsets: NDArray[np.int64]
    ends: NDArray[np.int32]
    edges: NDArray[np.int32]
    is_simple: bool
    """Whether no two edges connect the same nodes."""
    is_single: bool
    """Whether at most one edge begins at each node."""

    @property
    def nbytes(self) -> int:
        return int(self.offsets.nbytes + self.ends.nbytes + self.edges.nbytes)

    def stretch(self, node: int) -> tuple[int, int]:
        """Where the edges of a node are, and how many they are."""
        if node >= len(self.offsets) - 1:
            return 0, 0
        first = int(self.offsets[node])
        return first, int(self.offsets[node + 1]) - first

    def find_single(self, nodes: Ordinals) -> Ordinals:
        """Where the edge of each node is, -1 for those without one, where `is_single`."""
        most = len(self.offsets) - 1
        if len(self.ends) == most and len(nodes) and int(nodes.max()) < most:
            return nodes  # each node has one, so they stand at the numbers of the nodes
        firsts, degrees = self.stretches(nodes)
        return np.where(degrees > 0, firsts, -1)

    def stretches(self, nodes: Ordinals) -> tuple[Ordinals, Ordinals]:
        """Where the edges of nodes are, and how many they are."""
        most = len(self.offsets) - 1
        if len(nodes) and int(nodes.max()) >= most:
            beyond = nodes >= most
            inside = np.where(beyond, 0, nodes)
            firsts = self.offsets[inside]
            return firsts, np.where(beyond, 0, self.offsets[1:][inside] - firsts) if most else firsts
        firsts = self.offsets[nodes]
        return firsts, self.offsets[1:][nodes] - firsts


def sort_edges(begins: Ordinals, ends: Ordinals, edges: Ordinals, count: int) -> Csr:
    """Edges in the order in which they are followed."""
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(begins, minlength=count), out=offsets[1:])
    end_bits, edge_bits = (int(each.max(initial=0)).bit_length() for each in (ends, edges))
    begin_bits = count.bit_length()
    if begin_bits + end_bits + edge_bits > _SORTED_BITS:
        order = np.lexsort((edges, ends, begins))
        pairs = (begins.astype(np.int64) << end_bits | ends)[order]
        ends, edges = ends[order], edges[order]
    else:
        # Numbers that hold all three are sorted in a fraction of the time that finding an order takes.
        keys = (begins.astype(np.int64) << end_bits | ends) << edge_bits | edges
        keys.sort()
        pairs = keys >> edge_bits
        ends, edges = pairs & ((1 << end_bits) - 1), keys & ((1 << edge_bits) - 1)
    is_simple = not bool(np.any(pairs[1:] == pairs[:-1]))
    is_single = not bool(np.any(offsets[1:] - offsets[:-1] > 1))
    return Csr(offsets, ends.astype(np.int32), edges.astype(np.int32), is_simple, is_single)


class BaseLinks:
    """The ends of the edges that the base of a table has. Safe to share between threads."""

    def __init__(
        self, begins: NDArray[np.int32], ends: NDArray[np.int32], spaces: tuple[Space, Space], memory: MemoryBound
    ) -> None:
        self.begins, self.ends, self.spaces = begins, ends, spaces
        self.holes = np.flatnonzero(begins < 0)
        """The edges that were gone or written again when the ends were looked up."""
        self._sorted: dict[bool, Csr] = {}
        self._memory = memory
        memory.count(self)

    @property
    def nbytes(self) -> int:
        found = tuple(self._sorted.values())
        return int(self.begins.nbytes + self.ends.nbytes) + sum(each.nbytes for each in found)

    def csr(self, *, backward: bool) -> Csr:
        """The edges by their beginning, or backward by their end."""
        found = self._sorted.get(backward)
        if found is None:
            with self._memory.lock:
                found = self._sorted.get(backward)
                if found is None:
                    nodes = (self.ends if backward else self.begins).max(initial=-1) + 1
                    self._memory.reserve(8 * (len(self.begins) + int(nodes) + 1))
                    self._sorted[backward] = found = self._sort(backward=backward)
        return found

    def is_sorted(self, *, backward: bool) -> bool:
        """Whether `csr` has nothing to do."""
        return backward in self._sorted

    def _sort(self, *, backward: bool) -> Csr:
        there = np.flatnonzero(self.begins >= 0)
        begins, ends = (self.ends, self.begins) if backward else (self.begins, self.ends)
        count = int(begins.max()) + 1 if len(begins) else 0
        return sort_edges(begins[there], ends[there], there, max(count, 0))


@dataclass(frozen=True, slots=True)
class _Late:
    """The edges of an overlay in one direction, by the node they begin at."""

    begins: NDArray[np.int32]
    ends: NDArray[np.int32]
    edges: NDArray[np.int32]
    nodes: frozenset[int]
    """The nodes where edges begin."""

    def stretches(self, nodes: Ordinals) -> tuple[Ordinals, Ordinals] | None:
        """Where the edges of nodes are, and how many they are; None if there are none."""
        if len(nodes) == 1 and int(nodes[0]) not in self.nodes:
            return None
        firsts = np.searchsorted(self.begins, nodes, "left")
        degrees = np.searchsorted(self.begins, nodes, "right") - firsts
        return (firsts, degrees) if degrees.any() else None


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Links:
    """The edges of a table at one version."""

    edges: ResidentTable
    base: BaseLinks
    late_begins: NDArray[np.int32]
    """The ends of the edges of the overlay, by its rows."""
    late_ends: NDArray[np.int32]
    removed: NDArray[np.int32]
    """The edges of the base that are gone or were written again, ascending."""
    _late: dict[bool, _Late] = field(default_factory=dict)
    _changed: dict[bool, Ordinals] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """The bytes of memory that the overlay takes, with what is made of it later; the base counts by itself."""
        return _LATE_BYTES * len(self.late_begins) + 8 * len(self.removed)

    # --- following edges ---

    def follow(self, nodes: Ordinals, direction: Direction) -> Steps:
        """All edges of some nodes: the position of the node, the node at the other end, and the edge.

        An edge is followed once each way that fits; a loop is the same edge both ways.
        """
        if direction is not Direction.EITHER:
            return self._follow(nodes, backward=direction is Direction.BACKWARD)
        there = self._follow(nodes, backward=False)
        back = self._follow(nodes, backward=True)
        keep = back[1] != nodes[back[0]]
        return _join(there, (back[0][keep], back[1][keep], back[2][keep]))

    def find_single(self, nodes: Ordinals, direction: Direction) -> tuple[Csr, Ordinals] | None:
        """Where the one edge of each node is, -1 for those without; None where nodes may have several."""
        if direction is Direction.EITHER or self._has_overlay:
            return None
        csr = self.base.csr(backward=direction is Direction.BACKWARD)
        return (csr, csr.find_single(nodes)) if csr.is_single else None

    def neighbours(self, nodes: Ordinals, direction: Direction) -> tuple[Ordinals, Ordinals]:
        """The nodes that are one edge away, each once and in any order: the position of the node, and the other."""
        if len(nodes) == 1 and direction is not Direction.EITHER and not self._has_overlay:
            # Short reads follow the edges of one node, and spend most of their time on calls.
            csr = self.base.csr(backward=direction is Direction.BACKWARD)
            first, degree = csr.stretch(int(nodes[0]))
            if degree < 2 or csr.is_simple:
                return np.zeros(degree, np.int64), csr.ends[first : first + degree]
        apart = self._apart(nodes, direction)
        if apart is None:
            places, ends, _ = self.follow(nodes, direction)
            return (places, ends) if self._is_simple(nodes, direction) else _distinct_pairs(places, ends)
        firsts, degrees, changed = apart
        backward = direction is Direction.BACKWARD
        places, ends = spread(firsts, degrees, self.base.csr(backward=backward).ends)
        late_places, late_ends = _distinct_pairs(*self._follow_few(nodes[changed], backward=backward)[:2])
        return np.concatenate((places, changed[late_places])), np.concatenate((ends, late_ends))

    def ends(self, nodes: Ordinals, direction: Direction) -> Ordinals:
        """The nodes that are one edge away from some nodes, in any order; a node may be there several times."""
        if direction is Direction.EITHER:
            return np.concatenate((self._ends(nodes, backward=False), self._ends(nodes, backward=True)))
        return self._ends(nodes, backward=direction is Direction.BACKWARD)

    def neighbour_ends(self, nodes: Ordinals, direction: Direction) -> Ordinals:
        """Like `neighbours`, without the positions of the nodes."""
        if self._is_simple(nodes, direction):
            return self.ends(nodes, direction)
        apart = self._apart(nodes, direction)
        if apart is None:
            return self.neighbours(nodes, direction)[1]
        firsts, degrees, changed = apart
        backward = direction is Direction.BACKWARD
        late = _distinct_pairs(*self._follow_few(nodes[changed], backward=backward)[:2])[1]
        return np.concatenate((self.base.csr(backward=backward).ends[stretches(firsts, degrees)], late))

    def _apart(self, nodes: Ordinals, direction: Direction) -> tuple[Ordinals, Ordinals, Ordinals] | None:
        """How many nodes are followed whose neighbours the base has once each, but for a few that changed.

        For each node where its edges are and how many they are, none for those that changed, and the positions of
        these. None where it does not pay, or the base connects some nodes twice.
        """
        if direction is Direction.EITHER or not self._has_overlay or len(nodes) < _MANY_NODES:
            return None
        csr = self.base.csr(backward=direction is Direction.BACKWARD)
        return self._split(nodes, backward=direction is Direction.BACKWARD) if csr.is_simple else None

    def _split(self, nodes: Ordinals, *, backward: bool) -> tuple[Ordinals, Ordinals, Ordinals]:
        firsts, degrees = self.base.csr(backward=backward).stretches(nodes)
        changed = np.flatnonzero(self._is_changed(nodes, backward=backward))
        degrees[changed] = 0
        return firsts, degrees, changed

    @property
    def _has_overlay(self) -> bool:
        return bool(len(self.removed) or len(self.late_begins))

    def _ends(self, nodes: Ordinals, *, backward: bool) -> Ordinals:
        if self._has_overlay:
            return self._follow(nodes, backward=backward)[1]
        csr = self.base.csr(backward=backward)
        if len(nodes) == 1:
            first, degree = csr.stretch(int(nodes[0]))
            found: Ordinals = csr.ends[first : first + degree]
        else:
            found = csr.ends[stretches(*csr.stretches(nodes))]
        return found

    def neighbour_counts(self, nodes: Ordinals, direction: Direction, *, each_edge: bool) -> Ordinals:
        """How many nodes are one edge away from each of some nodes, or with `each_edge` how many edges it has."""
        backward = direction is Direction.BACKWARD
        csr = self.base.csr(backward=backward)
        if direction is Direction.EITHER or not (each_edge or csr.is_simple):
            return self._counts(nodes, direction, each_edge=each_edge)
        counts = csr.stretches(nodes)[1]
        if not self._has_overlay:
            return counts
        if len(self.removed):
            counts -= occurrences(nodes, self._gone_begins(backward=backward))
        # Nodes that edges were added to are few; an edge may lead where another leads already.
        late = are_among(nodes, self._late_edges(backward=backward).begins)
        if late.any():
            counts[late] = self._counts(nodes[late], direction, each_edge=each_edge)
        return counts

    def _counts(self, nodes: Ordinals, direction: Direction, *, each_edge: bool) -> Ordinals:
        places = (self.follow if each_edge else self.neighbours)(nodes, direction)[0]
        return np.bincount(places, minlength=len(nodes))

    def _is_changed(self, nodes: Ordinals, *, backward: bool) -> NDArray[np.bool_]:
        """Which nodes are those where edges begin that the base lacks, or has and this version has not."""
        changed = self._changed.get(backward)
        if changed is None:
            late = self._late_edges(backward=backward).begins
            self._changed[backward] = changed = distinct(np.concatenate((self._gone_begins(backward=backward), late)))
        return are_among(nodes, changed)

    def _gone_begins(self, *, backward: bool) -> Ordinals:
        """The nodes where edges of the base begin that this version lacks: ascending, a node for each edge."""
        gone = (self.base.ends if backward else self.base.begins)[self.removed]
        found: Ordinals = np.sort(gone[gone >= 0])
        return found

    def _is_simple(self, nodes: Ordinals, direction: Direction) -> bool:
        """Whether no two edges of some nodes lead to the same node, as far as that is known at once."""
        if direction is Direction.EITHER:
            return False
        backward = direction is Direction.BACKWARD
        if not self.base.csr(backward=backward).is_simple:
            return False
        if not len(self.late_begins):
            return True
        return self._late_edges(backward=backward).stretches(nodes) is None

    def _follow(self, nodes: Ordinals, *, backward: bool) -> Steps:
        if not self._has_overlay or len(nodes) < _MANY_NODES:
            return self._follow_few(nodes, backward=backward)
        csr = self.base.csr(backward=backward)
        firsts, degrees, changed = self._split(nodes, backward=backward)
        places, ends, edges = self._follow_few(nodes[changed], backward=backward)
        return _join(spread(firsts, degrees, csr.ends, csr.edges), (changed[places], ends, edges))

    def _follow_few(self, nodes: Ordinals, *, backward: bool) -> Steps:
        """The edges of nodes, of which each is compared with those that are gone."""
        csr = self.base.csr(backward=backward)
        if len(nodes) == 1:
            first, degree = csr.stretch(int(nodes[0]))
            last = first + degree
            found = np.zeros(degree, np.int64), csr.ends[first:last], csr.edges[first:last]
        else:
            found = spread(*csr.stretches(nodes), csr.ends, csr.edges)
        if len(self.removed):
            keep = ~are_among(found[2], self.removed)
            found = found[0][keep], found[1][keep], found[2][keep]
        if len(self.late_begins):
            late = self._late_edges(backward=backward)
            places = late.stretches(nodes)
            if places is not None:
                found = _join(found, spread(*places, late.ends, late.edges))
        return found

    def _late_edges(self, *, backward: bool) -> _Late:
        found = self._late.get(backward)
        if found is None:
            live = self._live_rows()
            begins, ends = self.late_begins[live], self.late_ends[live]
            if backward:
                begins, ends = ends, begins
            order = np.argsort(begins, kind="stable")
            edges = self.edges.extra_ordinals[live]
            self._late[backward] = found = _Late(begins[order], ends[order], edges[order], frozenset(begins.tolist()))
        return found

    def _live_rows(self) -> NDArray[Any]:
        return np.sort(self.edges.moved_rows) - self.edges.base.count

    def can_follow_at_once(self, direction: Direction) -> bool:
        """Whether edges were followed this way before, so that nothing must be sorted."""
        ways = (False, True) if direction is Direction.EITHER else (direction is Direction.BACKWARD,)
        return all(self.base.is_sorted(backward=way) and (way in self._late or self._has_few_late) for way in ways)

    @property
    def _has_few_late(self) -> bool:
        return len(self.late_begins) <= FOLDED_ROWS

    def degrees(self, nodes: Ordinals, direction: Direction) -> Ordinals:
        """How many edges some nodes have at most: those that are gone since the base was read are counted too."""
        total: Ordinals = np.zeros(len(nodes), np.int64)
        for backward in (False, True) if direction is Direction.EITHER else (direction is Direction.BACKWARD,):
            total += self.base.csr(backward=backward).stretches(nodes)[1]
            if len(self.late_begins):
                late = self._late_edges(backward=backward).begins
                total += np.searchsorted(late, nodes, "right") - np.searchsorted(late, nodes, "left")
        return total

    # --- from one version to another ---

    def advance(self, edges: ResidentTable, ends: tuple[ResidentTable, ResidentTable]) -> "Links | None":
        """The edges of the table at a version that continues this one; None where it does not, or ordinals differ."""
        known = len(self.late_begins)
        if edges.base is not self.edges.base or not _have_spaces(self.base, ends):
            return None
        if not np.array_equal(edges.extra_serials[:known], self.edges.extra_serials):
            return None
        begins, late_ends = _ends_of(edges, ends, known)
        found = Links(
            edges=edges,
            base=self.base,
            late_begins=np.concatenate((self.late_begins, begins)),
            late_ends=np.concatenate((self.late_ends, late_ends)),
            removed=_replaced_edges(edges),
        )
        return _count(found) if found._has_all_ends() else None

    def _has_all_ends(self) -> bool:
        """Whether the ends of all edges are known: an older version has edges that were gone in a later one."""
        live = self._live_rows()
        is_late = bool(np.all(self.late_begins[live] >= 0) and np.all(self.late_ends[live] >= 0))
        return is_late and bool(np.isin(self.base.holes, self.removed).all())


def link(edges: ResidentTable, ends: tuple[ResidentTable, ResidentTable]) -> Links:
    """The edges of a table, with the nodes that they connect."""
    edges.base.memory.reserve(8 * edges.base.count)
    begins, others = _numbers_from_topology(edges.base, ends) or _numbers_from_columns(edges.base, ends)
    gone = np.fromiter(edges.dead, np.int64, len(edges.dead))
    is_hole = np.zeros(len(begins), np.bool_)
    is_hole[gone[gone < len(is_hole)]] = True
    is_hole[edges.moved[edges.moved < len(is_hole)]] = True
    if bool(np.any((begins < 0) & ~is_hole)) or bool(np.any((others < 0) & ~is_hole)):
        raise Damaged(edges.table.location.uri, "an edge has an end that no node has")
    base = BaseLinks(
        np.where(is_hole, -1, begins).astype(np.int32),
        np.where(is_hole, -1, others).astype(np.int32),
        (ends[0].space, ends[1].space),
        edges.base.memory,
    )
    return _count(Links(edges, base, *_ends_of(edges, ends, 0), _replaced_edges(edges)))


def _count(links: Links) -> Links:
    """Makes room for the overlay of edges, and counts it."""
    memory = links.edges.base.memory
    memory.reserve(links.nbytes)
    memory.count(links)
    return links


def _numbers_from_columns(base: Base, ends: tuple[ResidentTable, ResidentTable]) -> tuple[Ordinals, Ordinals]:
    """The ordinals of both ends of all edges of a base, -1 where there is no such node."""
    begins, others = (
        nodes.find_all(base.read_once(name)) for name, nodes in zip((SOURCE, DESTINATION), ends, strict=True)
    )
    return begins, others


def _numbers_from_topology(base: Base, ends: tuple[ResidentTable, ResidentTable]) -> tuple[Ordinals, Ordinals] | None:
    """The same from the index of topology, if there is one: each id is looked up once, and no edge is read."""
    found = number_ends(base.table, base.addresses, reserve=base.memory.reserve)
    if found is None:
        return None
    base.note_replaced(SOURCE, DESTINATION)
    is_one_type = ends[0] is ends[1]
    late = read_late_ends(base.table, base.addresses, found)
    numbers = []
    for side, (name, nodes) in enumerate(zip((SOURCE, DESTINATION), ends, strict=True)):
        if side == 0 or not is_one_type:
            # The last stands for edges that the index does not cover.
            ordinals = np.append(nodes.find_all(found.ids), -1)
        ends_of_side = ordinals[(found.begins, found.ends)[side]]
        if len(late.rows):
            ends_of_side[late.rows] = nodes.find_all(flat(late.ends[name]))
        numbers.append(ends_of_side)
    return numbers[0], numbers[1]


def _have_spaces(base: BaseLinks, ends: tuple[ResidentTable, ResidentTable]) -> bool:
    return base.spaces[0] is ends[0].space and base.spaces[1] is ends[1].space


def _ends_of(
    edges: ResidentTable, ends: tuple[ResidentTable, ResidentTable], known: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The ends of the edges of an overlay, but for those that are known; -1 for rows that are not needed."""
    if len(edges.extra_ordinals) == known:
        return _NOTHING, _NOTHING
    rows = np.arange(edges.base.count + known, edges.base.count + len(edges.extra_ordinals))
    live = np.isin(rows, edges.moved_rows)
    found = []
    for name, nodes in zip((SOURCE, DESTINATION), ends, strict=True):
        numbers = nodes.find_all(edges.extra_column(name).slice(known)).astype(np.int32)
        if bool(np.any((numbers < 0) & live)):
            raise Damaged(edges.table.location.uri, "an edge has an end that no node has")
        found.append(numbers)
    return found[0], found[1]


def _replaced_edges(edges: ResidentTable) -> NDArray[np.int32]:
    gone = np.fromiter(edges.dead, np.int32, len(edges.dead))
    found = np.unique(np.concatenate((gone, edges.moved)))
    return found[found < edges.base.count].astype(np.int32)


def _distinct_pairs(places: Ordinals, ends: Ordinals) -> tuple[Ordinals, Ordinals]:
    """Each pair once."""
    if len(places) < 2:
        return places, ends
    width = int(ends.max()) + 1
    return np.divmod(distinct(places * width + ends), width)


def _join(one: Steps, other: Steps) -> Steps:
    return (
        np.concatenate((one[0], other[0])),
        np.concatenate((one[1], other[1])),
        np.concatenate((one[2], other[2])),
    )


@dataclass(frozen=True, slots=True)
class LinkHops:
    """Links as `reachable_pairs` follows them, between nodes of one type."""

    links: Links
    direction: Direction
    count: int

    @property
    def edge_count(self) -> int:
        """About how many edges there are."""
        return len(self.links.base.begins)

    def degrees(self, nodes: Ordinals) -> Ordinals:
        """About how many edges some nodes have."""
        return self.links.degrees(nodes, self.direction)

    def expand(self, nodes: Ordinals, labels: Ordinals) -> tuple[Ordinals, Ordinals]:
        """The neighbours of all nodes in any order, and for each the label of the node that it was reached from."""
        places, ends = self.links.neighbours(nodes, self.direction)
        return labels[places], ends

    def ends(self, nodes: Ordinals) -> Ordinals:
        """The neighbours of all nodes, in any order; one may be there several times."""
        return self.links.ends(nodes, self.direction)
