"""What the tasks of a stream read: the changes of one type, commit by commit, as rows.

Each change is one row. Its first columns are those of the entity after the change, or before it if it was deleted. The
others say what happened, in which commit and when, and have the entity as it was before. Rows of commits with an older
schema are shown as that schema change has changed them.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

import pyarrow as pa

from omnigraph.api.history import ChangeKind, Commit
from omnigraph.catalog import EntityType, table_schema
from omnigraph.catalog.conversion import continued_columns, convert_rows
from omnigraph.changes import TypePair
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import UsageError
from omnigraph.spark.scans import TablePart, parts_of
from omnigraph.storage.carrying import TableAt, carrying, place_of
from omnigraph.storage.column_match import ColumnMatch
from omnigraph.storage.differences import RowCandidates, candidate_batches, find_candidates
from omnigraph.storage.tables import Table, open_table

CHANGE, VERSION, COMMIT, TIME, BEFORE = (
    "_change_type",
    "_commit_version",
    "_commit_id",
    "_commit_timestamp",
    "_before",
)
_COST_OF_A_PIECE = 4_096
"""To open the tables of a commit takes about as long as reading this many rows."""


def change_schema(entity: EntityType) -> pa.Schema:
    """The columns of the changes of a type. Properties may be null, as rows of older commits may have had none."""
    own = table_schema(entity)
    taken = [name for name in (CHANGE, VERSION, COMMIT, TIME, BEFORE) if name in own.names]
    if taken:
        raise UsageError(f"changes of `{entity.name}` cannot be read: its property `{taken[0]}` has a reserved name")
    columns = [each.with_nullable(each.name not in entity.system_columns) for each in own]
    return pa.schema(
        [
            *columns,
            pa.field(CHANGE, pa.string(), nullable=False),
            pa.field(VERSION, pa.int64(), nullable=False),
            pa.field(COMMIT, pa.string(), nullable=False),
            pa.field(TIME, pa.timestamp("ms", "UTC"), nullable=False),
            pa.field(BEFORE, pa.struct(columns)),
        ]
    )


def has_same_columns(entity: EntityType, other: EntityType) -> bool:
    """Whether rows of one type are rows of the other: the same properties have the same names and types."""
    continued = continued_columns(entity, other)
    columns = {each.name: each.type for each in table_schema(entity)}
    others = {each.name: each.type for each in table_schema(other)}
    return columns == others and all(continued.get(name) == name for name in columns)


@dataclass(frozen=True, slots=True)
class CommitMark:
    """What rows say of the commit that changed them."""

    version: int
    id: str
    time: datetime


def mark_of(commit: Commit) -> CommitMark:
    """The mark of a commit."""
    return CommitMark(commit.manifest_version, commit.graph_commit_id, commit.created_at)


class OpenTables:
    """The tables that one task has open: many small commits are carried by one version of a table."""

    def __init__(self) -> None:
        self._plain: dict[tuple[str, int], Table] = {}

    def open(self, place: TableAt) -> Table:
        """A table with what is carried on top of it."""
        key = place.location.uri, place.version
        if key not in self._plain:
            self._plain[key] = open_table(place.location, place.version)
        return carrying(self._plain[key], place.deltas)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRows:
    """Rows of a table that all came, or all went, with one commit."""

    kind: ChangeKind
    commit: CommitMark
    entity: EntityType
    part: TablePart
    rows: int

    def changes(self, shown: EntityType, _tables: OpenTables) -> Iterator[pa.Table]:
        for batch in self.part.batches():
            rows = convert_rows(pa.Table.from_batches([batch]), self.entity, shown)
            before = rows if self.kind is ChangeKind.DELETE else None
            yield _as_changes(self.kind, self.commit, rows, before)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRows:
    """Some of the rows of a table that one commit may have changed."""

    commit: CommitMark
    before: EntityType
    after: EntityType
    left: TableAt
    right: TableAt
    match: ColumnMatch
    candidates: RowCandidates

    @property
    def rows(self) -> int:
        return self.candidates.count

    def changes(self, shown: EntityType, tables: OpenTables) -> Iterator[pa.Table]:
        left, right = tables.open(self.left), tables.open(self.right)
        for found in candidate_batches(left, right, self.match, self.candidates):
            if found.inserted.num_rows:
                rows = convert_rows(found.inserted, self.after, shown)
                yield _as_changes(ChangeKind.INSERT, self.commit, rows, None)
            if found.after.num_rows:
                rows = convert_rows(found.after, self.after, shown)
                yield _as_changes(ChangeKind.UPDATE, self.commit, rows, convert_rows(found.before, self.before, shown))
            if found.deleted.num_rows:
                rows = convert_rows(found.deleted, self.before, shown)
                yield _as_changes(ChangeKind.DELETE, self.commit, rows, rows)


ChangePiece = WholeRows | ComparedRows
"""Changes of one commit that one task reads. It can be pickled."""


def pieces_of(commit: Commit, pair: TypePair, rows: int) -> list[ChangePiece]:
    """What a commit changed in a type, in pieces of about `rows` rows."""
    mark = mark_of(commit)
    if pair.left is None or pair.right is None:
        kind, side = (ChangeKind.INSERT, pair.right) if pair.right is not None else (ChangeKind.DELETE, pair.left)
        assert side is not None, "a type is in one of the states"
        return whole_pieces(kind, mark, side.entity, side.table, rows)
    match = pair.match
    return [
        ComparedRows(
            commit=mark,
            before=pair.left.entity,
            after=pair.right.entity,
            left=place_of(pair.left.table),
            right=place_of(pair.right.table),
            match=match,
            candidates=part,
        )
        for part in find_candidates(pair.left.table, pair.right.table, match).split(rows)
    ]


def whole_pieces(
    kind: ChangeKind, commit: CommitMark, entity: EntityType, table: Table, rows: int
) -> list[ChangePiece]:
    """All rows of a table, in pieces of about `rows` rows."""
    sizes = {each.number: each.rows for each in table.fragment_sizes()}
    return [
        WholeRows(kind=kind, commit=commit, entity=entity, part=part, rows=sum(sizes[each] for each in part.fragments))
        for part in parts_of(table, columns=table_schema(entity).names, rows=rows)
    ]


def group_pieces(pieces: Iterable[ChangePiece], rows: int) -> list[tuple[ChangePiece, ...]]:
    """Pieces in their order, together as much as one task reads."""
    groups: list[list[ChangePiece]] = []
    left = 0
    for piece in pieces:
        cost = piece.rows + _COST_OF_A_PIECE
        if not groups or cost > left:
            groups.append([])
            left = rows
        groups[-1].append(piece)
        left -= cost
    return [tuple(group) for group in groups]


def read_pieces(pieces: Iterable[ChangePiece], shown: EntityType) -> Iterator[pa.RecordBatch]:
    """The changes of some pieces, as a schema shows them."""
    tables = OpenTables()
    for piece in pieces:
        for rows in piece.changes(shown, tables):
            yield from rows.combine_chunks().to_batches()


def _as_changes(kind: ChangeKind, commit: CommitMark, rows: pa.Table, before: pa.Table | None) -> pa.Table:
    count = rows.num_rows
    columns: Mapping[str, pa.Array] = {
        CHANGE: pa.repeat(pa.scalar(kind.value), count),
        VERSION: pa.repeat(pa.scalar(commit.version, pa.int64()), count),
        COMMIT: pa.repeat(pa.scalar(commit.id), count),
        TIME: pa.repeat(pa.scalar(commit.time, pa.timestamp("ms", "UTC")), count),
        BEFORE: _as_structs(rows.schema, count) if before is None else _as_structs(before.schema, count, before),
    }
    found = rows
    for name, column in columns.items():
        found = found.append_column(name, column)
    return found


def _as_structs(schema: pa.Schema, count: int, rows: pa.Table | None = None) -> pa.Array:
    """Rows as one column; without rows, a column of nulls."""
    fields = [each.with_nullable(True) for each in schema]
    if rows is None:
        return pa.nulls(count, pa.struct(fields))
    arrays = [_as_array(rows[each.name]) for each in schema]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _as_array(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
