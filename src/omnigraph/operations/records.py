"""Reads NDJSON records into one Arrow table per type, and says exactly which line is wrong."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
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
from omnigraph.errors import ValidationError, Violation
from omnigraph.operations.blocks import kinds_of, lines_of, rows_of
from omnigraph.operations.columns import json_column
from omnigraph.write.change import Origins
from omnigraph.write.ids import new_ids
from omnigraph.write.validate import SHOWN_VIOLATIONS

BLOCK_BYTES = 16 * 1024 * 1024

Progress = Callable[[int, int], None]
"""Takes how many bytes were read, and how many there are."""


@dataclass(frozen=True, slots=True)
class TypeRows:
    """The records of one type: their rows, which properties each record gave, and where it stood.

    A property that is not in `given` was given by every record, or the records do not tell null from nothing.
    """

    entity: EntityType
    rows: pa.Table
    given: Mapping[str, pa.ChunkedArray]
    generated_ids: bool
    origins: Origins


@dataclass(slots=True)
class _Chunk:
    """Raw records of one type that are not yet columns."""

    records: list[dict[str, Any]] = field(default_factory=list)
    ends: list[tuple[Any, Any]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


class RecordReader:
    """Collects the records of a load, by type, and everything that is wrong with them.

    With `tells_null_apart`, it matters whether a record gives null or nothing.
    """

    def __init__(self, catalog: Catalog, *, tells_null_apart: bool) -> None:
        self._catalog = catalog
        self._tells_null_apart = tells_null_apart
        self._names: list[str] = []
        self._tables: dict[str, list[TypeRows]] = {}
        self._shown: list[Violation] = []
        self._violations = 0

    def read(self, path: Path, progress: Progress | None = None) -> None:
        """Reads all records of a file, a block at a time."""
        self._names.append(str(path))
        total, done, line = path.stat().st_size, 0, 1
        with path.open("rb") as file:
            rest = b""
            while data := file.read(BLOCK_BYTES):
                done += len(data)
                block, newline, rest = (rest + data).rpartition(b"\n")
                if newline:
                    self._block(block, line)
                    line += block.count(b"\n") + 1
                if progress is not None:
                    progress(done, total)
        self._block(rest, line)

    def result(self) -> list[TypeRows]:
        """All records by type; raises `ValidationError` when one could not be read."""
        if self._violations:
            raise ValidationError(self._shown, self._violations)
        return [_joined(parts) for parts in self._tables.values()]

    # --- blocks ---

    def _block(self, block: bytes, first_line: int) -> None:
        """Reads whole lines, type by type in one go where possible, else line by line."""
        if not block.strip():
            return
        try:
            lines = lines_of(block)
            kinds = kinds_of(lines)
        except pa.ArrowInvalid:
            kinds = None
        if kinds is None:
            self._lines(enumerate(block.split(b"\n"), first_line))
            return
        numbers = np.arange(first_line, first_line + len(lines), dtype=np.int64)
        if isinstance(kinds, str):
            self._lines_of_type(kinds, block, numbers)
            return
        for kind in pc.unique(kinds).to_pylist():
            positions = pc.indices_nonzero(pc.equal(kinds, kind))
            text = "\n".join(lines.take(positions).to_pylist()).encode()
            self._lines_of_type(kind, text, numbers[positions.to_numpy()])

    def _lines_of_type(self, kind: str, text: bytes, numbers: "np.ndarray[Any, np.dtype[np.int64]]") -> None:
        role, _, name = kind.partition(":")
        entity = self._catalog.edge(name) if role == "edge" else self._catalog.nodes.get(name)
        table = rows_of(entity, text, len(numbers)) if entity is not None else None
        if table is not None and self._tells_null_apart:
            table = None if any(column.null_count for column in table.drop_columns([ID]).columns) else table
        if entity is None or table is None:
            self._lines(zip(numbers.tolist(), text.split(b"\n"), strict=True))
            return
        origins = Origins((self._names[-1],), np.zeros(len(numbers), np.int64), numbers)
        columns = {
            name: column.combine_chunks() for name, column in zip(table.column_names, table.columns, strict=True)
        }
        stated = columns[ID].to_pylist() if columns[ID].null_count < len(numbers) else None
        self._add(entity, columns, stated, {}, origins)

    # --- lines ---

    def _lines(self, lines: Iterable[tuple[int, bytes]]) -> None:
        chunks: dict[str, tuple[EntityType, _Chunk]] = {}
        for number, line in lines:
            if not line.strip():
                continue
            try:
                record = json.loads(line, parse_constant=_no_constant)
            except ValueError as error:
                self._report(Violation("record", None, f"this is not JSON: {error}", self._names[-1], number))
                continue
            problem = self._record(record, number, chunks) if isinstance(record, dict) else "a record is a JSON object"
            if problem is not None:
                self._report(Violation("record", None, problem, self._names[-1], number))
        for entity, chunk in chunks.values():
            self._columns(entity, chunk)

    def _record(self, record: dict[str, Any], number: int, chunks: dict[str, tuple[EntityType, _Chunk]]) -> str | None:
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
        entity = self._catalog.edge(name) if is_edge else self._catalog.nodes.get(name)
        if entity is None:
            known = self._catalog.edges if is_edge else self._catalog.nodes
            hint = did_you_mean(name, known)
            return f"unknown {'edge' if is_edge else 'node'} type {quoted(name)}" + (f"; {hint}" if hint else "")
        unknown = record.keys() - (_EDGE_KEYS if is_edge else _NODE_KEYS)
        if unknown:
            return f"a record has no {quoted(min(unknown))}"
        if is_edge and ("from" not in record or "to" not in record):
            return "an edge record has `from` and `to`"
        _, chunk = chunks.setdefault(entity.table_key, (entity, _Chunk()))
        chunk.records.append(data)
        chunk.lines.append(number)
        if is_edge:
            chunk.ends.append((record["from"], record["to"]))
        return None

    # --- columns ---

    def _columns(self, entity: EntityType, chunk: _Chunk) -> None:
        before = self._violations
        numbers = np.array(chunk.lines, np.int64)
        origins = Origins((self._names[-1],), np.zeros(len(numbers), np.int64), numbers)
        known = {*entity.properties, ID}
        for position, record in enumerate(chunk.records):
            if not record.keys() <= known:
                name = min(record.keys() - known)
                hint = did_you_mean(name, entity.properties)
                problem = "no such property" + (f"; {hint}" if hint else "")
                self._report(origins.violation(entity, name, problem, position))
        columns, given = {}, {}
        for declared in entity.properties.values():
            values = [record.get(declared.name) for record in chunk.records]
            columns[declared.name] = json_column(values, declared.type, self._reporter(entity, declared.name, origins))
            given[declared.name] = pa.chunked_array([[declared.name in record for record in chunk.records]])
        if isinstance(entity, EdgeType):
            columns |= self._ends(entity, chunk, origins)
        if self._violations == before:
            self._add(entity, columns, [record.get(ID) for record in chunk.records], given, origins)

    def _add(
        self,
        entity: EntityType,
        columns: Mapping[str, pa.Array],
        stated: Sequence[Any] | None,
        given: Mapping[str, pa.ChunkedArray],
        origins: Origins,
    ) -> None:
        """Gives every record its id and keeps the rows; `stated` are the ids that records give themselves."""
        before = self._violations
        ids, generated = self._ids(entity, columns, stated, origins)
        if self._violations == before:
            table = pa.table({ID: ids, **{name: column for name, column in columns.items() if name != ID}})
            rows = TypeRows(entity, table, given, generated, origins)
            self._tables.setdefault(entity.table_key, []).append(rows)

    def _ends(self, edge: EdgeType, chunk: _Chunk, origins: Origins) -> dict[str, pa.Array]:
        columns = {}
        for index, (column, node_name) in enumerate(((SOURCE, edge.source), (DESTINATION, edge.destination))):
            node = self._catalog.nodes[node_name]
            ends = [pair[index] for pair in chunk.ends]
            if not all(end.__class__ is str for end in ends):
                report = self._reporter(edge, column, origins)
                ends = [_end_id(node, end, position, report) for position, end in enumerate(ends)]
            columns[column] = pa.array(ends, pa.string())
        return columns

    def _ids(
        self, entity: EntityType, columns: Mapping[str, pa.Array], stated: Sequence[Any] | None, origins: Origins
    ) -> tuple[pa.Array, bool]:
        """The ids of all records, and whether all of them are new."""
        report = self._reporter(entity, ID, origins)
        if isinstance(entity, NodeType) and entity.key:
            return self._derived_ids(entity, stated, columns, report), False
        fresh = new_ids(len(origins.lines))
        if stated is None or all(identity is None for identity in stated):
            return fresh, True
        for position, identity in enumerate(stated):
            if identity is not None and not (isinstance(identity, str) and identity):
                report(position, "an id is a text, and not an empty one")
        texts = [each if isinstance(each, str) else new for each, new in zip(stated, fresh.to_pylist(), strict=True)]
        return pa.array(texts, pa.string()), False

    def _derived_ids(
        self,
        node: NodeType,
        stated: Sequence[Any] | None,
        columns: Mapping[str, pa.Array],
        report: Callable[[int, str], None],
    ) -> pa.Array:
        keys = [columns[name] for name in node.key]
        try:
            ids = derived_ids(keys)
        except UnspellableKey as error:
            wrong = [row for row in range(len(keys[0])) if any(_is_unspellable(key[row]) for key in keys)]
            for position in wrong:
                report(position, str(error))
            return pa.nulls(len(keys[0]), pa.string())
        if stated is not None and ID not in node.key:
            for position, (identity, derived) in enumerate(zip(stated, ids.to_pylist(), strict=True)):
                if identity is not None and identity != derived:
                    report(
                        position, f"{quoted(str(identity))} does not agree with the key, which gives {quoted(derived)}"
                    )
        return ids

    def _reporter(self, entity: EntityType, property: str, origins: Origins) -> Callable[[int, str], None]:
        return lambda position, problem: self._report(origins.violation(entity, property, problem, position))

    def _report(self, violation: Violation) -> None:
        self._violations += 1
        if len(self._shown) < SHOWN_VIOLATIONS:
            self._shown.append(violation)


_NODE_KEYS = frozenset({"type", "data"})
_EDGE_KEYS = frozenset({"edge", "from", "to", "data"})


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


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


def _joined(parts: Sequence[TypeRows]) -> TypeRows:
    """All rows of a type; a property that only some parts know the presence of was given in the others."""
    first = parts[0]
    names = {name for part in parts for name in part.given}
    given = {
        name: pa.chunked_array(
            [
                chunk
                for part in parts
                for chunk in (part.given[name].chunks if name in part.given else [pa.repeat(True, part.rows.num_rows)])
            ],
            pa.bool_(),
        )
        for name in names
    }
    return TypeRows(
        first.entity,
        pa.concat_tables([part.rows.select(first.rows.column_names) for part in parts]),
        given,
        all(part.generated_ids for part in parts),
        _joined_origins([part.origins for part in parts]),
    )


def _joined_origins(parts: Sequence[Origins]) -> Origins:
    names = tuple(dict.fromkeys(name for part in parts for name in part.names))
    files = [np.full(len(part.lines), names.index(part.names[0]), np.int64) for part in parts]
    return Origins(names, np.concatenate(files), np.concatenate([part.lines for part in parts]))
