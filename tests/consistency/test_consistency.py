"""Short runs of the consistency suite; `make soak` has long ones.

How many operations a run gets done depends on the machine, so only what was found is asserted.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.consistency.run import Report, Run, Settings
from tests.stores import Options

SECONDS = float(os.environ.get("OMNIGRAPH_CONSISTENCY_SECONDS", "12"))
SEED = int(os.environ.get("OMNIGRAPH_CONSISTENCY_SEED", "1"))


def _check(report: Report, kills: Callable[[int], None]) -> None:
    assert report.violations == [], str(report)
    kills(report.kills + report.crashes)


@pytest.mark.long
def test_harmed_processes_keep_every_promise_on_a_disk(folder: Path, kills: Callable[[int], None]) -> None:
    settings = Settings(
        uri=str(folder / "graph.omni"),
        options=None,
        folder=folder / "journals",
        seed=SEED,
        seconds=SECONDS,
        workers=2,
        lease=0.5,
        pauses=0.1,
    )
    _check(Run(settings).judge(), kills)


@pytest.mark.long
def test_harmed_processes_keep_every_promise_on_an_object_store(
    tmp_path: Path, s3_uri: str, s3_store: Options, kills: Callable[[int], None]
) -> None:
    settings = Settings(
        uri=s3_uri,
        options=s3_store,
        folder=tmp_path / "journals",
        seed=SEED,
        seconds=SECONDS,
        workers=2,
        lease=2.0,
        pauses=0.1,
        harm_every=4.0,
    )
    _check(Run(settings).judge(), kills)
