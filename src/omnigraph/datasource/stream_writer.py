"""The format `omnigraph` of Spark, as the sink of a stream: each batch of a query becomes one commit, exactly once.

A batch is a load with a key: the application, by default the id of the query, and the number of the batch. The commit
keeps it. So a batch that Spark repeats after a failure is loaded once, and one that is not what was loaded under its
number is an error: it neither doubles rows nor loses them in silence.

Spark makes another writer for the commit than for the tasks, and has no place where a writer could learn the id of its
query but a task. So tasks tell the folder and the query with their message.
"""

from collections.abc import Iterator
from dataclasses import field

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource
from ulid import ULID

from omnigraph import failpoints
from omnigraph.dataclass_later import dataclass
from omnigraph.datasource.failures import brief_failures
from omnigraph.datasource.options import FormatOptions
from omnigraph.datasource.writer import Messages, StagedFiles, StagedLoad
from omnigraph.errors import EngineFailed
from omnigraph.failpoints import Point
from omnigraph.loading.batches import LoadKey

_QUERY = "sql.streaming.queryId"


@dataclass
class StagedBatch(StagedFiles):
    """What one task has written of a batch, and the id of the query."""

    query: str = field(default="", kw_only=True)


class GraphStreamWriter(datasource.DataSourceStreamArrowWriter):
    """Writes the rows of each task to files, and loads those of a batch at its end.

    The option `mode` says how existing entities are treated. Without it, the output mode `append` takes only new ones,
    and `complete` replaces all entities of the type by those of the batch. A batch without rows makes no commit, and
    takes no key, unless it replaces others.
    """

    def __init__(self, options: FormatOptions, *, overwrite: bool) -> None:
        self._load = StagedLoad(options, replaces=overwrite and "mode" not in options.values)
        self._name = str(ULID())
        self._load.check(self._key("the query", 0))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedBatch:
        with brief_failures():
            query = _query()
            folder = f"{query}-{self._name}"
            staged = StagedBatch(folder, self._load.stage(folder, iterator), query=query)
            failpoints.hit(Point.STREAM_ROWS_STAGED)
            return staged

    def commit(self, messages: "list[datasource.WriterCommitMessage | None]", batchId: int) -> None:  # noqa: N803 - Spark's
        with brief_failures():
            staged = _reports(messages)
            if not staged:
                raise EngineFailed("write a batch", "no task has reported what it wrote")
            failpoints.hit(Point.STREAM_BEFORE_LOAD)
            try:
                self._load.run(staged[0].folder, staged, self._key(staged[0].query, batchId))
                failpoints.hit(Point.STREAM_AFTER_LOAD)
            finally:
                # Earlier folders are from attempts that failed. Later ones are from the query after a restart, which a
                # process of a driver that was killed may still see.
                folders = self._load.staging_folders(f"{staged[0].query}-")
                self._load.remove_folders(each for each in folders if each <= staged[0].folder)
            failpoints.hit(Point.STREAM_FILES_REMOVED)

    def abort(self, messages: "list[datasource.WriterCommitMessage | None]", batchId: int) -> None:  # noqa: ARG002, N803
        """Removes the folders that tasks have reported. What others left is removed by the next batch of the query."""
        with brief_failures():
            self._load.remove_folders({each.folder for each in _reports(messages)})

    def _key(self, query: str, batch: int) -> LoadKey:
        return LoadKey(self._load.options.values.get("application", query), batch)


def _reports(messages: Messages) -> list[StagedBatch]:
    return [message for message in messages if isinstance(message, StagedBatch)]


def _query() -> str:
    """The id of the query that this task works for; its checkpoint keeps it."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(_QUERY)
    if query is None:
        raise EngineFailed("write a batch", f"Spark does not tell its task the property `{_QUERY}`")
    return query
