"""The order of rows in memory: by numbers or by values, and only as far as a limit asks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.resident.numbers import numbers_of

_FEW_VALUES = 32
"""Up to this many values, an order is decided one by one; Arrow takes longer to begin."""


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Values to sort by: numbers, or an Arrow array. Null comes first ascending and last descending."""

    values: Any
    descending: bool = False

    def take(self, places: NDArray[Any]) -> "RowOrder":
        """The same of some rows."""
        is_numbers = isinstance(self.values, np.ndarray)
        return RowOrder(self.values[places] if is_numbers else self.values.take(pa.array(places)), self.descending)


def first_in_order(keys: Sequence[RowOrder], count: int, limit: int | None) -> NDArray[Any]:
    """The positions of the first rows in this order."""
    if count < 2 or not keys:
        return np.arange(count)[:limit]
    candidates = may_be_first(keys[0], count, limit)
    if candidates is not None:
        keys = [key.take(candidates) for key in keys]
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
    elif all(isinstance(key.values, np.ndarray) for key in keys):
        order = np.lexsort([_ascending(key) for key in reversed(keys)])[:limit]
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


def may_be_first(key: RowOrder, count: int, limit: int | None) -> NDArray[Any] | None:
    """The positions of all rows that may be among the first by their first key; None where they are not far fewer."""
    values = key.values
    if limit is None or not 0 < limit * 8 < count or not isinstance(values, np.ndarray):
        return None
    if key.descending:
        return np.flatnonzero(values >= np.partition(values, len(values) - limit)[len(values) - limit])
    return np.flatnonzero(values <= np.partition(values, limit - 1)[limit - 1])


def _ascending(key: RowOrder) -> NDArray[Any]:
    """Numbers whose ascending order is that of a key. The complement of a whole number always exists."""
    values: NDArray[Any] = key.values
    if not key.descending:
        return values
    return -values if values.dtype.kind == "f" else ~values
