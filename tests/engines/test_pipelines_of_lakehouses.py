"""Pipelines read tables of Delta Lake and Iceberg by version and by change feed, with the position in the commit.

The jars of the formats do not come with Spark: `OMNIGRAPH_DELTA_JARS` and `OMNIGRAPH_ICEBERG_JARS` name folders with
them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.spark_moments import ROOT
from tests.spark_session import QUICKLY_COMPILED


@pytest.mark.slow
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_changes_of_a_table_are_read_once_and_in_their_order(tmp_path: Path, format: str) -> None:
    variable = f"OMNIGRAPH_{format.upper()}_JARS"
    jars = os.environ.get(variable)
    if jars is None:
        pytest.skip(f"{variable} names no folder with the jars of {format}")
    call = f"from tests.engines.lakehouses import main; main({format!r}, {jars!r}, {str(tmp_path)!r})"
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", call],
        cwd=ROOT,
        env={**os.environ, **QUICKLY_COMPILED, "OMNIGRAPH_SPARK_RECORD": "off"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3_000:]
    first, second = [[1, "Ada"], [2, "Bob"]], [[2, "Rob"], [3, "Eve"]]
    assert json.loads(ended.stdout) == [[[], True, True, rows] for rows in (first, first, second, second)]
