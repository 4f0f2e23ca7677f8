"""Ids for entities that have no key of their own."""

import secrets

import numpy as np
import pyarrow as pa
from ulid import ULID

_ALPHABET = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", dtype=np.uint8)
# Every pair of letters as one number of two bytes, in the order of what the pairs stand for.
_PAIRS = np.stack([np.repeat(_ALPHABET, 32), np.tile(_ALPHABET, 32)], axis=1).copy().view(np.uint16).ravel()
_PAIR_BITS = 10
_COUNTED_PAIRS = 4


def new_ids(count: int) -> pa.Array:
    """ULIDs, ascending: one moment and one stretch of randomness for all, then a counter that starts anywhere."""
    prefix = np.frombuffer(str(ULID())[: -2 * _COUNTED_PAIRS].encode(), dtype=np.uint16)
    room = 2 ** (_COUNTED_PAIRS * _PAIR_BITS)
    numbers = secrets.randbelow(room - count) + np.arange(count, dtype=np.int64)
    pairs = np.empty((count, len(prefix) + _COUNTED_PAIRS), dtype=np.uint16)
    pairs[:, : len(prefix)] = prefix
    for place in range(_COUNTED_PAIRS):
        shift = _PAIR_BITS * (_COUNTED_PAIRS - 1 - place)
        pairs[:, len(prefix) + place] = _PAIRS[(numbers >> shift) & (2**_PAIR_BITS - 1)]
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * 2 * pairs.shape[1]).buffers()[1]
    return pa.StringArray.from_buffers(count, offsets, pa.py_buffer(pairs))
