"""The rule that every number of a graph is finite, on whole columns of Arrow: numbers, lists of them, and vectors."""

import pyarrow as pa

from omnigraph.compute_later import pc


def all_finite(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether a column holds neither NaN nor an infinity; one of anything but floats holds none."""
    numbers = _numbers(column)
    return numbers is None or _are_finite(numbers)


def rows_not_finite(column: pa.Array | pa.ChunkedArray) -> list[int]:
    """The positions of the rows with NaN or an infinity, in order."""
    numbers = _numbers(column)
    if numbers is None or _are_finite(numbers):
        return []
    wrong = pc.invert(pc.is_finite(numbers))
    if pa.types.is_floating(column.type):
        rows = pc.indices_nonzero(pc.fill_null(wrong, False))
    else:
        rows = pc.unique(pc.list_parent_indices(column).filter(pc.fill_null(wrong, False)))
    positions: list[int] = rows.to_pylist()
    return positions


def _numbers(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray | None:
    """The floats of a column, whether by themselves or in lists; None if it is of another type."""
    types, type = pa.types, column.type
    if types.is_floating(type):
        return column
    if types.is_list(type) or types.is_large_list(type) or types.is_fixed_size_list(type):
        return pc.list_flatten(column) if types.is_floating(type.value_type) else None
    return None


def _are_finite(numbers: pa.Array | pa.ChunkedArray) -> bool:
    return pc.all(pc.is_finite(numbers), min_count=0).as_py() is not False
