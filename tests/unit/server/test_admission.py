"""How much one actor may ask for at once, and that it is given back."""

import pytest

from omnigraph.errors import TooBusy
from omnigraph.server.admission import FREE_BYTES, Admission, Ticket


def admission(requests: int = 2, size: int = 10 * FREE_BYTES, total: int = 100) -> Admission:
    return Admission(actor_requests=requests, actor_bytes=size, total_requests=total)


def test_an_actor_has_so_many_requests_in_flight_and_no_more() -> None:
    doors = admission(requests=2)
    first, _ = doors.admit("ada"), doors.admit("ada")
    with pytest.raises(TooBusy) as caught:
        doors.admit("ada")
    assert caught.value.retry_after > 0
    doors.admit("bob")
    first.release()
    doors.admit("ada")
    assert doors.in_flight == 3


def test_all_actors_together_have_so_many_and_no_more() -> None:
    doors = admission(total=2)
    ticket = doors.admit("ada")
    doors.admit("bob")
    with pytest.raises(TooBusy):
        doors.admit("eve")
    ticket.release()
    doors.admit("eve")


def test_there_is_room_exactly_when_a_request_would_be_admitted() -> None:
    doors = admission(requests=2, total=3)
    assert doors.has_room("ada")
    first, _ = doors.admit("ada"), doors.admit("ada")
    assert not doors.has_room("ada")
    assert doors.has_room("bob")
    doors.admit("bob")
    assert not doors.has_room("eve")
    first.release()
    assert doors.has_room("ada")
    assert doors.in_flight == 2


def test_a_ticket_is_given_back_once() -> None:
    doors = admission(requests=1)
    ticket = doors.admit("ada")
    ticket.take(5)
    ticket.release()
    ticket.release()
    ticket.take(5)
    ticket.hold(5)
    assert doors.in_flight == 0
    doors.admit("ada")
    with pytest.raises(TooBusy):
        doors.admit("ada")


def filled(doors: Admission) -> Ticket:
    ticket = doors.admit("ada")
    ticket.take(10 * FREE_BYTES)
    return ticket


def test_the_bodies_of_an_actor_share_a_budget() -> None:
    doors = admission()
    first = filled(doors)
    second = doors.admit("ada")
    with pytest.raises(TooBusy):
        second.take(FREE_BYTES + 1)
    doors.admit("bob").take(FREE_BYTES + 1)
    first.release()
    second.take(FREE_BYTES + 1)


def test_small_requests_pass_beside_a_large_one() -> None:
    doors = admission()
    filled(doors)
    second = doors.admit("ada")
    second.take(FREE_BYTES)
    with pytest.raises(TooBusy):
        second.take(1)


def test_one_body_alone_may_be_larger_than_the_budget() -> None:
    doors = admission(size=FREE_BYTES)
    ticket = doors.admit("ada")
    for _ in range(10):
        ticket.take(FREE_BYTES)


def test_the_rows_of_queries_share_a_budget_of_their_own() -> None:
    doors = admission()
    load = filled(doors)
    query = doors.admit("ada")
    query.hold(20 * FREE_BYTES)
    load.release()
    other = doors.admit("ada")
    other.hold(FREE_BYTES)
    with pytest.raises(TooBusy):
        other.hold(1)
    query.release()
    other.hold(20 * FREE_BYTES)
