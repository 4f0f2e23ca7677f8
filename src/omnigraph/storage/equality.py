"""Compares the values of two columns, row by row.

Nulls are equal, NaN equals NaN, and zeros are equal whatever their sign. Lists, vectors and Blobs are equal if all of
their elements are.
"""

from collections.abc import Iterable

import pyarrow as pa

from omnigraph.compute_later import pc


def equal_rows(left: pa.Table, right: pa.Table, columns: Iterable[str]) -> pa.Array:
    """Whether the rows at the same position of two tables have equal values in all of these columns."""
    equal = pa.repeat(True, left.num_rows)
    for name in columns:
        equal = pc.and_(equal, equal_values(left[name].combine_chunks(), right[name].combine_chunks()))
    return equal


def equal_values(left: pa.Array, right: pa.Array) -> pa.Array:
    """Whether the values at the same position of two arrays are equal; true or false, never null.

    If the types differ, both are compared in the wider type.
    """
    lists = _is_list(left.type) and _is_list(right.type)
    if left.type != right.type and not lists:
        try:
            left, right = _in_one_type(left, right)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return pa.repeat(False, len(left))
    equal = _equal_lists(left, right) if lists else pc.fill_null(pc.equal(left, right), False)
    if pa.types.is_floating(left.type):
        equal = pc.or_(equal, pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False))
    return pc.or_(equal, pc.and_(left.is_null(), right.is_null()))


def widens(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Whether `wide` is another type that holds all numbers of `narrow`; also for lists of numbers."""
    if pa.types.is_list(narrow) and pa.types.is_list(wide):
        return widens(narrow.value_type, wide.value_type)
    if pa.types.is_floating(narrow) and pa.types.is_floating(wide):
        return bool(narrow.bit_width < wide.bit_width)
    if pa.types.is_integer(narrow) and pa.types.is_integer(wide):
        has_room = narrow.bit_width < wide.bit_width
        return bool(has_room and (pa.types.is_unsigned_integer(narrow) or pa.types.is_signed_integer(wide)))
    return False


def _in_one_type(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    if widens(right.type, left.type):
        return left, right.cast(left.type)
    return left.cast(right.type), right


def _is_list(type: pa.DataType) -> bool:
    return bool(pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type))


def _equal_lists(left: pa.Array, right: pa.Array) -> pa.Array:
    """Whether lists have the same length and equal elements; False if one of them is null."""
    comparable = pc.fill_null(pc.equal(pc.list_value_length(left), pc.list_value_length(right)), False)
    left, right = left.filter(comparable), right.filter(comparable)
    elements = equal_values(pc.list_flatten(left), pc.list_flatten(right))
    unequal = pc.unique(pc.list_parent_indices(left).filter(pc.invert(elements)))
    rows = pc.indices_nonzero(comparable)
    different = rows.take(unequal)
    positions = pa.array(range(len(comparable)), pa.uint64())
    return pc.and_(comparable, pc.invert(pc.is_in(positions, value_set=different)))
