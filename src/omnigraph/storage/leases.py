"""Leases: locks on an object store, where no kernel frees what a dead process held.

A lease is an object that says who holds it and for how many seconds it is good without being renewed. Its holder renews
it from a thread. Whoever waits measures with its own clock: an object that stayed as it is for all those seconds is a
dead holder's, and is taken over. Taking, renewing and giving back are conditional puts, so of several who try, one
succeeds. A lease is never deleted, only marked as free: a delete could hit a lease that is another's by then.
"""

import json
import threading
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field

from omnigraph import failpoints
from omnigraph.errors import FenceLost, StorageError
from omnigraph.failpoints import Point
from omnigraph.storage.holders import (
    UNKNOWN_HOLDER,
    Holder,
    Lock,
    Taken,
    lock_file,
    lock_name,
    seconds_setting,
    this_holder,
)
from omnigraph.storage.location import Location
from omnigraph.storage.objects import RemoteObjects, Tag

_SECONDS = seconds_setting("OMNIGRAPH_LEASE_SECONDS", 10.0, least=0.5)
_RENEWALS = 4
"""How many times a lease is renewed in the time that it is good for."""


class Leases:
    """The leases below a place."""

    def __init__(self, location: Location) -> None:
        self._uri = location.uri
        self._objects = RemoteObjects(location)

    @property
    def patience(self) -> float:
        return 1.5 * _SECONDS

    def look(self, names: Iterable[str]) -> None:
        for name in names:
            self._sight(lock_file(name))

    def take(self, name: str, purpose: str, wait: float) -> Lock:
        file = lock_file(name)
        deadline = time.monotonic() + wait
        while True:
            found, unchanged = self._sight(file)
            now = time.monotonic()
            state, tag = (None, None) if found is None else (_state(found[0]), found[1])
            free = found is None or (state is not None and state.free)
            if free or unchanged >= (state.seconds if state is not None else _SECONDS):
                lease = Lease(self._objects, file, purpose)
                if lease.swap(tag):
                    lease.keep()
                    return lease
            if now >= deadline:
                raise Taken(UNKNOWN_HOLDER if free or state is None else str(state.holder))
            time.sleep(min(0.05, _SECONDS / 20))

    def _sight(self, file: str) -> tuple[tuple[bytes, Tag] | None, float]:
        """A lease as it is now, and for how many seconds this process has seen it so.

        No two states of a lease are alike, so one that is as it was when last seen has not changed in between.
        """
        found = self._objects.read_tagged(file)
        now, tag = time.monotonic(), found[1] if found is not None else None
        with _sightings_lock:
            known = _sightings.get((self._uri, file))
            if known is None or known[0] != tag:
                if len(_sightings) >= _MOST_SIGHTINGS:
                    # Those who wait for a dead holder wait anew, which is no more than slow.
                    _sightings.clear()
                _sightings[self._uri, file] = known = (tag, now)
        return found, now - known[1]


_sightings: dict[tuple[str, str], tuple[Tag, float]] = {}
_sightings_lock = threading.Lock()
_MOST_SIGHTINGS = 100_000


@dataclass(frozen=True, slots=True)
class _State:
    """What the object of a lease says."""

    owner: str
    beat: int
    seconds: float
    free: bool
    holder: Holder


def _state(content: bytes) -> _State | None:
    """What a lease says; None for one that cannot be understood, which is somebody's until its time is up."""
    try:
        data = json.loads(content)
        return _State(**{**data, "holder": Holder(**data["holder"])})
    except (ValueError, TypeError, KeyError):
        return None


@dataclass(eq=False, slots=True)
class Lease:
    """A lease that this process holds."""

    objects: RemoteObjects
    file: str
    purpose: str
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)
    tag: Tag = None
    renewed: float = 0.0
    beat: int = 0
    lost: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    over: threading.Event = field(default_factory=threading.Event)

    def keep(self) -> None:
        """Renews the lease until it is given back, in a thread of its own: slow renewals hold up no others."""
        threading.Thread(target=self._renewals, name="omnigraph-lease", daemon=True).start()

    def _renewals(self) -> None:
        while not self.over.wait(_SECONDS / _RENEWALS):
            self.renew()

    def swap(self, tag: Tag, *, free: bool = False) -> bool:
        """Writes the next state of the lease over the tagged one; False when it is another's."""
        began = time.monotonic()
        self.beat += 1
        state = _State(self.owner, self.beat, _SECONDS, free, this_holder(self.purpose))
        after = self._put(json.dumps(asdict(state)).encode(), tag)
        if after is not None:
            self.tag, self.renewed = after, began
        return after is not None

    def _put(self, content: bytes, tag: Tag) -> Tag | None:
        """The tag of the state that was put; None when the lease is another's.

        A put whose answer was lost may have landed: then the client sends it again and meets itself, or gives up, and
        our next put meets it.
        """
        try:
            after = self.objects.swap(self.file, content, tag)
        except StorageError:
            beat, found = self._standing()
            if beat != self.beat:
                raise
            return found
        if after is not None:
            return after
        beat, found = self._standing()
        return found if beat in (None, self.beat) else self._put(content, found)

    def _standing(self) -> tuple[int, Tag] | tuple[None, None]:
        """Which of our states the store has; none when the lease is another's."""
        found = self.objects.read_tagged(self.file)
        state = None if found is None else _state(found[0])
        if found is None or state is None or state.owner != self.owner:
            return None, None
        return state.beat, found[1]

    def renew(self) -> None:
        """Says that the holder lives; a store that does not answer is asked again next time."""
        with self.lock:
            try:
                failpoints.hit(Point.LEASE_RENEWAL)
                self.lost = self.lost or not self.swap(self.tag)
            except StorageError:
                return

    def check(self) -> None:
        if self.lost or time.monotonic() - self.renewed > _SECONDS * (1 - 1 / _RENEWALS):
            raise FenceLost(lock_name(self.file))

    def release(self) -> None:
        self.over.set()
        with self.lock:
            if not self.lost:
                # A renewal that waits for us must not take it again.
                self.lost = True
                try:
                    self.swap(self.tag, free=True)
                except StorageError:
                    # It was not given back, so those who wait take it over when its time is up.
                    return


def refuse_careless_store(location: Location) -> None:
    """Raises when a store ignores the condition of a conditional put: it would lose commits in silence."""
    if location.path is not None or location in _careful:
        return
    objects = RemoteObjects(location)
    name = lock_file(f"probe-{uuid.uuid4().hex}")
    try:
        tag = objects.swap(name, b"first", None)
        refused_create = objects.swap(name, b"second", None) is None
        changed = objects.swap(name, b"third", tag)
        refused_swap = objects.swap(name, b"fourth", tag) is None
    finally:
        with suppress(StorageError):
            objects.delete(name)
    if not refused_create or not refused_swap:
        problem = "this store ignores the conditions of conditional puts, so writers would overwrite each other"
        raise StorageError(location.uri, problem)
    if tag is None or changed is None:
        raise StorageError(location.uri, "this store gave no clear answer to a conditional put; try again")
    _careful.add(location)


_careful: set[Location] = set()
