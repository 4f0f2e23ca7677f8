"""Checks the files that mark deleted rows before Lance reads them.

Lance allocates what a length in such a file says, and where that is damaged the allocation ends the process, which no
caller can catch. Arrow's own reader finds the same damage and raises. Files are read on a disk only: object stores
verify what they give. Each is checked once a process, as no file is ever changed.
"""

import struct
from pathlib import Path

import pyarrow as pa

import lance
from omnigraph.errors import Damaged
from omnigraph.storage.location import Location

_SUFFIX = ".arrow"
_BRANCHES = "tree"
_TRAILER, _BLOCK = struct.Struct("<i6s"), struct.Struct("<qi4xq")
_UNSIGNED, _SIGNED, _SHORT = struct.Struct("<I"), struct.Struct("<i"), struct.Struct("<H")
_BATCHES_ENTRY = 10
_MOST_REMEMBERED = 100_000
_checked: set[Path] = set()


def check_deletions(location: Location, dataset: lance.LanceDataset) -> None:
    """Raises `Damaged` if a file that marks deleted rows of this version is not as it was written."""
    if location.path is None:
        return
    for fragment in dataset.get_fragments():
        name = fragment.deletion_file()
        if name is None or not name.endswith(_SUFFIX):
            continue  # Lance itself finds what is wrong with a bitmap
        path = _found(location.path, name)
        if path is not None and path not in _checked:
            _check(path, fragment)
            if len(_checked) >= _MOST_REMEMBERED:
                _checked.clear()
            _checked.add(path)


def _found(table: Path, name: str) -> Path | None:
    """The file, of this table or of the one that it was forked from; a missing one is for Lance to report."""
    parts = table.parts
    root = Path(*parts[: parts.index(_BRANCHES)]) if _BRANCHES in parts else table
    return next((path for path in (table / name, root / name) if path.is_file()), None)


def _check(path: Path, fragment: lance.LanceFragment) -> None:
    try:
        content = path.read_bytes()
        marked = pa.ipc.open_file(pa.py_buffer(content)).read_all()
        marked.validate(full=True)
        _check_blocks(content)
    except (pa.ArrowException, OSError, MemoryError, struct.error, ValueError) as error:
        raise Damaged(str(path), f"the marks of deleted rows cannot be read: {error}") from error
    if marked.num_rows != fragment.num_deletions:
        raise Damaged(str(path), f"it marks {marked.num_rows} deleted rows, and {fragment.num_deletions} were written")


def _check_blocks(content: bytes) -> None:
    """Raises for a footer by which a batch would reach out of the file: Lance reads as far as it says, Arrow does not.

    The footer is a flatbuffer in front of its length and the magic word at the end. Its fourth field lists the batches:
    where each begins, and how long its metadata and its body are.
    """
    end = len(content) - _TRAILER.size
    footer = content[end - _TRAILER.unpack_from(content, end)[0] : end]
    (root,) = _UNSIGNED.unpack_from(footer, 0)
    table = root - _SIGNED.unpack_from(footer, root)[0]
    (place,) = _SHORT.unpack_from(footer, table + _BATCHES_ENTRY)
    vector = root + place + _UNSIGNED.unpack_from(footer, root + place)[0]
    (count,) = _UNSIGNED.unpack_from(footer, vector)
    for number in range(count):
        offset, metadata, body = _BLOCK.unpack_from(footer, vector + _UNSIGNED.size + number * _BLOCK.size)
        if min(offset, metadata, body) < 0 or offset + metadata + body > end:
            raise ValueError("its footer names a place that is not in the file")
