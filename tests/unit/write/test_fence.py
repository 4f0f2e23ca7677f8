"""The write fence keeps its rules in every process, however Python is started."""

import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.errors import InternalError
from omnigraph.storage import location_of
from omnigraph.write.fence import WriteFence

PROGRAM = """
import sys
from omnigraph.errors import InternalError
from omnigraph.storage import location_of
from omnigraph.write.fence import WriteFence
with WriteFence(location_of(sys.argv[1]), "main", "test") as fence:
    fence.take(["node:A"])
    try:
        fence.take(["node:B"])
    except InternalError:
        print("refused")
"""


def test_a_writer_that_holds_locks_cannot_take_others(tmp_path: Path) -> None:
    with WriteFence(location_of(tmp_path), "main", "test") as fence:
        fence.take(["node:A", "node:B"])
        fence.take(["node:A"])
        with pytest.raises(InternalError, match="`node:A` or `node:B` and asks for `node:C`"):
            fence.take(["node:A", "node:C"])


def test_the_rule_holds_in_an_optimised_python(tmp_path: Path) -> None:
    told = subprocess.run([sys.executable, "-O", "-c", PROGRAM, tmp_path], check=True, capture_output=True, text=True)
    assert told.stdout == "refused\n"
