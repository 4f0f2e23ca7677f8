"""Small writes that wait for the same branch are published together: one file makes them all visible.

The first thread that comes leads: it decides all that wait, one after the other, each on the state that those before it
leave, and writes one version of the manifest for them. What comes meanwhile waits for the next one. So many writers
share the time that a file takes, and a single one waits for nobody.

Most threads whose writes were published write again at once. If the next leader did not wait for them, half of them
would always wait while the writes of the other half are published. So it waits for as many as there were, but only for
a small part of the time that the last version took.
"""

import copy
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Generic, TypeAlias, TypeVar

from omnigraph.api.history import Commit
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import HeadMoved, InternalError, NotDurable, OutcomeUnknown
from omnigraph.versioning import Manifest, ManifestLog, Publication
from omnigraph.versioning.publisher import append_next, join_writes

_Result = TypeVar("_Result")

MOST_TOGETHER = 128
"""So that the first of a group does not wait long for the last."""

_WAITING_PART, _MOST_SECONDS = 0.2, 0.05
"""For which part of the time of the last publication a leader waits for those who wrote before, and for how long."""


@dataclass(frozen=True, slots=True)
class SmallWrite(Generic[_Result]):
    """What a write changes, if anything, and its result when it is published."""

    publication: Publication | None
    result: Callable[[Commit | None], _Result]


Decision: TypeAlias = Callable[[Manifest], SmallWrite[Any]]
"""Decides a write on a state, without writing anything. It may be called again, on another state."""


@dataclass(eq=False, slots=True)
class _Waiting:
    """One write, and what became of it."""

    decide: Decision
    turn: threading.Lock = field(default_factory=threading.Lock)
    """Held until the write is done, or its thread is to lead."""
    decided: SmallWrite[Any] | None = None
    is_done: bool = False
    commit: Commit | None = None
    error: BaseException | None = None

    def outcome(self) -> Any:
        """The result, or the error."""
        if self.error is not None:
            raise self.error
        assert self.decided is not None
        return self.decided.result(self.commit)


class TooLargeToCarry(Exception):
    """A write that the manifest cannot carry, or that fills up what it carries for a table."""


class WriteGroup:
    """The small writes of one branch in this process.

    `settle` is called with the head before a group is decided. If it returns true, it has changed the head.
    """

    def __init__(self, log: ManifestLog, settle: Callable[[Manifest], bool]) -> None:
        self._log = log
        self._settle = settle
        self._lock = threading.Lock()
        self._came = threading.Condition(self._lock)
        self._waiting: deque[_Waiting] = deque()
        self._is_led = False
        self._expected = 1
        self._patience = 0.0

    def run(self, decide: Decision) -> Any:
        """Runs a write, alone or with others; its own thread raises its error."""
        mine = _Waiting(decide)
        mine.turn.acquire()
        with self._lock:
            self._waiting.append(mine)
            leads, self._is_led = not self._is_led, True
            if len(self._waiting) >= self._expected:
                self._came.notify()
        if not leads:
            try:
                mine.turn.acquire()
            except BaseException:
                self._leave(mine)
                raise
        if not mine.is_done:
            self._lead()
        return mine.outcome()

    def _leave(self, write: _Waiting) -> None:
        """Takes back a write whose thread is interrupted, unless it is being published."""
        with self._lock:
            if write in self._waiting:
                self._waiting.remove(write)
                if write.turn.acquire(blocking=False):
                    self._let_next_lead()

    def _let_next_lead(self) -> None:
        if self._waiting:
            self._waiting[0].turn.release()
        else:
            self._is_led = False

    def _lead(self) -> None:
        """Publishes those that wait, and lets one that came meanwhile lead next."""
        with self._lock:
            self._came.wait_for(lambda: len(self._waiting) >= self._expected, self._patience)
            group = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_TOGETHER))]
        began = time.monotonic()
        try:
            self._publish(group)
        except BaseException as error:
            for each in group:
                each.error = each.error or _own_error(error, each)
            if not isinstance(error, Exception):
                raise
        finally:
            for each in group:
                each.is_done = True
                each.turn.release()
            with self._lock:
                self._patience = min((time.monotonic() - began) * _WAITING_PART, _MOST_SECONDS)
                self._expected = min(len(group) + len(self._waiting), MOST_TOGETHER)
                self._let_next_lead()

    def _publish(self, group: Sequence[_Waiting]) -> None:
        def follow(head: Manifest) -> Manifest:
            if self._settle(head):
                raise HeadMoved(self._log.location.uri, head.version + 1, None)
            return self._decide(head, group)

        published = append_next(self._log, follow)
        commits = {each.graph_commit_id: each for each in published.own_commits}
        for each in group:
            if each.decided is not None and each.decided.publication is not None:
                each.commit = commits[each.decided.publication.commit_id]

    def _decide(self, head: Manifest, group: Sequence[_Waiting]) -> Manifest:
        """Decides each write on what those before it leave; one that fails leaves nothing."""
        so_far = head
        for each in group:
            each.decided = each.error = None
            try:
                decided = each.decide(so_far)
                if decided.publication is not None:
                    so_far = join_writes(head, so_far, decided.publication, self._log)
                each.decided = decided
            except Exception as error:
                each.error = error
        return so_far if so_far is head else so_far.with_positions()


def _own_error(error: BaseException, write: _Waiting) -> BaseException:
    """An error of the group as that of one of its writes."""
    publication = None if write.decided is None else write.decided.publication
    if publication is None:
        return copy.copy(error) if isinstance(error, Exception) else InternalError("a group of writes was interrupted")
    match error:
        case NotDurable():
            return NotDurable(error.uri, publication.commit_id, error.problem)
        case OutcomeUnknown():
            return OutcomeUnknown(publication.commit_id)
        case Exception():
            return copy.copy(error)
    return OutcomeUnknown(publication.commit_id)
