"""The format `omnigraph` of Spark, writing: a data frame becomes rows of one type, as one commit of the graph.

Tasks only put their rows aside, below the graph and where no reader looks. When all have, the driver loads them through
the protocol of every write, with every check; when one fails for good, they are removed. A write whose driver died in
between leaves its rows aside, and the next write removes what is older than a day.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import datasource
from ulid import ULID

from omnigraph.api.base import MAIN
from omnigraph.api.data import LoadMode
from omnigraph.api.words import LOCAL
from omnigraph.errors import NotFound, UsageError
from omnigraph.graph.graph import Graph
from omnigraph.graph.session import Session, open_session
from omnigraph.loading.inputs import StagedRows
from omnigraph.loading.sources import PART_ROWS
from omnigraph.parts.leftovers import INCOMING, old_incoming
from omnigraph.parts.scratch import Files, Stretch
from omnigraph.policy import Guard, guard_of
from omnigraph.storage import Location, location_of, objects_at
from omnigraph.storage.files import store_time

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
    mode: str = LoadMode.APPEND
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
        mode=LoadMode.OVERWRITE if overwrite else given.get("mode", LoadMode.APPEND),
    )


@dataclass
class RowsAside(datasource.WriterCommitMessage):
    """What one task has put aside."""

    pieces: tuple[tuple[Stretch, int], ...] = field(default=())


class Writer(datasource.DataSourceArrowWriter):
    """Writes the rows of each task to files, and loads all of them at the end, as every load."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._operation = str(ULID())
        self._check(open_session(options.graph, "r", self._guard()))
        for folder in old_incoming(options.graph, store_time(options.graph)):
            objects_at(options.graph).delete_folder(folder)
        if options.graph.path is not None:
            (options.graph.path / INCOMING / self._operation).mkdir(parents=True, exist_ok=True)

    def _guard(self) -> Guard:
        return guard_of(self._options.graph.uri, self._options.policy, self._options.actor)

    def _check(self, session: Session) -> None:
        """Refuses early what the load would refuse; the policy first, as even the name of a type reveals something."""
        session.guard.check_load(self._options.branch, self._options.from_)
        try:
            at, _ = session.locate(None, self._options.branch)
        except NotFound:
            if self._options.from_ is None:
                raise
            at, _ = session.locate(self._options.from_)
        StagedRows(self._options.type, self._files, ()).input_for(at.catalog)

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
        options = self._options
        pieces = tuple(message.pieces for message in messages if isinstance(message, RowsAside))
        try:
            Graph(open_session(options.graph, "rw", self._guard())).load(
                StagedRows(options.type, self._files, pieces),
                options.mode,
                branch=options.branch,
                from_=options.from_,
                message=f"load {options.type}",
                engine=LOCAL,
            )
        finally:
            self._remove()

    def abort(self, messages: "list[datasource.WriterCommitMessage | None]") -> None:  # noqa: ARG002 - Spark's
        self._remove()

    def _remove(self) -> None:
        objects_at(self._options.graph).delete_folder(f"{INCOMING}/{self._operation}")


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
