"""The format `omnigraph` of Spark, as the source of a stream: what each commit of a branch changed in one type.

An offset is the number of a commit, and says where the stream began: Spark keeps the end of a batch and not its start,
and asks for the start of the first batch again when it repeats that batch. The id of the commit is in it too, so that a
checkpoint is not used for another history. Only commits count, and not what upkeep does to tables between them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource, types
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from omnigraph import failpoints
from omnigraph.api.history import ChangeKind, Commit
from omnigraph.catalog import EntityType
from omnigraph.changes import differing_type
from omnigraph.dataclass_later import dataclass
from omnigraph.datasource.change_rows import (
    ChangePiece,
    change_schema,
    group_pieces,
    has_same_columns,
    mark_of,
    pieces_of,
    read_pieces,
    whole_pieces,
)
from omnigraph.datasource.failures import brief_failures
from omnigraph.datasource.options import ChangesReadRequest, FormatOptions
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import ChangesGap, NotFound, StreamSchemaChanged, UsageError
from omnigraph.failpoints import Point
from omnigraph.policy import Action
from omnigraph.session.session import Session
from omnigraph.spark.types import exchanged_schema, spark_schema, to_spark
from omnigraph.versioning import (
    Manifest,
    ManifestLog,
    Snapshot,
    commit_of_version,
    commit_with_id,
    commits_between,
    first_number,
    manifest_after,
    manifest_at_time,
)

_ADVICE = (
    "start the query with another checkpoint and without a start, so that it begins with all entities as they are, "
    "or at a later version"
)


@dataclass(frozen=True, slots=True)
class ChangesOffset:
    """Where a stream stands: all commits up to `version` were read.

    The first commit that it read is the one after `first`; with `snapshot`, it began with the state of that number.
    An offset that is not `read` is that of a stream that is about to begin.
    """

    branch: str
    incarnation: str
    version: int
    commit: str
    first: int
    snapshot: bool
    read: bool = True

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "ChangesOffset":
        """The offset that Spark has kept."""
        try:
            return cls(**value)
        except TypeError as error:
            raise UsageError(f"the checkpoint has an offset of another source: {value}") from error

    def as_json(self) -> dict[str, Any]:
        """The offset as Spark keeps it."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesRead:
    """The type whose changes a stream reads, as it was when the frame was made, and the newest commit then."""

    request: ChangesReadRequest
    options: FormatOptions
    entity: EntityType
    head: int

    @property
    def schema(self) -> pa.Schema:
        """The columns of the stream."""
        return change_schema(self.entity)


def pin_changes(options: FormatOptions) -> ChangesRead:
    """What a stream reads. The policy is checked before anything is looked up."""
    request = ChangesReadRequest(**options.fields(ChangesReadRequest))
    request.check()
    session = options.open_session("r")
    session.guard.check(Action.READ, request.branch)
    at = session.head(request.branch)
    session.guard.check_types(Action.READ, at, request.branch, [request.type])
    entity = at.catalog.entity(request.type)
    if entity is None:
        raise NotFound("type", request.type, did_you_mean(request.type, [*at.catalog.nodes, *at.catalog.edges]))
    change_schema(entity)
    return ChangesRead(request=request, options=options, entity=entity, head=at.commit.manifest_version)


class ChangesReader(datasource.DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the changes of one type of a branch, in batches of whole commits."""

    def __init__(self, read: ChangesRead, schema: types.StructType) -> None:
        if schema != spark_schema(read.schema):
            raise UsageError("a stream has the columns of the type and of its changes: remove `.schema(…)`")
        self._read = read
        self._schema = exchanged_schema(read.schema)
        self._session: Session | None = None
        self._target: int | None = None
        self._counted: dict[int, list[ChangePiece]] = {}
        self._known: ChangesOffset | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Tasks need only the schema and the type."""
        return {**vars(self), "_session": None, "_counted": {}, "_known": None}

    # --- where batches begin and end ---

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        with brief_failures():
            session, log = self._open()
            first = self._first_version(session, log)
            commit = commit_of_version(log, first)
            if not self._begins_with_all and first < self._newest(log):
                self._state(session, log, commit, first + 1)
            request = self._read.request
            return ChangesOffset(
                request.branch,
                log.incarnation,
                first,
                commit.graph_commit_id,
                first,
                snapshot=self._begins_with_all,
                read=False,
            ).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's
        """Spark knows no limit of commits; it gives back what it gets here, unless it wants all that there is."""
        rows = self._read.request.max_rows
        return ReadMaxFiles(self._read.request.max_commits) if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        with brief_failures():
            self._target = self._open()[1].head().commit.manifest_version

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's
        with brief_failures():
            found = self._next_offset(
                ChangesOffset.from_json(start), is_limited=not isinstance(limit, ReadAllAvailable)
            )
            failpoints.hit(Point.STREAM_OFFSET_CHOSEN)
            return found.as_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's
        with brief_failures():
            _, log = self._open()
            head = log.head().commit
            return {"version": head.manifest_version, "commit": head.graph_commit_id}

    def _next_offset(self, start: ChangesOffset, *, is_limited: bool) -> ChangesOffset:
        session, log = self._open()
        self._check_offset(log, start)
        request = self._read.request
        if not start.read and (start.snapshot or request.starts_now):
            # The first batch has the state at the start, or nothing: Spark then keeps where the stream has begun.
            return replace(start, read=True)
        newest = self._newest(log)
        if is_limited:
            newest = min(newest, start.version + request.max_commits)
        commits: Sequence[Commit] = commits_between(log, start.version, newest)
        commits = self._with_known_columns(session, commits)
        if is_limited and request.max_rows is not None:
            commits = self._up_to_rows(session, log, commits, request.max_rows)
        if not commits:
            return start
        return replace(start, version=commits[-1].manifest_version, commit=commits[-1].graph_commit_id, read=True)

    def _first_version(self, session: Session, log: ManifestLog) -> int:
        """The state that the stream begins with, or whose changes come after it."""
        request, oldest = self._read.request, first_number(log)
        if self._begins_with_all or request.starts_now:
            return self._newest(log)
        if request.starting_commit is not None:
            commit = commit_with_id(session.branches, request.starting_commit)
            if commit.branch != log.branch or commit.incarnation != log.incarnation:
                problem = f"it is not a commit of branch `{log.branch}` itself"
                raise UsageError(f"invalid option `startingCommit` {request.starting_commit!r}: {problem}")
            return max(commit.manifest_version - 1, oldest)
        if (time := request.starting_time) is not None:
            if time > log.head().commit.created_at:
                problem = f"the newest commit was made at {log.head().commit.created_at.isoformat()}"
                advice = "to read what changes from now on, set `startingVersion` to `latest`"
                raise UsageError(
                    f"invalid option `startingTimestamp` {request.starting_timestamp!r}: {problem}; {advice}"
                )
            return max(self._last_before(session, log, time, oldest), oldest)
        assert request.starting_version is not None, "the start is a version"
        number, newest = int(request.starting_version), log.head().commit.manifest_version
        # The changes of the version that comes next are those that the stream waits for.
        if number > newest + 1 or number < oldest:
            problem = f"branch `{log.branch}` has the versions {oldest} to {newest}"
            raise UsageError(f"invalid option `startingVersion` '{number}': {problem}")
        return max(number - 1, oldest)

    @staticmethod
    def _last_before(session: Session, log: ManifestLog, time: Any, oldest: int) -> int:
        """The last commit of the branch that was made before a time."""
        try:
            found = manifest_at_time(session.branches, log, time).commit
        except NotFound:
            return oldest
        number = found.manifest_version
        # Those that were made at this very time count as later.
        while number > oldest and commit_of_version(log, number).created_at >= time:
            number -= 1
        return number

    def _newest(self, log: ManifestLog) -> int:
        """The last commit to read; a stream that ends with what is available does not see later ones."""
        newest = log.head().commit.manifest_version
        return newest if self._target is None else min(newest, self._target)

    @property
    def _begins_with_all(self) -> bool:
        request = self._read.request
        return (request.starting_version, request.starting_timestamp, request.starting_commit) == (None, None, None)

    def _with_known_columns(self, session: Session, commits: Sequence[Commit]) -> Sequence[Commit]:
        """The commits up to the first one that changes the columns of the type; raises if it is the first of all."""
        known: dict[str, bool] = {}
        for index, commit in enumerate(commits):
            if commit.manifest_version <= self._read.head:
                continue
            if commit.schema_id not in known:
                entity = session.branches.schemas.get(commit.schema_id).catalog.by_identity.get(
                    self._read.entity.identity
                )
                known[commit.schema_id] = entity is None or has_same_columns(entity, self._read.entity)
            if not known[commit.schema_id]:
                if not index:
                    raise StreamSchemaChanged(self._read.request.type, commit.graph_commit_id, commit.manifest_version)
                return commits[:index]
        return commits

    def _up_to_rows(self, session: Session, log: ManifestLog, commits: Sequence[Commit], most: int) -> Sequence[Commit]:
        """The first commits, with at most this many changes; the first one whatever it has."""
        self._counted = {}
        rows = 0
        for index, (commit, pieces) in enumerate(self._pieces(session, log, commits)):
            rows += sum(piece.rows for piece in pieces)
            if index and rows > most:
                return commits[:index]
            self._counted[commit.manifest_version] = pieces
        return commits

    # --- what a batch has ---

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[datasource.InputPartition]:
        with brief_failures():
            first, last = ChangesOffset.from_json(start), ChangesOffset.from_json(end)
            session, log = self._open()
            self._check_offset(log, last)
            pieces: list[ChangePiece] = []
            if not first.read:
                # A first batch that is repeated begins where it began, and not where a stream would begin now.
                first = replace(last, version=last.first, read=False)
                if last.snapshot:
                    pieces += self._all_rows(session, log, last.first)
            commits = commits_between(log, first.version, last.version)
            for _, found in self._pieces(session, log, commits):
                pieces += found
            self._counted = {}
            groups = group_pieces(pieces, self._read.request.partition_rows)
            failpoints.hit(Point.STREAM_BATCH_PLANNED)
            return [datasource.InputPartition(group) for group in groups]

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        with brief_failures():
            yield from to_spark(read_pieces(partition.value or (), self._read.entity), self._schema)
            failpoints.hit(Point.STREAM_CHANGES_READ)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: the graph does not know who reads it."""

    def _pieces(
        self, session: Session, log: ManifestLog, commits: Sequence[Commit]
    ) -> Iterator[tuple[Commit, list[ChangePiece]]]:
        """What each of some commits, which follow each other, changed."""
        before: Snapshot | None = None
        for commit in commits:
            number = commit.manifest_version
            pieces = self._counted.get(number)
            if pieces is not None:
                before = None
            else:
                earlier = before or self._state(session, log, commit_of_version(log, number - 1), number)
                before = self._state(session, log, commit, number)
                with session.branches.noticing_removal(earlier, before):
                    pieces = self._pieces_between(earlier, before, commit)
            yield commit, pieces

    def _pieces_between(self, before: Snapshot, after: Snapshot, commit: Commit) -> list[ChangePiece]:
        try:
            pair = differing_type(before, after, self._read.entity.identity)
            return [] if pair is None else pieces_of(commit, pair, self._read.request.partition_rows)
        except NotFound as error:
            raise ChangesGap(self._read.request.branch, commit.manifest_version, _ADVICE) from error

    def _all_rows(self, session: Session, log: ManifestLog, version: int) -> list[ChangePiece]:
        commit = commit_of_version(log, version)
        at = self._state(session, log, commit, version)
        entity = at.catalog.by_identity.get(self._read.entity.identity)
        if entity is None or entity.table_key not in at.manifest.pins:
            return []
        rows = self._read.request.partition_rows
        return whole_pieces(ChangeKind.INSERT, mark_of(commit), entity, at.table(entity.table_key), rows)

    def _state(self, session: Session, log: ManifestLog, commit: Commit, needed_by: int) -> Snapshot:
        """The graph after a commit, if the type may be read there; `needed_by` is the commit whose changes need it."""
        try:
            manifest: Manifest = manifest_after(log, commit)
        except NotFound as error:
            raise ChangesGap(log.branch, needed_by, _ADVICE) from error
        at = session.snapshot(manifest)
        entity = at.catalog.by_identity.get(self._read.entity.identity)
        if entity is not None:
            session.guard.check_types(Action.READ, at, log.branch, [entity.name])
        return at

    # --- the graph ---

    def _open(self) -> tuple[Session, ManifestLog]:
        if self._session is None:
            self._session = self._read.options.open_session("r")
            self._session.guard.check(Action.READ, self._read.request.branch)
        return self._session, self._session.branches.log(self._read.request.branch)

    def _check_offset(self, log: ManifestLog, offset: ChangesOffset) -> None:
        """Raises for an offset of another branch, another history or another graph."""
        if offset == self._known:
            return
        if offset.branch != log.branch:
            problem = f"it is about branch `{offset.branch}`, and the stream reads `{log.branch}`"
        elif offset.incarnation != log.incarnation:
            problem = f"branch `{log.branch}` was deleted and created again"
        else:
            try:
                found = commit_of_version(log, offset.version)
            except NotFound:
                problem = f"the graph has no version {offset.version}, because it is another one or was reset"
            else:
                if found.graph_commit_id == offset.commit:
                    self._known = offset
                    return
                problem = f"version {offset.version} is another commit, because the graph is another one or was reset"
        raise UsageError(f"the checkpoint does not fit the graph: {problem}; start the query with another checkpoint")
