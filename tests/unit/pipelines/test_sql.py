"""SQL of pipelines is read as Spark writes it, renamed, and written for each engine or refused."""

import pytest

from omnigraph.pipelines.sql import DUCKDB, SPARK, SqlFault, parse_expression, parse_select, with_relations, write_sql


def test_sources_and_views_get_the_names_of_the_engine_but_not_what_a_query_defines_itself() -> None:
    query = parse_select("with recent as (select * from orders) select o.a from Orders o join recent on recent.a = o.a")
    renamed = write_sql(with_relations(query, {"orders": "r1_orders"}), DUCKDB)
    assert renamed.count('"r1_orders"') == 2
    assert "FROM recent" not in renamed or '"recent"' not in renamed


def test_an_unknown_relation_is_named() -> None:
    with pytest.raises(SqlFault) as caught:
        with_relations(parse_select("select * from order_lines"), {"orders": "r1"})
    assert caught.value.name == "order_lines"


@pytest.mark.parametrize("text", ["drop table x", "insert into x values (1)", "select 1; select 2", "not sql at all ("])
def test_only_one_query_is_a_view(text: str) -> None:
    with pytest.raises(SqlFault):
        parse_select(text)


@pytest.mark.parametrize("text", ["select 1", "a as b", "(select max(x) from y)", "a +"])
def test_only_a_plain_expression_is_a_value(text: str) -> None:
    with pytest.raises(SqlFault):
        parse_expression(text)


def test_what_an_engine_does_not_have_is_refused_and_not_left_out() -> None:
    tree = parse_expression("soundex(name)")
    assert write_sql(tree, SPARK) == "SOUNDEX(name)"
    with pytest.raises(SqlFault):
        write_sql(tree, DUCKDB)


def test_a_path_or_another_schema_is_no_relation() -> None:
    with pytest.raises(SqlFault, match="reads sources and views"):
        with_relations(parse_select("select * from other.orders"), {"orders": "r1"})
    with pytest.raises(SqlFault):
        with_relations(parse_select("select * from read_parquet('x.parquet')"), {})
