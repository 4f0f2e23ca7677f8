"""The tasks of a load that make rows: they read records, check each alone, and write them where no version sees them.

Rows that only come beside others are written as they are read. Rows that may replace others are spilled by their ids
first: of several records of one entity the last one counts, and what it does not give comes from the entity.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

import numpy as np
import pyarrow as pa

from omnigraph.api.data import LoadMode
from omnigraph.api.history import ChangeCounts
from omnigraph.catalog import Catalog, EdgeType, EntityType, Value, table_schema
from omnigraph.catalog.model import ID
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.embedding import EmbeddingSettings, embedded_properties, fill_vectors
from omnigraph.loading.batches import content_of
from omnigraph.loading.change_columns import ChangeColumns
from omnigraph.loading.columns import flat
from omnigraph.loading.edge_ids import EdgeIds
from omnigraph.loading.edge_order import ORDERED_EDGES, order_edges
from omnigraph.loading.folding import DELETED, GIVEN, ORDER
from omnigraph.loading.records import Faults, RecordReader, TypeRows
from omnigraph.loading.sources import Numbered, entities_of, place_in, read_part
from omnigraph.loading.streams import PLACE, Bucket, Splitter, Stream, StreamShare, buckets_of, committed_stream, ids_of
from omnigraph.loading.tabular import read_table
from omnigraph.storage.carrying import TableAt
from omnigraph.storage.staging import WrittenRows, join_written, write_change, write_new
from omnigraph.storage.tables import ROW_ADDRESS, ROW_ID, Table
from omnigraph.write.change import Origins, Places, TableChange
from omnigraph.write.row_checks import row_violations

FLUSHED_BYTES = 192 * 1024 * 1024
"""How many bytes of a type are kept in memory before they are written."""

_ROWS = "rows"


@dataclass(frozen=True, slots=True)
class LoadJob:
    """What every task of one load knows."""

    catalog: Catalog
    mode: LoadMode
    tables: Mapping[str, TableAt]
    splitter: Splitter
    models: EmbeddingSettings
    """How the models that fill vectors are reached."""

    edge_ids: EdgeIds = field(default_factory=dict)
    """The columns that form the ids of edges."""

    has_key: bool = False
    """Whether the content of the input is identified while it is read."""

    only_content: bool = False
    """Whether nothing else is done with it."""

    changes: ChangeColumns | None = None
    """Of changes, the columns that order them and mark deletions."""

    @property
    def spills_records(self) -> bool:
        """Whether records meet those of the same entities before rows are made of them."""
        return self.mode in (LoadMode.MERGE, LoadMode.APPLY)


@dataclass(slots=True)
class LoadOutcome:
    """What a task has done: rows it wrote or spilled, and what it found wrong.

    `unreadable` are invalid records, `wrong` those that the schema does not allow.
    """

    rows: dict[str, int] = field(default_factory=dict)
    written: dict[str, WrittenRows] = field(default_factory=dict)
    shares: list[StreamShare] = field(default_factory=list)
    unreadable: Faults = field(default_factory=Faults)
    wrong: Faults = field(default_factory=Faults)
    content: int = 0
    """What identifies the records, if the load has a key; see `batches.content_of`."""
    deletes: dict[str, int] = field(default_factory=dict)
    """How many of the records delete."""
    applied: ChangeCounts = field(default_factory=ChangeCounts)
    """What the changes do."""
    reduced: set[str] = field(default_factory=set)
    """The tables that lose rows by them."""

    @property
    def count(self) -> int:
        return sum(self.rows.values())


# --- reading ---


def load_part(job: LoadJob, part: Numbered) -> LoadOutcome:
    """Reads a part of the input."""
    writer = _RowWriter(job)
    return writer.outcome(read_part(part, writer.reader, job.splitter.scratch))


def load_partition(
    job: LoadJob, table_key: str, first_number: int, index: int, batches: Iterable[pa.RecordBatch]
) -> LoadOutcome:
    """Reads a partition of a frame, whose rows are of one type."""
    writer = _RowWriter(job)
    entity = entities_of(writer.reader.catalog)[table_key]

    def steps() -> Iterator[None]:
        place = place_in(first_number + index)
        for batch in batches:
            read_table(writer.reader, entity, pa.Table.from_batches([batch]), place)
            place += batch.num_rows
            yield

    return writer.outcome(steps())


@dataclass(slots=True)
class _Waiting:
    """Rows of one type that are not written yet."""

    parts: list[TypeRows] = field(default_factory=list)
    size: int = 0


class _RowWriter:
    """Takes rows from a reader as they come, and writes or spills them, some at a time."""

    def __init__(self, job: LoadJob) -> None:
        self._job = job
        self._tells_null_apart = job.spills_records
        self.reader = RecordReader(
            job.catalog, tells_null_apart=self._tells_null_apart, edge_ids=job.edge_ids, changes=job.changes
        )
        self._waiting: dict[str, _Waiting] = {}
        self._outcome = LoadOutcome()

    def outcome(self, steps: Iterator[None]) -> LoadOutcome:
        """All that the reader gives, done."""
        for _ in steps:
            for rows in self.reader.take_rows():
                self._add(rows)
        for key in list(self._waiting):
            self._flush(key)
        self._outcome.unreadable = self.reader.faults
        return self._outcome

    def _add(self, rows: TypeRows) -> None:
        key = rows.entity.table_key
        if self._job.has_key:
            self._outcome.content += content_of(rows, tells_null_apart=self._tells_null_apart)
        if self._job.only_content:
            self._outcome.rows[key] = self._outcome.rows.get(key, 0) + rows.rows.num_rows
            return
        if rows.deleted is not None:
            count = pc.sum(rows.deleted, min_count=0).as_py()
            self._outcome.deletes[key] = self._outcome.deletes.get(key, 0) + count
        if not self._job.spills_records:
            rows = replace(rows, rows=with_vectors(rows, complete_rows(rows, None), None, self._job.models), given={})
            change = TableChange(entity=rows.entity, rows=rows.rows, origins=rows.origins)
            self._outcome.wrong.extend(row_violations(change))
        self._outcome.rows[key] = self._outcome.rows.get(key, 0) + rows.rows.num_rows
        if self.reader.faults.total or self._outcome.wrong.total:
            return
        waiting = self._waiting.setdefault(key, _Waiting())
        waiting.parts.append(rows)
        waiting.size += rows.rows.nbytes
        if waiting.size >= FLUSHED_BYTES:
            self._flush(key)

    def _flush(self, key: str) -> None:
        parts = self._waiting.pop(key).parts
        if self.reader.faults.total or self._outcome.wrong.total:
            return
        entity, splitter = entities_of(self._job.catalog)[key], self._job.splitter
        if self._job.spills_records:
            rows = pa.concat_tables([_with_given(self._job, entity, part) for part in parts])
            self._outcome.shares.append(splitter.put(rows_of(entity), rows))
            if isinstance(entity, EdgeType) and self._job.changes is not None and self._job.changes.delete is not None:
                self._outcome.shares += splitter.put_ends(entity, rows)
            return
        table = pa.concat_tables([part.rows for part in parts])
        places = np.concatenate([places_of(part.origins) for part in parts])
        fresh = all(part.generated_ids for part in parts)
        if isinstance(entity, EdgeType) and table.num_rows >= ORDERED_EDGES:
            table, order = order_edges(table, made_up_ids=fresh)
            places = places[order]
        written = write_new(self._job.tables[key].open(), table)
        before = self._outcome.written.get(key)
        self._outcome.written[key] = written if before is None else join_written([before, written])
        self._outcome.shares += splitter.keys(entity, table, places, new_ids=fresh)


def places_of(origins: Origins) -> Places:
    """The places of records, which a load knows."""
    assert origins.places is not None, "a load knows where its records stand"
    return origins.places


# --- merging ---


def rows_of(entity: EntityType) -> Stream:
    """The records of a type, for whoever merges those of the same entity."""
    return Stream(_ROWS, entity.table_key, (ID,))


def _with_given(job: LoadJob, entity: EntityType, rows: TypeRows) -> pa.Table:
    """The rows as they are spilled: with their places, with what each record gave, and with what orders changes."""
    count = rows.rows.num_rows
    columns = {name: rows.rows[name] for name in table_schema(entity).names}
    for name in entity.properties:
        columns[GIVEN + name] = rows.given.get(name, pa.repeat(True, count))
    if job.changes is not None and rows.deleted is not None:
        columns |= {ORDER: rows.rows[job.changes.orders[entity.table_key].name], DELETED: rows.deleted}
    return pa.table({**columns, PLACE: pa.array(places_of(rows.origins))})


def _from_put(entity: EntityType, rows: pa.Table) -> TypeRows:
    given = {name: flat(rows[GIVEN + name]) for name in entity.properties}
    return TypeRows(
        entity,
        rows.select(table_schema(entity).names),
        given,
        generated_ids=False,
        origins=Origins(rows[PLACE].to_numpy()),
    )


@dataclass(frozen=True, slots=True)
class MergePart:
    """The records of one type in one bucket."""

    table_key: str
    bucket: Bucket


def merge_records(job: LoadJob, part: MergePart) -> LoadOutcome:
    """Merges records with the entities that are there."""
    key = part.table_key
    entity = entities_of(job.catalog)[key]
    records = part.bucket.table(rows_of(entity))
    outcome = LoadOutcome()
    if records is None or not records.num_rows:
        return outcome
    read = _from_put(entity, _last_of_each(records))
    table = job.tables[key].open()
    known = known_rows(entity, table, flat(read.rows[ID]), part.bucket)
    there = known if known.num_rows else None
    rows = with_vectors(read, complete_rows(read, there), there, job.models)
    outcome.rows[key] = rows.num_rows
    outcome.wrong.extend(row_violations(TableChange(entity=entity, rows=rows, origins=read.origins)))
    if outcome.wrong.total:
        return outcome
    outcome.written[key] = write_change(table, rows, known.select([ID, ROW_ID, ROW_ADDRESS]))
    splitter = job.splitter
    outcome.shares += splitter.keys(entity, rows, places_of(read.origins), new_ids=False)
    outcome.shares += splitter.replaced_keys(entity, known)
    return outcome


def merge_parts(splitter: Splitter, shares: Sequence[StreamShare], wanted: int) -> list[MergePart]:
    """The parts of a merge: each type that was spilled, in each bucket."""
    keys = dict.fromkeys(share.stream.table_key for share in shares if share.stream.purpose == _ROWS)
    return [
        MergePart(key, bucket)
        for key in keys
        for bucket in buckets_of(splitter, (share for share in shares if share.stream.table_key == key), wanted)
    ]


def known_rows(entity: EntityType, table: Table, ids: pa.Array, bucket: Bucket) -> pa.Table:
    """The entities that are there of those with these ids, with what identifies their rows to storage."""
    columns = table_schema(entity).names
    addresses = bucket.table(committed_stream(ids_of(entity)))
    if addresses is None:
        return table.rows_with_ids(ids, [*columns, ROW_ID, ROW_ADDRESS])
    found = addresses.filter(pc.is_in(addresses[ID], value_set=ids)).sort_by(ROW_ADDRESS)
    rows = table.rows_at(flat(found[ROW_ADDRESS]), columns)
    return rows.append_column(ROW_ID, found[ROW_ID]).append_column(ROW_ADDRESS, found[ROW_ADDRESS])


def _last_of_each(records: pa.Table) -> pa.Table:
    """Of several records with one id, the last."""
    numbered = pa.table({ID: records[ID], "row": pa.array(np.arange(records.num_rows))})
    last = numbered.group_by(ID).aggregate([("row", "max")])
    if last.num_rows == records.num_rows:
        return records
    return records.take(last["row_max"].sort())


# --- completing ---


def complete_rows(records: TypeRows, known: pa.Table | None) -> pa.Table:
    """The rows with every column of the table: what a record does not give comes from the entity, or is the default."""
    schema = table_schema(records.entity)
    columns = []
    positions = None
    if known is not None:
        positions = pc.index_in(flat(records.rows[ID]), value_set=flat(known[ID]))
    for column in schema:
        values = records.rows[column.name]
        given = records.given.get(column.name)
        if given is not None and not pc.all(given, min_count=0).as_py():
            default = records.entity.properties[column.name].default
            values = _choose_values(given, flat(values), _fallback(column, default, known, positions, len(given)))
        columns.append(values.cast(column.type) if values.type != column.type else values)
    return pa.table(columns, schema=schema)


def _choose_values(given: pa.Array, values: pa.Array, fallback: pa.Array) -> pa.Array:
    """The value where it was given, otherwise the fallback; lists and vectors are chosen by position."""
    count = len(values)
    own = pa.array(np.arange(count))
    return pa.concat_arrays([values, fallback]).take(pc.if_else(given, own, pc.add(own, count)))


def _fallback(
    column: pa.Field, default: Value | None, known: pa.Table | None, positions: pa.Array | None, count: int
) -> pa.Array:
    plain = pa.array([default], column.type) if default is not None else pa.nulls(1, column.type)
    if known is None or positions is None:
        return plain.take(pa.array(np.zeros(count, np.int64)))
    stored = flat(known[column.name]).cast(column.type)
    return pa.concat_arrays([stored, plain]).take(pc.fill_null(positions, len(stored)))


def with_vectors(records: TypeRows, rows: pa.Table, known: pa.Table | None, models: EmbeddingSettings) -> pa.Table:
    """The completed rows of records, with the vectors that models have to fill.

    `known` are the entities among them that are there already: one that a record gives no text, or the same text,
    keeps its vector.
    """
    embedded = list(embedded_properties(records.entity))
    if not embedded or not rows.num_rows:
        return rows
    positions = None
    if known is not None:
        positions = pc.index_in(flat(rows[ID]), value_set=flat(known[ID]))
    wanted = {}
    for declared, source, _ in embedded:
        missing = pc.is_null(flat(rows[declared.name]))
        if known is None:
            wanted[declared.name] = missing
            continue
        is_new = pc.is_null(positions)
        text = flat(rows[source])
        before = flat(known[source]).cast(text.type).take(positions)
        unchanged = pc.or_(pc.fill_null(pc.equal(text, before), False), pc.and_(pc.is_null(text), pc.is_null(before)))
        stale = pc.and_(pc.invert(_gives_value(records, declared.name)), pc.invert(unchanged))
        touched = pc.and_(_mentions(records, source), pc.or_(missing, stale))
        wanted[declared.name] = pc.if_else(is_new, missing, touched)
    return fill_vectors(records.entity, rows, wanted, models)


def _mentions(records: TypeRows, name: str) -> pa.Array:
    """Which records mention a property, even with null."""
    told = records.given.get(name)
    return pa.repeat(True, records.rows.num_rows) if told is None else told


def _gives_value(records: TypeRows, name: str) -> pa.Array:
    """Which records give a value for a property."""
    return pc.and_(_mentions(records, name), pc.is_valid(flat(records.rows[name])))
