"""Streams of small files into a graph, and a process whose streams stop in the middle of a batch."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import datasource, types
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from omnigraph.datasource.source import DataSource
from omnigraph.datasource.stream_reader import ChangesReader
from omnigraph.datasource.stream_writer import GraphStreamWriter
from omnigraph.failpoints import Point, arm
from tests.crash.spark_moments import ROOT, of_environment, until
from tests.spark_session import QUICKLY_COMPILED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

IN_TASKS = (Point.STREAM_ROWS_STAGED, Point.STREAM_CHANGES_READ)
"""The steps of a stream that are reached in tasks. All others are reached in processes of the driver."""
_HELD_BATCH = 1
_PATIENCE = 300.0
_DRIVER = "import sys; from tests.behaviour.streams import drive; drive(sys.stdin.readline())"


def write_lines(folder: Path, number: int, *rows: dict[str, Any]) -> None:
    """A file of the input; each is one batch. Spark reads them in the order of their times, and only whole ones."""
    folder.mkdir(exist_ok=True)
    draft = folder / f".{number}.json"
    draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(draft, (1_700_000_000 + number, 1_700_000_000 + number))
    draft.rename(folder / f"{number}.json")


def read_lines(spark: "SparkSession", folder: Path, columns: str, files: int = 1) -> "DataFrame":
    return spark.readStream.schema(columns).option("maxFilesPerTrigger", files).json(str(folder))


def write_stream(frame: "DataFrame", graph: str, checkpoint: Path, *, output: str = "append", **options: str) -> str:
    """Writes what is there now, batch by batch, and gives the id of the query."""
    writer = frame.writeStream.format("omnigraph").options(**options).option("checkpointLocation", str(checkpoint))
    query = writer.outputMode(output).trigger(availableNow=True).start(graph)
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return str(query.id)


# --- streams that stop ---


class HeldSource(datasource.DataSource):
    """The format `omnigraph` whose process stops once, at the step `hold` of the second batch.

    Before that, the process writes its number to the file `mark`.
    """

    @classmethod
    def name(cls) -> str:
        return "held"

    @property
    def _inner(self) -> DataSource:
        return DataSource({name: value for name, value in self.options.items() if name not in ("hold", "mark")})

    def schema(self) -> types.StructType:
        return self._inner.schema()

    def streamReader(self, schema: types.StructType) -> "HeldReader":  # noqa: N802 - Spark's
        reader = self._inner.streamReader(schema)
        assert isinstance(reader, ChangesReader)
        return HeldReader(reader, Holder(self.options["hold"], self.options["mark"]))

    def streamWriter(self, schema: types.StructType, overwrite: bool) -> "HeldWriter":  # noqa: N802 - Spark's
        holder = Holder(self.options["hold"], self.options["mark"])
        return HeldWriter(self._inner.streamWriter(schema, overwrite), holder)


@dataclass(frozen=True, slots=True)
class Holder:
    """Stops a process once at a failpoint."""

    step: str
    mark: str

    @contextmanager
    def held(self, *, now: bool) -> Iterator[None]:
        """What runs in the block stops at the step if it is `now`, and no process has stopped there."""
        with arm(f"{self.step}=pause" if now and self._is_first() else ""):
            yield

    def _is_first(self) -> bool:
        try:
            Path(self.mark).symlink_to(str(os.getpid()))
        except FileExistsError:
            return False
        return True


def _is_held_batch() -> bool:
    """Whether the process works on a task of the batch."""
    from pyspark import TaskContext  # noqa: PLC0415 - in tasks only

    context = TaskContext.get()
    return context is not None and context.getLocalProperty("streaming.sql.batchId") == str(_HELD_BATCH)


class HeldWriter(datasource.DataSourceStreamArrowWriter):
    def __init__(self, writer: GraphStreamWriter, holder: Holder) -> None:
        self._writer, self._holder = writer, holder

    def write(self, iterator: Iterator[pa.RecordBatch]) -> datasource.WriterCommitMessage:
        with self._holder.held(now=self._holder.step in IN_TASKS and _is_held_batch()):
            return self._writer.write(iterator)

    def commit(self, messages: list[datasource.WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        with self._holder.held(now=self._holder.step not in IN_TASKS and batchId == _HELD_BATCH):
            self._writer.commit(messages, batchId)

    def abort(self, messages: list[datasource.WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        self._writer.abort(messages, batchId)


class HeldReader(datasource.DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Its second batch begins at version 2: the first has the first commit with rows."""

    def __init__(self, reader: ChangesReader, holder: Holder) -> None:
        self._reader, self._holder = reader, holder

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        return self._reader.initialOffset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's
        return self._reader.getDefaultReadLimit()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        self._reader.prepareForTriggerAvailableNow()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's
        with self._holder.held(now=self._holder.step == Point.STREAM_OFFSET_CHOSEN and start["read"]):
            return self._reader.latestOffset(start, limit)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[datasource.InputPartition]:
        with self._holder.held(now=self._holder.step == Point.STREAM_BATCH_PLANNED and start["read"]):
            return self._reader.partitions(start, end)

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        with self._holder.held(now=self._holder.step in IN_TASKS and _is_held_batch()):
            yield from self._reader.read(partition)


@dataclass(frozen=True, slots=True)
class HeldStream:
    """A stream from lines, or from the changes of a graph, into a graph, which stops at a step of its second batch."""

    folder: str
    """Where its input, checkpoint and mark are."""
    graph: str
    options: dict[str, str]
    hold: str
    columns: str = ""
    """The columns of the lines."""
    source: str = ""
    """The graph whose changes are read."""

    @property
    def mark(self) -> Path:
        return Path(self.folder) / "mark"

    @property
    def stopped(self) -> int | None:
        """The process that has stopped."""
        number = int(self.mark.readlink().name) if self.mark.is_symlink() else None
        return number if number is not None and _state(number) == "T" else None

    def write(self, spark: "SparkSession", *, held: bool = False) -> "DataStreamWriter":
        """The stream with what is there now; it stops only if it is `held`."""
        at_source = self.hold in SOURCE_STEPS
        stops = {"hold": self.hold, "mark": str(self.mark)}
        if self.source:
            reader = spark.readStream.format("held" if held and at_source else "omnigraph")
            reader = reader.options(**COPIED, **(stops if held and at_source else {}))
            frame = reader.load(self.source).selectExpr(*COPY)
        else:
            frame = read_lines(spark, Path(self.folder) / "in", self.columns)
        writer = frame.writeStream.format("held" if held and not at_source else "omnigraph")
        writer = writer.options(**self.options, **(stops if held and not at_source else {}), path=self.graph)
        return writer.option("checkpointLocation", f"{self.folder}/checkpoint").trigger(availableNow=True)


SOURCE_STEPS = (Point.STREAM_OFFSET_CHOSEN, Point.STREAM_BATCH_PLANNED, Point.STREAM_CHANGES_READ)
COPIED = {"type": "Person", "startingVersion": "1", "maxCommitsPerTrigger": "1"}
COPY = ("name", "age", "_commit_version AS seq", "_change_type = 'delete' AS gone")
"""The changes of a type, as a load with the mode `apply` takes them."""
APPLIED = {"type": "Person", "mode": "apply", "sequence": "seq", "delete": "gone"}


def drive(job: str) -> None:
    """Starts streams that stop, in a process with its own Spark. One of each kind of steps in tasks may stop."""
    from omnigraph.spark.sessions import session  # noqa: PLC0415 - heavy

    spark = session("local[4]")
    spark.dataSource.register(HeldSource)
    streams = [HeldStream(**each) for each in json.loads(job)]
    # Spark looks at a source of changes in a process of its own, and must not do so beside others that have stopped.
    writers = [each.write(spark, held=True) for each in sorted(streams, key=lambda each: not each.source)]
    for query in [writer.start() for writer in writers]:
        query.awaitTermination()


@contextmanager
def held_streams(streams: Sequence[HeldStream], mark: str) -> Iterator[subprocess.Popen[str]]:
    """Runs streams in another process until each has stopped. After the block, that process and its own are killed."""
    environment = {**os.environ, **QUICKLY_COMPILED, "OMNIGRAPH_SPARK_RECORD": "off", "OMNIGRAPH_MARK": mark}
    with subprocess.Popen(
        [sys.executable, "-c", _DRIVER],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment,
    ) as driver:
        try:
            assert driver.stdin is not None
            driver.stdin.write(json.dumps([asdict(each) for each in streams]) + "\n")
            driver.stdin.flush()
            for _ in until(_PATIENCE):
                if all(each.stopped for each in streams):
                    break
                if driver.poll() is not None:
                    missing = [each.hold for each in streams if not each.stopped]
                    kill_all(mark)
                    raise AssertionError(f"not stopped: {missing}: {driver.communicate()[1]}")
            if missing := [each.hold for each in streams if not each.stopped]:
                raise AssertionError(f"not stopped: {missing}")
            yield driver
        finally:
            kill_all(mark)


def kill_all(mark: str) -> None:
    """Kills all processes that have a mark in their environment, and waits until they are gone."""
    for _ in until(_PATIENCE):
        found = [number for number in of_environment(mark) if _state(number) not in ("Z", "")]
        if not found:
            return
        for number in found:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


def jvm_of(driver: int) -> int:
    """The JVM that a driver has started."""
    (found,) = (
        number for number in _children(driver) if b"SparkSubmit" in Path(f"/proc/{number}/cmdline").read_bytes()
    )
    return found


def _children(parent: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def _state(number: int) -> str:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
