"""Ids for entities that have no key of their own."""

import secrets

import numpy as np
import pyarrow as pa
from ulid import ULID

_ALPHABET = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", dtype=np.uint8)
_COUNTED = 8
_BITS = 5


def new_ids(count: int) -> pa.Array:
    """ULIDs, ascending: one moment and one stretch of randomness for all, then a counter that starts anywhere."""
    prefix = str(ULID())[:-_COUNTED].encode()
    room = 2 ** (_COUNTED * _BITS)
    numbers = (secrets.randbelow(room - count) + np.arange(count, dtype=np.int64))[:, None]
    shifts = np.arange(_COUNTED - 1, -1, -1, dtype=np.int64) * _BITS
    letters = np.empty((count, len(prefix) + _COUNTED), dtype=np.uint8)
    letters[:, : len(prefix)] = np.frombuffer(prefix, dtype=np.uint8)
    letters[:, len(prefix) :] = _ALPHABET[(numbers >> shifts) & 31]
    width = letters.shape[1]
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * width).buffers()[1]
    return pa.StringArray.from_buffers(count, offsets, pa.py_buffer(letters.tobytes()))
