"""Every operation gives the same values in Arrow, in DuckDB and on Spark, also at the edges of its types."""

import itertools
from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from omnigraph.catalog import List, PropertyType, Scalar, arrow_type
from omnigraph.operations import (
    ARITHMETIC,
    DUCKDB,
    FUNCTIONS,
    SPARK,
    Unit,
    cast_operations,
    evaluate,
    operations,
    write_operation,
)
from omnigraph.parts.duck import connection
from omnigraph.spark.types import local_frame

TEXTS = [
    "",
    "a",
    "Ab",
    "äÖ",
    "ß",
    "İ",
    "ΑΣ ας",
    "𝒳👍🏽",
    "e\u0301",
    " x\t\r\n",
    "a,b,,c",
    ",",
    "\\E.\\Q",
    "%_",
    "'\"",
    "A\u00a0",
]
NUMBERS_AS_TEXT = [
    "0",
    "-0",
    "007",
    "12",
    "-12",
    "+1",
    " 1",
    "1 ",
    "1\n",
    "1_0",
    "1e3",
    "1.5",
    ".5",
    "5.",
    "-1.5e-3",
    "1e999",
]
NUMBERS_AS_TEXT += ["9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551615"]
NUMBERS_AS_TEXT += [
    "18446744073709551616",
    "2147483648",
    "9" * 30,
    "9" * 50,
    "inf",
    "nan",
    "0x10",
    "١",
    "4e38",
    "1e-400",
]
TIMES_AS_TEXT = ["2024-02-29", "2023-02-29", "0000-01-01", "0001-01-01", "9999-12-31", "2024-2-9", "2024-02-29 ", "x"]
TIMES_AS_TEXT += ["2024-02-29T12:30:15Z", "2024-02-29T12:30:15.5Z", "1969-12-31T23:59:59.999Z", "2024-02-29T24:00:00Z"]
TIMES_AS_TEXT += [
    "2024-02-29T12:30:15+02:00",
    "0001-01-01T00:00:00+01:00",
    "9999-12-31T23:59:59-01:00",
    "true",
    "false",
]
TIMES_AS_TEXT += ["2024-02-29T12:30:15", "2024-02-29 12:30:15Z", "2024-02-29T12:30:60Z", "2024-02-30T00:00:00Z"]
FLOATS = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 3.0, 0.1, 1e-320, 1e300, -1e300, 2.0**31, 2.0**32]
FLOATS += [
    -(2.0**31) - 0.5,
    2.0**53 + 2,
    2.0**63,
    -(2.0**63),
    2.0**63 - 1024,
    2.0**64,
    2.0**64 - 2048,
    3.4028235677973366e38,
]
VALUES: dict[PropertyType, list[Any]] = {
    Scalar.I32: [0, 1, -1, 5, -7, 2**31 - 1, -(2**31)],
    Scalar.I64: [0, 1, -1, 3, -7, 12, 2**31, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 3_037_000_500],
    Scalar.U32: [0, 1, 2**32 - 1],
    Scalar.U64: [0, 7, 2**63 - 1, 2**63, 2**64 - 1],
    Scalar.F32: [0.0, 1.5, -2.5, 16777216.0, 3.4028234663852886e38, 1e-45],
    Scalar.F64: FLOATS,
    Scalar.BOOL: [True, False],
    Scalar.STRING: TEXTS,
    Scalar.DATE: [
        *(
            date(1, 1, 1),
            date(1, 12, 31),
            date(1582, 10, 10),
            date(1899, 12, 31),
            date(1900, 2, 28),
            date(1969, 12, 31),
        ),
        *(
            date(1970, 1, 1),
            date(2000, 2, 29),
            date(2023, 1, 31),
            date(2024, 2, 29),
            date(2024, 12, 30),
            date(9999, 12, 31),
        ),
    ],
    Scalar.DATETIME: [
        *(datetime(1, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
        *(datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 12, 30, 15, 5000, tzinfo=UTC)),
        *(datetime(2024, 3, 31, 22, 0, tzinfo=UTC), datetime(1900, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)),
        datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    ],
    List(Scalar.STRING): [[], ["a"], ["a", "b", ""]],
}
COUNTS = [0, 1, 2, 5, -1, 2**40, -(2**63)]
MONTHS, DAYS, MILLISECONDS = (
    [0, 1, -1, 12, -25, 120_000, -120_000],
    [0, 1, -1, 3_660_000, -3_660_000],
    [0, 1, -1, 10**14, -(10**14)],
)


def cases() -> list[tuple[str, tuple[PropertyType, ...], tuple[list[Any] | None, ...]]]:
    """Operations with the types of their arguments, and the values of those if they are not all of the type."""
    found: list[Any] = []
    overloads = [each for function in FUNCTIONS.values() for each in function.overloads]
    for overload in (*overloads, *itertools.chain(*ARITHMETIC.values())):
        counted = "substring" in overload.operation
        given = tuple(COUNTS if counted and each is Scalar.I64 else None for each in overload.takes)
        found.append((overload.operation, overload.takes, given))
    i64, text, day, instant, truth = Scalar.I64, Scalar.STRING, Scalar.DATE, Scalar.DATETIME, Scalar.BOOL
    for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        pairs = [(each, each) for each in (i64, Scalar.F64, text, day, instant)] + [
            (Scalar.U64, i64),
            (Scalar.I32, Scalar.U64),
        ]
        found += [(name, pair, (None, None)) for pair in pairs]
    found += [("contains", (text, text), (None, None)), ("starts_with", (text, text), (None, None))]
    found += [("has", (List(text), text), (None, None)), ("size", (List(text),), (None,))]
    found += [(name, (truth,) * count, (None,) * count) for name in ("and", "or") for count in (2, 3)]
    found += [("not", (truth,), (None,)), ("is null", (text,), (None,)), ("is null", (truth,), (None,))]
    found += [("in", (i64,) * 3, (None, [1, 3], [-7])), ("in", (text,), (None,)), ("in", (text, text), (None, ["a"]))]
    found += [("coalesce", (text,) * 3, (TEXTS[:3],) * 3), ("coalesce", (List(text),) * 2, (None, None))]
    found += [("case", (truth, text, truth, text, text), (None, ["a"], None, ["b"], ["c"]))]
    for unit in Unit:
        of = instant if unit in (Unit.HOUR, Unit.MINUTE, Unit.SECOND, Unit.MILLISECOND) else day
        found += [(f"number of {unit}", (of,), (None,)), (f"cut to {unit}", (of,), (None,))]
    found += [("day plus months", (day, i64), (None, MONTHS)), ("day plus days", (day, i64), (None, DAYS))]
    found += [("instant plus months", (instant, i64), (None, MONTHS)), ("date of", (instant,), (None,))]
    found += [("instant plus milliseconds", (instant, i64), (None, MILLISECONDS)), ("datetime of", (day,), (None,))]
    return found


def casts() -> list[tuple[PropertyType, PropertyType]]:
    scalars = [each for each in Scalar if each is not Scalar.BLOB]
    return [pair for pair in itertools.product(scalars, scalars) if cast_operations(*pair)]


@cache
def guards(name: str) -> tuple[str, ...]:
    """What the compiler puts around an operation."""
    if name.startswith("day plus"):
        return ("known day",)
    if name.startswith("instant plus"):
        return ("known instant",)
    return (
        ("finite",)
        if name in {each.operation for each in itertools.chain(*ARITHMETIC.values())} and "F64" in name
        else ()
    )


def rows_of(types: Sequence[PropertyType], given: Sequence[list[Any] | None]) -> pa.Table:
    """Every combination of values and nulls."""
    choices = [[None, *(VALUES[type] if values is None else values)] for type, values in zip(types, given, strict=True)]
    columns = zip(*itertools.product(*choices), strict=True)
    return pa.table(
        {f"c{at}": pa.array(each, arrow_type(type)) for at, (each, type) in enumerate(zip(columns, types, strict=True))}
    )


def check_all(spark: SparkSession, table: pa.Table, chains: dict[str, tuple[tuple[str, ...], PropertyType]]) -> None:
    """Compares the chains of operations over the columns of a table."""
    columns = [each.combine_chunks() for each in table.columns]
    expected = {}
    for name, (chain, type) in chains.items():
        found = evaluate(chain[0], columns, operations()[chain[0]].gives or type)
        for operation in chain[1:]:
            found = evaluate(operation, [found], operations()[operation].gives or type)
        assert found.type == arrow_type(type)
        expected[name] = found
    for dialect in (DUCKDB, SPARK):
        selected = []
        for name, (chain, _) in chains.items():
            text = write_operation(chain[0], table.column_names, dialect)
            for operation in chain[1:]:
                text = write_operation(operation, [text], dialect)
            selected.append(f"{text} AS {name}")
        selection = f"SELECT {', '.join(selected)} FROM "
        if dialect == DUCKDB:
            with connection() as duck:
                duck.register("t", table)
                found = duck.sql(selection + "t").to_arrow_table()
        else:
            found = spark.sql(selection + "{t}", t=local_frame(spark, table)).toArrow()
        for name, (chain, type) in chains.items():
            got = found[name].combine_chunks()
            got = got.cast(arrow_type(type))
            different = [
                (row, mine, theirs)
                for row, mine, theirs in zip(
                    table.to_pylist(), expected[name].to_pylist(), got.to_pylist(), strict=True
                )
                if mine != theirs
            ]
            assert not different, (dialect, chain, len(different), different[:5])


@pytest.mark.parametrize(("name", "types", "given"), cases(), ids=lambda each: str(each)[:40])
def test_an_operation_gives_the_same_everywhere(
    spark_for_few_rows: SparkSession, name: str, types: tuple[PropertyType, ...], given: tuple[list[Any] | None, ...]
) -> None:
    type = operations()[name].gives or types[1 if name == "case" else 0]
    rows = rows_of(types, given)
    if name == "in":
        # Choices are known, and those that are null are left out.
        rows = rows.filter(pa.array([None not in [*row.values()][1:] for row in rows.to_pylist()]))
    check_all(spark_for_few_rows, rows, {"o": ((name, *guards(name)), type)})


def test_every_operation_is_compared() -> None:
    compared = {name for name, _, _ in cases()} | {step for pair in casts() for step in cast_operations(*pair) or ()}
    assert compared | {guard for name in compared for guard in guards(name)} == operations().keys()


@pytest.mark.parametrize("given", {given for given, _ in casts()}, ids=str)
def test_casts_give_the_same_everywhere(spark_for_few_rows: SparkSession, given: PropertyType) -> None:
    values = [*TEXTS, *NUMBERS_AS_TEXT, *TIMES_AS_TEXT] if given is Scalar.STRING else None
    chains = {f"to_{to}": (cast_operations(given, to) or (), to) for one, to in casts() if one is given}
    check_all(spark_for_few_rows, rows_of((given,), (values,)), chains)


def test_letters_change_their_case_in_the_same_way_everywhere(spark_for_few_rows: SparkSession) -> None:
    """Those of the first two planes of Unicode that all engines know."""
    letters = [chr(code) for code in range(0x80, 0x1_0000) if chr(code).isalpha() and not 0xD800 <= code < 0xE000]
    known = [each for each in letters if each.lower() != each or each.upper() != each]
    table = pa.table({"c0": pa.array([f"{each}a{each}" for each in known])})
    check_all(spark_for_few_rows, table, {"l": (("lower",), Scalar.STRING), "u": (("upper",), Scalar.STRING)})


def test_what_is_needed_twice_and_long_is_written_once() -> None:
    text = "c0"
    for _ in range(40):
        text = write_operation("finite", [write_operation("times F64", [text, "2.0::DOUBLE"], DUCKDB)], DUCKDB)
    assert len(text) < 20_000
    with connection() as duck:
        assert duck.sql(f"SELECT {text} FROM (SELECT 1.0::DOUBLE AS c0)").fetchall() == [(2.0**40,)]
