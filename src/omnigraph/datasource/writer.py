"""The format `omnigraph` of Spark, writing: a data frame becomes rows of one type, as one commit of the graph.

Tasks write their rows to staging files below the graph, where no reader looks. When all are done, the driver loads the
files as every load does, with every check. If a task fails for good, the files are removed. A driver that dies in
between leaves them, and a later write removes what is older than a day.
"""

from collections.abc import Iterator
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
from omnigraph.loading.inputs import StagedRows
from omnigraph.loading.sources import PART_ROWS
from omnigraph.parts.scratch import INCOMING, Files, Stretch, old_incoming
from omnigraph.storage.files import store_time
from omnigraph.storage.objects import objects_at


@dataclass
class StagedFiles(datasource.WriterCommitMessage):
    """What one task has written."""

    pieces: tuple[tuple[Stretch, int], ...] = field(default=())


class GraphWriter(datasource.DataSourceArrowWriter):
    """Writes the rows of each task to files, and loads all of them at the end.

    ``.mode("append")`` takes only new entities, unless the option `mode` is ``merge``; ``.mode("overwrite")`` replaces
    all entities of the type.
    """

    def __init__(self, options: FormatOptions, *, overwrite: bool) -> None:
        self._options, self._overwrite = options, overwrite
        self._graph = options.location
        self._operation = str(ULID())
        self._check()
        for folder in old_incoming(self._graph, store_time(self._graph)):
            objects_at(self._graph).delete_folder(folder)
        if self._graph.path is not None:
            (self._graph.path / INCOMING / self._operation).mkdir(parents=True, exist_ok=True)

    def _check(self) -> None:
        """Refuses early what the load would refuse; the policy first, as even the name of a type reveals something."""
        request = self._request(())
        request.check()
        session = self._options.open_session("r")
        session.guard.check_load(request.branch, request.from_)
        try:
            at, _ = session.locate(None, request.branch)
        except NotFound:
            if request.from_ is None:
                raise
            at, _ = session.locate(request.from_)
        request.data.input_for(at.catalog)

    def _request(self, pieces: tuple[tuple[tuple[Stretch, int], ...], ...]) -> LoadRequest:
        """The load of what tasks have written. It runs in the driver, whose session must not start another job."""
        fields = {"message": f"load {self._options.type_name}", **self._options.fields(LoadRequest), "engine": LOCAL}
        if self._overwrite:
            fields["mode"] = LoadMode.OVERWRITE
        return LoadRequest(StagedRows(self._options.type_name, self._files, pieces), **fields)

    @property
    def _files(self) -> Files:
        return Files(self._graph.child(INCOMING, self._operation))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedFiles:
        with brief_failures():
            return StagedFiles(stage_rows(self._files, iterator))

    def commit(self, messages: "list[datasource.WriterCommitMessage | None]") -> None:
        pieces = tuple(message.pieces for message in messages if isinstance(message, StagedFiles))
        with brief_failures():
            try:
                run_verb(self._options.open_session("rw"), self._request(pieces))
            finally:
                self._remove_files()

    def abort(self, messages: "list[datasource.WriterCommitMessage | None]") -> None:  # noqa: ARG002 - Spark's
        self._remove_files()

    def _remove_files(self) -> None:
        objects_at(self._graph).delete_folder(f"{INCOMING}/{self._operation}")


def stage_rows(files: Files, batches: Iterator[pa.RecordBatch]) -> tuple[tuple[Stretch, int], ...]:
    """Writes the rows of a task, and returns where they are, with the number of rows."""
    pieces: list[tuple[Stretch, int]] = []
    for rows in _group_batches(batches):
        (piece,) = files.put([rows])
        assert isinstance(piece, Stretch)
        pieces.append((piece, rows.num_rows))
    return tuple(pieces)


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
