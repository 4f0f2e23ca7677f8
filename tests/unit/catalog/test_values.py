"""Values: what is accepted for a type, and what is refused."""

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.api.values import value_to_json
from omnigraph.catalog import Enum, List, OutOfRange, PropertyType, Scalar, Value, Vector, WrongType, value_from_json


@pytest.mark.parametrize(
    ("given_value", "type", "expected"),
    [
        ("x", Scalar.STRING, "x"),
        (True, Scalar.BOOL, True),
        (3, Scalar.I32, 3),
        (3.0, Scalar.I32, 3),
        ("9223372036854775807", Scalar.I64, 2**63 - 1),
        ("18446744073709551615", Scalar.U64, 2**64 - 1),
        (3, Scalar.F64, 3.0),
        ("2026-01-31", Scalar.DATE, date(2026, 1, 31)),
        (date(2026, 1, 31), Scalar.DATE, date(2026, 1, 31)),
        (20_484, Scalar.DATE, date(2026, 1, 31)),
        (-1, Scalar.DATE, date(1969, 12, 31)),
        (np.int32(0), Scalar.DATE, date(1970, 1, 1)),
        ("2026-01-31T12:00:00+02:00", Scalar.DATETIME, datetime(2026, 1, 31, 10, tzinfo=UTC)),
        (1_000, Scalar.DATETIME, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("base64:aGk=", Scalar.BLOB, b"hi"),
        (b"hi", Scalar.BLOB, b"hi"),
        ([1, 2], Vector(2), (1.0, 2.0)),
        (["a"], List(Scalar.STRING), ("a",)),
        ("a", Enum(("a", "b")), "a"),
        (np.float32(0.5), Scalar.F64, 0.5),
        (np.array([1, 2], dtype=np.float32), Vector(2), (1.0, 2.0)),
    ],
)
def test_json_is_read_as_the_type_asks(given_value: Any, type: PropertyType, expected: Value) -> None:
    assert value_from_json(given_value, type) == expected


@pytest.mark.parametrize(
    ("given_value", "type"),
    [
        (3, Scalar.STRING),
        (1, Scalar.BOOL),
        (True, Scalar.I32),
        ("x", Scalar.I32),
        (3.5, Scalar.I32),
        ("3.5", Scalar.F64),
        (True, Scalar.F64),
        ("31.01.2026", Scalar.DATE),
        ("20484", Scalar.DATE),
        (20_484.0, Scalar.DATE),
        (True, Scalar.DATE),
        (datetime(2026, 1, 31, tzinfo=UTC), Scalar.DATE),
        ("2026-01-31T12:00:00", Scalar.DATETIME),
        ("noon", Scalar.DATETIME),
        ("aGk=", Scalar.BLOB),
        ("x", List(Scalar.STRING)),
        ([None], List(Scalar.STRING)),
        ({}, Vector(2)),
        (None, Scalar.STRING),
    ],
)
def test_another_kind_of_value_is_the_wrong_type(given_value: Any, type: PropertyType) -> None:
    with pytest.raises(WrongType):
        value_from_json(given_value, type)


@pytest.mark.parametrize(
    ("given_value", "type"),
    [
        (2**31, Scalar.I32),
        (-1, Scalar.U32),
        ("18446744073709551616", Scalar.U64),
        (1e39, Scalar.F32),
        (10**9, Scalar.DATE),
        (-(10**30), Scalar.DATE),
        (10**400, Scalar.F64),
        (float("nan"), Scalar.F64),
        ("2026-02-30", Scalar.DATE),
        (10**18, Scalar.DATETIME),
        ("base64:???", Scalar.BLOB),
        ([1.0], Vector(2)),
        ("c", Enum(("a", "b"))),
        ("\ud800", Scalar.STRING),
    ],
)
def test_a_value_that_the_type_cannot_hold_is_out_of_range(given_value: Any, type: PropertyType) -> None:
    with pytest.raises(OutOfRange):
        value_from_json(given_value, type)


_INSTANTS = st.datetimes(timezones=st.just(UTC)).map(
    lambda instant: instant.replace(microsecond=instant.microsecond // 1000 * 1000)
)


@given(
    st.one_of(
        st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.just(Scalar.STRING)),
        st.tuples(st.integers(0, 2**64 - 1), st.just(Scalar.U64)),
        st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.just(Scalar.F64)),
        st.tuples(st.dates(), st.just(Scalar.DATE)),
        st.tuples(_INSTANTS, st.just(Scalar.DATETIME)),
        st.tuples(st.binary(), st.just(Scalar.BLOB)),
        st.tuples(st.lists(st.dates()).map(tuple), st.just(List(Scalar.DATE))),
    )
)
def test_a_value_survives_json(typed: tuple[Value, PropertyType]) -> None:
    value, type = typed
    assert value_from_json(value_to_json(value), type) == value
