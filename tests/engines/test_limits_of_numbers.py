"""Sums, averages and positions at the limits of their types are the same on all executors."""

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import omnigraph as og
from omnigraph.errors import SumOutOfRange
from tests.engines.random_worlds import Executors
from tests.unit.query.random_queries import RandomQuery

SCHEMA = "node N { name: String @key, kind: I32, whole: I64?, large: U64?, real: F64? }"
ROWS = [
    {"name": "a", "kind": 1, "whole": 2**53, "large": 2**64 - 1, "real": 1e308},
    {"name": "b", "kind": 1, "whole": 1, "large": 1, "real": 1e308},
    {"name": "c", "kind": 1, "whole": 1, "large": 0, "real": None},
    {"name": "d", "kind": 1, "whole": -(2**53), "large": 2**63, "real": -0.0},
    {"name": "e", "kind": 2, "whole": 2**63 - 1, "large": 2**53 + 1, "real": -1.5},
    {"name": "f", "kind": 2, "whole": 2**63 - 1, "large": 2**53 + 1, "real": 0.5},
    {"name": "g", "kind": 3, "whole": None, "large": None, "real": None},
]


@pytest.fixture(scope="module")
def executors(tmp_path_factory: pytest.TempPathFactory, spark_for_few_rows: SparkSession) -> Executors:
    graph = og.init(tmp_path_factory.mktemp("numbers") / "graph.omni", SCHEMA, durability="fast")
    graph.load({"N": ROWS}, engine="local")
    return Executors(graph)


def answers(executors: Executors, text: str) -> list[Any]:
    """The rows of a query on each executor, and of the plain evaluator."""
    query, at = RandomQuery(f"query q {{ {text} }}", {}), executors.graph.snapshot()
    asked = (executors.auto, executors.from_tables, executors.on_spark, executors.by_hand)
    found: list[Any] = [ask(query, at) for ask in asked]
    return [[tuple(row.values()) for row in each] if isinstance(each, list) else each[0] for each in found]


def check(executors: Executors, text: str, expected: Any) -> None:
    assert answers(executors, text) == [expected] * 4


def test_a_sum_of_floats_that_is_too_large_is_null(executors: Executors) -> None:
    check(
        executors,
        "match { $n: N } return { $n.kind, sum($n.real) as s, avg($n.real) as a, sum($n.real) is null as z }",
        [(1, None, None, True), (2, -1.0, -0.5, False), (3, None, None, True)],
    )
    check(executors, "match { $n: N } return { $n.kind, sum($n.real) as s } having { s > 0.0 }", [])
    check(
        executors,
        "match { $n: N } with { $n.kind as k, sum($n.real) as s } return { $k, $s, coalesce($s, 7.0) as c }",
        [(1, None, 7.0), (2, -1.0, -1.0), (3, None, 7.0)],
    )


def test_an_average_of_whole_numbers_is_of_their_exact_sum(executors: Executors) -> None:
    check(
        executors,
        "match { $n: N } return { $n.kind, avg($n.whole) as a, avg(distinct $n.whole) as d }",
        [(1, 0.5, 1 / 3), (2, 2.0**63, 2.0**63), (3, None, None)],
    )
    check(executors, "match { $n: N  $n.kind = 2 } return { avg($n.large) as a }", [(2.0**53 + 1,)])


def test_a_sum_of_whole_numbers_that_is_too_large_is_null_in_a_stage_and_an_error_in_the_answer(
    executors: Executors,
) -> None:
    for column in ("whole", "large"):
        sums = {"whole": [2, None, None], "large": [None, 2**54 + 2, None]}[column]
        check(
            executors,
            f"match {{ $n: N }} with {{ $n.kind as k, sum($n.{column}) as s }} return {{ $k, $s }}",
            [*zip((1, 2, 3), sums, strict=True)],
        )
        check(executors, f"match {{ $n: N }} return {{ $n.kind, sum($n.{column}) as s }}", "SumOutOfRange")
        check(
            executors,
            f"match {{ $n: N }} return {{ $n.kind, sum($n.{column}) + 0 as s }} order {{ $n.kind }}",
            [*zip((1, 2, 3), sums, strict=True)],
        )


def test_what_is_computed_of_a_sum_that_is_too_large_is_null_but_comparisons_are_exact(executors: Executors) -> None:
    check(
        executors,
        """match { $n: N } return {
            $n.kind, cast(sum($n.whole) as String) as t, sum($n.whole) + 0.5 as f,
            sum($n.whole) - 9223372036854775807 as i, coalesce(sum($n.whole), 5) as c, abs(sum($n.whole)) as a,
            sum(distinct $n.whole) * 2 as d
        }""",
        [
            (1, "2", 2.5, 2 - (2**63 - 1), 2, 2, 2),
            (2, None, None, None, 5, None, None),
            (3, None, None, None, 5, None, None),
        ],
    )
    check(
        executors,
        """match { $n: N } return {
            $n.kind, cast(sum($n.large) as F64) is null as t, sum($n.large) is null as z, sum($n.large) > 5 as g,
            sum($n.large) > 5.5 as f
        }""",
        [(1, True, False, True, True), (2, False, False, True, True), (3, True, True, None, None)],
    )


def test_a_sum_that_is_too_large_is_the_same_in_a_union(executors: Executors) -> None:
    for column in ("whole", "large"):
        part = f"match {{ $n: N }} return {{ $n.kind as k, sum($n.{column}) as s }}"
        check(executors, f"{part} union match {{ $n: N }} return {{ $n.kind as k, $n.{column} as s }}", "SumOutOfRange")
        sums = {"whole": [2, None, None], "large": [None, 2**54 + 2, None]}[column]
        rows = [*zip((1, 2, 3), sums, strict=True)]
        computed = f"match {{ $n: N }} return {{ $n.kind as k, sum($n.{column}) + 0 as s }}"
        staged = f"match {{ $n: N }} with {{ $n.kind as k, sum($n.{column}) as s }} return {{ $k, $s }}"
        check(executors, f"{computed} union {computed}", rows)
        check(executors, f"{staged} union {staged}", rows)


def test_spark_says_which_sum_of_a_union_is_too_large(executors: Executors) -> None:
    part = "match { $n: N } return { $n.kind as k, sum($n.whole) as total }"
    with pytest.raises(SumOutOfRange) as raised:
        executors.graph.query(f"query q {{ {part} union {part} }}", engine="spark").rows()
    assert (raised.value.column, raised.value.type) == ("total", "I64")
    frame = executors.graph.query(f"query q {{ {part} union {part} }}", engine="spark").to_spark()
    with pytest.raises(PySparkException, match="the sum in the column `total` does not fit I64"):
        frame.collect()


def test_a_position_below_zero_gives_null_however_far_it_is(executors: Executors) -> None:
    least = "(-9223372036854775807 - 1)"
    check(
        executors,
        f"""match {{ $n: N  $n.kind = 3 }} return {{
            substring($n.name, {least}) as a, substring($n.name, 0, {least}) as b,
            substring($n.name, 9223372036854775807) as c, substring($n.name, 0, 9223372036854775807) as d
        }}""",
        [(None, None, "", "g")],
    )
