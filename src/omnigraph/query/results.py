"""Puts the answer of a read together from the rows of an engine, in the types that the catalog declares."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.catalog import PropertyType, arrow_type
from omnigraph.catalog.conversion import repeat_value
from omnigraph.compute_later import pc
from omnigraph.errors import SumOutOfRange
from omnigraph.query.steps import ConstantOutput, EntityOutput, Output, ValueOutput
from omnigraph.resident.readers import values_of

AnswerColumn: TypeAlias = pa.Array | list[Any]
"""A column of an answer: an array, or the values of a few rows as Python has them."""


def python_values(column: AnswerColumn) -> list[Any]:
    """The values of a column as Python has them."""
    if isinstance(column, list):
        return column
    return values_of(column)


def arrow_values(column: AnswerColumn, type: pa.DataType) -> pa.Array:
    """The values of a column of this type as an array."""
    return pa.array(column, type) if isinstance(column, list) else column


def assemble_answer(rows: pa.Table, outputs: Sequence[Output]) -> pa.Table:
    """The answer with its declared columns and types, whatever the engine made of them."""
    columns = [_column(rows, output) for output in outputs]
    fields = [pa.field(output.name, column.type) for output, column in zip(outputs, columns, strict=True)]
    return pa.table(columns, schema=pa.schema(fields))


def _column(rows: pa.Table, output: Output) -> Any:
    match output:
        case ValueOutput(_, index):
            return _value(rows.column(index), output)
        case EntityOutput(_, fields, is_optional):
            arrays = [flatten_column(_value(rows.column(field.index), field)) for field in fields]
            declared = [pa.field(field.name, arrow_type(field.type)) for field in fields]
            is_missing = flatten_column(rows.column(output.key.index)).is_null() if is_optional else None
            return pa.StructArray.from_arrays(arrays, fields=declared, mask=is_missing)
        case ConstantOutput(_, value, type):
            return repeat_value(constant_scalar(value, type), rows.num_rows)


def _value(column: pa.ChunkedArray, output: ValueOutput) -> pa.ChunkedArray:
    wanted = arrow_type(output.type)
    if column.type == wanted:
        # Lists are compared without the names that engines give to their elements.
        return column.cast(wanted) if pa.types.is_list(wanted) else column
    if pa.types.is_fixed_size_list(wanted) and pa.types.is_list(column.type):
        return pa.chunked_array([vectors(chunk, wanted) for chunk in column.chunks], type=wanted)
    try:
        return column.cast(wanted)
    except pa.ArrowInvalid as error:
        if pa.types.is_decimal(column.type):
            raise SumOutOfRange(output.name, str(output.type)) from error
        raise


def vectors(lists: pa.ListArray, type: pa.FixedSizeListType) -> pa.FixedSizeListArray:
    """Lists as vectors of one length; raises `pyarrow.ArrowInvalid` for a list of another.

    Arrow has a cast for this, which ends the process when it meets a column of Spark with nothing but nulls.
    """
    size = type.list_size
    is_null = lists.is_null()
    lengths = pc.list_value_length(lists).drop_null()
    if not pc.all(pc.equal(lengths, size), min_count=0).as_py():
        raise pa.ArrowInvalid(f"a list has not {size} elements")
    places = np.cumsum(~is_null.to_numpy(zero_copy_only=False)) - 1
    indices = (places[:, None] * size + np.arange(size)).ravel()
    is_hole = np.repeat(is_null.to_numpy(zero_copy_only=False), size)
    numbers = lists.flatten().take(pa.array(indices, pa.int64(), mask=is_hole))
    return pa.FixedSizeListArray.from_arrays(numbers, type=type, mask=is_null)


def flatten_column(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array, also when it has no chunk or several."""
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        return pa.concat_arrays(combined.chunks) if combined.num_chunks else pa.array([], column.type)
    return combined


def constant_scalar(value: Any, type: PropertyType | None) -> pa.Scalar:
    """A known value in Arrow; null may have no type."""
    if type is None:
        return pa.scalar(None)
    return pa.scalar(list(value) if isinstance(value, tuple) else value, type=arrow_type(type))
