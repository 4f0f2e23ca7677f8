"""Runs the consistency suite once: `python -m tests.consistency --store disk --operations 10000 --seed 7`.

Exits with 1 if anything is violated, or if the run was not what was asked for. A store whose server is not installed is
skipped, and the reason is printed.
"""

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.consistency.run import Run, Settings
from tests.store_servers import SERVERS, NotInstalled

_DISK = "disk"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.consistency", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    preset = os.environ.get
    parser.add_argument("--store", choices=[_DISK, *SERVERS], default=preset("OMNIGRAPH_CONSISTENCY_STORE", _DISK))
    parser.add_argument("--seed", type=int, default=int(preset("OMNIGRAPH_CONSISTENCY_SEED", "1")))
    seconds = float(preset("OMNIGRAPH_CONSISTENCY_SECONDS", "3600"))
    parser.add_argument("--seconds", type=float, default=seconds, help="the longest that it may take")
    operations = int(preset("OMNIGRAPH_CONSISTENCY_OPERATIONS", "1000"))
    parser.add_argument("--operations", type=int, default=operations, help="ends when this many are acknowledged")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument(
        "--lease", type=float, help="seconds that a lease lasts; pauses are measured by it on a disk too"
    )
    parser.add_argument("--pauses", type=float, default=0.1, help="the part of the operations that is harmed at a step")
    parser.add_argument("--harm-every", type=float, help="seconds between two kills or stops from outside")
    parser.add_argument("--folder", type=Path, help="keep the journals, and on a disk the graph, in this new folder")
    given = parser.parse_args()
    with ExitStack() as opened:
        folder = given.folder or Path(opened.enter_context(tempfile.TemporaryDirectory()))
        uri, options, skew, lease, harm_every = str(folder / "graph.omni"), None, 3600, 0.5, 4.0
        if given.store != _DISK:
            try:
                store = opened.enter_context(SERVERS[given.store]())
            except NotInstalled as error:
                sys.stdout.write(f"skipped: {error}\n")
                return
            uri, options, skew, lease, harm_every = store.new_uri(), store.options, store.skew, 2.0, 10.0
        settings = Settings(
            uri=uri,
            options=options,
            folder=folder / "journals",
            seed=given.seed,
            seconds=given.seconds,
            operations=given.operations,
            workers=given.workers,
            lease=given.lease or lease,
            pauses=given.pauses,
            harm_every=given.harm_every or harm_every,
            skew=skew,
        )
        report = Run(settings).judge()
    sys.stdout.write(f"{report}\n")
    missing = report.missing()
    sys.stdout.write("".join(f"not as asked for: {each}\n" for each in missing))
    sys.exit(bool(report.violations or missing))


if __name__ == "__main__":
    main()
