"""Bulk work on a real Spark session."""

import os
import signal
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from omnigraph.api.progress import Progress
from omnigraph.errors import EngineFailed, NotFound, StorageError
from omnigraph.spark.engine import SparkEngine
from omnigraph.spark.tasks import Batches


def doubled(number: int) -> int:
    return 2 * number


def counted_attempt(file: Path) -> int:
    """Which attempt this is; each leaves a line."""
    with file.open("a") as lines:
        lines.write("attempt\n")
    return len(file.read_text().splitlines())


def missing(file: Path) -> None:
    counted_attempt(file)
    raise NotFound("query", "x", "did you mean `y`?")


def broken_storage(file: Path) -> None:
    counted_attempt(file)
    raise StorageError("graph", "is gone")


def wrong(file: Path) -> None:
    raise ValueError(f"not {file.name}")


def killed_once(file: Path) -> str:
    if counted_attempt(file) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def threads(_: int) -> tuple[int, str]:
    return pa.cpu_count(), os.environ["LANCE_CPU_THREADS"]


def slept(seconds: float) -> int:
    time.sleep(seconds)
    return 7


def sum_of(index: int, batches: Batches) -> tuple[int, int]:
    return index, sum(sum(batch.column(0).to_pylist()) for batch in batches)


def test_results_come_in_the_order_of_the_parts(spark: SparkSession) -> None:
    assert SparkEngine(spark).run("double", doubled, [3, 1, 2]) == [6, 2, 4]


def test_a_function_without_a_name_travels_whole(spark: SparkSession) -> None:
    offset = 10
    assert SparkEngine(spark).run("add", lambda number: number + offset, [1]) == [11]


def test_no_parts_have_no_results(spark: SparkSession) -> None:
    seen: list[Progress] = []
    assert SparkEngine(spark, seen.append).run("double", doubled, []) == []
    assert seen == [Progress("double", 0, 0)]


def test_the_slots_are_those_of_the_session(spark: SparkSession) -> None:
    assert SparkEngine(spark).slots == 2


def test_a_task_takes_only_its_own_core(spark: SparkSession) -> None:
    assert SparkEngine(spark).run("threads", threads, [0]) == [(1, "1")]


def test_an_error_in_the_data_is_raised_whole_and_not_tried_again(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(NotFound) as caught:
        SparkEngine(spark).run("look", missing, [tmp_path / "a"])
    assert caught.value.details == {"kind": "query", "name": "x", "hint": "did you mean `y`?"}
    assert counted_attempt(tmp_path / "a") == 2


def test_an_error_of_storage_is_tried_again_and_then_raised_without_a_word_of_java(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(StorageError) as caught:
        SparkEngine(spark).run("write", broken_storage, [tmp_path / "a"])
    assert str(caught.value) == "graph: is gone"
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert counted_attempt(tmp_path / "a") == 4


def test_any_other_error_becomes_a_failure_of_the_stage(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(EngineFailed) as caught:
        SparkEngine(spark).run("write", wrong, [tmp_path / "a"])
    assert caught.value.details == {"stage": "write", "problem": "ValueError: not a"}


def test_a_part_whose_worker_was_killed_is_worked_on_again(spark: SparkSession, tmp_path: Path) -> None:
    assert SparkEngine(spark).run("write", killed_once, [tmp_path / "a"]) == ["done"]
    assert counted_attempt(tmp_path / "a") == 3


def test_a_worker_that_is_always_killed_fails_the_stage(spark: SparkSession) -> None:
    def killed(_: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(EngineFailed) as caught:
        SparkEngine(spark).run("write", killed, [0])
    assert caught.value.problem == "a worker process ended unexpectedly at each attempt"


def waited(file: Path | None) -> int:
    """Ends when the file is there, at once without one."""
    deadline = time.monotonic() + 120
    while file is not None and not file.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return 7


def test_progress_is_reported_on_the_way_and_rows_at_the_end(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[Progress] = []
    told = tmp_path / "told"

    def report(progress: Progress) -> None:
        seen.append(progress)
        if progress.done:
            told.touch()

    SparkEngine(spark, report).run("wait", waited, [None, None, told, told], rows=lambda result: result)
    assert seen[0] == Progress("wait", 0, 4)
    assert seen[-1] == Progress("wait", 4, 4, 28)
    assert any(0 < progress.done < 4 and progress.total == 4 for progress in seen)


def test_an_error_of_the_report_ends_the_job(spark: SparkSession) -> None:
    def report(progress: Progress) -> None:
        if progress.done:
            raise RuntimeError("the console is gone")

    with pytest.raises(RuntimeError, match="console"):
        SparkEngine(spark, report).run("sleep", slept, [0.0, 60.0, 60.0])
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []


def test_the_partitions_of_a_frame_are_parts(spark: SparkSession) -> None:
    frame = spark.range(0, 10, 1, 4)
    results = SparkEngine(spark).run_frame("sum", sum_of, frame, rows=lambda _: 1)
    assert [index for index, _ in results] == [0, 1, 2, 3]
    assert sum(total for _, total in results) == 45


def test_an_empty_partition_is_a_part_too(spark: SparkSession) -> None:
    assert SparkEngine(spark).run_frame("sum", sum_of, spark.range(0, 1, 1, 2)) == [(0, 0), (1, 0)]
