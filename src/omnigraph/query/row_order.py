"""The order of rows in memory: by numbers or by values, and only as far as a limit asks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.resident.numbers import is_number, numbers_of

_FEW_VALUES = 32
"""Up to this many values, an order is decided one by one; Arrow takes longer to begin."""


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Values to sort by: numbers, or an Arrow array. Null comes first ascending and last descending."""

    values: Any
    descending: bool = False


def first_in_order(keys: Sequence[RowOrder], count: int, limit: int | None) -> NDArray[Any]:
    """The positions of the first rows in this order."""
    if count < 2 or not keys:
        return np.arange(count)[:limit]
    candidates: NDArray[Any] | None = None
    if limit is not None and 0 < limit * 8 < count and isinstance(keys[0].values, np.ndarray):
        candidates = _best(keys[0], limit)
        keys = [RowOrder(_at(key.values, candidates), key.descending) for key in keys]
        count = len(candidates)
    order: Any
    if len(keys) == 1 and isinstance(keys[0].values, np.ndarray) and not keys[0].descending:
        order = np.argsort(keys[0].values, kind="stable")[:limit]
    elif count <= _FEW_VALUES:
        order = list(range(count))
        for key in reversed(keys):
            values = key.values.tolist() if isinstance(key.values, np.ndarray) else key.values.to_pylist()
            if None in values:
                order.sort(key=lambda at, values=values: (values[at] is not None, values[at]), reverse=key.descending)
            else:
                order.sort(key=values.__getitem__, reverse=key.descending)
        order = np.array(order[:limit], np.int64)
    elif all(isinstance(key.values, np.ndarray) and not key.descending for key in keys):
        order = np.lexsort([key.values for key in reversed(keys)])[:limit]
    else:
        table = pa.table(
            [pa.array(key.values) if isinstance(key.values, np.ndarray) else key.values for key in keys],
            [str(at) for at in range(len(keys))],
        )
        sorting = [
            (str(at), "descending" if key.descending else "ascending", "at_end" if key.descending else "at_start")
            for at, key in enumerate(keys)
        ]
        order = numbers_of(pc.sort_indices(table, sort_keys=sorting))[:limit]
    places: NDArray[Any] = np.asarray(order)
    return places if candidates is None else candidates[places]


def _best(key: RowOrder, limit: int) -> NDArray[Any]:
    """The positions of all values that may be among the first."""
    values = key.values
    if key.descending:
        return np.flatnonzero(values >= np.partition(values, len(values) - limit)[len(values) - limit])
    return np.flatnonzero(values <= np.partition(values, limit - 1)[limit - 1])


def _at(values: Any, places: NDArray[Any]) -> Any:
    return values[places] if isinstance(values, np.ndarray) else values.take(pa.array(places))


def sortable_numbers(values: pa.Array) -> Any:
    """Numbers without nulls as numpy has them, and anything else as it is."""
    return numbers_of(values) if is_number(values.type) and not values.null_count else values
