"""Cosine distances of a column of vectors to one vector."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

# So many vectors are made wide at once: they should stay in the cache of the processor.
_AT_ONCE = 1024


def cosine_distances(vectors: pa.ChunkedArray, query: Sequence[float] | None) -> pa.Array:
    """``1 - cos`` for each vector, as F32. Null where there is no vector, no query, or a vector of zeros.

    Computed in F64, so that the order of near neighbours does not depend on rounding.
    """
    count = len(vectors)
    if query is None or count == 0:
        return pa.nulls(count, pa.float32())
    target = np.asarray(query, dtype=np.float32).astype(np.float64)
    length = np.linalg.norm(target)
    combined = vectors.combine_chunks()
    is_null = combined.is_null().to_numpy(zero_copy_only=False)
    dimension = combined.type.list_size
    # A null keeps its slots in the values of a fixed-size list, filled with anything.
    start = combined.offset * dimension
    matrix = combined.values.to_numpy(zero_copy_only=False)[start : start + count * dimension].reshape(count, dimension)
    lengths, products = np.empty(count), np.empty(count)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for begin in range(0, count, _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            wide = matrix[part].astype(np.float64)
            lengths[part] = np.sqrt(np.einsum("ij,ij->i", wide, wide))
            products[part] = wide @ target
        distances = 1.0 - products / (lengths * length)
    missing = is_null | ~(lengths > 0) | (length == 0)
    return pa.array(distances.astype(np.float32), mask=missing)
