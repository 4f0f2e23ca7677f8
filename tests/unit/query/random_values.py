"""Values of every type for random graphs and queries: few, so that many entities share one, and some at the edges."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

from omnigraph.catalog import Enum, List, PropertyType, Scalar
from omnigraph.storage.predicates import as_f32
from omnigraph.syntax import nodes
from omnigraph.syntax.printer import print_expression

Pick = Callable[..., Any]
"""Picks one of its arguments."""

EXACT = "exact"
"""Properties whose names begin with this are floats whose sums are exact, whatever the order."""

_USUAL: dict[PropertyType, list[Any]] = {
    Scalar.I32: [0, 1, 2, -1, 7],
    Scalar.I64: [0, 1, 3, -1, 10**12],
    Scalar.U32: [0, 1, 5],
    Scalar.U64: [0, 1, 7],
    Scalar.F32: [0.0, 0.5, -1.5, 2.0],
    Scalar.F64: [0.0, 0.1, -0.1, 0.5, 2.5],
    Scalar.STRING: ["a", "b", "ab", "A", "", "ä", "a,b", "12"],
    Scalar.BOOL: [False, True],
    Scalar.DATE: [date(2020, 1, 1), date(2020, 1, 2), date(2024, 2, 29), date(1969, 12, 31)],
    Scalar.DATETIME: [
        datetime(2020, 1, 1, tzinfo=UTC),
        datetime(2020, 1, 1, 12, 30, 15, 5000, tzinfo=UTC),
        datetime(2024, 2, 29, 23, 59, 59, 999_000, tzinfo=UTC),
        datetime(1969, 12, 31, 23, tzinfo=UTC),
    ],
}
_RARE: dict[PropertyType, list[Any]] = {
    Scalar.I32: [2**31 - 1, -(2**31)],
    Scalar.I64: [2**63 - 1, -(2**63), 2**53 + 1],
    Scalar.U32: [2**32 - 1],
    Scalar.U64: [2**63, 2**64 - 1, 2**53 + 1],
    Scalar.F32: [-0.0, as_f32(0.1), 16777216.0, as_f32(3e38)],
    Scalar.F64: [-0.0, 1e300, -1e300, 1e-320, 2.0**53, 2.0**63],
    Scalar.STRING: ["ß", "İx", "👍🏽", " x\n", "e\u0301", "9223372036854775808", "-1.5e3", '"\\', "2024-02-29", "%_"],
    Scalar.BOOL: [],
    Scalar.DATE: [date(1, 1, 1), date(9999, 12, 31), date(1900, 2, 28), date(2024, 12, 30)],
    Scalar.DATETIME: [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        datetime(1899, 12, 31, 0, 0, 0, 1000, tzinfo=UTC),
    ],
}
WEIGHTS: dict[str, list[Any]] = {"cost": [0.0, 0.5, 1.0, 1.0, 2.5], "tolls": [0, 1, 1, 2, 7]}
"""The values of properties that weigh paths, by their names."""
_EXACT = [0.0, 0.5, -2.5, 1.25, 3.0, 1024.0]


def value_of(pick: Pick, type: PropertyType, name: str = "") -> Any:
    """A value of a type, for a property of this name."""
    match type:
        case Enum(values):
            return pick(*values)
        case List(element):
            count = pick(0, 1, 1, 2)
            return [value_of(pick, element) for _ in range(count)]
    if name in WEIGHTS:
        return pick(*WEIGHTS[name])
    if name.startswith(EXACT):
        return pick(*_EXACT)
    rare = _RARE[type]
    return pick(*(rare if rare and pick(*[False] * 7, True) else _USUAL[type]))


def literal_of(value: Any) -> str:
    """A value as it is written in a query."""
    return print_expression(_literal(value))


def _literal(value: Any) -> nodes.Literal:
    return nodes.ListLiteral(tuple(map(_scalar, value))) if isinstance(value, list) else _scalar(value)


def _scalar(value: Any) -> Any:
    match value:
        case None:
            return nodes.NullLiteral()
        case bool():
            return nodes.BoolLiteral(value)
        case int():
            return nodes.IntLiteral(value)
        case float():
            return nodes.FloatLiteral(value)
        case datetime():
            return nodes.DateTimeLiteral(value)
        case date():
            return nodes.DateLiteral(value)
        case str():
            return nodes.TextLiteral(value)
    raise TypeError(value)
