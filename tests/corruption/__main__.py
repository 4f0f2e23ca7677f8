"""Runs the suite by itself: `python -m tests.corruption [seconds] [seed] [all]`; prints the table and the causes."""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.corruption.driving import Driver, all_cases, build_world, sampled_cases, whole_cases

if __name__ == "__main__":
    seconds, seed = float(sys.argv[1]), int(sys.argv[2])
    work = Path(tempfile.mkdtemp(prefix="corruption"))
    try:
        world = build_world(work)
        driver = Driver(world)
        driver.run(whole_cases(world))
        print(driver.report.table(), driver.report.causes(), sep="\n\n", flush=True)
        driver = Driver(world)
        cases = all_cases(world, seed) if "all" in sys.argv else sampled_cases(world, seed, 3)
        driver.run(cases, time.monotonic() + seconds)
        print(driver.report.table(), driver.report.causes(), sep="\n\n")
        Path(sys.argv[3]).write_text("\n".join(map(json.dumps, driver.report.records)))
    finally:
        shutil.rmtree(work)
