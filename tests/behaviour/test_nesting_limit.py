"""The limit of nesting is true: what is nested up to it is answered, in any thread, and what is deeper is refused."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.codes import Code
from omnigraph.syntax import MAX_NESTING

SCHEMA = "node P { name: String @key, age: I32?, tags: [String]? } edge Knows: P -> P"
SMALL_STACK = 256 * 1024
QUERY_BRACES = 2
"""`query { match {` around what is nested."""


def run_in_small_stack(function: Callable[[], Any]) -> Any:
    """What a function returns or raises in a thread whose stack is as small as some platforms make it."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(function())
        except og.OmnigraphError as error:
            outcome.append(error)

    before = threading.stack_size(SMALL_STACK)
    try:
        thread = threading.Thread(target=run)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert outcome, "the thread ended with an error that is not typed"
    if isinstance(outcome[0], og.OmnigraphError):
        raise outcome[0]
    return outcome[0]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph.omni", SCHEMA)
    people = [{"name": name, "age": age} for name, age in (("a", 1), ("b", 2), ("c", None))]
    graph.load({"P": people, "Knows": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}]})
    return graph


def steps(depth: int) -> str:
    """Each `not` asks for another edge: only paths of three nodes are there, so what is deeper decides nothing."""
    return "".join(f"not {{ $x{each} knows $x{each + 1} " for each in range(depth)) + "} " * depth


def conditions(depth: int) -> str:
    return "not { $x0.age > 1 " * depth + "} " * depth


def both(depth: int) -> str:
    parts = ("not { $x0.age > 1 ", "not { $x0 knows $_ ")
    return "".join(parts[each % 2] for each in range(depth)) + "} " * depth


def query_of(clauses: str) -> str:
    return f"query q() {{ match {{ $x0: P {clauses} }} return {{ $x0.name as name }} }}"


@pytest.mark.parametrize("run", [lambda function: function(), run_in_small_stack], ids=["caller", "small stack"])
@pytest.mark.parametrize("nested", [steps, conditions, both])
def test_not_is_answered_up_to_the_limit_and_refused_above_it(
    graph: og.Graph, nested: Callable[[int], str], run: Callable[[Callable[[], Any]], Any]
) -> None:
    deepest = MAX_NESTING - QUERY_BRACES
    # The answer repeats with the parity of the depth, once there are no longer paths.
    expected = graph.query(query_of(nested(6 + deepest % 2))).rows()
    assert run(lambda: graph.query(query_of(nested(deepest))).rows()) == expected
    assert "SELECT" in run(lambda: graph.explain(query_of(nested(deepest))))
    with pytest.raises(og.QueryError) as caught:
        run(lambda: graph.query(query_of(nested(deepest + 1))))
    assert [finding.code for finding in caught.value.diagnostics] == [Code.QUERY_NESTING]


QUERIES: dict[str, tuple[int, Callable[[int], str]]] = {
    "list in a filter": (2, lambda depth: query_of(f"{'[' * depth}1{']' * depth} contains $x0.age")),
    "list in a binding": (3, lambda depth: query_of(f"$y: P {{ tags: {'[' * depth}{']' * depth} }}")),
    "calls in a projection": (
        2,
        lambda depth: f"query q() {{ match {{ $x0: P }} return {{ {'count(' * depth}$x0{')' * depth} }} }}",
    ),
    "calls in an order": (
        2,
        lambda depth: (
            f"query q() {{ match {{ $x0: P }} return {{ $x0.name }} order {{ {'rrf(' * depth}1{')' * depth} }} }}"
        ),
    ),
    "lists in calls": (
        2,
        lambda depth: (
            "query q() { match { $x0: P } return { "
            + "".join("f(" if each % 2 else "[" for each in range(depth))
            + "".join(")" if each % 2 else "]" for each in reversed(range(depth)))
            + " } }"
        ),
    ),
    "type of a parameter": (
        1,
        lambda depth: f"query q($p: {'[' * depth}String{']' * depth}) {{ match {{ $x0: P }} return {{ $x0.name }} }}",
    ),
    "list in an insert": (
        2,
        lambda depth: f'query q() {{ insert P {{ name: "z", tags: {"[" * depth}{"]" * depth} }} }}',
    ),
    "list in a condition": (1, lambda depth: f"query q() {{ delete P where tags = {'[' * depth}{']' * depth} }}"),
}


@pytest.mark.parametrize("name", QUERIES)
def test_what_has_no_meaning_so_deep_is_a_typed_error_at_the_limit_and_above(graph: og.Graph, name: str) -> None:
    braces, nested = QUERIES[name]

    def ask(depth: int) -> None:
        text = nested(depth)
        (graph.query if "return" in text else graph.mutate)(text)

    for run in (lambda function: function(), run_in_small_stack):
        with pytest.raises(og.QueryError) as caught:
            run(lambda: ask(MAX_NESTING - braces))
        assert Code.QUERY_NESTING not in [finding.code for finding in caught.value.diagnostics]
        with pytest.raises(og.QueryError) as caught:
            run(lambda: ask(MAX_NESTING - braces + 1))
        assert [finding.code for finding in caught.value.diagnostics] == [Code.QUERY_NESTING]


@pytest.mark.parametrize(
    ("braces", "nested"),
    [
        (1, lambda depth: f"node P {{ name: {'[' * depth}String{']' * depth} }}"),
        (2, lambda depth: f"node P {{ name: [I32] @default({'[' * depth}1{']' * depth}) }}"),
        (2, lambda depth: f"node P {{ name: String @mine({'[' * depth}1{']' * depth}) }}"),
    ],
    ids=["type", "default", "annotation"],
)
def test_a_schema_is_read_up_to_the_limit(braces: int, nested: Callable[[int], str]) -> None:
    def codes(depth: int) -> list[Code]:
        try:
            og.compile_schema(nested(depth))
        except og.SchemaError as error:
            return [finding.code for finding in error.diagnostics]
        return []

    for run in (lambda function: function(), run_in_small_stack):
        assert Code.SCHEMA_NESTING not in run(lambda: codes(MAX_NESTING - braces))
        assert run(lambda: codes(MAX_NESTING - braces + 1)) == [Code.SCHEMA_NESTING]
