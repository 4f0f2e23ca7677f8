"""Converts tables (Parquet, CSV, Arrow, frames) into the rows of a type, and checks their columns.

A column is converted as a whole where Arrow can do it without losing anything. Only one that has something unusual in
it is read value by value, by the rules for JSON, which also finds the exact row that is wrong.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from omnigraph.catalog import (
    EdgeType,
    EntityType,
    NodeType,
    PropertyType,
    Scalar,
    Vector,
    all_finite,
    arrow_type,
    derived_ids,
)
from omnigraph.catalog.model import DESTINATION, ID, SOURCE, TYPED_ID
from omnigraph.catalog.types import FLOATS, INTEGERS, List
from omnigraph.compute_later import pc
from omnigraph.diagnostics import did_you_mean
from omnigraph.loading.columns import Report, flat, json_column
from omnigraph.loading.records import NO_END, RecordReader
from omnigraph.strict_json import read_json
from omnigraph.write.change import Origins

_ENDS = {SOURCE: ("from", SOURCE), DESTINATION: ("to", DESTINATION)}
TWO_COLUMNS = "there are two columns of this name; rename or drop one"
_NOT_TEXT = "the name of a column must be text"
_SKIPPED = ("type", "edge")
"""Columns that may say again which type the rows are of."""


def read_table(reader: RecordReader, entity: EntityType, table: pa.Table, first_place: int) -> None:
    """Reads the rows of a table as entities of one type; a column that is not there was not given."""
    if not table.num_rows:
        return
    before = reader.faults.total
    origins = Origins(np.arange(first_place, first_place + table.num_rows, dtype=np.int64))
    faulty = wrong_names(table)
    if faulty is not None:
        reader.reporter(entity, faulty.column, origins)(0, faulty.problem)
        return
    if not _is_whole(reader, entity, table, origins):
        return
    named = {name: flat(column) for name, column in zip(table.column_names, table.columns, strict=True)}
    ends = _ends(reader, entity, named, table.num_rows, origins) if isinstance(entity, EdgeType) else {}
    if TYPED_ID in entity.properties and TYPED_ID not in named and ID in named:
        named[TYPED_ID] = named.pop(ID)
    stated = named.pop(ID, None)
    if ID in entity.properties and stated is not None:
        named[ID] = stated
    columns, given = dict(ends), {}
    for declared in entity.properties.values():
        values = named.pop(declared.name, None)
        if values is None:
            columns[declared.name] = pa.nulls(table.num_rows, arrow_type(declared.type))
            given[declared.name] = pa.repeat(False, table.num_rows)
        else:
            report = reader.reporter(entity, declared.name, origins)
            columns[declared.name] = convert_column(values, declared.type, report)
    for name in named.keys() - {*_SKIPPED}:
        hint = did_you_mean(name, entity.properties)
        problem = "no such property" + (f"; {hint}" if hint else "")
        reader.faults.report(origins.violation(entity, name, problem, 0))
    if stated is not None:
        stated = convert_column(stated, Scalar.STRING, reader.reporter(entity, ID, origins))
        stated = None if stated.null_count == len(stated) else stated
    if reader.faults.total == before:
        columns.pop(ID, None)
        reader.add(entity, columns, stated, given, origins)


class WrongName(NamedTuple):
    """What is wrong with the names of columns; `column` is the name, if it can be shown."""

    column: str | None
    problem: str


def wrong_names(table: pa.Table | pa.Schema | Iterable[object]) -> WrongName | None:
    """The first name that cannot be one of a column: two columns have it, or it is not text; None if all can."""
    try:
        schema = table.schema if isinstance(table, pa.Table) else table
        names = schema.names if isinstance(schema, pa.Schema) else schema
    except UnicodeDecodeError as error:
        return WrongName(None, f"{_NOT_TEXT}, found the bytes {error.object!r}")
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str):
            return WrongName(None, f"{_NOT_TEXT}, found {name!r} ({name.__class__.__name__})")
        try:
            name.encode()
        except UnicodeEncodeError:
            return WrongName(None, f"{_NOT_TEXT}, found half of a surrogate pair in {name!a}")
        if name in seen:
            return WrongName(name, TWO_COLUMNS)
        seen.add(name)
    return None


def _is_whole(reader: RecordReader, entity: EntityType, table: pa.Table, origins: Origins) -> bool:
    """Whether Arrow's columns are valid. They are not trusted: invalid texts would be stored and could not be read
    again, and wrong offsets would be followed."""
    before = reader.faults.total
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            reader.reporter(entity, name, origins)(0, f"the column cannot be read: {error}")
    return reader.faults.total == before


def _ends(
    reader: RecordReader, edge: EdgeType, named: dict[str, pa.Array], count: int, origins: Origins
) -> dict[str, pa.Array]:
    """The ends of edges, taken out of the columns: ids as texts, or values of a key that is one property."""
    columns = {}
    for column, names in _ENDS.items():
        report = reader.reporter(edge, column, origins)
        found = [named.pop(name) for name in names if name in named]
        if not found and not reader.needs_ends:
            columns[column] = pa.nulls(count, pa.string())
            continue
        if len(found) != 1:
            report(0, f"a table of edges needs one column `{names[0]}` or `{names[1]}`")
            continue
        node = reader.catalog.nodes[edge.source if column == SOURCE else edge.destination]
        columns[column] = _node_ids(node, found[0], report)
        for position in pc.indices_nonzero(columns[column].is_null()).to_pylist() if reader.needs_ends else ():
            report(position, NO_END)
    return columns


def _node_ids(node: NodeType, ends: pa.Array, report: Report) -> pa.Array:
    if _is_text(ends.type) or pa.types.is_null(ends.type):
        return ends.cast(pa.string())
    if len(node.key) != 1:
        report(0, f"the end of an edge must be the id of a `{node.name}`, which is a text")
        return pa.nulls(len(ends), pa.string())
    keys = convert_column(ends, node.properties[node.key[0]].type, report)
    ids = derived_ids([keys.drop_null()])
    return ids if not keys.null_count else pc.replace_with_mask(pa.nulls(len(ends), pa.string()), keys.is_valid(), ids)


def convert_column(values: pa.Array, type: PropertyType, report: Report) -> pa.Array:
    """A column in the Arrow type of a property; what does not fit is reported and becomes null."""
    target = arrow_type(type)
    if values.type == target and type not in FLOATS and not isinstance(type, List | Vector):
        return values
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), target)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if fits_property(values.type, type):
        try:
            cast = _cast(values, target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            cast = None
        if cast is not None and _is_sound(cast):
            return cast
    plain = values.to_pylist()
    if _is_text(values.type):
        plain = [None if text is None else _from_text(text, type) for text in plain]
    return json_column(plain, type, report)


def fits_property(source: pa.DataType, type: PropertyType) -> bool:
    """Whether Arrow's cast from one to the other means what we mean, apart from values that do not fit."""
    types = pa.types
    if isinstance(type, Vector):
        return _is_list(source) and (types.is_floating(source.value_type) or types.is_integer(source.value_type))
    if isinstance(type, List):
        return _is_list(source) and fits_property(source.value_type, type.element)
    if not isinstance(type, Scalar) or type is Scalar.STRING:
        return _is_text(source)
    if type is Scalar.BOOL:
        return bool(types.is_boolean(source))
    if type in INTEGERS or type in FLOATS:
        return bool(types.is_integer(source) or types.is_floating(source) or types.is_decimal(source))
    if type is Scalar.DATE:
        return bool(types.is_date(source))
    if type is Scalar.DATETIME:
        return bool(types.is_timestamp(source))
    return bool(types.is_binary(source) or types.is_large_binary(source) or types.is_fixed_size_binary(source))


def _cast(values: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(target):
        # A DateTime keeps whole milliseconds; a moment without a zone is taken to be in UTC.
        return pc.floor_temporal(values.cast(pa.timestamp("us")), unit="millisecond").cast(target)
    if pa.types.is_float32(target) and pa.types.is_float64(values.type):
        return values.cast(target, safe=False)
    return values.cast(target)


def _is_sound(column: pa.Array) -> bool:
    """Whether all numbers are finite and no element of a list is null."""
    return all_finite(column) and not (_is_list(column.type) and column.flatten().null_count)


def _from_text(text: str, type: PropertyType) -> Any:
    """What a text stands for, as the JSON value that would be checked for this type."""
    reading: Callable[[str], Any] | None = None
    if type is Scalar.BOOL or isinstance(type, List | Vector):
        reading = read_json
    elif type in FLOATS:
        reading = float
    if reading is None:
        return text
    try:
        return reading(text)
    except ValueError:
        return text


def _is_text(type: pa.DataType) -> bool:
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type))


def _is_list(type: pa.DataType) -> bool:
    return bool(pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type))
