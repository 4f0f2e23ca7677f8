"""Values of every type mean the same to both engines: compared with each other, grouped, added up and sorted."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from omnigraph.catalog import compile_schema
from omnigraph.query import SumOutOfRange
from tests.engines.both import BothWorld
from tests.unit.query.world import written

CATALOG = compile_schema("""
node Value {
    name: String @key
    truth: Bool?  i32: I32?  i64: I64?  u32: U32?  u64: U64?  f32: F32?  f64: F64?
    day: Date?  instant: DateTime?  colour: enum(blue, red)?  bytes: Blob?  vector: Vector(2)?
    texts: [String]?  i64s: [I64]?  u64s: [U64]?  f32s: [F32]?  days: [Date]?  instants: [DateTime]?
}
edge Beside: Value -> Value
""")
NUMBERS = ("i32", "i64", "u32", "u64", "f32", "f64")
VALUES: list[dict[str, Any]] = [
    {"name": "null"},
    {
        "name": "small",
        "truth": False, "i32": -(2**31), "i64": -(2**63), "u32": 0, "u64": 0, "f32": -0.0, "f64": -1e300,
        "day": date(1, 1, 1), "instant": datetime(1, 1, 1, tzinfo=UTC), "colour": "blue", "bytes": b"",
        "vector": [0.0, -1.0], "texts": [], "i64s": [-(2**63)], "u64s": [0], "f32s": [0.5], "days": [], "instants": [],
    },
    {
        "name": "ordinary", "truth": True, "i32": 1, "i64": 1, "u32": 1, "u64": 1, "f32": 1.0, "f64": 1.0,
        "day": date(1969, 12, 31), "instant": datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), "colour": "red",
        "bytes": b"\x00\xff", "vector": [0.0, 1.0], "texts": ["Z", "a"], "i64s": [1, 2], "u64s": [1],
        "f32s": [1.0, 0.1],
        "days": [date(1969, 12, 31)], "instants": [datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)],
    },
    {
        "name": "Ärger\U0001f600", "truth": True, "i32": 16777217, "i64": 2**53 + 1, "u32": 16777217, "u64": 2**53 + 1,
        "f32": 0.1, "f64": 0.1, "day": date(2024, 2, 29), "instant": datetime(2024, 2, 29, 1, 2, 3, 4000, tzinfo=UTC),
        "colour": "red", "bytes": b"\x80", "vector": [0.0, 1.0], "texts": ["\uffff", "\U0001f600"], "i64s": [2**53 + 1],
        "u64s": [2**64 - 1], "f32s": [], "days": [date(2024, 2, 29)], "instants": None,
    },
    {
        "name": "large", "truth": True, "i32": 2**31 - 1, "i64": 2**63 - 1, "u32": 2**32 - 1, "u64": 2**64 - 1,
        "f32": 3.0e38, "f64": 1e300, "day": date(9999, 12, 31), "instant": datetime(9999, 12, 31, tzinfo=UTC),
    },
]  # fmt: skip
EDGES = [{"src": "small", "dst": "large"}, {"src": "ordinary", "dst": "ordinary"}]


@pytest.fixture(scope="module")
def values(spark_for_few_rows: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> BothWorld:
    rows = {"node:Value": VALUES, "edge:Beside": EDGES}
    return BothWorld(CATALOG, written(Path(tmp_path_factory.mktemp("values")), CATALOG, rows), spark=spark_for_few_rows)


def test_values_arrive_whole(values: BothWorld) -> None:
    assert len(values.rows("match { $v: Value  $v beside $w } return { $v, $w.id }")) == 2
    assert len(values.rows("match { $v: Value } return { $v, count($v) }")) == 5


@pytest.mark.parametrize("left", NUMBERS[:-1])
def test_numbers_are_compared_by_their_values(values: BothWorld, left: str) -> None:
    for right in NUMBERS[NUMBERS.index(left) + 1 :]:
        values.rows(f"match {{ $v: Value  $w: Value  $v.{left} <= $w.{right} }} return {{ $v.name, $w.name }}")


@pytest.mark.parametrize(
    "condition",
    [
        "$v.name <= $w.name  $v.colour != $w.colour",
        "$v.name starts_with $w.name",
        "$v.name contains $w.name",
        "$v.texts contains $w.name",
        "$v.i64s contains $w.i64",
        "$v.u64s contains $w.u64",
        "$v.f32s contains $w.f32",
        "$v.days contains $w.day",
        "$v.instants contains $w.instant",
        "$v.day <= $w.day  $v.instant >= $w.instant  $v.truth = $w.truth",
    ],
)
def test_other_values_are_compared_alike(values: BothWorld, condition: str) -> None:
    values.rows(f"match {{ $v: Value  $w: Value  {condition} }} return {{ $v.name, $w.name }}")


def test_given_values_are_compared_alike(values: BothWorld) -> None:
    text = """query q($u: U64, $i: I64, $f: F32, $d: Date, $t: DateTime, $s: String, $us: [U64]) {
        match { $w: Value { name: "large" }
                not { $w.u64 < $u }  not { $w.i64 < $i }  not { $w.f32 < $f }  not { $w.day < $d }
                not { $w.instant < $t }  not { $w.name = $s }  not { $w.u64 != $u }  $us contains $w.u64 }
        return { $w.name } }"""
    given = {
        "u": 2**64 - 1, "i": 2**63 - 1, "f": 3.0e38, "d": "9999-12-31", "t": "9999-12-31T00:00:00Z", "s": "'\\{r0}:v0",
        "us": [2**64 - 1],
    }  # fmt: skip
    assert values.column(text, **given) == ["large"]


def test_values_are_grouped_alike(values: BothWorld) -> None:
    for keys in (("truth",), ("f32", "vector"), ("u64", "bytes", "texts"), ("instant", "colour")):
        values.rows(f"match {{ $v: Value }} return {{ {', '.join(f'$v.{key}' for key in keys)}, count($v) as n }}")


def test_values_are_sorted_alike(values: BothWorld) -> None:
    for order in ("$v.truth desc, $v.f32", "$v.f32 desc", "$v.colour, $v.u64 desc", "$v.instant desc", "$v.name desc"):
        values.rows(f"match {{ $v: Value  $w: Value }} return {{ $v.name, $w.name }} order {{ {order} }} limit 17")


def test_values_are_added_up_alike(values: BothWorld) -> None:
    shown = ", ".join(f"sum($v.{name}), avg($v.{name}), min($v.{name}), max($v.{name})" for name in NUMBERS)
    where = '$v.name != "large"'
    values.rows(f"match {{ $v: Value  {where} }} return {{ {shown} }}")
    shown = ", ".join(f"min($v.{name}), max($v.{name}), count($v.{name})" for name in ("name", "day", "instant"))
    values.rows(f"match {{ $v: Value }} return {{ {shown} }}")


def test_a_sum_that_does_not_fit_is_the_same_error(values: BothWorld) -> None:
    for name in ("i64", "u64"):
        with pytest.raises(SumOutOfRange):
            values.rows(f"match {{ $v: Value  $w: Value  $v.{name} > 1 }} return {{ sum($v.{name}) as s }}")
