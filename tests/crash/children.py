"""Processes that write and are killed: started ahead, since most of their time goes into imports."""

import json
import os
import subprocess
import sys
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROGRAM = """
import json, sys
from pathlib import Path
import omnigraph as og
from omnigraph import failpoints
from tests.crash import world
og.Graph
job = json.loads(sys.stdin.readline())
with failpoints.armed(job["failpoints"]):
    graph = og.open(job["uri"], storage_options=job["options"])
    if job["kind"] is not None:
        world.perform(graph, world.Kind(job["kind"]), job["tables"], Path(job["folder"]), job["branch"])
print("done", flush=True)
"""
ROOT = Path(__file__).parents[2]
AHEAD = 3
SOAKING = os.environ.get("OMNIGRAPH_SOAK") == "1"
"""Whether there is time for every case, not just for those that differ most."""


class Children:
    """A few processes that have imported everything and wait for a job; each does one."""

    def __init__(self, program: str = PROGRAM, environment: dict[str, str] | None = None, ahead: int = AHEAD) -> None:
        self._program = program
        self._ahead = ahead
        self._environment = {**os.environ, **(environment or {})}
        self._waiting: deque[subprocess.Popen[str]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._waiting:
            child.kill()
            child.communicate()

    def next(self) -> subprocess.Popen[str]:
        """A process that waits for its job on stdin."""
        while len(self._waiting) < self._ahead:
            self._waiting.append(
                subprocess.Popen(
                    [sys.executable, "-c", self._program],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    cwd=ROOT,
                    env=self._environment,
                )
            )
        return self._waiting.popleft()

    def ended(self, **job: Any) -> tuple[int, str]:
        """How a process ended that was given this job, and what it said on stderr."""
        child = self.next()
        _, errors = child.communicate(json.dumps(job) + "\n", timeout=120)
        return child.returncode, errors
