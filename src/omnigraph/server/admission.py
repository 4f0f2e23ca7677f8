"""How much an actor may ask of the server at once."""

import threading
from dataclasses import dataclass

from omnigraph.errors import TooBusy

RETRY_AFTER = 1
FREE_BYTES = 64 * 1024
"""What each request may send and hold whatever else its actor does, so that large work does not keep it from small."""


@dataclass(slots=True)
class _Share:
    """What one actor has in flight."""

    requests: int = 0
    sent: int = 0
    held: int = 0


class Ticket:
    """A request that was let in, and what of its actor's budgets it holds until it ends."""

    __slots__ = ("_admission", "_held", "_released", "_sent", "_share", "holder")

    def __init__(self, admission: "Admission", holder: str, share: _Share) -> None:
        self.holder = holder
        self._admission = admission
        self._share = share
        self._sent = self._held = 0
        self._released = False

    def take(self, count: int) -> None:
        """Takes bytes of a body; refuses when the actor's other requests leave no room for them."""
        with self._admission.turn:
            if not self._released:
                self._check_room(self._sent, self._share.sent, count)
                self._sent += count
                self._share.sent += count

    def hold(self, count: int) -> None:
        """The same for bytes of rows that a query holds. Bodies do not count here: a load lies on the disk."""
        with self._admission.turn:
            if not self._released:
                self._check_room(self._held, self._share.held, count)
                self._held += count
                self._share.held += count

    def _check_room(self, mine: int, all_of_actor: int, count: int) -> None:
        is_alone = all_of_actor == mine
        if mine + count > FREE_BYTES and not is_alone and all_of_actor + count > self._admission.actor_bytes:
            raise TooBusy("your requests in flight are too large together", RETRY_AFTER)

    def release(self) -> None:
        """Gives all of it back; a second time does nothing."""
        with self._admission.turn:
            if not self._released:
                self._released = True
                self._admission.forget(self.holder, sent=self._sent, held=self._held)


class Admission:
    """Counts what is in flight. Any thread may call it."""

    def __init__(self, *, actor_requests: int, actor_bytes: int, total_requests: int) -> None:
        self.actor_bytes = actor_bytes
        self.turn = threading.Lock()
        self._actor_requests = actor_requests
        self._total_requests = total_requests
        self._shares: dict[str, _Share] = {}
        self._in_flight = 0

    @property
    def in_flight(self) -> int:
        """How many requests are let in."""
        return self._in_flight

    def admit(self, holder: str) -> Ticket:
        """Lets a request in, or raises `TooBusy`."""
        with self.turn:
            if self._in_flight >= self._total_requests:
                raise TooBusy("the server has as many requests in flight as it takes", RETRY_AFTER)
            share = self._shares.setdefault(holder, _Share())
            if share.requests >= self._actor_requests:
                raise TooBusy(f"you have {share.requests} requests in flight, which is as many as you may", RETRY_AFTER)
            share.requests += 1
            self._in_flight += 1
            return Ticket(self, holder, share)

    def forget(self, holder: str, *, sent: int, held: int) -> None:
        """Takes back what a ticket held; called by the ticket, in its turn."""
        share = self._shares[holder]
        share.requests -= 1
        share.sent -= sent
        share.held -= held
        self._in_flight -= 1
        if not share.requests:
            del self._shares[holder]
