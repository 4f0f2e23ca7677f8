"""How the relational rest of a read is put for Spark."""

from datetime import UTC, date, datetime

from sqlglot import parse_one
from sqlglot.expressions import Select

from omnigraph.spark.statements import spark_arguments, spark_sql


def put(text: str) -> str:
    statement = parse_one(text, dialect="duckdb")
    assert isinstance(statement, Select)
    return spark_sql(statement)


def test_relations_are_named_in_braces_and_values_are_parameters() -> None:
    assert put("SELECT r0.c0 FROM r0 WHERE r0.c1 = CAST($v0 AS VARCHAR)") == (
        "SELECT r0.c0 FROM {r0} AS r0 WHERE r0.c1 = CAST(:v0 AS STRING)"
    )


def test_whole_numbers_are_added_up_in_a_type_that_holds_the_sum() -> None:
    assert put("SELECT SUM(i0), SUM(CAST(i1 AS DOUBLE)) FROM q") == (
        "SELECT SUM(CAST(i0 AS DECIMAL(38, 0))), SUM(CAST(i1 AS DOUBLE)) FROM {q} AS q"
    )


def test_a_query_that_reaches_over_another_finds_a_copy_there() -> None:
    inner = "NOT EXISTS(SELECT 1 FROM r2 WHERE r2.c0 = r1.c1 AND r2.c1 = r0.c0)"
    text = f"SELECT r0.c0 FROM r0 WHERE NOT EXISTS(SELECT 1 FROM r1 WHERE r1.c0 = r0.c0 AND {inner})"
    assert put(text) == (
        "SELECT r0.c0 FROM {r0} AS r0 WHERE NOT EXISTS(SELECT 1 FROM {r1} AS r1 "
        "CROSS JOIN (SELECT DISTINCT c0 FROM {r0} AS r0) AS r0_ "
        "WHERE (r1.c0 = r0_.c0 AND NOT EXISTS(SELECT 1 FROM {r2} AS r2 WHERE r2.c0 = r1.c1 AND r2.c1 = r0_.c0)) "
        "AND r0_.c0 IS NOT DISTINCT FROM r0.c0)"
    )


def test_a_query_that_names_only_what_is_right_around_it_stays() -> None:
    text = "SELECT r0.c0 FROM r0 WHERE NOT EXISTS(SELECT 1 FROM r1 WHERE r1.c0 = r0.c0)"
    assert put(text) == ("SELECT r0.c0 FROM {r0} AS r0 WHERE NOT EXISTS(SELECT 1 FROM {r1} AS r1 WHERE r1.c0 = r0.c0)")


def test_a_whole_number_that_java_has_none_for_is_a_decimal() -> None:
    given = spark_arguments({"u": 2**64 - 1, "i": -(2**63), "b": True, "s": "x"})
    assert {name: type(value).__name__ for name, value in given.items()} == {
        "u": "Decimal",
        "i": "int",
        "b": "bool",
        "s": "str",
    }


def test_days_and_instants_are_texts_for_java_has_another_calendar() -> None:
    given = spark_arguments({"d": date(1, 1, 1), "t": datetime(1500, 6, 1, 12, 0, 0, 7000, UTC)})
    assert given == {"d": "0001-01-01", "t": "1500-06-01T12:00:00.007000+00:00"}
