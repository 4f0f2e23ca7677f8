"""Streams of small files into a graph, and a process whose streams stop in the middle of a batch."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import datasource, types

from omnigraph.datasource.source import DataSource
from omnigraph.datasource.stream_writer import GraphStreamWriter
from omnigraph.failpoints import Writer, arm
from tests.crash.spark_moments import ROOT, of_environment
from tests.spark_session import QUICKLY_COMPILED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

IN_A_TASK = "task"
"""Where a stream stops when its tasks have written their rows."""
_HELD_BATCH = 1
_PATIENCE = 120.0
_DRIVER = "import sys; from tests.behaviour.streams import drive; drive(sys.stdin.readline())"


def write_lines(folder: Path, number: int, *rows: dict[str, Any]) -> None:
    """A file of the input; each is one batch. Spark reads them in the order of their times."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{number}.json"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


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
    """The format `omnigraph` whose writer stops its process at the step `hold` of the second batch."""

    @classmethod
    def name(cls) -> str:
        return "held"

    def streamWriter(self, schema: types.StructType, overwrite: bool) -> "HeldWriter":  # noqa: N802 - Spark's
        options = {name: value for name, value in self.options.items() if name != "hold"}
        return HeldWriter(DataSource(options).streamWriter(schema, overwrite), self.options["hold"])


class HeldWriter(datasource.DataSourceStreamArrowWriter):
    def __init__(self, writer: GraphStreamWriter, step: str) -> None:
        self._writer, self._step = writer, step

    def write(self, iterator: Iterator[pa.RecordBatch]) -> datasource.WriterCommitMessage:
        from pyspark import TaskContext  # noqa: PLC0415 - in tasks only

        written = self._writer.write(iterator)
        context = TaskContext.get()
        assert context is not None
        if self._step == IN_A_TASK and context.getLocalProperty("streaming.sql.batchId") == str(_HELD_BATCH):
            os.kill(os.getpid(), signal.SIGSTOP)
        return written

    def commit(self, messages: list[datasource.WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        held = self._step != IN_A_TASK and batchId == _HELD_BATCH
        with arm(f"{Writer.LOAD}.{self._step}=pause" if held else ""):
            self._writer.commit(messages, batchId)


def drive(job: str) -> None:
    """Starts streams that stop, in a process with its own Spark. One of them may stop in a task."""
    from omnigraph.spark.sessions import session  # noqa: PLC0415 - heavy

    streams = json.loads(job)
    spark = session("local[3]")
    spark.dataSource.register(HeldSource)
    queries = []
    for each in streams:
        frame = read_lines(spark, Path(each["folder"]), each["columns"])
        writer = frame.writeStream.format("held").options(**each["options"], hold=each["hold"])
        queries.append(writer.option("checkpointLocation", each["checkpoint"]).start(each["graph"]))
    for query in queries:
        query.awaitTermination()


@contextmanager
def held_streams(streams: list[dict[str, Any]], mark: str) -> Iterator[None]:
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
            driver.stdin.write(json.dumps(streams) + "\n")
            driver.stdin.flush()
            deadline = time.monotonic() + _PATIENCE
            while len(_stopped(mark)) < len(streams):
                if driver.poll() is not None or time.monotonic() > deadline:
                    stopped = len(_stopped(mark))
                    _kill_all(mark)
                    raise AssertionError(f"{stopped} of {len(streams)} have stopped: {driver.communicate()[1]}")
                time.sleep(0.05)
            yield
        finally:
            _kill_all(mark)


def _kill_all(mark: str) -> None:
    while found := [number for number in of_environment(mark) if _state(number) not in ("Z", "")]:
        for number in found:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        time.sleep(0.05)


def _stopped(mark: str) -> list[int]:
    return [number for number in of_environment(mark) if _state(number) == "T"]


def _state(number: int) -> str:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
