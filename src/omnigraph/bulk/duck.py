"""The relational engine inside a process: one DuckDB in memory, and a connection for whoever needs one."""

import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb
import pyarrow as pa

from omnigraph.errors import QueryExceedsMemory, StorageError, TooBusy
from omnigraph.storage.memory import JOIN_BYTES

_root: duckdb.DuckDBPyConnection | None = None
_root_lock = threading.Lock()
_joining = 0

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
def joining() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection for a query, of which it is told if it needs more memory than there is, alone or beside others.

    Rows are computed while they are fetched, and what goes wrong then comes through Arrow, as text.
    """
    global _joining  # noqa: PLW0603
    with _root_lock:
        _joining += 1
    try:
        with connection() as duck:
            yield duck
    except duckdb.OutOfMemoryException as error:
        raise _out_of_memory() from error
    except duckdb.IOException as error:
        raise StorageError(tempfile.gettempdir(), str(error)) from error
    except OSError as error:
        if str(error).startswith(_MEMORY_IS_SHORT):
            raise _out_of_memory() from error
        if str(error).startswith(_FILES_FAILED):
            raise StorageError(tempfile.gettempdir(), str(error)) from error
        raise
    finally:
        with _root_lock:
            _joining -= 1


def _out_of_memory() -> QueryExceedsMemory | TooBusy:
    if _joining == 1:
        return QueryExceedsMemory(JOIN_BYTES)
    return TooBusy("the queries that run need more memory together than there is", _RETRY_AFTER)


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
