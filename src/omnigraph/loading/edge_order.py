"""The order in which a load writes many edges: by their ends, so that those of a node lie next to each other.

A file of ordered edges is smaller and quicker to read: the sources repeat, and an index of topology over one such file
needs no numbers of rows, since its edges have the order of the rows.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.compute_later import pc
from omnigraph.storage.tables import array_of, numbers_in

ORDERED_EDGES = 2**16
"""Fewer edges keep the order in which they were read: nothing is gained where they are read whole anyway."""

_SORTED_BITS = 63


def order_edges(rows: pa.Table, *, made_up_ids: bool) -> tuple[pa.Table, NDArray[np.int64]]:
    """Edges by source and destination, and otherwise as they were; and the place of each before.

    Ids that were made up stay in their order, whichever edge they now belong to: ascending ids take less space.
    """
    rows = rows.combine_chunks()
    (sources, most_sources), (destinations, most) = (_ranks(rows[name]) for name in (SOURCE, DESTINATION))
    order = _order_by(sources * most + destinations, most_sources * most)
    ordered = rows.take(array_of(order))
    if made_up_ids:
        place = rows.schema.get_field_index(ID)
        ordered = ordered.set_column(place, rows.schema.field(place), rows[ID])
    return ordered, order


def _ranks(texts: pa.ChunkedArray) -> tuple[NDArray[np.int64], int]:
    """For each text how many distinct ones come before it, and how many there are."""
    encoded = pa.concat_arrays(texts.chunks).dictionary_encode()
    count = len(encoded.dictionary)
    ranks = np.empty(count, np.int64)
    ranks[numbers_in(pc.sort_indices(encoded.dictionary))] = np.arange(count)
    return ranks[numbers_in(encoded.indices)], count


def _order_by(keys: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Places by their keys. Sorting both as one number takes a fraction of the time of finding an order."""
    bits = max(len(keys) - 1, 1).bit_length()
    order: NDArray[Any]
    if most.bit_length() + bits > _SORTED_BITS:
        order = np.argsort(keys, kind="stable")
    else:
        together = keys << bits | np.arange(len(keys))
        together.sort()
        order = together & ((1 << bits) - 1)
    return order
