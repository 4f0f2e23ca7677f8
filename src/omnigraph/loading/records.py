"""Reads NDJSON records into one Arrow table per type, and says exactly which line is wrong."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import (
    Catalog,
    EdgeType,
    EntityType,
    NodeType,
    UnspellableKey,
    derived_ids,
    node_id,
    value_from_json,
)
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.diagnostics import did_you_mean, quoted
from omnigraph.loading.blocks import kinds_of, line_count, lines_of, only_kind_in, rows_of, text_of
from omnigraph.loading.columns import json_column
from omnigraph.loading.faults import Faults
from omnigraph.strict_json import read_json
from omnigraph.violations import Violation
from omnigraph.write.change import Origins, Places
from omnigraph.write.ids import new_ids


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


@dataclass(slots=True)
class _Chunk:
    """Raw records of one type that are not yet columns."""

    records: list[dict[str, Any]] = field(default_factory=list)
    ends: list[tuple[Any, Any]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)


class RecordReader:
    """Turns records into rows, by type, and collects everything that is wrong with them.

    With `tells_null_apart`, it matters whether a record gives null or nothing. A record is known by its place, a number
    that whoever hands over the records makes up.
    """

    def __init__(self, catalog: Catalog, *, tells_null_apart: bool) -> None:
        self.catalog = catalog
        self.faults = Faults()
        self._tells_null_apart = tells_null_apart
        self._rows: list[TypeRows] = []

    def taken(self) -> list[TypeRows]:
        """The rows of all records since the last time; those of a block with a mistake in it are not among them."""
        rows, self._rows = self._rows, []
        return rows

    def read(self, block: bytes, first_place: int) -> int:
        """Reads whole lines, type by type in one go where possible, else line by line; returns how many they are."""
        count = line_count(block)
        kind = only_kind_in(block, count)
        if kind is not None:
            self._lines_of_type(kind, block, np.arange(first_place, first_place + count, dtype=np.int64))
        elif block.strip():
            self._mixed(block, first_place)
        return count

    def _mixed(self, block: bytes, first_place: int) -> None:
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
        columns = rows_of(entity, text, len(places)) if entity is not None else None
        given = self._given(entity, columns, text) if entity is not None and columns is not None else None
        if entity is None or columns is None or given is None:
            self._lines(zip(places.tolist(), text.removesuffix(b"\n").split(b"\n"), strict=True))
            return
        stated = columns.pop(ID)
        self.add(entity, columns, stated if stated.null_count < len(stated) else None, given, Origins(places))

    def _given(self, entity: EntityType, columns: Mapping[str, pa.Array], text: bytes) -> dict[str, pa.Array] | None:
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
                record = _record_in(line)
            except ValueError as error:
                self.faults.report(Violation("record", None, f"this is not JSON: {error}", line=place))
                continue
            problem = self._record(record, place, chunks) if isinstance(record, dict) else "a record is a JSON object"
            if problem is not None:
                self.faults.report(Violation("record", None, problem, line=place))
        for entity, chunk in chunks.values():
            self._columns(entity, chunk)

    def _record(self, record: dict[str, Any], place: int, chunks: dict[str, tuple[EntityType, _Chunk]]) -> str | None:
        """Adds a record to those of its type, or says why it is none."""
        name = record.get("type") or record.get("edge")
        data = record.get("data", {})
        if not isinstance(name, str):
            return "a record has a `type` or an `edge`"
        if not isinstance(data, dict):
            return "`data` is a JSON object"
        is_edge = "edge" in record
        if is_edge and "type" in record:
            return "a record is a node or an edge, and this has both `type` and `edge`"
        entity = self.catalog.edge(name) if is_edge else self.catalog.nodes.get(name)
        if entity is None:
            known = self.catalog.edges if is_edge else self.catalog.nodes
            hint = did_you_mean(name, known)
            return f"unknown {'edge' if is_edge else 'node'} type {quoted(name)}" + (f"; {hint}" if hint else "")
        unknown = record.keys() - (_EDGE_KEYS if is_edge else _NODE_KEYS)
        if unknown:
            return f"a record has no {quoted(min(unknown))}"
        if is_edge and ("from" not in record or "to" not in record):
            return "an edge record has `from` and `to`"
        _, chunk = chunks.setdefault(entity.table_key, (entity, _Chunk()))
        chunk.records.append(data)
        chunk.places.append(place)
        if is_edge:
            chunk.ends.append((record["from"], record["to"]))
        return None

    # --- columns ---

    def _columns(self, entity: EntityType, chunk: _Chunk) -> None:
        before = self.faults.total
        origins = Origins(np.array(chunk.places, np.int64))
        known = {*entity.properties, ID}
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
        ids, generated = self._ids(entity, columns, stated, origins)
        if self.faults.total == before:
            self._rows.append(TypeRows(entity, pa.table({ID: ids, **columns}), given, generated, origins))

    def _ends(self, edge: EdgeType, chunk: _Chunk, origins: Origins) -> dict[str, pa.Array]:
        columns = {}
        for index, (column, node_name) in enumerate(((SOURCE, edge.source), (DESTINATION, edge.destination))):
            node = self.catalog.nodes[node_name]
            ends = [pair[index] for pair in chunk.ends]
            if not all(end.__class__ is str for end in ends):
                report = self.reporter(edge, column, origins)
                ends = [_end_id(node, end, position, report) for position, end in enumerate(ends)]
            columns[column] = pa.array(ends, pa.string())
        return columns

    def _ids(
        self,
        entity: EntityType,
        columns: Mapping[str, pa.Array],
        stated: pa.Array | Sequence[Any] | None,
        origins: Origins,
    ) -> tuple[pa.Array, bool]:
        """The ids of all records, and whether all of them are new."""
        report = self.reporter(entity, ID, origins)
        assert origins.places is not None
        if isinstance(entity, NodeType) and entity.key:
            if ID in entity.key:
                none = pa.nulls(len(origins.places), pa.string())
                columns = {**columns, ID: none if stated is None else _texts(stated, report)}
            return _derived_ids(entity, columns, stated, report), False
        fresh = new_ids(len(origins.places))
        if stated is None:
            return fresh, True
        texts = _texts(stated, report)
        if texts.null_count == len(texts):
            return fresh, True
        for position in pc.indices_nonzero(pc.equal(pc.binary_length(texts), 0)).to_pylist():
            report(position, _NO_ID)
        return (pc.coalesce(texts, fresh) if texts.null_count else texts), False

    def reporter(self, entity: EntityType, property: str | None, origins: Origins) -> Callable[[int, str], None]:
        """Takes the position of a record and what is wrong with it."""
        return lambda position, problem: self.faults.report(origins.violation(entity, property, problem, position))


_NODE_KEYS = frozenset({"type", "data"})
_EDGE_KEYS = frozenset({"edge", "from", "to", "data"})
_NO_ID = "an id is a text, and not an empty one"


def _texts(stated: pa.Array | Sequence[Any], report: Callable[[int, str], None]) -> pa.Array:
    """Ids that records give themselves, as a column; what is no text is reported."""
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
                report(position, f"{quoted(str(identity))} does not agree with the key, which gives {quoted(derived)}")
    return ids


def _record_in(line: bytes) -> Any:
    """The JSON of a line, which may begin with a byte order mark."""
    return read_json(line.decode("utf-8-sig"))


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
        report(position, f"the end of an edge is the id or the key of a {quoted(node.name)}")
        return None
    try:
        return node_id([value_from_json(value, type) for value, type in zip(given, types, strict=True)], types)
    except ValueError as error:
        report(position, str(error))
        return None
