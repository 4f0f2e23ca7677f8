"""Cuts rows into buckets by their keys, so that rows with equal keys meet, whichever task read them."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from omnigraph.parts.duck import connection

KEYS_A_BUCKET = 2_000_000
_WORTH_DIVIDING = 2
"""Keys for up to this many buckets are one: dividing them would take longer than comparing them together."""

_MOST_BUCKETS = 1_024


def bucket_count(keys: int) -> int:
    """How many buckets a number of keys is divided into; few keys are one bucket, which costs nothing to make."""
    if keys <= _WORTH_DIVIDING * KEYS_A_BUCKET:
        return 1
    return min(-(-keys // KEYS_A_BUCKET), _MOST_BUCKETS)


def in_buckets(rows: pa.Table, columns: Sequence[str], buckets: int) -> list[pa.Table]:
    """The rows of each bucket. Rows with the same values in these columns are in the same one, in their order."""
    if buckets == 1:
        return [rows]
    numbers = (_hashes(rows.select(columns)) >> np.uint64(40)).astype(np.uint32) % np.uint32(buckets)
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    sizes = np.bincount(numbers, minlength=buckets)
    starts = np.cumsum(sizes) - sizes
    ordered = rows.combine_chunks().take(pa.array(order))
    return [ordered.slice(start, size) for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)]


def _hashes(keys: pa.Table) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    names = [f"c{index}" for index in range(keys.num_columns)]
    # Both zeros are the same value, and must not be parted.
    terms = [
        f"{name} + 0.0" if pa.types.is_floating(field.type) else name
        for name, field in zip(names, keys.schema, strict=True)
    ]
    with connection() as duck:
        duck.register("keys", keys.rename_columns(names))
        hashed = duck.sql(f"SELECT hash({', '.join(terms)}) AS h FROM keys").to_arrow_table()  # noqa: S608 - own names
    found: np.ndarray[tuple[int], np.dtype[np.uint64]] = hashed["h"].to_numpy()
    return found
