"""The format `omnigraph` of Spark, writing: a data frame becomes rows of one type, as one commit of the graph.

Tasks only put their rows aside, below the graph and where no reader looks. When all have, the driver loads them through
the protocol of every write, with every check; when one fails for good, they are removed. A write whose driver died in
between leaves its rows aside, and the next write removes what is older than a day.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import datasource
from ulid import ULID

from omnigraph.branching.branches import begun, place_of
from omnigraph.catalog import Catalog, EntityType
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import NotFound, UsageError
from omnigraph.failpoints import Writer as WriterKind
from omnigraph.graph.guard import GraphGuard
from omnigraph.graph.writes import WriteRequest, Writes, open_for_writing
from omnigraph.loading.inputs import LoadInput
from omnigraph.loading.load import load, load_mode
from omnigraph.loading.sources import PART_ROWS, Rows
from omnigraph.loading.tasks import LoadMode
from omnigraph.parts import InProcess
from omnigraph.parts.choice import Choice
from omnigraph.parts.leftovers import INCOMING, old_incoming
from omnigraph.parts.scratch import Files, Stretch
from omnigraph.policy import guard_of
from omnigraph.storage import Location, location_of, objects_at
from omnigraph.storage.files import store_time
from omnigraph.versioning import MAIN, Branches, Snapshot

STORAGE = "storage."


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What the options of a write ask for.

    `type` is the node or edge type, `branch` where the commit goes, which with `from` is created there first if it does
    not exist, `actor` who it is by, `policy` the rule file as in `omnigraph.open`. ``.mode("append")`` takes new
    entities only, unless the option `mode` is ``merge``; ``.mode("overwrite")`` leaves only these of the type.
    """

    graph: Location
    type: str
    branch: str = MAIN
    from_: str | None = None
    actor: str | None = None
    mode: LoadMode = LoadMode.APPEND
    policy: str | None = None


def write_options(options: Mapping[str, str], *, overwrite: bool) -> WriteOptions:
    """The options of a write, checked as far as they can be without the graph."""
    given = {name.lower(): value for name, value in options.items()}
    if "path" not in given:
        raise UsageError("save needs the graph: .save('graph.omni')")
    if "type" not in given:
        raise UsageError("the option `type` names the node or edge type to write")
    storage = {name.removeprefix(STORAGE): value for name, value in given.items() if name.startswith(STORAGE)}
    return WriteOptions(
        graph=location_of(given["path"], storage),
        type=given["type"],
        branch=given.get("branch", MAIN),
        from_=given.get("from"),
        actor=given.get("actor"),
        policy=given.get("policy"),
        mode=LoadMode.OVERWRITE if overwrite else load_mode(given.get("mode", LoadMode.APPEND)),
    )


@dataclass
class RowsAside(datasource.WriterCommitMessage):
    """What one task has put aside."""

    pieces: tuple[tuple[Stretch, int], ...] = field(default=())


class Writer(datasource.DataSourceArrowWriter):
    """Puts the rows of each task aside, and loads all of them at the end."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        # Before anything of the graph is told, even whether it has such a type.
        _guard(options, Branches(options.graph)).check_load(options.branch, options.from_)
        at = _began_on(options)
        self._table_key = _entity(at.catalog, options.type).table_key
        self._schema_id = at.commit.schema_id
        self._operation = str(ULID())
        for folder in old_incoming(options.graph, store_time(options.graph)):
            objects_at(options.graph).delete_folder(folder)
        if options.graph.path is not None:
            (options.graph.path / INCOMING / self._operation).mkdir(parents=True, exist_ok=True)

    @property
    def _files(self) -> Files:
        return Files(self._options.graph.child(INCOMING, self._operation))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsAside:
        pieces: list[tuple[Stretch, int]] = []
        for rows in _grouped(iterator):
            (piece,) = self._files.put([rows])
            assert isinstance(piece, Stretch)
            pieces.append((piece, rows.num_rows))
        return RowsAside(tuple(pieces))

    def commit(self, messages: "list[datasource.WriterCommitMessage | None]") -> None:
        try:
            self._load([message for message in messages if isinstance(message, RowsAside)])
        finally:
            self._remove()

    def abort(self, messages: "list[datasource.WriterCommitMessage | None]") -> None:  # noqa: ARG002 - Spark's
        self._remove()

    def _load(self, messages: Sequence[RowsAside]) -> None:
        options = self._options
        branches = Branches(options.graph)
        open_for_writing(options.graph, branches)
        guard = _guard(options, branches)
        guard.check_load(options.branch, options.from_)
        given = LoadInput(aside=tuple(self._rows(messages)))
        request = WriteRequest(
            kind=WriterKind.LOAD,
            branch=options.branch,
            actor=guard.actor,
            message=f"load {options.type}",
            schema_id=self._schema_id,
            allowed=guard.changing(options.branch),
        )
        choice = Choice("local", "the rows are already here")
        with (
            begun(options.graph, branches, options.branch, options.from_),
            guard.hiding_details(options.branch, lambda: branches.snapshot(branches.log(options.branch).head())),
        ):
            Writes(options.graph, branches).run(
                request, lambda attempt: load(attempt, given, options.mode, InProcess(), choice)
            )

    def _rows(self, messages: Sequence[RowsAside]) -> Iterator[Rows]:
        for number, message in enumerate(messages):
            first = 0
            for piece, count in message.pieces:
                name = f"{self._options.type} partition {number}"
                yield Rows(name, self._table_key, piece, first, self._files)
                first += count

    def _remove(self) -> None:
        objects_at(self._options.graph).delete_folder(f"{INCOMING}/{self._operation}")


def _guard(options: WriteOptions, branches: Branches) -> GraphGuard:
    return GraphGuard(guard_of(options.graph.uri, options.policy, options.actor), branches)


def _began_on(options: WriteOptions) -> Snapshot:
    """What rows are written to: the newest state of the branch, or what it will begin on."""
    branches = Branches(options.graph)
    try:
        return branches.snapshot(branches.log(options.branch).head())
    except NotFound:
        if options.from_ is None:
            raise
        return branches.snapshot(branches.manifest_at(place_of(branches, options.from_)))


def _entity(catalog: Catalog, name: str) -> EntityType:
    entity = catalog.entity(name)
    if entity is None:
        raise NotFound("type", name, did_you_mean(name, [*catalog.nodes, *catalog.edges]))
    return entity


def _grouped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches, together about as many rows as one part should have."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= PART_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)
