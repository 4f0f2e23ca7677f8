"""What the tasks of a load spill for the checks: the keys of rows, cut so that equal keys meet in one bucket.

A stream is named by what its rows are for. Each has the values to be compared and the place of the record; streams of
what a merge replaces have no place.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from omnigraph.catalog import Catalog, EdgeType, EntityType
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.dataclass_later import dataclass
from omnigraph.loading.columns import flat
from omnigraph.parts.buckets import in_buckets
from omnigraph.parts.scratch import Piece, Scratch
from omnigraph.write.change import Places
from omnigraph.write.rules import complete

PLACE = "@place"
"""The column that says where a row comes from; no property can be called like this."""


class Stream(NamedTuple):
    """What spilled rows are for, their table, and the columns by which they are cut."""

    purpose: str
    table_key: str
    columns: tuple[str, ...]


def ids_of(entity: EntityType) -> Stream:
    """The ids of the rows of a load."""
    return Stream("ids", entity.table_key, (ID,))


def ends_of(edge: EdgeType, column: str) -> Stream:
    """The nodes at one end of the edges of a load."""
    return Stream("ends", edge.table_key, (column,))


def values_of(entity: EntityType, columns: Sequence[str]) -> Stream:
    """The values of a unique constraint, with the ids that they belong to."""
    return Stream("values", entity.table_key, tuple(columns))


def edges_at(edge: EdgeType, column: str) -> Stream:
    """The nodes at one end of edges, with the ids of the edges."""
    return Stream("edges", edge.table_key, (column,))


def replaced_stream(stream: Stream) -> Stream:
    """The same of the rows that a merge replaces."""
    return stream._replace(purpose=f"replaced {stream.purpose}")


def committed_stream(stream: Stream) -> Stream:
    """The same of the rows that the graph has."""
    return stream._replace(purpose=f"committed {stream.purpose}")


@dataclass(frozen=True, slots=True)
class StreamShare:
    """A stream's share of one task: a piece for each bucket."""

    stream: Stream
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket of what all tasks have spilled, in the order of their parts."""

    scratch: Scratch
    is_one_of_many: bool
    pieces: Mapping[Stream, tuple[Piece, ...]]

    def table(self, stream: Stream) -> pa.Table | None:
        """The rows of a stream, or None when no task has spilled any."""
        pieces = self.pieces.get(stream)
        return None if pieces is None else pa.concat_tables([self.scratch.get(piece) for piece in pieces])

    def values(self, stream: Stream) -> pa.Array:
        """The only key column of a stream."""
        found = self.table(stream)
        return flat(found[stream.columns[0]]) if found is not None else pa.array([], pa.string())


def buckets_of(splitter: "Splitter", shares: Iterable[StreamShare], wanted: int) -> list[Bucket]:
    """What tasks have spilled, bucket by bucket; neighbours are joined until `wanted` are left.

    Rows with equal keys stay in the order in which they were spilled.
    """
    found: dict[Stream, list[tuple[Piece, ...]]] = {}
    for share in shares:
        found.setdefault(share.stream, []).append(share.pieces)
    step = -(-splitter.buckets // wanted)
    groups = [range(start, min(start + step, splitter.buckets)) for start in range(0, splitter.buckets, step)]
    return [
        Bucket(
            splitter.scratch,
            len(groups) > 1,
            {stream: tuple(pieces[n] for n in group for pieces in puts) for stream, puts in found.items()},
        )
        for group in groups
    ]


@dataclass(frozen=True, slots=True)
class Splitter:
    """Spills rows, cut into `buckets` buckets."""

    catalog: Catalog
    scratch: Scratch
    buckets: int

    def put(self, stream: Stream, rows: pa.Table) -> StreamShare:
        """Spills rows as they are."""
        return StreamShare(stream, self.scratch.put(in_buckets(rows, stream.columns, self.buckets)))

    def keys(self, entity: EntityType, rows: pa.Table, places: Places, *, new_ids: bool) -> Iterator[StreamShare]:
        """The keys of rows of a load, for every check that may need them.

        Ids that were just made up cannot be there twice, and no record can refer to them.
        """
        placed = pa.array(places)
        if not new_ids or self._needs_edges(entity):
            yield self.put(ids_of(entity), pa.table({ID: rows[ID], PLACE: placed}))
        for columns in entity.unique:
            stream = values_of(entity, columns)
            yield self.put(stream, complete_values(rows.append_column(PLACE, placed), columns, PLACE))
        if isinstance(entity, EdgeType):
            for column in (SOURCE, DESTINATION):
                yield self.put(ends_of(entity, column), pa.table({column: rows[column], PLACE: placed}))

    def replaced_keys(self, entity: EntityType, rows: pa.Table) -> Iterator[StreamShare]:
        """The keys of rows that others replace: they no longer count."""
        for columns in entity.unique:
            yield self.put(replaced_stream(values_of(entity, columns)), complete_values(rows, columns))
        if isinstance(entity, EdgeType) and is_counted(entity):
            yield self.put(replaced_stream(ends_of(entity, SOURCE)), rows.select([SOURCE]))

    def put_ends(self, edge: EdgeType, rows: pa.Table) -> Iterator[StreamShare]:
        """The ends of edges with the ids of these, for whoever finds the edges of deleted nodes."""
        for column in (SOURCE, DESTINATION):
            yield self.put(edges_at(edge, column), rows.select([column, ID]).drop_null())

    def _needs_edges(self, entity: EntityType) -> bool:
        return any(edge.source == entity.name and edge.cardinality.minimum for edge in self.catalog.edges.values())


def is_counted(edge: EdgeType) -> bool:
    """Whether the number of edges of a type at a node is limited."""
    return edge.cardinality.minimum > 0 or edge.cardinality.maximum is not None


def complete_values(rows: pa.Table, columns: Sequence[str], *others: str) -> pa.Table:
    """The id and the values of a unique constraint, where there are all; null is equal to nothing."""
    return complete(rows.select([*dict.fromkeys((ID, *columns, *others))]), columns)
