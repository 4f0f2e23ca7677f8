"""Builds the graph, hands cases to a worker that is restarted when it is aborted, and counts what comes of them."""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.corruption.damages import ANY_FLIP, DAMAGES
from tests.corruption.graph import Variant, build, leave
from tests.corruption.kinds import Kind, files_in_use
from tests.corruption.trying import FORBIDDEN, WHOLE, Case, Finding, Outcome, write_kinds
from tests.corruption.verbs import VERBS

_ROOT = Path(__file__).parents[2]
_PATIENCE = 60.0
ENVIRONMENT = {
    "OMNIGRAPH_DURABILITY": "fast",
    "OMNIGRAPH_WRITE_WAIT": "2",
    "OMNIGRAPH_METADATA_BYTES": str(16 << 20),
    "LANCE_CPU_THREADS": "2",
    "RUST_BACKTRACE": "0",
}
_READS_ALL = ("query all", "export", "read old states", "load merge", "update", "optimize", "verify")
_MANIFEST = ("open for reading", "commits", "insert", "open for writing", "cleanup confirm", "changes", "GET /commits")
_BRANCH = (
    "branches and tags",
    "insert on a branch",
    "merge",
    "cleanup confirm",
    "delete a branch",
    "status",
    "first insert on a branch",
)
_SETTLING = ("open for writing", "insert", "recoveries", "cleanup confirm", "repair force", "status")
NEAR: dict[Kind, tuple[str, ...]] = {
    Kind.MANIFEST_VERSION: (*_MANIFEST, "read old commits", "merge", "verify"),
    Kind.MANIFEST_DATA: (*_MANIFEST, "read old commits", "merge", "verify"),
    Kind.MANIFEST_TRANSACTION: ("insert", "merge", "open for writing"),
    Kind.MANIFEST_HINT: ("insert", "open for reading"),
    Kind.BRANCH_REF: (*_BRANCH, "export a branch"),
    Kind.TABLE_VERSION: (
        "query all",
        "insert",
        "cleanup confirm",
        "status",
        "repair force",
        "read old states",
        "merge",
    ),
    Kind.TABLE_DATA: (*_READS_ALL, "entities", "traverse", "diff"),
    Kind.TABLE_DELETIONS: (*_READS_ALL, "delete", "diff", "cleanup confirm", "merge"),
    Kind.TABLE_TRANSACTION: ("repair preview", "repair confirm", "insert", "optimize", *_SETTLING),
    Kind.TABLE_HINT: ("insert", "status"),
    Kind.FORK_REF: _BRANCH,
    Kind.BTREE: (
        "filter by BTREE",
        "filter by range",
        "query by key",
        "insert",
        "update",
        "load merge",
        "traverse from one",
    ),
    Kind.BITMAP: ("filter by BITMAP", "traverse", "optimize"),
    Kind.LABEL_LIST: ("filter by LABEL_LIST", "optimize"),
    Kind.NGRAM: ("filter by NGRAM", "optimize"),
    Kind.FULL_TEXT: ("search words", "rank by words", "optimize"),
    Kind.VECTOR: ("nearest", "optimize"),
    Kind.AUDIT_VERSION: _SETTLING,
    Kind.AUDIT_DATA: _SETTLING,
    Kind.AUDIT_TRANSACTION: _SETTLING,
    Kind.AUDIT_HINT: _SETTLING,
    Kind.HEAD_NOTE: ("open for reading", "insert", "cleanup confirm", "export a branch"),
    Kind.RETAINED_NOTE: (
        "read old states",
        "commits",
        "cleanup confirm",
        "insert",
        "read old commits",
        "open for reading",
    ),
    Kind.ARCHIVE: ("commits", "merge", "cleanup confirm", "status", "branches and tags"),
    Kind.SCHEMA: ("open for reading", "read old states", "schemas", "apply a schema", "merge", "open for writing"),
    Kind.SCHEMA_FILE: ("status", "apply a schema", "open for writing"),
    Kind.STAGED_SCHEMA_FILE: ("open for writing", "insert", "apply a schema"),
    Kind.TAG: ("branches and tags", "cleanup confirm", "read old states", "delete a tag", "delete a branch"),
    Kind.SIDECAR: _SETTLING,
    Kind.LOCK: ("insert", "cleanup confirm"),
}
"""The verbs that are most likely to read a file of a kind, for samples."""

AT_WORK = frozenset({"read with an open graph", "write with an open graph"})


@dataclass(frozen=True, slots=True)
class World:
    """The graph in all variants, ready to be damaged, with the kinds of its files."""

    work: Path
    kinds: dict[Variant, dict[str, Kind]]
    in_use: dict[Variant, frozenset[str]]
    """The files that the newest commits of the branches need."""


def build_world(work: Path) -> World:
    """Makes the graph, once, and a copy of each of its variants."""
    graph, copies = work / "graph.omni", work / "copies"
    build(graph, work)
    shutil.copytree(graph, copies / Variant.SETTLED)
    in_use = {Variant.SETTLED: files_in_use(graph)}
    for variant in Variant:
        if variant is not Variant.SETTLED:
            shutil.rmtree(graph)
            shutil.copytree(copies / Variant.SETTLED, graph)
            leave(variant, graph)
            in_use[variant] = files_in_use(graph)
            shutil.copytree(graph, copies / variant)
    shutil.rmtree(graph)
    build_beside(work)
    return World(work, write_kinds(work, list(Variant)), in_use)


def build_beside(work: Path) -> None:
    """A graph that is never damaged."""
    import omnigraph as og

    beside = og.init(work / "beside.omni", "node Person { name: String @key }", durability="fast")
    beside.mutate('query add { insert Person { name: "Beside" } }')


def files_by_kind(world: World) -> Iterator[tuple[Variant, Kind, list[str]]]:
    """The files of each kind; of the variants with an unfinished write, only those that it left."""
    settled = world.kinds[Variant.SETTLED]
    for variant, kinds in world.kinds.items():
        grouped: dict[Kind, list[str]] = defaultdict(list)
        for file, kind in kinds.items():
            if variant is Variant.SETTLED or file not in settled or kind is Kind.HEAD_NOTE:
                grouped[kind].append(file)
        for kind, files in grouped.items():
            yield variant, kind, sorted(files)


def all_verbs(variant: Variant) -> list[str]:
    """The verbs that can be tried; opening a graph before the damage would settle an unfinished write."""
    return [name for name, verb in VERBS.items() if variant is Variant.SETTLED or not _is_prepared(name)]


def _is_prepared(name: str) -> bool:
    return name in AT_WORK or name.startswith(("GET ", "POST "))


def whole_cases(world: World) -> list[Case]:
    """Every verb on every variant without a damage."""
    return [
        Case(variant, next(iter(kinds)), next(iter(kinds.values())), WHOLE, 0, tuple(all_verbs(variant)))
        for variant, kinds in world.kinds.items()
    ]


def all_cases(world: World, seed: int) -> list[Case]:
    """Every file, every damage, every verb; those that take long for some."""
    numbers = Random(seed)
    cases = []
    for variant, kind, files in files_by_kind(world):
        for file in files:
            for damage in DAMAGES:
                verbs = [name for name in all_verbs(variant) if not VERBS[name].is_sampled or numbers.random() < 0.1]
                cases.append(Case(variant, file, kind, damage, numbers.randrange(1 << 32), tuple(verbs)))
    numbers.shuffle(cases)
    return [*cases, *flipped_cases(world, seed, times=20)]


def flipped_cases(world: World, seed: int, times: int) -> list[Case]:
    """Files in use of each kind with a bit flipped anywhere, so many of each, and the verbs that may read them."""
    numbers = Random(seed)
    cases = []
    for variant, kind, files in files_by_kind(world):
        used = [file for file in files if file in world.in_use[variant]] or files
        near = tuple(name for name in NEAR[kind] if name in all_verbs(variant) and not VERBS[name].is_sampled)
        for file in numbers.choices(used, k=times):
            cases.append(Case(variant, file, kind, ANY_FLIP, numbers.randrange(1 << 32), near))
    return cases


def sampled_cases(world: World, seed: int, verbs: int) -> list[Case]:
    """For each kind and damage one file, mostly one in use, and so many verbs, most of them likely to read it."""
    numbers = Random(seed)
    cases = []
    for variant, kind, files in files_by_kind(world):
        used = [file for file in files if file in world.in_use[variant]] or files
        for damage in DAMAGES:
            file = numbers.choice(used if numbers.random() < 0.75 else files)
            possible = all_verbs(variant)
            near = [name for name in NEAR[kind] if name in possible]
            chosen = {numbers.choice(near if numbers.random() < 0.75 else possible) for _ in range(verbs)}
            cases.append(Case(variant, file, kind, damage, numbers.randrange(1 << 32), tuple(sorted(chosen))))
    numbers.shuffle(cases)
    return cases


@dataclass(slots=True)
class Report:
    """What came of all cases."""

    files: set[tuple[Variant, str]] = field(default_factory=set)
    damages: set[str] = field(default_factory=set)
    verbs: set[str] = field(default_factory=set)
    tried: int = 0
    counts: Counter[tuple[Kind, Outcome]] = field(default_factory=Counter)
    examples: dict[tuple[Outcome, str], list[str]] = field(default_factory=dict)
    numbers: Counter[tuple[Outcome, str]] = field(default_factory=Counter)
    records: list[dict[str, Any]] = field(default_factory=list)

    def add(self, case: Case, verb: str, findings: Iterable[Finding]) -> None:
        self.files.add((case.variant, case.file))
        self.damages.add(case.damage)
        self.verbs.add(verb)
        self.tried += 1
        for finding in findings:
            self.counts[case.kind, finding.outcome] += 1
            cause = (finding.outcome, finding.site)
            self.numbers[cause] += 1
            self.records.append(
                {
                    "outcome": finding.outcome,
                    "site": finding.site,
                    "detail": finding.detail,
                    "kind": case.kind,
                    "variant": case.variant,
                    "damage": case.damage,
                    "file": case.file,
                    "seed": case.seed,
                    "verb": verb,
                }
            )
            text = (
                f"{verb}; {case.kind} {case.damage} ({case.variant}: {case.file}, seed {case.seed}): {finding.detail}"
            )
            if len(self.examples.setdefault(cause, [])) < 2:
                self.examples[cause].append(text)

    @property
    def forbidden(self) -> int:
        """How often something happened that must not."""
        return sum(count for (_, outcome), count in self.counts.items() if outcome in FORBIDDEN)

    def table(self) -> str:
        """What was tried, and what came of it, by kind of file."""
        used = [
            outcome for outcome in Outcome if any(self.counts[kind, outcome] for kind in Kind) or outcome in FORBIDDEN
        ]
        lines = [
            f"{len(self.files)} files x {len(self.damages)} damages x {len(self.verbs)} verbs, {self.tried} tried",
            "| kind | " + " | ".join(used) + " |",
            "|---" * (len(used) + 1) + "|",
        ]
        for kind in Kind:
            row = [self.counts[kind, outcome] for outcome in used]
            if any(row):
                lines.append(f"| {kind} | " + " | ".join(map(str, row)) + " |")
        totals = [sum(self.counts[kind, outcome] for kind in Kind) for outcome in used]
        lines.append("| all | " + " | ".join(map(str, totals)) + " |")
        return "\n".join(lines)

    def causes(self, outcomes: Iterable[Outcome] = FORBIDDEN) -> str:
        """The first examples of each cause, the most frequent first."""
        lines = []
        for outcome in outcomes:
            for (each, site), number in self.numbers.most_common():
                if each is outcome:
                    lines.append(f"{outcome} x {number}: {site}")
                    lines += [f"    {example}" for example in self.examples[each, site]]
        return "\n".join(lines)


class Driver:
    """A worker, and what came of what it was given."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None
        self._rest = b""
        self.report = Report()

    def run(self, cases: Iterable[Case], until: float | None = None) -> Report:
        """Tries cases, all of them or as long as there is time."""
        try:
            for case in cases:
                if until is not None and time.monotonic() > until:
                    break
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
            self.report.add(case, at, [self._end()])
            left.remove(at)

    def _worker(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._errors = tempfile.TemporaryFile()
            self._rest = b""
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.corruption.worker", str(self._world.work)],
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
            with suppress(OSError):
                pipe.close()
        self._process = None
