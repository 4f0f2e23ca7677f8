"""The relational engine inside a process: one DuckDB in memory, and a connection for whoever needs one."""

import os
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import duckdb
import pyarrow as pa

from omnigraph.errors import OmnigraphError, QueryExceedsMemory, StorageError, TooBusy
from omnigraph.storage.environment import JOIN_BYTES

_root: duckdb.DuckDBPyConnection | None = None
_root_lock = threading.Lock()
_joining = 0

_idle: list[duckdb.DuckDBPyConnection] = []
"""Databases of queries with a limit that are not in use."""
_reserved: list[int] = []
"""The memory of those that are."""
_Joining: TypeAlias = tuple[duckdb.DuckDBPyConnection, Callable[[], OmnigraphError]]
"""A connection, and the error of a query on it that runs out of memory."""

_LEAST_BYTES = 32 * 1024 * 1024
"""DuckDB itself needs some."""

_MEMORY_IS_SHORT, _FILES_FAILED = "Out of Memory Error", "IO Error"
_RETRY_AFTER = 1


@contextmanager
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of one's own to the database in memory that the process shares: opening one takes 30 ms.

    It has as many threads as Arrow, which in a task are those of the task. What does not fit into its memory goes to
    files. DuckDB removes them, also those of processes that were killed, when it needs the folder next.
    """
    global _root  # noqa: PLW0603
    with _root_lock:
        if _root is None:
            _root = duckdb.connect(":memory:", config=_settings())
        cursor = _root.cursor()
    try:
        cursor.execute("SET enable_progress_bar = false")
        yield cursor
    finally:
        cursor.close()


@contextmanager
def joining(most_bytes: int | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection for a query, which ends in `QueryExceedsMemory` if its joins and sorts need more than `most_bytes`.

    Without a limit they share the memory of all queries, and the error is `TooBusy` if the query is not alone there.
    Rows are computed while they are fetched, and what goes wrong then comes through Arrow, as text.
    """
    with _shared_database() if most_bytes is None else _limited_database(most_bytes) as (duck, out_of_memory):
        try:
            yield duck
        except duckdb.OutOfMemoryException as error:
            raise out_of_memory() from error
        except duckdb.IOException as error:
            raise StorageError(tempfile.gettempdir(), str(error)) from error
        except OSError as error:
            if str(error).startswith(_MEMORY_IS_SHORT):
                raise out_of_memory() from error
            if str(error).startswith(_FILES_FAILED):
                raise StorageError(tempfile.gettempdir(), str(error)) from error
            raise


@contextmanager
def _shared_database() -> Iterator[_Joining]:
    """The database of the process."""
    global _joining  # noqa: PLW0603
    with _root_lock:
        _joining += 1

    def out_of_memory() -> QueryExceedsMemory | TooBusy:
        if _joining == 1:
            return QueryExceedsMemory(JOIN_BYTES)
        return TooBusy("the queries that run need more memory together than there is", _RETRY_AFTER)

    try:
        with connection() as duck:
            yield duck, out_of_memory
    finally:
        with _root_lock:
            _joining -= 1


@contextmanager
def _limited_database(most_bytes: int) -> Iterator[_Joining]:
    """A database that no other query uses meanwhile: DuckDB counts memory by database, not by query.

    Opening one takes 30 ms, so it is kept for the next query. All of them together get no more memory than the shared
    one; a query that finds less than its limit left puts the rest into temporary files.
    """
    allowed = max(most_bytes, _LEAST_BYTES)
    with _root_lock:
        memory = max(min(allowed, JOIN_BYTES - sum(_reserved)), _LEAST_BYTES)
        _reserved.append(memory)
        database = _idle.pop() if _idle else None
    try:
        if database is None:
            database = duckdb.connect(":memory:", config=_settings())
            database.execute("SET enable_progress_bar = false")
        database.execute(f"SET memory_limit = '{memory}B'")
        database.execute(f"SET max_temp_directory_size = '{allowed - memory}B'")
        with closing(database.cursor()) as cursor:
            yield cursor, lambda: QueryExceedsMemory(most_bytes)
    finally:
        with _root_lock:
            _reserved.remove(memory)
            if database is not None:
                _idle.append(database)


def _settings() -> dict[str, str | bool | int | float | list[str]]:
    return {"threads": pa.cpu_count(), "memory_limit": f"{JOIN_BYTES}B", "temp_directory": str(_private_folder())}


def _private_folder() -> Path:
    """Where only this user reads and writes. One folder for all processes, so that each removes what dead ones left."""
    folder = Path(tempfile.gettempdir()) / f"omnigraph-joins-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) == 0o700
    return folder if is_ours else Path(tempfile.mkdtemp(prefix=f"{folder.name}-"))
