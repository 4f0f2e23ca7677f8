"""Where the tasks of one bulk job leave rows for each other: tables cut into buckets, on storage that all can reach.

What one task writes is one file with a stretch of Arrow for each bucket, so that a reader of a bucket fetches only
that. The folder of a job lies in the graph, since all its tasks must reach it, and goes when the job ends. One whose
process was killed is removed by the next job, which sees that nobody holds its lock any more.
"""

import logging
import mmap
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeAlias

import obstore
import pyarrow as pa
from obstore.exceptions import BaseError

from omnigraph.errors import StorageError
from omnigraph.storage import Location, Lock, Taken, locks_at, objects_at
from omnigraph.storage.holders import LOCK_FOLDER, lock_file
from omnigraph.storage.objects import store_at

_logger = logging.getLogger(__name__)

SCRATCH = "__bulk"


@dataclass(frozen=True, slots=True)
class Stretch:
    """A table that was put aside: a stretch of a file."""

    file: str
    start: int
    length: int


Piece: TypeAlias = Stretch | pa.Table
"""What was put aside for one bucket: on storage, or in the memory of a job that does not leave its process."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Puts tables aside in the memory of this process."""

    def put(self, tables: Sequence[pa.Table]) -> tuple[Piece, ...]:
        return tuple(tables)

    def get(self, piece: Piece) -> pa.Table:
        return piece


@dataclass(frozen=True, slots=True)
class Files:
    """Puts tables aside as files in a folder that every task can reach."""

    folder: Location

    def put(self, tables: Sequence[pa.Table]) -> tuple[Piece, ...]:
        """Writes the tables of all buckets as one file."""
        name = f"{uuid.uuid4().hex}.arrow"
        path = self.folder.path
        if path is not None:
            with _typed(self.folder), pa.OSFile(str(path / name), "wb") as file:
                return _written(file, name, tables)
        sink = pa.BufferOutputStream()
        pieces = _written(sink, name, tables)
        with _typed(self.folder):
            obstore.put(store_at(self.folder), name, memoryview(sink.getvalue()))
        return pieces

    def get(self, piece: Piece) -> pa.Table:
        """Reads one of the tables."""
        assert isinstance(piece, Stretch)
        path = self.folder.path
        with _typed(self.folder):
            if path is None:
                store = store_at(self.folder)
                fetched = obstore.get_range(store, piece.file, start=piece.start, length=piece.length)
                return pa.ipc.open_stream(pa.py_buffer(fetched)).read_all()
            with (path / piece.file).open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return pa.ipc.open_stream(pa.py_buffer(mapped).slice(piece.start, piece.length)).read_all()


Scratch = Memory | Files


def _written(sink: pa.NativeFile, name: str, tables: Sequence[pa.Table]) -> tuple[Piece, ...]:
    pieces = []
    for table in tables:
        start = sink.tell()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        pieces.append(Stretch(name, start, sink.tell() - start))
    return tuple(pieces)


@contextmanager
def scratch_files(graph: Location, operation_id: str) -> Iterator[Files]:
    """A folder for the files of one job, while the block runs. What dead jobs left is removed first."""
    for name in dead_jobs(graph, wait=0):
        remove_job(graph, name)
    lock = locks_at(graph.child(SCRATCH)).take(operation_id, "bulk work", 0)
    try:
        folder = graph.child(SCRATCH, operation_id)
        if folder.path is not None:
            with _typed(folder):
                folder.path.mkdir()
        yield Files(folder)
    finally:
        _remove(graph, operation_id, lock)


def dead_jobs(graph: Location, *, wait: float) -> list[str]:
    """The jobs whose folders are there and whose processes are not; on an object store that takes a while to know.

    A job takes its lock before it makes its folder. So a folder whose lock can be had is a dead one's.
    """
    locks = locks_at(graph.child(SCRATCH))
    names = [name for name in objects_at(graph).folders(SCRATCH) if name != LOCK_FOLDER]
    locks.look(names)
    dead = []
    for name in names:
        with suppress(Taken):
            locks.take(name, "a look", wait).release()
            dead.append(name)
    return dead


def remove_job(graph: Location, name: str) -> None:
    """Removes the folder of a dead job, unless another does."""
    with suppress(Taken):
        _remove(graph, name, locks_at(graph.child(SCRATCH)).take(name, "removal", 0))


def _remove(graph: Location, name: str, lock: Lock) -> None:
    """Removes the folder of a job and then its lock, while it is held. What cannot be removed is for cleanup."""
    try:
        objects_at(graph).delete_folder(f"{SCRATCH}/{name}")
        objects_at(graph.child(SCRATCH)).delete(lock_file(name))
    except StorageError as error:
        _logger.warning("the folder of job %s stays for cleanup: %s", name, error)
    finally:
        lock.release()


@contextmanager
def _typed(folder: Location) -> Iterator[None]:
    try:
        yield
    except (OSError, BaseError, pa.ArrowInvalid) as error:
        raise StorageError(folder.uri, f"rows cannot be put aside: {error}") from error
