"""Limits how much an actor has in flight at once: requests, and bytes."""

import threading
from collections.abc import Mapping
from dataclasses import field

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import TooBusy

RETRY_AFTER = 1
FREE_BYTES = 64 * 1024
"""Each request may send and hold this much in any case, so that large requests do not block small ones."""

_KINDS = _SENT, _HELD = "sent", "held"
"""What bytes are counted for: bodies, and rows that queries hold."""


@dataclass(slots=True)
class _Share:
    """What an actor has in flight."""

    requests: int = 0
    taken: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0))


class Ticket:
    """An admitted request, and what it takes of the budgets of its actor until it ends."""

    __slots__ = ("_admission", "_released", "_share", "_taken", "holder")

    def __init__(self, admission: "Admission", holder: str, share: _Share) -> None:
        self.holder = holder
        self._admission = admission
        self._share = share
        self._taken = dict.fromkeys(_KINDS, 0)
        self._released = False

    def take(self, count: int) -> None:
        """Takes bytes of a body; raises `TooBusy` when the other requests of the actor leave no room for them."""
        self._count(_SENT, count)

    def hold(self, count: int) -> None:
        """The same for bytes of rows that a query holds. Bodies do not count here: a load is on disk."""
        self._count(_HELD, count)

    def _count(self, kind: str, count: int) -> None:
        with self._admission.lock:
            if self._released:
                return
            mine, all_of_actor = self._taken[kind], self._share.taken[kind]
            is_alone = all_of_actor == mine
            if mine + count > FREE_BYTES and not is_alone and all_of_actor + count > self._admission.actor_bytes:
                raise TooBusy("the requests of the actor in flight exceed the limit of bytes", RETRY_AFTER)
            self._taken[kind] += count
            self._share.taken[kind] += count

    def release(self) -> None:
        """Releases everything; a second call does nothing."""
        with self._admission.lock:
            if not self._released:
                self._released = True
                self._admission.forget(self.holder, self._taken)


def holder_of(actor: str | None, client: str) -> str:
    """Whose budget a request takes: that of its actor, or without authentication that of the address it comes from."""
    return f"at {client}" if actor is None else f"of {actor}"


class Admission:
    """Counts what is in flight. Threads may share it."""

    def __init__(self, *, actor_requests: int, actor_bytes: int, total_requests: int) -> None:
        self.actor_bytes = actor_bytes
        self.lock = threading.Lock()
        self._actor_requests = actor_requests
        self._total_requests = total_requests
        self._shares: dict[str, _Share] = {}
        self._in_flight = 0

    @property
    def in_flight(self) -> int:
        """How many requests are admitted."""
        return self._in_flight

    def admit(self, holder: str) -> Ticket:
        """Admits a request, or raises `TooBusy`."""
        with self.lock:
            if self._in_flight >= self._total_requests:
                raise TooBusy("the server has reached its limit of requests in flight", RETRY_AFTER)
            share = self._shares.setdefault(holder, _Share())
            if share.requests >= self._actor_requests:
                raise TooBusy(f"the actor has reached its limit of {share.requests} requests in flight", RETRY_AFTER)
            share.requests += 1
            self._in_flight += 1
            return Ticket(self, holder, share)

    def has_room(self, holder: str) -> bool:
        """Whether `admit` would admit a request now. One that ends before any other can begin needs no ticket."""
        with self.lock:
            share = self._shares.get(holder)
            return self._in_flight < self._total_requests and (share is None or share.requests < self._actor_requests)

    def forget(self, holder: str, taken: Mapping[str, int]) -> None:
        """Releases what a ticket held; called by the ticket, which has the lock."""
        share = self._shares[holder]
        share.requests -= 1
        for kind, count in taken.items():
            share.taken[kind] -= count
        self._in_flight -= 1
        if not share.requests:
            del self._shares[holder]
