"""Reports a run: that it begins, and how it ends, with what it read and wrote.

Loads and pipelines report from this one place. Nothing here makes the work fail or wait for a receiver: what cannot be
described or sent is logged.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TypeAlias
from uuid import UUID

from ulid import ULID

from omnigraph.errors import QueryCancelled
from omnigraph.lineage.delivery import Delivery, current_delivery
from omnigraph.lineage.descriptions import Dataset, Kind, RunName, RunState, State

Describe: TypeAlias = Callable[[], Iterable[Dataset]]

_NAMESPACE, _PARENT = "OPENLINEAGE_NAMESPACE", "OPENLINEAGE_PARENT_ID"
_logger = logging.getLogger("omnigraph.lineage")


_current: ContextVar[RunName | None] = ContextVar("omnigraph_lineage_run", default=None)
"""The run that encloses what happens now: a pipeline for its loads."""


class ReportedRun:
    """A run, as the code that does its work describes it. If nobody wants to know, nothing is described."""

    def __init__(self, delivery: Delivery | None, about: RunState) -> None:
        self._delivery = delivery
        self._about = about
        self._has_begun = False

    @property
    def inputs(self) -> tuple[Dataset, ...]:
        """What it reads, as far as it is known."""
        return self._about.inputs

    def begins(self) -> None:
        """Reports that the run begins. A run that finds nothing to do is not reported, unless it fails."""
        if not self._has_begun:
            self._has_begun = True
            self._send("START")

    def reads(self, describe: Describe) -> None:
        """Says what the run reads, in place of what was said before."""
        self._about = replace(self._about, inputs=self._describe(describe, self._about.inputs))

    def writes(self, describe: Describe) -> None:
        """Says what the run wrote."""
        self._about = replace(self._about, outputs=self._describe(describe, self._about.outputs))

    def ends(self) -> None:
        """Reports that the run has done its work."""
        if self._has_begun:
            self._send("COMPLETE")

    def fails(self, error: BaseException) -> None:
        """Reports that the run has failed, or that somebody stopped it."""
        self.begins()
        failed = isinstance(error, Exception) and not isinstance(error, QueryCancelled)
        self._about = replace(self._about, error=_name_of(error))
        self._send("FAIL" if failed else "ABORT")

    def _describe(self, describe: Describe, before: tuple[Dataset, ...]) -> tuple[Dataset, ...]:
        if self._delivery is None:
            return before
        try:
            return tuple(describe())
        except Exception:
            _logger.warning("an event of lineage lacks what the run read or wrote", exc_info=True)
            return before

    def _send(self, state: State) -> None:
        if self._delivery is not None:
            self._delivery.send(replace(self._about, state=state))


@contextmanager
def report_run(kind: Kind, job: str, inputs: Describe, *, id: UUID | None = None) -> Iterator[ReportedRun]:
    """Reports the work of a block as one run: START when it `begins`, and then COMPLETE, FAIL or ABORT.

    Args:
        kind: What the run does.
        job: The name of the job, which stays the same from run to run.
        inputs: Says what the run reads, as far as that is known before it begins.
        id: The id of the run; None for a new one.
    """
    namespace = os.environ.get(_NAMESPACE) or "default"
    name = RunName(namespace, job, id or ULID().to_uuid())
    delivery = current_delivery()
    parent = _current.get() or (_parent_of_process() if delivery is not None else None)
    run = ReportedRun(delivery, RunState(state="START", name=name, kind=kind, parent=parent))
    run.reads(inputs)
    before = _current.set(name)
    try:
        yield run
    except BaseException as error:
        run.fails(error)
        raise
    finally:
        _current.reset(before)
    run.ends()


def _parent_of_process() -> RunName | None:
    """The run of a scheduler that started this process: `namespace/job/id`."""
    given = os.environ.get(_PARENT)
    if not given:
        return None
    parts = given.rsplit("/", 2)  # a namespace may have slashes, as in `airflow://host`
    try:
        namespace, job, id_ = parts
        return RunName(namespace, job, UUID(id_))
    except ValueError:
        _logger.warning("%s is ignored: expected NAMESPACE/JOB/UUID, found %r", _PARENT, given)
        return None


def _name_of(error: BaseException) -> str:
    code = getattr(error, "code", None)
    return f"{type(error).__name__} ({code})" if isinstance(code, str) else type(error).__name__
