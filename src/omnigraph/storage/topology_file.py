"""The file of an index of topology: which ids are connected by which rows of a table, with checksums.

A header names the fragments that the file was built from, and has a checksum of itself and of each block of the rest. A
block is read and compared when it is first needed. So a lookup in a large file reads little of it, and what was
compared cannot change afterwards, as it could if the file were mapped into memory.
"""

import hashlib
import json
import struct
import threading
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.packed import (
    MOST_BITS,
    PADDING,
    Bytes,
    Numbers,
    bits_for,
    pack_numbers,
    unpack_at,
    unpack_groups,
)
from omnigraph.storage.tables import numbers_in

FOLDER, SUFFIX = "_topology", ".topology"

_MAGIC, _PLAIN_MAGIC = b"OGTOPO2\n", b"OGTOPO1\n"
"""How a file begins; the second is that of files of earlier versions, whose ids are not compressed."""

_START = struct.Struct("<8sQI")
_BLOCK = 1 << 16
_LOCAL_PIECE, _REMOTE_PIECE = _BLOCK, 128 * _BLOCK
"""How many bytes are read at once: a request to an object store takes as long as the transfer of megabytes."""

_HEADER_GUESS = _BLOCK
_MOST_HEADER = 1 << 30
_FENCE = 128
"""Of the ids in their order, one in this many is also in a list of its own, where a search begins. From there to the
next they are compressed together."""

_FEW_IDS = 512
"""Up to this number, ids are searched one by one; for more, all ids are read."""


class UnusableTopology(Exception):
    """A file that is damaged, or not the one that its name says."""


class MissingTopology(UnusableTopology):
    """A file that was removed."""


@dataclass(frozen=True, slots=True)
class FragmentFiles:
    """A fragment as an index of topology knows it: its number, the rows in its files, and the files with the ends."""

    number: int
    rows: int
    files: tuple[str, ...]


Fragments: TypeAlias = tuple[FragmentFiles, ...]


def fragments_digest(fragments: Iterable[FragmentFiles]) -> str:
    """What names the file for these fragments."""
    described = sorted((each.number, each.rows, each.files) for each in fragments)
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:32]


def topology_file(digest: str) -> str:
    """The path of a file below the folder of its table."""
    return f"{FOLDER}/{digest}{SUFFIX}"


# --- writing ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """What a file holds: edges by the numbers of their ends, ascending by source and then by destination."""

    fragments: Fragments
    """The fragments, by their numbers. A row is numbered by its place among all rows of their files."""

    ids: pa.Array
    """The ids of all ends, ascending; the number of an id is its place."""

    begins: NDArray[Any]
    ends: NDArray[Any]
    rows: NDArray[Any]


def encode_topology(topology: Topology) -> bytes:
    """The content of a file."""
    count, edges = len(topology.ids), len(topology.rows)
    total = sum(each.rows for each in topology.fragments)
    backward = _order_by(topology.ends, np.arange(edges))
    blocks, text_size = _compress_ids(topology.ids)
    fences = topology.ids.take(pa.array(np.arange(0, count, _FENCE)))
    present = np.zeros(total, np.bool_)
    present[topology.rows] = True
    body = _Body()
    body.add_numbers("id_blocks", _offsets(np.array([*map(len, blocks)], np.int64)), sum(map(len, blocks)))
    body.add_bytes("ids", b"".join(blocks), text_size)
    body.add_bytes("fences", json.dumps(fences.to_pylist()).encode())
    body.add_numbers("forward", _offsets(np.bincount(topology.begins, minlength=count)), edges)
    body.add_numbers("ends", topology.ends, count)
    if not np.array_equal(topology.rows, np.arange(total)):
        body.add_numbers("rows", topology.rows, total)
    body.add_numbers("backward", _offsets(np.bincount(topology.ends, minlength=count)), edges)
    body.add_numbers("places", backward, edges)
    body.add_numbers("gaps", np.flatnonzero(~present), total)
    return body.finish(topology.fragments)


def _compress_ids(ids: pa.Array) -> tuple[list[bytes], int]:
    """Ids in blocks, and the size of all their texts. A block has the lengths of its ids, and then their texts."""
    lengths = numbers_in(pc.binary_length(ids)).astype("<u4")
    starts = _offsets(lengths)
    buffer = pa.concat_arrays([ids]).buffers()[2]
    text = memoryview(b"" if buffer is None else buffer)
    blocks = []
    for first in range(0, len(ids), _FENCE):
        last = min(first + _FENCE, len(ids))
        blocks.append(zlib.compress(lengths[first:last].tobytes() + text[starts[first] : starts[last]].tobytes()))
    return blocks, int(starts[-1])


def _offsets(counts: NDArray[Any]) -> NDArray[np.int64]:
    found = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=found[1:])
    return found


def _order_by(keys: NDArray[Any], places: NDArray[Any]) -> NDArray[Any]:
    """Places by their keys, and by themselves where keys are equal. Sorting both as one number takes a fraction."""
    bits = bits_for(len(places))
    if bits_for(int(keys.max(initial=0))) + bits > 63:
        return np.argsort(keys, kind="stable")
    together = (keys.astype(np.int64) << bits) | places
    together.sort()
    ordered: NDArray[Any] = together & ((1 << bits) - 1)
    return ordered


class _Body:
    """The sections of a file while it is written."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._sections: dict[str, tuple[int, int, int, int]] = {}

    def add_numbers(self, name: str, values: NDArray[Any], most: int) -> None:
        bits = bits_for(most)
        if bits > MOST_BITS:
            raise ValueError(f"numbers of {name} need {bits} bits (at most {MOST_BITS})")
        self._add(name, pack_numbers(values, bits), bits, len(values))

    def add_bytes(self, name: str, content: bytes, count: int | None = None) -> None:
        self._add(name, content + bytes(PADDING), 0, len(content) if count is None else count)

    def _add(self, name: str, content: bytes, bits: int, count: int) -> None:
        self._sections[name] = (self._size, len(content), bits, count)
        self._parts.append(content)
        self._size += len(content)

    def finish(self, fragments: Fragments) -> bytes:
        body = b"".join(self._parts)
        blocks = [zlib.crc32(body[start : start + _BLOCK]) for start in range(0, len(body), _BLOCK)]
        header = {
            "fragments": [[each.number, each.rows, list(each.files)] for each in fragments],
            "sections": self._sections,
            "size": len(body),
            "block": _BLOCK,
            "checksums": blocks,
        }
        encoded = json.dumps(header, separators=(",", ":")).encode()
        return _START.pack(_MAGIC, len(encoded), zlib.crc32(encoded)) + encoded + body


# --- reading ---


@dataclass(frozen=True, slots=True)
class Header:
    """The fragments of a file, and where its sections are."""

    name: str
    fragments: Fragments
    sections: Mapping[str, Sequence[int]]
    body: int
    """Where the body begins, and in `size` how long it is."""
    size: int
    block: int
    checksums: Sequence[int]


Read: TypeAlias = Callable[[int, int], bytes]
"""Reads the bytes of a file from one place to another; fewer at its end."""


def reader_of(root: Location, name: str) -> Read:
    """Reads a file below a location. Raises `MissingTopology` where it does not exist."""

    def read(start: int, stop: int) -> bytes:
        found = objects_at(root).read_range(f"{FOLDER}/{name}", start, stop)
        if found is None:
            raise MissingTopology("the file is missing")
        return found

    return read


def read_header(read: Read, name: str) -> Header:
    """The header of a file. Raises `UnusableTopology` if it is damaged, or that of a file with another name."""
    start = read(0, _HEADER_GUESS)
    if len(start) < _START.size:
        raise UnusableTopology("the file is cut short")
    magic, length, checksum = _START.unpack_from(start)
    if magic not in (_MAGIC, _PLAIN_MAGIC) or length > _MOST_HEADER:
        raise UnusableTopology("the file does not begin as an index of topology does")
    end = _START.size + length
    encoded = start[_START.size : end]
    if len(encoded) < length:
        encoded += read(len(start), end)
    if len(encoded) != length or zlib.crc32(encoded) != checksum:
        raise UnusableTopology("the header does not match its checksum")
    values = json.loads(encoded)
    header = Header(
        name=name,
        fragments=tuple(FragmentFiles(number, rows, tuple(files)) for number, rows, files in values["fragments"]),
        sections=values["sections"],
        body=end,
        size=values["size"],
        block=values["block"],
        checksums=values["checksums"],
    )
    if name != f"{fragments_digest(header.fragments)}{SUFFIX}":
        raise UnusableTopology("the file belongs to other fragments than its name says")
    return header


class TopologyFile:
    """A file of which blocks are read when they are needed. Safe to share between threads.

    Every method may raise `UnusableTopology`.
    """

    def __init__(self, header: Header, read: Read, *, piece: int) -> None:
        self.header = header
        self._read = read
        self._piece = max(piece // header.block, 1)
        self._data: Bytes = np.zeros(header.size, np.uint8)
        self._is_known = np.zeros(len(header.checksums), np.bool_)
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """The bytes that were read so far."""
        return int(np.count_nonzero(self._is_known)) * self.header.block

    # --- rows ---

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The number of the first row of each fragment, and the number of all rows."""
        return _offsets(np.array([each.rows for each in self.header.fragments], np.int64))

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """The numbers of the fragments, ascending."""
        return np.array([each.number for each in self.header.fragments], np.int64)

    def gaps(self) -> NDArray[np.int64]:
        """The rows that were deleted when the file was built, ascending."""
        return self._all("gaps")

    # --- ids ---

    @property
    def id_count(self) -> int:
        return self.header.sections["forward"][3] - 1

    @property
    def has_short_ids(self) -> bool:
        """Whether all ids fit into one array of texts."""
        return self.header.sections["ids"][3] < 2**31

    def ids(self) -> pa.Array:
        """All ids, ascending; only if `has_short_ids`."""
        if self._has_plain_ids:
            offsets = self._all("id_offsets")
            at, _, _, length = self.header.sections["ids"]
            content = pa.py_buffer(self._bytes(at, at + length))
        else:
            blocks = [*self._id_blocks(np.arange(self.header.sections["id_blocks"][3] - 1))]
            offsets = _offsets(np.concatenate([lengths for lengths, _ in blocks] or [np.empty(0, np.int64)]))
            content = pa.py_buffer(b"".join(text for _, text in blocks))
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), content]
        return pa.Array.from_buffers(pa.string(), self.id_count, buffers)

    @property
    def _has_plain_ids(self) -> bool:
        """Whether ids are not compressed, as in files of earlier versions."""
        return "id_offsets" in self.header.sections

    def _id_blocks(self, numbers: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], bytes]]:
        """Blocks of ids: the lengths of the ids, and their texts."""
        start = self.header.sections["ids"][0]
        begins, ends = (self._at("id_blocks", numbers + side).tolist() for side in (0, 1))
        for number, begin, end in zip(numbers.tolist(), begins, ends, strict=True):
            content = zlib.decompress(self._bytes(start + begin, start + end).data)
            lengths = np.frombuffer(content, "<u4", min(_FENCE, self.id_count - number * _FENCE)).astype(np.int64)
            yield lengths, content[4 * len(lengths) :]

    def find_ids(self, wanted: Sequence[str]) -> NDArray[np.int64]:
        """The numbers of ids, in any order; an id that is not there is left out."""
        if len(wanted) > _FEW_IDS and self.has_short_ids:
            places = pc.drop_null(pc.index_in(pa.array(wanted, pa.string()), value_set=self.ids()))
            return numbers_in(places).astype(np.int64)
        found = [self._find_id(each) for each in dict.fromkeys(wanted)]
        return np.array([each for each in found if each >= 0], np.int64)

    def _find_id(self, id: str) -> int:
        first = (bisect_right(self._fences, id) - 1) * _FENCE
        if first < 0:
            return -1
        near = self._ids_from(first, min(first + _FENCE, self.id_count))
        at = bisect_left(near, id)
        return first + at if at < len(near) and near[at] == id else -1

    @cached_property
    def _fences(self) -> list[str]:
        at, _, _, length = self.header.sections["fences"]
        fences: list[str] = json.loads(bytes(self._bytes(at, at + length)))
        return fences

    def _ids_from(self, first: int, last: int) -> list[str]:
        """The ids from a fence to the next."""
        if not self._has_plain_ids:
            return self._ids_of_block(first // _FENCE)
        offsets = self._at("id_offsets", np.arange(first, last + 1))
        return _texts(self._text(int(offsets[0]), int(offsets[-1])), offsets - offsets[0])

    def _ids_of_block(self, number: int) -> list[str]:
        ((lengths, content),) = self._id_blocks(np.array([number]))
        return _texts(content, _offsets(lengths))

    def ids_at(self, numbers: NDArray[np.int64]) -> list[str]:
        """The ids with some numbers."""
        if len(numbers) > _FEW_IDS and self.has_short_ids:
            every: list[str] = self.ids().take(pa.array(numbers)).to_pylist()
            return every
        if not self._has_plain_ids:
            blocks = {each: self._ids_of_block(each) for each in dict.fromkeys((numbers // _FENCE).tolist())}
            return [blocks[each // _FENCE][each % _FENCE] for each in numbers.tolist()]
        begins, ends = (self._at("id_offsets", numbers + side).tolist() for side in (0, 1))
        return [self._text(begin, end).decode() for begin, end in zip(begins, ends, strict=True)]

    def _text(self, start: int, stop: int) -> bytes:
        at = self.header.sections["ids"][0]
        return bytes(self._bytes(at + start, at + stop))

    # --- edges ---

    def edges(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """All edges: the numbers of the ids at both ends, and the row."""
        offsets = self._all("forward")
        degrees = offsets[1:] - offsets[:-1]
        begins = np.repeat(np.arange(len(degrees)), degrees)
        rows = self._all("rows") if "rows" in self.header.sections else np.arange(len(begins))
        return begins, self._all("ends"), rows

    def edges_at(self, numbers: NDArray[np.int64], *, backward: bool) -> tuple[NDArray[np.int64], ...]:
        """The edges that begin at some ids, or backward end there: the numbers at both ends, and the row."""
        offsets = "backward" if backward else "forward"
        firsts = self._at(offsets, numbers)
        lasts = self._at(offsets, numbers + 1)
        degrees = lasts - firsts
        stops = np.cumsum(degrees)
        places = np.arange(int(stops[-1]) if len(stops) else 0) + np.repeat(firsts - (stops - degrees), degrees)
        there = np.repeat(numbers, degrees)
        if backward:
            places = self._at("places", places)
            begins, ends = self._begins_of(places), there
        else:
            begins, ends = there, self._at("ends", places)
        return begins, ends, self._at("rows", places) if "rows" in self.header.sections else places

    def _begins_of(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers that edges begin at, by their places: the last one whose edges begin no later, by halving."""
        low, high = np.zeros(len(places), np.int64), np.full(len(places), self.id_count, np.int64)
        while bool((high - low > 1).any()):
            middle = (low + high) // 2
            is_later = self._at("forward", middle) > places
            low, high = np.where(is_later, low, middle), np.where(is_later, middle, high)
        return low

    # --- sections and blocks ---

    def check(self) -> None:
        """Compares everything with its checksum."""
        self._bytes(0, self.header.size)

    def _all(self, section: str) -> Numbers:
        at, size, bits, count = self.header.sections[section]
        return unpack_groups(self._bytes(at, at + size), bits, -(-count // 8))[:count]

    def _at(self, section: str, places: NDArray[np.int64]) -> Numbers:
        at, size, bits, count = self.header.sections[section]
        if len(places) * 8 > count:
            return self._all(section)[places]
        first = at + (places * bits >> 3)
        self._know(np.concatenate((first, first + PADDING)) // self.header.block)
        return unpack_at(self._data[at : at + size], bits, places)

    def _bytes(self, start: int, stop: int) -> Bytes:
        first, last = start // self.header.block, -(-stop // self.header.block)
        if not self._is_known[first:last].all():
            self._know(np.arange(first, last))
        return self._data[start:stop]

    def _know(self, blocks: NDArray[np.int64]) -> None:
        """Reads the blocks that were not read yet, with those around them."""
        blocks = np.minimum(blocks, len(self._is_known) - 1)
        if self._is_known[blocks].all():
            return
        with self._lock:
            for first, last in self._stretches(blocks):
                self._read_blocks(first, last)

    def _stretches(self, blocks: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        """The stretches of blocks to read, in whole pieces."""
        pieces = np.unique(blocks[~self._is_known[blocks]] // self._piece)
        for run in np.split(pieces, np.flatnonzero(np.diff(pieces) > 1) + 1):
            if len(run):
                yield int(run[0]) * self._piece, min((int(run[-1]) + 1) * self._piece, len(self._is_known))

    def _read_blocks(self, first: int, last: int) -> None:
        block, size = self.header.block, self.header.size
        start, stop = first * block, min(last * block, size)
        content = self._read(self.header.body + start, self.header.body + stop)
        if len(content) != stop - start:
            raise UnusableTopology(f"{self.header.name} is cut short")
        view = memoryview(content)
        for number in range(first, last):
            at = number * block - start
            if zlib.crc32(view[at : at + block]) != self.header.checksums[number]:
                raise UnusableTopology(f"block {number} of {self.header.name} does not match its checksum")
        self._data[start:stop] = np.frombuffer(content, np.uint8)
        self._is_known[first:last] = True


def _texts(content: bytes, offsets: NDArray[np.int64]) -> list[str]:
    """The texts in some bytes, by where they begin and end."""
    return [content[begin:end].decode() for begin, end in pairwise(offsets.tolist())]


def open_file(root: Location, name: str) -> TopologyFile:
    """Opens a file of a table. Raises `UnusableTopology`."""
    read = reader_of(root, name)
    header = read_header(read, name)
    piece = _LOCAL_PIECE if root.path is not None else _REMOTE_PIECE
    return TopologyFile(header, read, piece=piece)
