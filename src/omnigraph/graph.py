"""The façade: one thin object, one method a verb."""

import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar

from omnigraph.catalog import Catalog
from omnigraph.compiler import CompiledQuery, compile_query
from omnigraph.errors import NotFound, QueryError, SchemaError, UsageError
from omnigraph.failpoints import Writer
from omnigraph.operations.branches import BranchInfo, create, delete, listed
from omnigraph.operations.export import exported_lines, write_lines
from omnigraph.operations.files import read_schema_files
from omnigraph.operations.indexes import build_missing_indexes
from omnigraph.operations.init import create_graph
from omnigraph.operations.load import LoadMode, LoadResult, load_files
from omnigraph.operations.mutate import MutationResult, mutate
from omnigraph.operations.read import QueryResult, planned, read
from omnigraph.operations.records import Progress
from omnigraph.operations.writing import WriteRequest, Writes
from omnigraph.query import AdjacencyCache
from omnigraph.recovery import Mode as RecoveryMode
from omnigraph.recovery import Recoveries, recover, remove_torn_head
from omnigraph.storage import Location, among, location_of, refuse_careless_store
from omnigraph.syntax import QUERY, SCHEMA, Language, decoded
from omnigraph.versioning import (
    MAIN,
    Branches,
    Commit,
    CommitGraph,
    Manifest,
    Snapshot,
    commit_with_id,
    manifest_at_time,
    manifest_of_commit,
)
from omnigraph.write import WriteAttempt

Mode = Literal["r", "rw"]
Durability = Literal["full", "fast"]
_KEPT_QUERIES = 256
_Result = TypeVar("_Result")
_logger = logging.getLogger(__name__)


class Schema:
    """The accepted schema of a graph."""

    def __init__(self, text: str, catalog: Catalog) -> None:
        self.text = text
        self.catalog = catalog


class Commits:
    """The history of a graph."""

    def __init__(self, branches: Branches) -> None:
        self._branches = branches

    def list(self, branch: str = MAIN, limit: int | None = None, actor: str | None = None) -> list[Commit]:
        """The commits that are part of a branch, also those that it merged; each before its parents."""
        if limit is not None and limit < 0:
            raise UsageError(f"a limit is not below zero: {limit}")
        commits = CommitGraph(self._branches).reachable(self._branches.log(branch).head().commit)
        chosen = (commit for commit in commits if actor is None or commit.actor == actor)
        return [*islice(chosen, limit)]

    def show(self, commit_id: str) -> Commit:
        """One commit."""
        return commit_with_id(self._branches, commit_id)


class GraphBranches:
    """The branches of a graph."""

    def __init__(self, location: Location, branches: Branches, mode: Mode) -> None:
        self._location = location
        self._branches = branches
        self._mode = mode

    def create(self, name: str, from_: str = MAIN) -> BranchInfo:
        """A new branch at the head of a branch or at a commit; costs the same for any size of graph."""
        _check_writable(self._mode)
        return create(self._location, self._branches, name, from_)

    def delete(self, name: str) -> None:
        """The end of a branch. Refused while others that began on it are there."""
        _check_writable(self._mode)
        delete(self._location, self._branches, name)

    def list(self) -> list[BranchInfo]:
        """All branches with their heads, `main` first."""
        return listed(self._branches)


class Graph:
    """A graph. Reads see one commit, whole; writes become one commit, or nothing."""

    def __init__(self, location: Location, mode: Mode) -> None:
        self._location = location
        self._mode = mode
        self._branches = Branches(location)
        text, catalog = read_schema_files(location)
        self.schema = Schema(text, catalog)
        self.commits = Commits(self._branches)
        self.branches = GraphBranches(location, self._branches, mode)
        self.recoveries = Recoveries(location)
        self._writes = Writes(location, catalog, self._branches)
        self._queries: dict[tuple[str, str, str | None], CompiledQuery] = {}
        self._adjacency = AdjacencyCache()

        if mode == "rw":
            refuse_careless_store(location)
            remove_torn_head(self._branches.main)
            recover(location, self._branches, RecoveryMode.FULL, patient=True)

    @property
    def uri(self) -> str:
        """Where the graph lives."""
        return self._location.uri

    @property
    def durability(self) -> Durability:
        """Whether an acknowledged commit survives a power cut (``full``) or may not (``fast``)."""
        return "full" if self._location.durable else "fast"

    def refresh(self) -> None:
        """Catches up with other processes; of a graph open for writing, also completes writes that they left undone.

        Every read and write looks for the newest commit anyway, so only a process that has been idle needs this.
        """
        if self._mode == "rw":
            self._writes.heal(patient=False)
        self._branches.main.head()

    # --- reading ---

    def snapshot(self, branch: str = MAIN) -> Snapshot:
        """The graph as it is now."""
        return self._snapshot(self._branches.log(branch).head())

    def snapshot_at(
        self,
        *,
        version: int | None = None,
        commit: str | None = None,
        time: datetime | None = None,
        branch: str = MAIN,
    ) -> Snapshot:
        """The graph as it was: at a commit, or at a version of a branch or an instant in its history."""
        given = [each for each in (version, commit, time) if each is not None]
        if len(given) != 1:
            raise UsageError("name one of version, commit and time")
        if version is not None:
            return self._snapshot(self._branches.log(branch).at(version))
        if commit is not None:
            return self._snapshot(manifest_of_commit(self._branches, commit))
        assert time is not None
        if time.tzinfo is None:
            raise UsageError("a time needs a zone")
        return self._snapshot(manifest_at_time(self._branches, self._branches.log(branch), time))

    def entity(self, type: str, id: str, at: Snapshot | str | int | datetime | None = None) -> dict[str, Any] | None:
        """One entity with its properties, now or at a snapshot, commit, version or time; None if it is not there."""
        snapshot = self._resolved(at)
        entity = snapshot.catalog.entity(type)
        if entity is None:
            raise NotFound("type", type)
        if not isinstance(id, str):
            raise UsageError(f"an id is a text, not {id!r}")
        rows: list[dict[str, Any]] = snapshot.table(entity.table_key).scan(filter=among("id", [id])).to_pylist()
        return rows[0] if rows else None

    def _resolved(self, at: Snapshot | str | int | datetime | None) -> Snapshot:
        match at:
            case None:
                return self.snapshot()
            case Snapshot():
                return at
            case str():
                return self.snapshot_at(commit=at)
            case int() if not isinstance(at, bool):
                return self.snapshot_at(version=at)
            case datetime():
                return self.snapshot_at(time=at)
        raise UsageError(f"a snapshot is named by a commit, a version or a time, not by {at!r}")

    def query(
        self,
        source: str | Path,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = MAIN,
        snapshot: Snapshot | str | int | datetime | None = None,
        engine: str = "auto",
    ) -> QueryResult:
        """Runs a query that reads: on the head of a branch, or on a snapshot, commit, version or time."""
        _check_engine(engine)
        at = self.snapshot(branch) if snapshot is None else self._resolved(snapshot)
        return read(self._compiled(source, name), params or {}, at, self._adjacency)

    def explain(self, source: str | Path, name: str | None = None, params: Mapping[str, Any] | None = None) -> str:
        """How a query will be answered: what is scanned with which columns and filters, walked, joined and sorted."""
        return planned(self._compiled(source, name), params or {}, self.snapshot()).explain()

    def export(
        self,
        path: str | Path | None = None,
        branch: str = MAIN,
        types: Collection[str] | None = None,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[str] | int:
        """The graph as NDJSON: the lines, or how many of them were written to a file."""
        lines = exported_lines(self.snapshot(branch), [types] if isinstance(types, str) else types)
        return lines if path is None else write_lines(Path(path), lines, progress)

    # --- writing ---

    def mutate(
        self,
        source: str | Path,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        if_commit: str | None = None,
    ) -> MutationResult:
        """Runs a mutation; with `if_commit`, only on top of that commit."""
        query = self._compiled(source, name)

        def run(attempt: WriteAttempt) -> MutationResult:
            return mutate(attempt, query, params or {})

        request = WriteRequest(
            kind=Writer.MUTATE,
            branch=branch,
            actor=actor,
            message=query.name,
            if_commit=if_commit,
            tables=query.access.writes,
        )
        return self._write(request, run)

    def load(
        self,
        data: str | Path | Sequence[str | Path],
        mode: LoadMode | str = LoadMode.APPEND,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        engine: str = "auto",
        progress: Progress | None = None,
    ) -> LoadResult:
        """Loads NDJSON files as one commit."""
        _check_engine(engine)
        paths = [Path(data)] if isinstance(data, str | Path) else [Path(each) for each in data]
        if mode not in list(LoadMode):
            raise UsageError(f"a load appends, merges or overwrites; there is no mode {mode!r}")
        chosen = LoadMode(mode)
        for path in paths:
            if not path.is_file():
                raise NotFound("file", str(path))

        def run(attempt: WriteAttempt) -> LoadResult:
            return load_files(attempt, paths, chosen, progress)

        message = f"load {', '.join(path.name for path in paths)}"
        return self._write(WriteRequest(kind=Writer.LOAD, branch=branch, actor=actor, message=message), run)

    def ensure_indices(self, *, actor: str | None = None) -> dict[str, list[str]]:
        """Builds the indexes that are missing, as one commit; returns the columns by table."""

        def run(attempt: WriteAttempt) -> dict[str, list[str]]:
            return build_missing_indexes(attempt)[1]

        return self._write(WriteRequest(kind=Writer.ENSURE_INDICES, actor=actor, message="indexes"), run)

    def _write(self, request: WriteRequest, work: Callable[[WriteAttempt], _Result]) -> _Result:
        _check_writable(self._mode)
        return self._writes.run(request, work)

    def _compiled(self, source: str | Path, name: str | None) -> CompiledQuery:
        """A query of a source, compiled once as long as it is among the last that were used."""
        text, file = (source, "<query>") if isinstance(source, str) else (_text(source, QUERY), str(source))
        key = (text, file, name)
        if key not in self._queries:
            if len(self._queries) >= _KEPT_QUERIES:
                self._queries.pop(next(iter(self._queries)), None)
            self._queries[key] = compile_query(text, self.schema.catalog, name, name=file)
        return self._queries[key]

    def _snapshot(self, manifest: Manifest) -> Snapshot:
        return Snapshot(self._location, self.schema.catalog, manifest)


def init(
    uri: str | Path,
    schema: str | Path,
    *,
    storage_options: dict[str, str] | None = None,
    durability: str | None = None,
) -> Graph:
    """Creates a graph with this schema, given as text or as the path of a file; fails if a graph is there."""
    location = _location(uri, storage_options, durability)
    text, name = _schema_text(schema)
    refuse_careless_store(location)
    create_graph(location, text, name=name)
    return Graph(location, "rw")


def open(
    uri: str | Path,
    mode: Mode = "rw",
    *,
    storage_options: dict[str, str] | None = None,
    durability: str | None = None,
) -> Graph:
    """Opens a graph. For writing, what writers left unfinished is settled first; with ``mode="r"`` nothing is written.

    With ``durability="fast"`` a commit is acknowledged before it is on the disk. Without one given,
    ``OMNIGRAPH_DURABILITY`` decides, and else it is ``"full"``.
    """
    if mode not in ("r", "rw"):
        raise UsageError(f'a graph is opened with mode "r" or "rw", not {mode!r}')
    return Graph(_location(uri, storage_options, durability), mode)


def _location(uri: str | Path, storage_options: dict[str, str] | None, durability: str | None) -> Location:
    chosen = durability or os.environ.get("OMNIGRAPH_DURABILITY", "full")
    if chosen not in ("full", "fast"):
        raise UsageError(f'durability is "full" or "fast", not {chosen!r}')
    location = location_of(uri, storage_options, durable=chosen == "full")
    if location.path is not None and not location.durable:
        _logger.warning(
            "%s: durability is fast; a power cut may take back commits that were acknowledged", location.uri
        )
    return location


def _schema_text(schema: str | Path) -> tuple[str, str]:
    """A schema's text and its name; a text is told from a path by what only a schema has."""
    if isinstance(schema, Path) or not any(mark in schema for mark in "{\n"):
        return _text(Path(schema), SCHEMA), str(schema)
    return schema, "<schema>"


def _text(path: Path, language: Language) -> str:
    """The text of a file; one that is not text is reported like any other mistake in it."""
    if not path.is_file():
        raise NotFound("file", str(path))
    source, problem = decoded(str(path), path.read_bytes(), language)
    if problem is not None:
        raise (SchemaError if language is SCHEMA else QueryError)([problem])
    return source.text


def _check_writable(mode: Mode) -> None:
    if mode == "r":
        raise UsageError("this graph was opened for reading")


def _check_engine(engine: str) -> None:
    """Everything runs in the process so far, which is what `auto` chooses."""
    if engine not in ("auto", "local"):
        raise UsageError(f"the engine is auto or local; {engine!r} is not there")
