"""SQL of Spark is written for DuckDB so that it means the same, or is refused."""

import duckdb
import pytest

from omnigraph.pipelines.duck_sql import MACROS, for_duckdb
from omnigraph.pipelines.sql import DUCKDB, SqlFault, parse_expression, write_sql


def value_of(expression: str) -> object:
    with duckdb.connect() as connection:
        connection.execute(MACROS)
        row = connection.execute(f"SELECT {write_sql(for_duckdb(parse_expression(expression)), DUCKDB)}").fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("cast(2.5D as int)", 2),
        ("cast(-2.7 as bigint)", -2),
        ("cast(cast(9007199254740993 as decimal(20, 0)) as bigint)", 9007199254740993),
        ("cast(' 7 ' as int)", 7),
        ("try_cast('7.5' as int)", None),
        ("floor(-1.5) || ''", "-2"),
        ("-7 div 2", -3),
        ("7 / 2", 3.5),
        ("split('a b', ' ')[1]", "b"),
        ("element_at(split('a b', ' '), 1)", "a"),
        ("concat('a', 7, date '2024-01-02')", "a72024-01-02"),
        ("year(date_add(date '2023-12-31', 1))", 2024),
    ],
)
def test_values_are_those_of_spark(expression: str, value: object) -> None:
    assert value_of(expression) == value


@pytest.mark.parametrize("expression", ["1 / 0", "1 % 0", "1 div 0", "cast('7.5' as int)", "split('a', ' ')[1]"])
def test_what_has_no_value_fails(expression: str) -> None:
    with pytest.raises(duckdb.Error):
        value_of(expression)


@pytest.mark.parametrize("expression", ["concat('a', 1.5D)", "cast(timestamp '2024-01-01 00:00:00' as string)"])
def test_texts_that_the_engines_spell_differently_are_not_accepted(expression: str) -> None:
    with pytest.raises(duckdb.BinderException):
        value_of(expression)


@pytest.mark.parametrize(
    "expression",
    [
        *("round(1.5)", "hash('a')", "to_date('1.2.2024', 'd.M.yyyy')", "date_format(date '2024-01-01', 'EEEE')"),
        *("split('a b', ' ', 1)", r"'a_' like 'a\\_'", "upper(initcap('a'))", "current_date()", "my_function(1)"),
    ],
)
def test_what_may_differ_is_refused(expression: str) -> None:
    with pytest.raises(SqlFault):
        for_duckdb(parse_expression(expression))
