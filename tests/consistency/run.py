"""Starts the processes of a run, harms them, lets them end, and judges what the graph has."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import nursery
from tests.consistency import clocks, world
from tests.consistency.journal import Kind, Outcome, Told, read_journal
from tests.consistency.judge import tag_violations, violations_of

ROOT = Path(__file__).parents[2]
_END_PATIENCE = 120.0
LEAST_SHARE = 0.05
"""Which part of the acknowledged operations each kind must be."""
_MOST, _LONGEST = 30, 600
"""How many violations are shown, and how many letters of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How long and how hard a run is. It ends after `seconds`, or when `operations` were acknowledged."""

    uri: str
    options: dict[str, str] | None
    folder: Path
    seed: int = 1
    seconds: float = 20.0
    operations: int | None = None
    workers: int = 3
    lease: float = 10.0
    """For how many seconds a lease is good; on a disk, how pauses are measured."""
    harm_every: float = 2.0
    """About how many seconds lie between two processes that are killed or stopped from outside."""
    pauses: float = 0.05
    skew: int = 3600
    """By how many seconds clocks are wrong, before or behind."""
    wait: float = 10.0
    """For how many seconds a worker waits for the locks of others."""


@dataclass(slots=True)
class Report:
    """What a run was made of, and what it found."""

    settings: Settings
    seconds: float = 0.0
    acknowledged: Counter[Kind] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    unknown: Counter[Kind] = field(default_factory=Counter)
    kills: int = 0
    crashes: int = 0
    stops: int = 0
    pauses: Counter[str] = field(default_factory=Counter)
    skews: int = 0
    reads: int = 0
    unreadable: int = 0
    violations: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.acknowledged.total()

    def shares(self) -> dict[Kind, float]:
        """Which part of the acknowledgements each kind is."""
        return {kind: self.acknowledged[kind] / max(1, self.total) for kind in Kind}

    def missing(self) -> list[str]:
        """What a long run must have had and has not; for runs that end when enough was acknowledged."""
        rare = {kind: share for kind, share in self.shares().items() if share < LEAST_SHARE}
        counts = {"kills": self.kills, "stops": self.stops, "pauses at a step": self.pauses.total()}
        if clocks.library() is not None:
            counts["wrong clocks"] = self.skews
        return [
            *(
                f"{kind} is {share:.1%} of what was acknowledged, below {LEAST_SHARE:.0%}"
                for kind, share in rare.items()
            ),
            *(f"there were no {name}" for name, count in counts.items() if not count),
            *(
                [f"{self.total} of {self.settings.operations} operations were acknowledged"]
                if self.total < (self.settings.operations or 0)
                else []
            ),
        ]

    def __str__(self) -> str:
        skews = f"{self.skews} processes with clocks {self.settings.skew} s off"
        if clocks.library() is None:
            skews = "no wrong clocks: libfaketime is not installed (Debian: faketime)"
        kinds = ", ".join(f"{kind} {self.acknowledged[kind]}" for kind in Kind)
        lines = [
            f"consistency: {self.settings.uri}, seed {self.settings.seed}, {self.seconds:.0f} s",
            f"acknowledged: {self.total} ({kinds})",
            f"refused: {self.refused.total()} ({', '.join(f'{name} {n}' for name, n in self.refused.most_common())})",
            f"unknown: {self.unknown.total()}",
            f"killed from outside: {self.kills}; killed at a step: {self.crashes}",
            f"stopped from outside: {self.stops}; paused at {len(self.pauses)} different steps: {self.pauses.total()}",
            f"skewed: {skews}",
            f"reads: {self.reads} ({self.unreadable} of commits that cleanup took)",
            f"violations: {len(self.violations)}",
            *(f"  {each[:_LONGEST]}" for each in self.violations[:_MOST]),
        ]
        return "\n".join(lines)


@dataclass(slots=True)
class _Process:
    """One of the processes, and until when it stays stopped."""

    program: str
    slot: int
    turn: int
    process: nursery.Child
    wakes: float | None = None
    killed: bool = False

    def is_stopped(self) -> bool:
        """Whether it has been stopped, by itself or from outside."""
        try:
            status = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return False
        return status.rpartition(")")[2].split()[0] == "T"


class Run:
    """The processes of a run. It knows them by their numbers, and the graph not at all."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._chance = random.Random(settings.seed)  # noqa: S311
        self._report = Report(settings)
        self._processes: list[_Process] = []
        self._told: dict[Path, tuple[int, Told]] = {}

    def judge(self) -> Report:
        """Runs to the end, and says what was found."""
        settings = self._settings
        settings.folder.mkdir(parents=True, exist_ok=True)
        world.create(settings.uri, settings.options)
        try:
            self._processes += [self._start("worker", slot, 0) for slot in range(settings.workers)]
            self._processes.append(self._start("reader", 0, 0))
            began = time.monotonic()
            self._harm(began)
            self._let_end()
        finally:
            for each in self._processes:
                each.process.kill()
                each.process.wait()
        self._report.seconds = time.monotonic() - began
        self._inspect()
        return self._report

    def _start(self, program: str, slot: int, turn: int) -> _Process:
        settings = self._settings
        skew = self._chance.choice((0, settings.skew, -settings.skew)) if program == "worker" else 0
        faked = clocks.environment(skew)
        self._report.skews += bool(faked)
        job = {
            "uri": settings.uri,
            "options": settings.options,
            "folder": str(settings.folder),
            "slot": slot,
            "turn": turn,
            "seed": settings.seed,
            "pauses": settings.pauses,
            "rest": 0.2 if settings.options is None else 1.0,
        }
        process = nursery.started(
            f"from tests.consistency.{program} import main; main()",
            json.dumps(job),
            environment={
                "OMNIGRAPH_LEASE_SECONDS": str(settings.lease),
                "OMNIGRAPH_DURABILITY": "full" if slot == 0 else "fast",
            },
            born_with={"OMNIGRAPH_WRITE_WAIT": str(settings.wait), **faked},
        )
        return _Process(program, slot, turn, process)

    def _harm(self, began: float) -> None:
        """Kills, stops and continues processes, and replaces those that died, until the run has been long enough."""
        settings = self._settings
        counted, harm_at = began, began + settings.harm_every
        while time.monotonic() - began < settings.seconds:
            self._tend()
            now = time.monotonic()
            if now > harm_at:
                harm_at = now + self._chance.uniform(0.2, 1.8) * settings.harm_every
                self._harm_one()
            if settings.operations is not None and now - counted > 1:
                counted = now
                if self._acknowledged() >= settings.operations:
                    return
            time.sleep(0.02)

    def _harm_one(self) -> None:
        """Kills a process or stops it for a while."""
        victim = self._chance.choice(self._processes)
        if self._chance.random() < 0.5:
            victim.killed = True
            self._report.kills += 1
            victim.process.kill()
        elif not victim.is_stopped():
            self._report.stops += 1
            victim.process.send_signal(signal.SIGSTOP)

    def _tend(self) -> None:
        """Continues those that were stopped for long enough, and replaces those that have ended."""
        for number, each in enumerate(self._processes):
            code = each.process.poll()
            if code is not None:
                self._report.crashes += code == -signal.SIGKILL and not each.killed
                if code not in (0, -signal.SIGKILL):
                    self._report.violations.append(self._failure(each))
                self._processes[number] = self._start(each.program, each.slot, each.turn + 1)
            elif each.is_stopped():
                now = time.monotonic()
                if each.wakes is None:
                    each.wakes = now + self._settings.lease * self._chance.choice((0.3, 1.2, 2.0, 3.0))
                elif now > each.wakes:
                    each.wakes = None
                    each.process.send_signal(signal.SIGCONT)

    def _let_end(self) -> None:
        """Asks all to end; those that are stopped are continued, and nobody is replaced."""
        (self._settings.folder / "stop").touch()
        deadline = time.monotonic() + _END_PATIENCE
        while any(each.process.poll() is None for each in self._processes):
            self._tend_ending()
            if time.monotonic() > deadline:
                self._report.violations.append(f"a process has not ended {_END_PATIENCE:.0f} s after it was asked to")
                return
            time.sleep(0.02)
        for each in self._processes:
            if each.process.returncode not in (0, -signal.SIGKILL):
                self._report.violations.append(self._failure(each))

    def _tend_ending(self) -> None:
        for each in self._processes:
            if each.process.poll() is None and each.is_stopped():
                each.process.send_signal(signal.SIGCONT)

    def _failure(self, each: _Process) -> str:
        child = each.process
        return f"{each.program} {each.slot}.{each.turn} ended with {child.returncode}: {child.errors[-1000:]}"

    def _acknowledged(self) -> int:
        return sum(
            operation.outcome is Outcome.DONE for told in self._journals().values() for operation in told.operations
        )

    def _journals(self) -> dict[Path, Told]:
        """What all journals say so far; those that have not grown are not read again."""
        for path in self._settings.folder.glob("*.jsonl"):
            size = path.stat().st_size
            if path not in self._told or self._told[path][0] != size:
                self._told[path] = (size, read_journal(path))
        return {path: told for path, (_, told) in self._told.items()}

    def _inspect(self) -> None:
        """Reads the journals, lets a fresh process read the graph, and compares the two."""
        report, settings = self._report, self._settings
        told = [*self._journals().values()]
        operations = [operation for each in told for operation in each.operations]
        for operation in operations:
            match operation.outcome:
                case Outcome.DONE:
                    report.acknowledged[operation.kind] += 1
                case Outcome.UNKNOWN:
                    report.unknown[operation.kind] += 1
                case Outcome.REFUSED:
                    report.refused[operation.error] += 1
        for each in told:
            report.violations += each.violations
            report.pauses.update(each.pauses)
            report.reads += each.reads
            report.unreadable += each.unreadable
        found = self._inspector()
        if found is None:
            return
        noted = {name: digest for each in told for name, digest in each.tagged.items()}
        report.violations += found["problems"]
        report.violations += violations_of(operations, found["content"])
        report.violations += tag_violations(operations, noted, found["tags"])
        (settings.folder / "report.txt").write_text(str(report))

    def _inspector(self) -> dict[str, Any] | None:
        job = {"uri": self._settings.uri, "options": self._settings.options}
        command = [sys.executable, "-m", "tests.consistency.inspector", json.dumps(job)]
        lease = {"OMNIGRAPH_LEASE_SECONDS": str(self._settings.lease)}
        ended = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **lease}, capture_output=True, text=True, check=False, timeout=600
        )
        with suppress(ValueError):
            found: dict[str, Any] = json.loads(ended.stdout)
            return found
        self._report.violations.append(f"the graph cannot be inspected: {ended.stderr[-1500:]}")
        return None
