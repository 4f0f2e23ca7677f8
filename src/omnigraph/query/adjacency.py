"""Edges as compact arrays: which nodes are connected, by small integers instead of ids."""

import threading
from bisect import bisect_left
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.catalog.model import DESTINATION, SOURCE
from omnigraph.compiler.ir import Direction
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.query.cancelling import NEVER, Cancellation
from omnigraph.resident.ids import flat
from omnigraph.resident.numbers import distinct, numbers_of, stretches
from omnigraph.storage.environment import ADJACENCY_BYTES
from omnigraph.storage.topology import LateEnds, NumberedEnds
from omnigraph.versioning.kept import Heads, KeptVersions

Codes: TypeAlias = NDArray[np.int64]
Key: TypeAlias = tuple[str, Hashable]

MOST_ADJACENCIES, MOST_PAST = 256, 4
"""The number of adjacencies that are kept, and how many of them may be of versions other than heads."""

# How long a query that waits for an adjacency may go on after it was stopped.
_STOPPED_AFTER = 0.05

# Below this many ids, looking each up by bisection is faster than hashing all ids of a graph.
_BISECTED = 64


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The neighbours of node ``n`` are ``targets[offsets[n]:offsets[n + 1]]``, each once, ascending."""

    offsets: Codes
    targets: NDArray[np.int32]

    @property
    def count(self) -> int:
        return len(self.offsets) - 1

    @property
    def edge_count(self) -> int:
        return len(self.targets)

    def degrees(self, nodes: NDArray[Any]) -> Codes:
        """The number of neighbours of each node."""
        degrees: Codes = self.offsets[nodes + 1] - self.offsets[nodes]
        return degrees

    def expand(self, nodes: NDArray[Any], labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """All neighbours of all nodes, and for each of them the label of the node that it was reached from."""
        degrees = self.degrees(nodes)
        return np.repeat(labels, degrees), self.targets[stretches(self.offsets[nodes], degrees)]

    def ends(self, nodes: NDArray[Any]) -> NDArray[np.int32]:
        """All neighbours of all nodes; one may be there several times."""
        found: NDArray[np.int32] = self.targets[stretches(self.offsets[nodes], self.degrees(nodes))]
        return found


class Adjacency:
    """The edges of one table. An edge type between two node types numbers each of them on its own.

    `sources` and `destinations` are the ids behind the numbers, ascending; they are one array where an edge runs from
    a type to itself. Safe to share between threads: neighbours are found once, and others wait for them.
    """

    def __init__(self, sources: pa.Array, destinations: pa.Array, edges: tuple[Codes, Codes]) -> None:
        self.sources = sources
        self.destinations = destinations
        self._edges = edges
        self._found: dict[Direction, Neighbours] = {}
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """The bytes of memory it takes, with the neighbours that were found so far."""
        ids = [self.sources] if self.sources is self.destinations else [self.sources, self.destinations]
        found = [array for each in tuple(self._found.values()) for array in (each.offsets, each.targets)]
        return sum(int(each.nbytes) for each in (*ids, *self._edges, *found))

    def neighbours(self, direction: Direction) -> Neighbours:
        """The neighbours of every node, following edges in one direction or in both."""
        found = self._found.get(direction)
        if found is None:
            with self._lock:
                found = self._found.get(direction)
                if found is None:
                    self._found[direction] = found = self._neighbours(direction)
        return found

    def knows(self, direction: Direction) -> bool:
        """Whether these neighbours were found before."""
        return direction in self._found

    def ends(self, direction: Direction) -> tuple[pa.Array, pa.Array]:
        """The ids at the beginning and at the end of a step in a direction."""
        if direction is Direction.BACKWARD:
            return self.destinations, self.sources
        return self.sources, self.destinations

    def _neighbours(self, direction: Direction) -> Neighbours:
        begin, end = self._edges
        match direction:
            case Direction.FORWARD:
                return _neighbours(begin, end, len(self.sources), len(self.destinations))
            case Direction.BACKWARD:
                return _neighbours(end, begin, len(self.destinations), len(self.sources))
            case Direction.EITHER:
                both = np.concatenate((begin, end)), np.concatenate((end, begin))
                return _neighbours(*both, len(self.sources), len(self.sources))


def adjacency_of(sources: pa.ChunkedArray, destinations: pa.ChunkedArray, *, is_one_type: bool) -> Adjacency:
    """The adjacency of edges between these ids."""
    if is_one_type:
        chunks = [*sources.chunks, *destinations.chunks]
        ids, codes = encode_ids(pa.chunked_array(chunks, type=pa.string()))
        return Adjacency(ids, ids, (codes[: len(sources)], codes[len(sources) :]))
    source_ids, begin = encode_ids(sources)
    destination_ids, end = encode_ids(destinations)
    return Adjacency(source_ids, destination_ids, (begin, end))


def adjacency_of_numbers(numbered: NumberedEnds, late: LateEnds) -> Adjacency:
    """The adjacency of edges whose ends have numbers, and of a few that were read besides.

    Both ends are numbered together, also where an edge runs from one type to another.
    """
    begin, end = numbered.begins.copy(), numbered.ends.copy()
    if not len(late.rows):
        return Adjacency(numbered.ids, numbered.ids, (begin, end))
    count = len(late.rows)
    texts = pa.concat_arrays([numbered.ids, *late.ends[SOURCE].chunks, *late.ends[DESTINATION].chunks])
    ids, ranks = encode_ids(pa.chunked_array([texts]))
    is_known = begin >= 0
    for numbers, codes in ((begin, ranks[len(numbered.ids) :][:count]), (end, ranks[len(numbered.ids) + count :])):
        numbers[is_known] = ranks[numbers[is_known]]
        numbers[late.rows] = codes
    return Adjacency(ids, ids, (begin, end))


def encode_ids(values: pa.ChunkedArray) -> tuple[pa.Array, Codes]:
    """The distinct values, ascending, and the position of each value among them."""
    encoded = pc.dictionary_encode(pa.chunked_array(values.chunks, type=pa.string()).combine_chunks())
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], pa.string()).dictionary_encode()
    order = numbers_of(pc.sort_indices(encoded.dictionary))
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order), dtype=np.int64)
    return encoded.dictionary.take(pa.array(order)), ranks[numbers_of(encoded.indices)]


def _neighbours(begin: Codes, end: Codes, begin_count: int, end_count: int) -> Neighbours:
    pairs = distinct(begin * max(end_count, 1) + end)
    from_codes, targets = np.divmod(pairs, max(end_count, 1))
    offsets = np.zeros(begin_count + 1, dtype=np.int64)
    np.cumsum(np.bincount(from_codes, minlength=begin_count), out=offsets[1:])
    return Neighbours(offsets, targets.astype(np.int32))


def codes_of(ids: pa.Array | pa.ChunkedArray, among: pa.Array) -> Codes:
    """The numbers of ids, ascending and each once; an id that has none is left out."""
    if len(ids) <= _BISECTED:
        places = [(each, bisect_left(among, each, key=lambda found: found.as_py())) for each in ids.to_pylist()]
        found = [at for each, at in places if at < len(among) and among[at].as_py() == each]
        return distinct(np.array(found, dtype=np.int64))
    places = pc.drop_null(pc.index_in(ids, value_set=among))
    return distinct(numbers_of(flat(places)).astype(np.int64))


class AdjacencyCache:
    """The adjacencies that were used last, by table and version. Safe to share between threads.

    An adjacency is built once, even when several threads ask for it at the same time: the others wait for it. All
    together take no more than `most_bytes`, unless the last one alone does. Of versions that `heads` does not name,
    only a few are kept.
    """

    def __init__(
        self,
        entries: int = MOST_ADJACENCIES,
        *,
        most_bytes: int = ADJACENCY_BYTES,
        heads: Heads | None = None,
    ) -> None:
        self._kept = KeptVersions[Adjacency](
            most=entries, past=MOST_PAST, heads=heads, most_bytes=most_bytes, size=lambda each: each.nbytes
        )
        # A lock lets one thread at a time build an adjacency; it is there as long as one has it, or waits.
        self._building: WeakValueDictionary[Key, threading.Lock] = WeakValueDictionary()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def nbytes(self) -> int:
        """The bytes of memory they take together."""
        return self._kept.nbytes

    def clear(self) -> None:
        """Forgets all of them."""
        self._kept.clear()

    def get(self, table_key: str, version: Hashable) -> Adjacency | None:
        """The adjacency of a table version, if it is here."""
        return self._kept.get(table_key, version)

    def get_or_build(
        self,
        table_key: str,
        version: Hashable,
        build: Callable[[], Adjacency],
        *,
        cancellation: Cancellation = NEVER,
    ) -> Adjacency:
        """The adjacency of a table version, built if it is not here. Waiting for another to build it may be stopped."""
        found = self._kept.get(table_key, version)
        if found is not None:
            return found
        with self._lock:
            gate = self._building.setdefault((table_key, version), threading.Lock())
        while not gate.acquire(timeout=_STOPPED_AFTER):
            cancellation.check()
        try:
            return self._kept.get(table_key, version) or self._kept.keep(table_key, version, build())
        finally:
            gate.release()

    def neighbours(self, adjacency: Adjacency, direction: Direction) -> Neighbours:
        """The neighbours in an adjacency. Finding them makes it larger, so others may have to go."""
        is_known = adjacency.knows(direction)
        found = adjacency.neighbours(direction)
        if not is_known:
            self._kept.trim()
        return found
