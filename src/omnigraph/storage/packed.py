"""Numbers packed to the bits that they need: eight numbers of ``n`` bits take ``n`` bytes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]

MOST_BITS = 57
"""The widest number that eight bytes hold wherever in a byte it begins."""

PADDING = 8
"""How many bytes must follow the packed ones, since eight bytes are read for each number."""

_AT_ONCE = 1 << 16


def bits_for(most: int) -> int:
    """How many bits numbers up to `most` need."""
    return max(int(most).bit_length(), 1)


def pack_numbers(values: NDArray[Any], bits: int) -> bytes:
    """Numbers as bytes, with their padding."""
    parts = []
    for start in range(0, len(values), _AT_ONCE):
        part = np.ascontiguousarray(values[start : start + _AT_ONCE], dtype="<u8")
        flags = np.unpackbits(part.view(np.uint8).reshape(-1, 8), axis=1, count=bits, bitorder="little")
        parts.append(np.packbits(flags, bitorder="little").tobytes())
    return b"".join((*parts, bytes(packed_size(len(values), bits) - sum(map(len, parts)))))


def packed_size(count: int, bits: int) -> int:
    """The bytes of packed numbers, with their padding."""
    return -(-count // 8) * bits + PADDING


def unpack_groups(data: Bytes, bits: int, groups: int) -> Numbers:
    """The numbers of whole groups of eight, which begin at the first byte."""
    found = np.empty(groups * 8, np.uint64)
    mask = np.uint64((1 << bits) - 1)
    for place in range(8 if groups else 0):
        first, shift = divmod(place * bits, 8)
        words: NDArray[np.uint64] = np.ndarray((groups,), "<u8", data, first, (bits,))
        found[place::8] = (words >> np.uint64(shift)) & mask
    return found.view(np.int64)


def unpack_at(data: Bytes, bits: int, places: NDArray[Any]) -> Numbers:
    """The numbers at some places."""
    first, shift = np.divmod(np.asarray(places, np.int64) * bits, 8)
    # Indexing words that overlap would copy all of them first.
    words: NDArray[np.uint64] = data[first[:, None] + np.arange(8)].view("<u8")[:, 0]
    found: NDArray[np.uint64] = (words >> shift.view(np.uint64)) & np.uint64((1 << bits) - 1)
    return found.view(np.int64)
