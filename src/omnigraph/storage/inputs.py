"""Input files of users: found by path, folder or pattern, on a disk or in an object store."""

import io
from fnmatch import fnmatchcase
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import BaseError

from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import printable
from omnigraph.errors import NotFound, StorageError
from omnigraph.storage.location import Location, location_of
from omnigraph.storage.object_stores import store_at
from omnigraph.storage.objects import reason_of

_READ_AHEAD = 8 * 1024 * 1024

_LONGEST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class InputFile:
    """An input file; any process that gets this value can read it."""

    name: str
    location: Location
    size: int
    unpacked_limit: int | None = None
    """The limit of its decompressed size: a small file of an untrusted client may decompress to a very large one."""

    def open(self) -> io.BufferedIOBase:
        """The content as a seekable stream."""
        path = self.location.path
        try:
            if path is not None:
                return path.open("rb")
            folder, _, name = self.location.uri.rpartition("/")
            store = store_at(Location(folder, self.location.options))
            return io.BufferedReader(_RemoteFile(store, name), _READ_AHEAD)
        except (OSError, BaseError) as error:
            raise StorageError(self.name, f"cannot be read: {reason_of(error)}") from error


class _RemoteFile(io.RawIOBase):
    """An object of a store as a file."""

    def __init__(self, store: Any, name: str) -> None:
        self._file: Any = obstore.open_reader(store, name)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        content = memoryview(self._file.read(len(view)))
        view[: len(content)] = content
        return len(content)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        position: int = self._file.seek(offset, whence)
        return position

    def tell(self) -> int:
        position: int = self._file.tell()
        return position


def input_files(source: str | Path, storage_options: dict[str, str] | None = None) -> list[InputFile]:
    """The files that a path, a folder or a pattern such as ``parts/*.jsonl`` names, in the order of their names.

    In a folder, files whose names begin with a dot or an underscore are left out, as everywhere in the lakehouse.
    """
    text = str(source)
    try:
        location = location_of(text, storage_options)
        found = _local(text, location) if location.path is not None else _remote(text, location)
    except (OSError, ValueError) as error:
        # A name that is too long, or contains NUL or a lone surrogate.
        raise StorageError(printable(text[:_LONGEST_SHOWN]), f"cannot be found: {printable(str(error))}") from error
    if not found:
        raise NotFound("file", text)
    return found


def _local(text: str, location: Location) -> list[InputFile]:
    path = location.path
    assert path is not None
    if path.is_file():
        paths = [path]
    elif path.is_dir():
        paths = [each for each in sorted(path.rglob("*")) if each.is_file() and _counts(each.relative_to(path).parts)]
    else:
        paths = [
            Path(each)
            for each in sorted(glob(str(path), recursive=True))  # noqa: PTH207 - a pattern from its root
            if Path(each).is_file()
        ]
    names = [text] if path.is_file() else [str(each) for each in paths]
    return [
        InputFile(name, Location(str(each.absolute())), each.stat().st_size)
        for name, each in zip(names, paths, strict=True)
    ]


def _remote(text: str, location: Location) -> list[InputFile]:
    folder, _, name = text.rpartition("/")
    pattern = None
    if has_magic(text):
        start = next(index for index, part in enumerate(text.split("/")) if has_magic(part))
        folder, pattern = "/".join(text.split("/")[:start]), "/".join(text.split("/")[start:])
        name = ""
    try:
        store = store_at(Location(folder, location.options))
        listed = _object_named(store, name) or [each for page in obstore.list(store, name or None) for each in page]
    except BaseError as error:
        raise StorageError(text, f"cannot be listed: {reason_of(error)}") from error
    sizes = {str(each["path"]): int(each["size"]) for each in listed}
    if pattern is not None:
        chosen = [each for each in sizes if fnmatchcase(each, pattern)]
    elif name in sizes:
        chosen = [name]
    else:
        chosen = [each for each in sizes if _counts(Path(each).parts)]
    return [
        InputFile(f"{folder}/{each}", Location(f"{folder}/{each}", location.options), sizes[each])
        for each in sorted(chosen)
    ]


def _object_named(store: Any, name: str) -> list[Any]:
    """The object of a name, which a listing would leave out: that finds only what is below the name."""
    try:
        return [obstore.head(store, name)] if name else []
    except FileNotFoundError:
        return []


def _counts(parts: tuple[str, ...]) -> bool:
    return not any(part.startswith((".", "_")) for part in parts)
