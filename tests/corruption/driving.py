"""Hands cases to a worker, which is restarted when it is aborted or hangs, and collects what came of them."""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.corruption.graph import Variant
from tests.corruption.reporting import Report
from tests.corruption.sampling import whole_cases
from tests.corruption.touching import Touched, read_trace, tracing_command
from tests.corruption.trying import Case, Finding, Outcome
from tests.corruption.world import World

_ROOT = Path(__file__).parents[2]
_PATIENCE = 60.0
ENVIRONMENT = {
    "OMNIGRAPH_DURABILITY": "fast",
    "OMNIGRAPH_WRITE_WAIT": "2",
    "OMNIGRAPH_METADATA_BYTES": str(16 << 20),
    "LANCE_CPU_THREADS": "2",
    "RUST_BACKTRACE": "0",
}


class Driver:
    """A worker, and what came of what it was given."""

    def __init__(
        self, world: World, on_verb: Callable[[Report], None] | None = None, *, log: Path | None = None
    ) -> None:
        self._world = world
        self._on_verb = on_verb
        self._traced = [] if log is None else tracing_command(log)
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None
        self._rest = b""
        self.report = Report()

    def run(self, cases: Iterable[Case]) -> Report:
        """Tries all cases."""
        try:
            for case in cases:
                self._run(case)
        finally:
            self._stop()
        return self.report

    def _run(self, case: Case) -> None:
        left = list(case.verbs)
        while left:
            worker = self._worker()
            assert worker.stdin is not None
            worker.stdin.write(json.dumps({**case.as_json(), "verbs": left}).encode() + b"\n")
            worker.stdin.flush()
            at = left[0]
            while (line := self._line()) is not None:
                message = json.loads(line)
                if message.get("skipped") or message.get("done"):
                    return
                if "begins" in message:
                    at = message["begins"]
                else:
                    self.report.add(case, at, [Finding(Outcome(o), s, d) for o, s, d in message["findings"]])
                    left.remove(at)
                    self._tell()
            self.report.add(case, at, [self._end()])
            left.remove(at)
            self._tell()

    def _tell(self) -> None:
        if self._on_verb is not None:
            self._on_verb(self.report)

    def _worker(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it has ended
            self._rest = b""
            self._process = subprocess.Popen(
                [*self._traced, sys.executable, "-W", "ignore", "-m", "tests.corruption.worker", str(self._world.work)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd=_ROOT,
                env={**os.environ, **ENVIRONMENT},
                bufsize=0,
            )
        return self._process

    def _line(self) -> bytes | None:
        """The next line of the worker; None if it has ended, or says nothing for too long."""
        assert self._process is not None
        assert self._process.stdout is not None
        until = time.monotonic() + _PATIENCE
        while b"\n" not in self._rest:
            if not select.select([self._process.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
                return None
            if not (more := os.read(self._process.stdout.fileno(), 1 << 16)):
                return None
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _end(self) -> Finding:
        """How the worker ended that did not answer."""
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        code = self._process.poll()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace")[-3000:]
        self._stop()
        if code is None:
            return Finding(Outcome.HANG, "no answer", said[-300:])
        if code == 1:
            raise AssertionError(f"the worker failed by itself:\n{said}")
        lines = [line for line in said.splitlines() if "panicked" in line]
        return Finding(Outcome.ABORT, f"exit code {code} {lines[-1] if lines else ''}"[:200], said[-400:])

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self._process = None


def trace_verbs(world: World) -> Mapping[tuple[Variant, str], Touched] | None:
    """What each verb touches on each variant that is whole; None if there is nothing to trace it with."""
    log = world.work / "trace.log"
    if not tracing_command(log):
        return None
    report = Driver(world, log=log).run(whole_cases(world))
    assert not report.forbidden, report.causes()
    with log.open(errors="replace") as lines:
        found = read_trace(lines, world.work / "graph.omni")
    log.unlink()
    return found
