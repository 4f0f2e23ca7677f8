"""Runs the consistency suite once, with settings of its own: `python -m tests.consistency --store disk --seed 7`."""

import argparse
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from tests.consistency.run import Run, Settings


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.consistency", description=__doc__)
    parser.add_argument("--folder", type=Path, help="where the journals, and on a disk the graph, are kept")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--operations", type=int)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--lease", type=float, default=0.5)
    parser.add_argument("--pauses", type=float, default=0.05)
    parser.add_argument("--harm-every", type=float, default=2.0)
    given = parser.parse_args()
    with nullcontext(given.folder) if given.folder else tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = Settings(
            uri=str(folder / "graph.omni"),
            options=None,
            folder=folder / "journals",
            seed=given.seed,
            seconds=given.seconds,
            operations=given.operations,
            workers=given.workers,
            lease=given.lease,
            pauses=given.pauses,
            harm_every=given.harm_every,
        )
        report = Run(settings).judge()
    sys.stdout.write(f"{report}\n")
    sys.exit(bool(report.violations))


if __name__ == "__main__":
    main()
