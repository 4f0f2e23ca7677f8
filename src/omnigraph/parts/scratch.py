"""Scratch files of a bulk job, in which its tasks exchange rows: tables divided into buckets, on shared storage.

What one task writes is one file with a stretch of Arrow for each bucket, so that a reader of a bucket fetches only
that. The folder of a job lies in the graph, since all its tasks must reach it, and goes when the job ends. One whose
process was killed is removed by the next job, which sees that nobody holds its lock any more.
"""

import logging
import mmap
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import TypeAlias

import obstore
import pyarrow as pa
from obstore.exceptions import BaseError

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import StorageError
from omnigraph.storage.files import files_below
from omnigraph.storage.location import Location
from omnigraph.storage.locks import LOCK_FOLDER, Lock, Taken, lock_file, locks_at, seems_abandoned
from omnigraph.storage.object_stores import store_at
from omnigraph.storage.objects import objects_at, reason_of

_logger = logging.getLogger(__name__)

SCRATCH = "__bulk"


@dataclass(frozen=True, slots=True)
class Stretch:
    """A table that was spilled: a section of a file."""

    file: str
    start: int
    length: int


Piece: TypeAlias = Stretch | pa.Table
"""What was spilled for one bucket: on storage, or in the memory of a job that runs in one process."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Keeps tables in the memory of this process."""

    def put(self, tables: Sequence[pa.Table]) -> tuple[Piece, ...]:
        return tuple(tables)

    def get(self, piece: Piece) -> pa.Table:
        return piece


@dataclass(frozen=True, slots=True)
class Files:
    """Spills tables to files in a folder that every task can reach."""

    folder: Location

    def put(self, tables: Sequence[pa.Table]) -> tuple[Piece, ...]:
        """Writes the tables of all buckets as one file."""
        name = f"{uuid.uuid4().hex}.arrow"
        path = self.folder.path
        if path is not None:
            with _storage_errors(self.folder), pa.OSFile(str(path / name), "wb") as file:
                return _write_tables(file, name, tables)
        sink = pa.BufferOutputStream()
        pieces = _write_tables(sink, name, tables)
        with _storage_errors(self.folder):
            obstore.put(store_at(self.folder), name, memoryview(sink.getvalue()))
        return pieces

    def get(self, piece: Piece) -> pa.Table:
        """Reads one of the tables."""
        assert isinstance(piece, Stretch)
        path = self.folder.path
        with _storage_errors(self.folder):
            if path is None:
                store = store_at(self.folder)
                fetched = obstore.get_range(store, piece.file, start=piece.start, length=piece.length)
                return pa.ipc.open_stream(pa.py_buffer(fetched)).read_all()
            with (path / piece.file).open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return pa.ipc.open_stream(pa.py_buffer(mapped).slice(piece.start, piece.length)).read_all()

    def file_of(self, piece: Piece) -> str:
        """The name of the file that a piece is in."""
        assert isinstance(piece, Stretch)
        return piece.file

    def remove(self, files: Iterable[str]) -> None:
        """Removes files whose pieces no task reads any more; all others go with the folder."""
        objects = objects_at(self.folder)
        for name in files:
            objects.delete(name)


Scratch = Memory | Files


def _write_tables(sink: pa.NativeFile, name: str, tables: Sequence[pa.Table]) -> tuple[Piece, ...]:
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
            with _storage_errors(folder):
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
def _storage_errors(folder: Location) -> Iterator[None]:
    try:
        yield
    except (OSError, BaseError, pa.ArrowInvalid) as error:
        raise StorageError(folder.uri, f"rows cannot be spilled: {reason_of(error)}") from error


INCOMING = "__incoming"
"""Where tables that Spark writes wait for their load."""
_LEFT_BEHIND = timedelta(days=1)
"""Nobody holds a lock on what is incoming; so it is left behind when nobody has written to it for so long."""


def left_behind(graph: Location, now: datetime) -> list[str]:
    """The folders below a graph that no job needs any more. `now` is the time by the clock of the store."""
    dead = dead_jobs(graph, wait=locks_at(graph).patience)
    return [*(f"{SCRATCH}/{name}" for name in dead), *old_incoming(graph, now)]


def seen_left_behind(graph: Location, now: datetime) -> list[str]:
    """The same for those who only look: no lock is taken, and a job that may be alive is alive."""
    names = [name for name in objects_at(graph).folders(SCRATCH) if name != LOCK_FOLDER]
    dead = [name for name in names if seems_abandoned(graph.child(SCRATCH), name)]
    return [*(f"{SCRATCH}/{name}" for name in dead), *old_incoming(graph, now)]


def remove_left_behind(graph: Location, folders: Iterable[str]) -> None:
    """Removes folders that `left_behind` found."""
    for folder in folders:
        kind, _, name = folder.partition("/")
        if kind == SCRATCH:
            remove_job(graph, name)
        else:
            objects_at(graph).delete_folder(folder)


def old_incoming(graph: Location, now: datetime) -> list[str]:
    """The folders of tables that were to be loaded, and whose writer died: nobody has written to them for long."""
    newest: dict[str, datetime] = {}
    for file in files_below(graph.child(INCOMING)):
        folder = file.name.partition("/")[0]
        newest[folder] = max(file.modified, newest.get(folder, file.modified))
    return [f"{INCOMING}/{folder}" for folder, written in sorted(newest.items()) if now - written > _LEFT_BEHIND]
