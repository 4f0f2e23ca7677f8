"""Journals: what each process was about to do, and how it ended as far as that process was told."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import omnigraph as og


class Kind(StrEnum):
    """The kinds of operations that are counted."""

    TRANSFER = "transfer"
    ADD = "add"
    LOAD = "load"
    APPEND = "append"
    PUT = "put"
    BRANCH = "branch"
    MERGE = "merge"
    SCHEMA = "schema"
    OPTIMIZE = "optimize"
    INDEX = "index"
    CLEANUP = "cleanup"
    TAG = "tag"


class Outcome(StrEnum):
    """What is known of an operation from its acknowledgement."""

    DONE = "done"
    REFUSED = "refused"
    """An error that promises that nothing is visible."""
    UNKNOWN = "unknown"
    """The process was killed, or was told that the outcome is not known."""


_FINAL_NOTES = ("nothing of write", "is still to be undone")
"""Notes of an error that say that nothing becomes visible, whatever is left to do."""


def outcome_of(error: og.OmnigraphError, kind: Kind | None = None) -> Outcome:
    """What an error says about the operation that it ended.

    A write that lost its lease is settled before its error is raised. What is not a write, such as the creation of a
    branch, may have taken effect.
    """
    if isinstance(error, og.NotDurable):
        return Outcome.DONE
    is_open = isinstance(error, og.OutcomeUnknown) or any(
        not any(final in note for final in _FINAL_NOTES) for note in getattr(error, "__notes__", ())
    )
    lost = isinstance(error, og.FenceLost) and kind in (Kind.BRANCH, Kind.TAG, Kind.CLEANUP)
    return Outcome.UNKNOWN if is_open or lost else Outcome.REFUSED


@dataclass(slots=True)
class Operation:
    """One operation of one process."""

    kind: Kind
    what: dict[str, Any]
    outcome: Outcome = Outcome.UNKNOWN
    error: str = ""
    result: dict[str, Any] = field(default_factory=dict)


class Journal:
    """The journal that a process writes; each line is there even if the process is killed right after it."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._number = 0

    def note(self, **line: Any) -> None:
        """Appends a line, with the time that all processes of the machine share."""
        os.write(self._file, (json.dumps({"at": round(time.monotonic(), 3), **line}) + "\n").encode())

    @contextmanager
    def operation(self, kind: Kind, **what: Any) -> Iterator[dict[str, Any]]:
        """Journals the beginning and the end of an operation. What the block puts into the result is journaled too."""
        self._number += 1
        number = self._number
        result: dict[str, Any] = {}
        self.note(begin=number, kind=kind, what=what)
        try:
            yield result
        except og.OmnigraphError as error:
            notes = getattr(error, "__notes__", [])
            self.note(end=number, outcome=outcome_of(error, kind), error=error.code, text=[str(error), *notes])
            raise
        self.note(end=number, outcome=Outcome.DONE, result=result)


@dataclass(slots=True)
class Told:
    """All that a journal says."""

    operations: list[Operation] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    pauses: list[str] = field(default_factory=list)
    tagged: dict[str, str] = field(default_factory=dict)
    reads: int = 0
    unreadable: int = 0


def read_journal(path: Path) -> Told:
    """What a journal says; the last line of a process that was killed may be cut short."""
    told = Told()
    begun: dict[int, Operation] = {}
    for text in path.read_text().splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if "begin" in line:
            begun[line["begin"]] = operation = Operation(Kind(line["kind"]), line["what"])
            told.operations.append(operation)
        elif "end" in line:
            operation = begun[line["end"]]
            operation.outcome = Outcome(line["outcome"])
            operation.error = line.get("error", "")
            operation.result = line.get("result", {})
        elif "violation" in line:
            told.violations.append(f"{path.stem}: {line['violation']}")
        elif "paused" in line:
            told.pauses.append(line["paused"])
        elif "tagged" in line:
            told.tagged[line["tagged"]] = line["digest"]
        told.reads += line.get("read", 0)
        told.unreadable += line.get("unreadable", 0)
    return told
