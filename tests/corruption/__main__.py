"""Runs the whole corruption suite: `python -m tests.corruption --seed 17`, about an hour on one core.

Every kind of file of a graph, in each of its variants, gets every damage, and then every verb is tried; the files of a
kind are taken in turn, those in use first, so that every file is damaged. A verb that touches no file of a kind, as
`strace` sees it, is tried with one damage of that kind only; without `strace` it is tried with all of them, which takes
twice as long. A verb that is slow, or another door (command, HTTP) to one that is tried with all damages, gets every
fourth. With `--every-file` every single file gets every damage and every verb: more than 250 000 trials.

Prints what was found so far from time to time, and a table at the end. Exits with 1 if anything was found that is
forbidden.
"""

import argparse
import logging
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.corruption.driving import Driver, trace_verbs
from tests.corruption.reporting import Report
from tests.corruption.sampling import every_file, every_kind
from tests.corruption.trying import FORBIDDEN, SILENT_OUTCOMES
from tests.corruption.world import build_world

_SECONDS_BETWEEN = 20.0


class _Progress:
    """Prints how far a run has come, and each cause of something forbidden when it is first seen."""

    def __init__(self, trials: int) -> None:
        self._trials = trials
        self._began = self._printed = time.monotonic()
        self._known: set[tuple[str, str]] = set()

    def show(self, report: Report) -> None:
        for cause in report.examples.keys() - self._known:
            self._known.add(cause)
            if cause[0] in FORBIDDEN:
                _print(f"{cause[0]}: {cause[1]}: {report.examples[cause][0]}")
        if time.monotonic() - self._printed >= _SECONDS_BETWEEN:
            self._printed = time.monotonic()
            seconds = self._printed - self._began
            _print(f"{report.tried} of {self._trials} tried, {report.forbidden} forbidden, {seconds:.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.corruption", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--every-file", action="store_true", help="every damage and every verb for every single file")
    parser.add_argument("--kind", action="append", help="only files of this kind; can be repeated")
    parser.add_argument("--verb", action="append", help="only this verb; can be repeated")
    parser.add_argument("--folder", type=Path, help="keep the graph in this new folder")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    with ExitStack() as opened:
        folder = options.folder or Path(opened.enter_context(tempfile.TemporaryDirectory()))
        world = build_world(folder)
        began = time.monotonic()
        touched = None if options.every_file else trace_verbs(world)
        _print(f"files that each verb touches: {'not known' if touched is None else 'traced'}")
        cases = every_file(world, options.seed) if options.every_file else every_kind(world, options.seed, touched)
        cases = [case.only(options.verb) for case in cases if options.kind is None or case.kind in options.kind]
        trials = sum(len(case.verbs) for case in cases)
        _print(
            f"{len(cases)} cases, {trials} trials, seed {options.seed}; prepared in {time.monotonic() - began:.0f} s"
        )
        report = Driver(world, _Progress(trials).show).run(cases)
        _print(f"{report.table()}\n{report.causes(SILENT_OUTCOMES)}\n{report.causes()}")
        _print(f"{report.forbidden} forbidden, {time.monotonic() - began:.0f} s")
    sys.exit(bool(report.forbidden))


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
