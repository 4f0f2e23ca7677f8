"""Leases on an object store: one holder at a time, as long as it lives, whatever becomes of single requests."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph import failpoints
from omnigraph.errors import FenceLost
from omnigraph.storage import locks
from omnigraph.storage.location import location_of
from omnigraph.storage.locks import Lease, Leases, Taken
from tests.stores import Fault, FaultyProxy, Options
from tests.unit.clock import Clock

SECONDS = 1.0
NAME = "main/node:Person"
Take = Callable[..., Lease]


class ClockOfWaiters(Clock):
    """Time passes for whoever waits for a lease, but not faster than a holder that lives renews it."""

    def __init__(self) -> None:
        super().__init__()
        self.holder: Lease | None = None
        self.on_sleep: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.on_sleep()
        patience = time.monotonic() + 60
        while self.holder is not None and self.now - self.holder.renewed > SECONDS / 2 and time.monotonic() < patience:
            time.sleep(0.001)
        super().sleep(seconds)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> ClockOfWaiters:
    """A machine that stands still for a second takes no lease from anybody here."""
    clock = ClockOfWaiters()
    monkeypatch.setattr(locks, "_SECONDS", SECONDS)
    monkeypatch.setattr(locks, "time", clock)
    return clock


@pytest.fixture
def take(s3_store: Options, s3_uri: str) -> Iterator[Take]:
    """Takes a lease like a process that knows nothing of the others; all are given back at the end."""
    taken: list[Lease] = []

    def take(purpose: str, wait: float = 0.0, *, name: str = NAME, options: Options = s3_store) -> Lease:
        lease = Leases(location_of(s3_uri, options)).take(name, purpose, wait)
        assert isinstance(lease, Lease)
        taken.append(lease)
        return lease

    yield take
    for lease in taken:
        lease.release()


def test_a_lease_has_one_holder(take: Take) -> None:
    take("first").check()
    with pytest.raises(Taken):
        take("second")
    take("second", name="main/node:Other").check()


def test_a_lease_that_is_released_is_there_for_the_next(take: Take) -> None:
    for number in range(3):
        lease = take(f"holder {number}")
        lease.check()
        lease.release()


def test_who_waits_gets_the_lease_when_it_is_released(take: Take, clock: ClockOfWaiters) -> None:
    clock.on_sleep = take("first").release
    began = clock.now
    take("second", wait=5.0).check()
    assert began < clock.now < began + SECONDS


def test_who_waits_gives_up_after_its_bound_and_says_whom_it_waited_for(take: Take, clock: ClockOfWaiters) -> None:
    take("first")
    began = clock.now
    with pytest.raises(Taken) as caught:
        take("second", wait=0.3)
    assert began + 0.3 <= clock.now < began + SECONDS
    assert f"process {os.getpid()} on {socket.gethostname()} (first, since " in caught.value.holder


def test_the_lease_of_a_holder_that_lives_is_not_taken_over(take: Take, clock: ClockOfWaiters) -> None:
    lease = clock.holder = take("first")
    with pytest.raises(Taken, match="first"):
        take("second", wait=2.5 * SECONDS)
    lease.check()


def test_a_lease_that_is_not_renewed_is_taken_over_after_its_time(
    take: Take, proxy: FaultyProxy, clock: ClockOfWaiters
) -> None:
    lost = take("first", options=proxy.options)
    with proxy.failing(Fault(1, 403)):
        began = clock.now
        taken = take("second", wait=2.5 * SECONDS)
        assert clock.now - began >= SECONDS
        with pytest.raises(FenceLost, match=NAME):
            lost.check()
    lost.renew()
    with pytest.raises(FenceLost, match=NAME):
        lost.check()
    lost.release()
    taken.check()
    with pytest.raises(Taken, match="second"):
        take("third")


def test_who_cannot_renew_knows_that_the_lease_may_be_lost_before_another_can_have_it(
    take: Take, proxy: FaultyProxy, clock: ClockOfWaiters
) -> None:
    lease = take("first", options=proxy.options)
    with proxy.failing(Fault(1, 403)):
        with pytest.raises(Taken, match="first"):
            take("second", wait=0.85 * SECONDS)
        with pytest.raises(FenceLost, match=NAME):
            lease.check()


def test_a_holder_on_a_machine_that_was_suspended_knows_that_the_lease_may_be_lost(
    take: Take, proxy: FaultyProxy, clock: ClockOfWaiters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the clock that goes on meanwhile tells: to the others no time has passed."""
    lease = take("first", options=proxy.options)
    with proxy.failing(Fault(1, 403)):
        lease.check()
        monkeypatch.setattr(clock, "clock_gettime", lambda _: clock.now + SECONDS)
        with pytest.raises(FenceLost, match=NAME):
            lease.check()


def test_a_released_lease_is_not_renewed(take: Take) -> None:
    lease = take("first")
    lease.release()
    lease.renew()
    with pytest.raises(FenceLost):
        lease.check()
    take("second").check()


@pytest.mark.parametrize(("every", "retries"), [(1, 0), (1, 1), (2, 1)])
def test_a_lease_is_taken_although_the_answer_is_lost(every: int, retries: int, take: Take, proxy: FaultyProxy) -> None:
    options = proxy.options | {"client_max_retries": str(retries)}
    taken: dict[str, Lease] = {}
    with proxy.failing(Fault(every, method="PUT")):
        for name in ("one", "other"):
            taken[name] = take("first", name=name, options=options)
            taken[name].check()
    assert proxy.faults
    for name, lease in taken.items():
        with pytest.raises(Taken, match="first"):
            take("second", name=name)
        lease.release()
        take("second", name=name).check()


@pytest.mark.parametrize(("every", "retries"), [(1, 0), (1, 1), (2, 1)])
def test_a_lease_is_kept_although_the_answers_to_renewals_are_lost(
    every: int, retries: int, take: Take, proxy: FaultyProxy, clock: ClockOfWaiters
) -> None:
    lease = clock.holder = take("first", options=proxy.options | {"client_max_retries": str(retries)})
    with proxy.failing(Fault(every, method="PUT")):
        with pytest.raises(Taken, match="first"):
            take("second", wait=1.5 * SECONDS)
        lease.check()
    assert proxy.faults
    lease.release()
    take("second").check()


def test_a_renewal_that_nothing_was_heard_of_does_not_lose_the_lease(take: Take, proxy: FaultyProxy) -> None:
    lease = take("first", options=proxy.options | {"client_max_retries": "0"})
    with proxy.failing(Fault(1)):
        lease.renew()
    lease.renew()
    lease.check()
    with proxy.failing(Fault(1)):
        lease.renew()
    lease.release()
    take("second").check()


def test_of_many_who_ask_at_once_one_gets_the_lease(take: Take) -> None:
    assert len(_winners(take, wait=0.0)) == 1


def test_of_many_who_wait_for_a_dead_holder_one_gets_the_lease(take: Take, clock: ClockOfWaiters) -> None:
    with failpoints.armed(f"{failpoints.Point.LEASE_RENEWAL}=error"):
        dead = take("first")
        with pytest.raises(Taken, match="first"):
            take("second")
        clock.now += SECONDS
        assert len(_winners(take, wait=0.0)) == 1
        with pytest.raises(FenceLost):
            dead.check()


def _winners(take: Take, wait: float) -> list[Lease]:
    """Those of eight threads that got the lease."""
    start = threading.Barrier(8)

    def ask(number: int) -> Lease | None:
        start.wait()
        try:
            return take(f"thread {number}", wait)
        except Taken:
            return None

    with ThreadPoolExecutor(8) as threads:
        return [lease for lease in threads.map(ask, range(8)) if lease is not None]
