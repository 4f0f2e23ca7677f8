"""How long a person waits for the first Spark job."""

import os
import statistics
import subprocess
import sys
from collections.abc import Mapping

from benchmarks.measure import Figure
from omnigraph.spark.java import find_java
from omnigraph.spark.recording import record

_ROUNDS = 5
_TIMED = "import time\nstart = time.perf_counter()\n{code}\nprint(time.perf_counter() - start, flush=True)"
_PLAIN = "from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate().range(10).count()"
_OURS = "import omnigraph as og\nog.spark.session().range(10).count()"


def figures() -> list[Figure]:
    """Import to first job, embedded, against PySpark as it comes, on the same Java; the cache of classes is there."""
    java = find_java()
    cached = record(java)
    plain, ours = [], []
    for _ in range(_ROUNDS):
        plain.append(_seconds(_PLAIN, {"JAVA_HOME": str(java.home_for_scripts())}))
        ours.append(_seconds(_OURS, {}))
    embedded, by_itself = statistics.median(ours), statistics.median(plain)
    cache = "with" if cached else "WITHOUT"
    return [
        Figure(
            name="import to first Spark job, embedded / plain PySpark",
            value=embedded / by_itself,
            unit="x",
            bound=0.6,
            raw=f"{embedded:.1f} s {cache} a cache of classes; plain {by_itself:.1f} s",
        )
    ]


def _seconds(code: str, environment: Mapping[str, str]) -> float:
    """What a new process needs; the end of its JVM is awaited, but does not count."""
    command = [sys.executable, "-c", _TIMED.format(code=code)]
    result = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **environment})
    return float(result.stdout.split()[-1])
