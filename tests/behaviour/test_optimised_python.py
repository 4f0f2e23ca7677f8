"""The write fence keeps its rules in every process, however Python is started."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from omnigraph.errors import FenceHeld, FenceLost, InternalError
from omnigraph.storage.location import location_of
from omnigraph.storage.locks import lock_file
from omnigraph.write.fence import WriteFence
with WriteFence(location_of(sys.argv[1]), "main", "test") as fence:
    fence.take(["node:A"])
    try:
        fence.take(["node:B"])
    except InternalError:
        print("refused")
"""


def test_the_rule_holds_in_an_optimised_python(tmp_path: Path) -> None:
    told = subprocess.run([sys.executable, "-O", "-c", PROGRAM, tmp_path], check=True, capture_output=True, text=True)
    assert told.stdout == "refused\n"
