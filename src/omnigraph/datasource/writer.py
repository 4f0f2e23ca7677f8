"""The format `omnigraph` of Spark, writing: a data frame becomes rows of one type, as one commit of the graph.

Tasks write their rows to staging files below the graph, where no reader looks. When all are done, the driver loads the
files as every load does, with every check. If a task fails for good, the files are removed. A driver that dies in
between leaves them, and a later write removes what is older than a day.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

import pyarrow as pa
from pyspark.sql import datasource
from ulid import ULID

from omnigraph.api.data import LoadMode, LoadRequest
from omnigraph.api.words import LOCAL
from omnigraph.dataclass_later import dataclass
from omnigraph.datasource.failures import brief_failures
from omnigraph.datasource.options import FormatOptions
from omnigraph.errors import NotFound
from omnigraph.graph.graph import run_verb
from omnigraph.lineage import deliver_waiting
from omnigraph.loading.batches import LoadKey
from omnigraph.loading.inputs import StagedRows
from omnigraph.loading.sources import PART_ROWS
from omnigraph.parts.scratch import INCOMING, Files, Stretch, old_incoming
from omnigraph.storage.files import store_time
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at

_SECONDS_FOR_LINEAGE = 5.0


@dataclass
class StagedFiles(datasource.WriterCommitMessage):
    """What one task has written, and the folder of the write that it belongs to."""

    folder: str
    pieces: tuple[tuple[Stretch, int], ...] = field(default=())


Messages = Sequence[datasource.WriterCommitMessage | None]


@dataclass(frozen=True, slots=True)
class StagedLoad:
    """A load of rows that tasks of Spark stage; `replaces` means that they replace all entities of the type."""

    options: FormatOptions
    replaces: bool = field(kw_only=True)

    def check(self, key: LoadKey | None = None) -> None:
        """Refuses early what the load would refuse; the policy first, as even the name of a type reveals something."""
        request = self._request(StagedRows(self.options.type_name, self._files(""), ()), key)
        request.check()
        session = self.options.open_session("r")
        session.guard.check_load(request.branch, request.from_)
        try:
            at, _ = session.locate(None, request.branch)
        except NotFound:
            if request.from_ is None:
                raise
            at, _ = session.locate(request.from_)
        request.data.input_for(at.catalog)

    def stage(self, folder: str, batches: Iterator[pa.RecordBatch]) -> tuple[tuple[Stretch, int], ...]:
        """Writes the rows of a task to a folder, and returns where they are, with the number of rows."""
        files = self._files(folder)
        pieces: list[tuple[Stretch, int]] = []
        for rows in _group_batches(batches):
            if files.folder.path is not None:
                files.folder.path.mkdir(parents=True, exist_ok=True)
            (piece,) = files.put([rows])
            assert isinstance(piece, Stretch)
            pieces.append((piece, rows.num_rows))
        return tuple(pieces)

    def run(self, folder: str, messages: Messages, key: LoadKey | None = None) -> None:
        """Loads what tasks have staged in a folder. What older writes left behind is removed."""
        old = old_incoming(self._graph, store_time(self._graph))
        self.remove_folders(name.removeprefix(f"{INCOMING}/") for name in old)
        pieces = tuple(message.pieces for message in messages if isinstance(message, StagedFiles))
        rows = StagedRows(self.options.type_name, self._files(folder), pieces)
        try:
            run_verb(self.options.open_session("rw"), self._request(rows, key))
        finally:
            deliver_waiting(_SECONDS_FOR_LINEAGE)  # Spark ends its workers without exit handlers

    def staging_folders(self, prefix: str) -> list[str]:
        """The folders of staged rows whose names begin with a prefix."""
        return [name for name in objects_at(self._graph).folders(INCOMING) if name.startswith(prefix)]

    def remove_folders(self, names: Iterable[str]) -> None:
        """Removes folders of staged rows."""
        for name in names:
            objects_at(self._graph).delete_folder(f"{INCOMING}/{name}")

    def _request(self, rows: StagedRows, key: LoadKey | None) -> LoadRequest:
        """The load of the rows. It runs in the driver, whose session must not start another job."""
        fields = {"message": f"load {self.options.type_name}", **self.options.fields(LoadRequest), "engine": LOCAL}
        if self.replaces:
            fields["mode"] = LoadMode.OVERWRITE
        if key is not None:
            fields |= {"application": key.application, "batch": key.batch}
        return LoadRequest(rows, **fields)

    @property
    def _graph(self) -> Location:
        return self.options.location

    def _files(self, folder: str) -> Files:
        return Files(self._graph.child(INCOMING, folder))


class GraphWriter(datasource.DataSourceArrowWriter):
    """Writes the rows of each task to files, and loads all of them at the end.

    ``.mode("append")`` takes only new entities, unless the option `mode` is ``merge``; ``.mode("overwrite")`` replaces
    all entities of the type.
    """

    def __init__(self, options: FormatOptions, *, overwrite: bool) -> None:
        self._load = StagedLoad(options, replaces=overwrite)
        self._folder = str(ULID())
        self._load.check()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedFiles:
        with brief_failures():
            return StagedFiles(self._folder, self._load.stage(self._folder, iterator))

    def commit(self, messages: "list[datasource.WriterCommitMessage | None]") -> None:
        with brief_failures():
            try:
                self._load.run(self._folder, messages)
            finally:
                self._load.remove_folders([self._folder])

    def abort(self, messages: "list[datasource.WriterCommitMessage | None]") -> None:  # noqa: ARG002 - Spark's
        self._load.remove_folders([self._folder])


def _group_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches, together about as many rows as one part should have."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= PART_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)
