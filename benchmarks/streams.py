"""What a micro-batch of a stream costs: into a graph, beside a load in the process and beside a stream into Parquet."""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyarrow.json import read_json

import omnigraph as og
from benchmarks.measure import Figure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = "node Person { name: String @key, age: I32?, city: String? }"
COLUMNS = "name string, age int, city string"
ROWS = 1_000
BATCHES, WARM = 60, 8
"""How many batches are measured, after some others."""


def figures() -> Iterator[Figure]:
    """All figures about streams."""
    with tempfile.TemporaryDirectory() as name, _closing_session():
        folder = Path(name)
        og.spark.session("local[2]", {"spark.sql.streaming.numRecentProgressUpdates": "1000"})
        for number in range(BATCHES + WARM):
            _write_lines(folder / "in", number)
        loaded = _loads(folder)
        written = _stream(_lines(folder), folder / "graph.omni")
        merged = _stream(_lines(folder), folder / "graph.omni", mode="merge")
        parquet = _stream(_lines(folder), None)
        read = _stream(_changes(folder / "graph.omni"), None)
        of = f"a micro-batch of {ROWS:,} rows".replace(",", " ")
        raw = f"stream {_shown(written)}, load {_shown(loaded)}"
        yield Figure(
            name=f"{of} into a graph, p50 / the same load in the process",
            value=_quantile(written, 50) / _quantile(loaded, 50),
            unit="x",
            bound=None,
            raw=raw,
        )
        yield Figure(
            name=f"{of} into a graph, p50 / into Parquet",
            value=_quantile(written, 50) / _quantile(parquet, 50),
            unit="x",
            bound=None,
            raw=f"graph {_shown(written)}, Parquet {_shown(parquet)}",
        )
        for what, seconds in (("new rows", written), ("upserts", merged), ("changes read", read)):
            yield Figure(
                name=f"{of}, {what}: p95 / p50",
                value=_quantile(seconds, 95) / _quantile(seconds, 50),
                unit="x",
                bound=None,
                raw=f"{_shown(seconds)}, {len(seconds)} batches",
            )


@contextmanager
def _closing_session() -> Iterator[None]:
    """Stops the session of Spark at the end."""
    try:
        yield
    finally:
        og.spark.stop()


def _write_lines(folder: Path, number: int) -> None:
    """A file of the input; Spark takes them in the order of their times."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{number}.json"
    rows = ({"name": f"p{number}-{row}", "age": row % 90, "city": "Oslo"} for row in range(ROWS))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def _loads(folder: Path) -> list[float]:
    """The seconds of each load of a file in the process, with keys as the batches of a stream have them."""
    graph = og.init(folder / "loaded.omni", SCHEMA)
    seconds = []
    for number in range(BATCHES + WARM):
        start = time.perf_counter()
        rows = read_json(folder / "in" / f"{number}.json")
        graph.load({"Person": rows}, engine="local", application="loads", batch=number)
        seconds.append(time.perf_counter() - start)
    return seconds[WARM:]


def _lines(folder: Path) -> "DataFrame":
    reader = og.spark.session().readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    return reader.json(str(folder / "in"))


def _changes(graph: Path) -> "DataFrame":
    options = {"type": "Person", "startingVersion": "1", "maxCommitsPerTrigger": "1"}
    return og.spark.session().readStream.format("omnigraph").options(**options).load(str(graph))


def _stream(frame: "DataFrame", graph: Path | None, mode: str = "append") -> list[float]:
    """The seconds of each batch of a stream into a graph, or otherwise into Parquet."""
    if graph is not None and not graph.exists():
        og.init(graph, SCHEMA)
    with tempfile.TemporaryDirectory() as checkpoint:
        if graph is None:
            place = str(Path(checkpoint) / "parquet")
            writer = frame.writeStream.format("parquet")
        else:
            place = str(graph)
            writer = frame.writeStream.format("omnigraph").options(type="Person", mode=mode)
        writer = writer.option("checkpointLocation", f"{checkpoint}/checkpoint").trigger(availableNow=True)
        query = writer.start(place)
        query.awaitTermination()
        done = [each for each in query.recentProgress if each.numInputRows]
    assert len(done) >= BATCHES + WARM, f"{len(done)} batches"
    return [each.durationMs["triggerExecution"] / 1_000 for each in done[WARM : WARM + BATCHES]]


def _quantile(seconds: Sequence[float], percent: int) -> float:
    return statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1]


def _shown(seconds: Sequence[float]) -> str:
    return f"p50 {_quantile(seconds, 50) * 1e3:.0f} ms, p95 {_quantile(seconds, 95) * 1e3:.0f} ms"
