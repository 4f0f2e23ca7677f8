"""Processes that get a job, write and are killed."""

import os
from dataclasses import dataclass, field
from typing import Any

from tests import nursery
from tests.nursery import Child

PROGRAM = """
import json, sys
from pathlib import Path
import omnigraph as og
from omnigraph import failpoints
from tests.crash import world
job = json.loads(sys.stdin.readline())
with failpoints.armed(job["failpoints"]):
    graph = og.open(job["uri"], storage_options=job["options"])
    if job["kind"] is not None:
        world.perform(graph, world.Kind(job["kind"]), job["tables"], Path(job["folder"]), job["branch"])
print("done", flush=True)
"""
SOAKING = os.environ.get("OMNIGRAPH_SOAK") == "1"
"""Whether there is time for every case, not just for those that differ most."""


@dataclass(frozen=True, slots=True)
class Children:
    """Processes that run the same program, each for one job."""

    program: str = PROGRAM
    environment: dict[str, str] = field(default_factory=dict)

    def next(self) -> Child:
        """A process that waits for its job on stdin."""
        return nursery.started(self.program, environment=self.environment)

    def ended(self, **job: Any) -> tuple[int, str]:
        """How a process ended that was given this job, and what it said on stderr."""
        with self.next() as child:
            child.tell(**job)
            child.communicate()
        return child.wait(), child.errors
