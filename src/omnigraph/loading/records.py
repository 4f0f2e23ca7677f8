"""Reads NDJSON records into one Arrow table per type, and says exactly which line is wrong."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from omnigraph.catalog import (
    Catalog,
    EdgeType,
    EntityType,
    NodeType,
    PropertyType,
    Scalar,
    UnspellableKey,
    Vector,
    all_finite,
    arrow_type,
    derived_ids,
    node_id,
    value_from_json,
)
from omnigraph.catalog.model import DESTINATION, ID, SOURCE, TYPED_ID
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import did_you_mean, quoted
from omnigraph.loading.alike import rows_alike
from omnigraph.loading.change_columns import ChangeColumns, read_catalog
from omnigraph.loading.columns import json_column
from omnigraph.loading.edge_ids import EdgeIds, formed_ids
from omnigraph.strict_json import read_json
from omnigraph.violations import Violation
from omnigraph.write.change import Origins, Places
from omnigraph.write.ids import new_ids
from omnigraph.write.validate import SHOWN_VIOLATIONS


@dataclass(slots=True)
class Faults:
    """Violations as they are found. Only the first are kept, so that a file full of mistakes costs no memory."""

    shown: list[Violation] = field(default_factory=list)
    total: int = 0

    def report(self, violation: Violation) -> None:
        """One more."""
        self.total += 1
        if len(self.shown) < SHOWN_VIOLATIONS:
            self.shown.append(violation)

    def extend(self, violations: Iterable[Violation]) -> None:
        """All of these."""
        for violation in violations:
            self.report(violation)

    def add(self, other: "Faults") -> None:
        """What another has found, after what is here."""
        self.shown += other.shown[: SHOWN_VIOLATIONS - len(self.shown)]
        self.total += other.total


# The usual order of keys. Records with another order are valid too, and are read line by line.
_BEGINNING = r'^\{\s*"(?P<kind>type|edge)"\s*:\s*"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"'
_READ_AS_TEXT = (Scalar.DATE, Scalar.DATETIME)


def lines_of(block: bytes) -> pa.Array:
    """The lines of a block; empty ones are kept, so that positions are line numbers."""
    table = pa.csv.read_csv(
        pa.py_buffer(block),
        read_options=pa.csv.ReadOptions(column_names=["line"], block_size=max(len(block), 1) + 1),
        parse_options=pa.csv.ParseOptions(delimiter="\x01", quote_char=False, ignore_empty_lines=False),
        convert_options=pa.csv.ConvertOptions(column_types={"line": pa.string()}, strings_can_be_null=False),
    )
    return table["line"].combine_chunks()


def line_count(block: bytes) -> int:
    """How many lines a block has; the last one may have a newline at its end."""
    return block.count(b"\n") + (not block.endswith(b"\n"))


def only_kind_in(block: bytes, count: int) -> str | None:
    """``type:Person`` or ``edge:Knows`` when each of `count` lines begins exactly like the first; otherwise None."""
    first = re.match(_BEGINNING.encode(), block)
    if first is None or block.count(b"\n" + first[0]) + 1 != count:
        return None
    return f"{first['kind'].decode()}:{first['name'].decode()}"


def kinds_of(lines: pa.Array) -> pa.Array | None:
    """For each line ``type:Person`` or ``edge:Knows``; None when a line begins in another way."""
    found = pc.extract_regex(lines, _BEGINNING)
    if found.null_count:
        return None
    return pc.binary_join_element_wise(found.field("kind"), found.field("name"), ":")


def text_of(lines: pa.Array) -> bytes:
    """These lines as one text."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    text: bytes = pc.binary_join(whole, "\n")[0].as_buffer().to_pybytes()
    return text


def rows_of(entity: EntityType, text: bytes, count: int, *, needs_ends: bool = True) -> dict[str, pa.Array] | None:
    """The records of `count` lines as columns, null where nothing is given; None when they need a closer look.

    The ids that records give themselves are the column `id`. With `needs_ends`, edges without ends need that look too.
    """
    if any(declared.type is Scalar.BLOB for declared in entity.properties.values()):
        return None  # the bytes of a Blob are not those of its JSON text
    if not _is_text(text):
        return None  # Arrow would store the bytes as they are, and the rows could not be read again
    alike = rows_alike(entity, text, count)
    if alike is not None:
        return alike
    try:
        table = pa.json.read_json(
            pa.py_buffer(text),
            read_options=pa.json.ReadOptions(block_size=1 << 22, use_threads=pa.cpu_count() > 1),
            parse_options=pa.json.ParseOptions(
                explicit_schema=_record_schema(entity), unexpected_field_behavior="error"
            ),
        )
        return _record_columns(entity, table, count, needs_ends=needs_ends)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return None


def _is_text(content: bytes) -> bool:
    if content.isascii():
        return True
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _record_columns(entity: EntityType, table: pa.Table, count: int, *, needs_ends: bool) -> dict[str, pa.Array] | None:
    if table.num_rows != count:
        return None
    data = table["data"].combine_chunks()
    columns = {}
    for declared in entity.properties.values():
        column = pc.struct_field(data, ID if declared.name == TYPED_ID else declared.name)
        column = column.cast(arrow_type(declared.type))
        if not all_finite(column):
            return None
        columns[declared.name] = column
    if TYPED_ID in columns:
        columns[ID] = pa.nulls(count, pa.string())
    elif ID not in columns:
        columns[ID] = pc.struct_field(data, ID)
    if isinstance(entity, EdgeType):
        columns |= {SOURCE: table["from"].combine_chunks(), DESTINATION: table["to"].combine_chunks()}
        if needs_ends and (columns[SOURCE].null_count or columns[DESTINATION].null_count):
            return None
    return columns


def _record_schema(entity: EntityType) -> pa.Schema:
    properties = {declared.name: _json_type(declared.type) for declared in entity.properties.values()}
    if TYPED_ID in properties:
        properties[ID] = properties.pop(TYPED_ID)
    data = pa.struct([pa.field(name, type) for name, type in {ID: pa.string(), **properties}.items()])
    if isinstance(entity, EdgeType):
        return pa.schema([("edge", pa.string()), ("from", pa.string()), ("to", pa.string()), ("data", data)])
    return pa.schema([("type", pa.string()), ("data", data)])


def _json_type(type: PropertyType) -> pa.DataType:
    if isinstance(type, Vector):
        return pa.list_(pa.float32())
    return pa.string() if type in _READ_AS_TEXT else arrow_type(type)


@dataclass(frozen=True, slots=True)
class TypeRows:
    """The records of one type: their rows, which properties each record gave, and where it stood.

    A property that is not in `given` was given by every record, or the records do not tell null from nothing.
    """

    entity: EntityType
    rows: pa.Table
    given: Mapping[str, pa.Array]
    generated_ids: bool
    origins: Origins
    stated: pa.Array | None = None
    """Which records give their ids themselves, if some do not."""
    deleted: pa.Array | None = None
    """Of changes, which delete."""


@dataclass(frozen=True, slots=True)
class _Ids:
    """The ids of records, whether all of them are made up, and which are stated, if some are not."""

    values: pa.Array
    are_new: bool = False
    stated: pa.Array | None = None


@dataclass(slots=True)
class _Chunk:
    """Raw records of one type that are not yet columns."""

    records: list[dict[str, Any]] = field(default_factory=list)
    ends: list[tuple[Any, Any]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)


class RecordReader:
    """Turns records into rows, by type, and collects everything that is wrong with them.

    With `tells_null_apart`, it matters whether a record gives null or nothing. A record is known by its place, a number
    that the caller assigns. With `changes`, records say in which order they came, and those that delete need no ends.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        tells_null_apart: bool,
        edge_ids: EdgeIds | None = None,
        changes: ChangeColumns | None = None,
    ) -> None:
        self.catalog = read_catalog(changes, catalog)
        self.needs_ends = changes is None or changes.delete is None
        self._changes = changes
        self._edge_ids = edge_ids or {}
        self.faults = Faults()
        self._tells_null_apart = tells_null_apart
        self._rows: list[TypeRows] = []

    def take_rows(self) -> list[TypeRows]:
        """The rows of all records since the last time; those of a block with a mistake in it are not among them."""
        rows, self._rows = self._rows, []
        return rows

    def read(self, block: bytes, first_place: int) -> int:
        """Reads whole lines, type by type in one go where possible, otherwise line by line; returns their number."""
        count = line_count(block)
        kind = only_kind_in(block, count)
        if kind is not None:
            self._lines_of_type(kind, block, np.arange(first_place, first_place + count, dtype=np.int64))
        elif block.strip():
            self._read_mixed(block, first_place)
        return count

    def _read_mixed(self, block: bytes, first_place: int) -> None:
        try:
            lines = lines_of(block)
            places = np.arange(first_place, first_place + len(lines), dtype=np.int64)
            filled = pc.greater(pc.binary_length(lines), 0)
            if not pc.all(filled).as_py():
                lines, places = lines.filter(filled), places[filled.to_numpy(zero_copy_only=False)]
            kinds = kinds_of(lines)
        except pa.ArrowInvalid:
            kinds = None
        if kinds is None:
            self._lines(enumerate(block.split(b"\n"), first_place))
            return
        for kind in pc.unique(kinds).to_pylist():
            positions = pc.indices_nonzero(pc.equal(kinds, kind))
            self._lines_of_type(kind, text_of(lines.take(positions)), places[positions.to_numpy()])

    def _lines_of_type(self, kind: str, text: bytes, places: Places) -> None:
        role, _, name = kind.partition(":")
        entity = self.catalog.edge(name) if role == "edge" else self.catalog.nodes.get(name)
        columns = None
        if entity is not None:
            columns = rows_of(entity, text, len(places), needs_ends=self.needs_ends)
        given = self._given_masks(entity, columns, text) if entity is not None and columns is not None else None
        if entity is None or columns is None or given is None:
            self._lines(zip(places.tolist(), text.removesuffix(b"\n").split(b"\n"), strict=True))
            return
        stated = columns.pop(ID)
        self.add(entity, columns, stated if stated.null_count < len(stated) else None, given, Origins(places))

    def _given_masks(
        self, entity: EntityType, columns: Mapping[str, pa.Array], text: bytes
    ) -> dict[str, pa.Array] | None:
        """Where a property was given, for those where it matters; None when the columns alone do not tell."""
        doubtful = [
            declared.name
            for declared in entity.properties.values()
            if columns[declared.name].null_count and (self._tells_null_apart or declared.default is not None)
        ]
        if doubtful and b"null" in text:
            return None
        return {name: columns[name].is_valid() for name in doubtful}

    # --- lines ---

    def _lines(self, lines: Iterable[tuple[int, bytes]]) -> None:
        chunks: dict[str, tuple[EntityType, _Chunk]] = {}
        for place, line in lines:
            if not line.strip():
                continue
            try:
                record = read_json(line.decode("utf-8-sig"))  # without a byte order mark
            except ValueError as error:
                self.faults.report(Violation("record", None, f"invalid JSON: {error}", line=place))
                continue
            problem = self._record(record, place, chunks) if isinstance(record, dict) else "expected a JSON object"
            if problem is not None:
                self.faults.report(Violation("record", None, problem, line=place))
        for entity, chunk in chunks.values():
            self._columns(entity, chunk)

    def _record(self, record: dict[str, Any], place: int, chunks: dict[str, tuple[EntityType, _Chunk]]) -> str | None:
        """Adds a record to those of its type; returns what is wrong with one that is not a record."""
        name = record.get("type") or record.get("edge")
        data = record.get("data", {})
        if not isinstance(name, str):
            return "expected a text in `type` or `edge`"
        if not isinstance(data, dict):
            return "`data` must be a JSON object"
        is_edge = "edge" in record
        if is_edge and "type" in record:
            return "expected either `type` or `edge`, found both"
        entity = self.catalog.edge(name) if is_edge else self.catalog.nodes.get(name)
        if entity is None:
            known = self.catalog.edges if is_edge else self.catalog.nodes
            hint = did_you_mean(name, known)
            return f"unknown {'edge' if is_edge else 'node'} type {quoted(name)}" + (f"; {hint}" if hint else "")
        unknown = record.keys() - (_EDGE_KEYS if is_edge else _NODE_KEYS)
        if unknown:
            return f"unknown field {quoted(min(unknown))}"
        if is_edge and self.needs_ends and ("from" not in record or "to" not in record):
            return "an edge record needs `from` and `to`"
        _, chunk = chunks.setdefault(entity.table_key, (entity, _Chunk()))
        chunk.records.append(data)
        chunk.places.append(place)
        if is_edge:
            chunk.ends.append((record.get("from"), record.get("to")))
        return None

    # --- columns ---

    def _columns(self, entity: EntityType, chunk: _Chunk) -> None:
        before = self.faults.total
        origins = Origins(np.array(chunk.places, np.int64))
        known = {*entity.properties, ID}
        if TYPED_ID in entity.properties:
            chunk.records = [_with_typed_id(record) for record in chunk.records]
        for position, record in enumerate(chunk.records):
            if not record.keys() <= known:
                name = min(record.keys() - known)
                hint = did_you_mean(name, entity.properties)
                problem = "no such property" + (f"; {hint}" if hint else "")
                self.faults.report(origins.violation(entity, name, problem, position))
        columns, given = {}, {}
        for declared in entity.properties.values():
            values = [record.get(declared.name) for record in chunk.records]
            columns[declared.name] = json_column(values, declared.type, self.reporter(entity, declared.name, origins))
            given[declared.name] = pa.array([declared.name in record for record in chunk.records])
        if isinstance(entity, EdgeType):
            columns |= self._ends(entity, chunk, origins)
        if self.faults.total == before:
            columns.pop(ID, None)
            self.add(entity, columns, [record.get(ID) for record in chunk.records], given, origins)

    def add(
        self,
        entity: EntityType,
        columns: Mapping[str, pa.Array],
        stated: pa.Array | Sequence[Any] | None,
        given: Mapping[str, pa.Array],
        origins: Origins,
    ) -> None:
        """Gives every record its id and keeps the rows; `stated` are the ids that records give themselves."""
        before = self.faults.total
        deleted = None if self._changes is None else self._deletions(self._changes, entity, columns, origins)
        ids = self._ids(entity, columns, stated, origins)
        if self.faults.total == before:
            rows = pa.table({ID: ids.values, **columns})
            self._rows.append(TypeRows(entity, rows, given, ids.are_new, origins, ids.stated, deleted))

    def _deletions(
        self, changes: ChangeColumns, entity: EntityType, columns: Mapping[str, pa.Array], origins: Origins
    ) -> pa.Array:
        """Which records delete; others that lack an end are reported."""
        assert origins.places is not None
        deleted = changes.find_deletions(entity, columns, len(origins.places), self.reporter(entity, None, origins))
        for column in (SOURCE, DESTINATION) if isinstance(entity, EdgeType) else ():
            report = self.reporter(entity, column, origins)
            for position in pc.indices_nonzero(pc.and_(columns[column].is_null(), pc.invert(deleted))).to_pylist():
                report(position, NO_END)
        return deleted

    def _ends(self, edge: EdgeType, chunk: _Chunk, origins: Origins) -> dict[str, pa.Array]:
        columns = {}
        for index, (column, node_name) in enumerate(((SOURCE, edge.source), (DESTINATION, edge.destination))):
            node = self.catalog.nodes[node_name]
            ends = [pair[index] for pair in chunk.ends]
            if not all(end.__class__ is str for end in ends):
                report = self.reporter(edge, column, origins)
                ends = [
                    None if end is None and not self.needs_ends else _end_id(node, end, position, report)
                    for position, end in enumerate(ends)
                ]
            columns[column] = pa.array(ends, pa.string())
        return columns

    def _ids(
        self,
        entity: EntityType,
        columns: Mapping[str, pa.Array],
        stated: pa.Array | Sequence[Any] | None,
        origins: Origins,
    ) -> "_Ids":
        """The ids of all records."""
        report = self.reporter(entity, ID, origins)
        assert origins.places is not None
        if isinstance(entity, NodeType) and entity.key:
            if ID in entity.key:
                none = pa.nulls(len(origins.places), pa.string())
                columns = {**columns, ID: none if stated is None else _texts(stated, report)}
            return _Ids(_derived_ids(entity, columns, stated, report))
        count = len(origins.places)
        texts = pa.nulls(count, pa.string()) if stated is None else _texts(stated, report)
        if isinstance(entity, EdgeType) and entity.table_key in self._edge_ids and texts.null_count:
            return _Ids(self._with_formed_ids(entity, columns, texts, report), stated=texts.is_valid())
        if self._changes is not None:
            for position in pc.indices_nonzero(texts.is_null()).to_pylist():
                report(position, _NO_ID_OF_CHANGE)
        if texts.null_count == count:
            return _Ids(new_ids(count), are_new=True)
        for position in pc.indices_nonzero(pc.equal(pc.binary_length(texts), 0)).to_pylist():
            report(position, _NO_ID)
        if not texts.null_count:
            return _Ids(texts)
        return _Ids(pc.coalesce(texts, new_ids(count)), stated=texts.is_valid())

    def _with_formed_ids(
        self, edge: EdgeType, columns: Mapping[str, pa.Array], texts: pa.Array, report: Callable[[int, str], None]
    ) -> pa.Array:
        """The ids that edges give themselves, and those that are formed of other columns for the rest."""
        names = self._edge_ids[edge.table_key]
        lacking = pc.indices_nonzero(texts.is_null())
        own = {name: columns[name].take(lacking) for name in {SOURCE, *names} & columns.keys()}
        formed = formed_ids(edge, own, names, lambda at, problem: report(lacking[at].as_py(), problem))
        return pc.replace_with_mask(texts, texts.is_null(), formed)

    def reporter(self, entity: EntityType, property: str | None, origins: Origins) -> Callable[[int, str], None]:
        """Takes the position of a record and what is wrong with it."""
        return lambda position, problem: self.faults.report(origins.violation(entity, property, problem, position))


def _with_typed_id(record: dict[str, Any]) -> dict[str, Any]:
    """A record that gives its key as `id`, with the name that the property has in the table."""
    if ID not in record or TYPED_ID in record:
        return record
    return {TYPED_ID if name == ID else name: value for name, value in record.items()}


_NODE_KEYS = frozenset({"type", "data"})
_EDGE_KEYS = frozenset({"edge", "from", "to", "data"})
_NO_ID = "an id must be a non-empty text"
_NO_ID_OF_CHANGE = "a change needs the id of what it changes: give it, or form that of an edge with `edge_id`"
NO_END = "an end of the edge is missing"


def _texts(stated: pa.Array | Sequence[Any], report: Callable[[int, str], None]) -> pa.Array:
    """Ids that records give themselves, as a column; an id that is not a text is reported."""
    if isinstance(stated, pa.Array):
        return stated
    for position, identity in enumerate(stated):
        if identity is not None and not isinstance(identity, str):
            report(position, _NO_ID)
    return pa.array([identity if isinstance(identity, str) else None for identity in stated], pa.string())


def _derived_ids(
    node: NodeType,
    columns: Mapping[str, pa.Array],
    stated: pa.Array | Sequence[Any] | None,
    report: Callable[[int, str], None],
) -> pa.Array:
    keys = [columns[name] for name in node.key]
    try:
        ids = derived_ids(keys)
    except UnspellableKey as error:
        for position in range(len(keys[0])):
            if any(_is_unspellable(key[position]) for key in keys):
                report(position, str(error))
        return pa.nulls(len(keys[0]), pa.string())
    if stated is not None and ID not in node.key:
        if isinstance(stated, pa.Array) and pc.all(pc.equal(stated, ids), min_count=0).as_py() is not False:
            return ids
        given = stated.to_pylist() if isinstance(stated, pa.Array) else stated
        for position, (identity, derived) in enumerate(zip(given, ids.to_pylist(), strict=True)):
            if identity is not None and identity != derived:
                report(position, f"{quoted(str(identity))} does not match the key, which gives {quoted(derived)}")
    return ids


def _is_unspellable(value: pa.Scalar) -> bool:
    plain = value.as_py()
    return plain is None or (isinstance(plain, float) and not math.isfinite(plain))


def _end_id(node: NodeType, end: Any, position: int, report: Callable[[int, str], None]) -> str | None:
    """The id of a node by what a record gives: its id as a text, or its key as other values."""
    if isinstance(end, str):
        return end
    types = [node.properties[name].type for name in node.key]
    given = end if isinstance(end, list) else [end]
    if len(given) != len(types):
        report(position, f"the end of an edge must be the id or the key of a {quoted(node.name)}")
        return None
    try:
        return node_id([value_from_json(value, type) for value, type in zip(given, types, strict=True)], types)
    except ValueError as error:
        report(position, str(error))
        return None
