"""Random mutations do to a graph what a plain reading of the language does to dictionaries, and say the same of it.

`OMNIGRAPH_SOAK=1` tries twenty times as many.
"""

import os
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.compiler import bound_parameters, check_queries, ir
from omnigraph.diagnostics import Source
from omnigraph.errors import OmnigraphError
from tests.behaviour.mutation_model import Done, Refused, Tables, exactly, run_mutation
from tests.crash.children import SOAKING
from tests.engines.random_graphs import RandomGraph
from tests.unit.query.random_mutations import MutationWriter
from tests.unit.query.random_queries import RandomQuery
from tests.unit.query.reference import TakesTooLong

FIRST = int(os.environ.get("OMNIGRAPH_SEED", "0"))
SEEDS = 200 if SOAKING else 10
MUTATIONS = 30


def tables_of(graph: og.Graph) -> Tables:
    at = graph.snapshot()
    tables = {each.table_key: at.scan(each.table_key, columns=each.columns.names) for each in at.catalog.entities}
    return {key: {row["id"]: row for row in table.to_pylist()} for key, table in tables.items()}


def plain(tables: Tables) -> Any:
    return {
        key: {id: {name: exactly(value) for name, value in row.items()} for id, row in sorted(rows.items())}
        for key, rows in tables.items()
    }


def outcome(graph: og.Graph, mutation: RandomQuery) -> og.MutationResult | str:
    """What a mutation says, or the name of the error that it ends with."""
    try:
        return graph.mutate(mutation.text, params=mutation.parameters)
    except OmnigraphError as error:
        return type(error).__name__


def random_mutation(chance: RandomGraph) -> RandomQuery:
    writer = MutationWriter(chance.pick, chance.catalog, chance.ids)
    while True:
        found = writer.mutation()
        findings = check_queries(Source("random.gq", found.text), chance.catalog).diagnostics
        if not any(each.is_error for each in findings):
            return found


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_a_mutation_does_what_the_language_means(tmp_path: Path, seed: int) -> None:
    chance = RandomGraph.of_seed(seed, most_nodes=6)
    graph = og.init(tmp_path / "graph.omni", chance.schema, durability="fast")
    if rows := chance.rows():
        graph.load(rows, engine="local")
    tables = tables_of(graph)
    for number in range(MUTATIONS):
        mutation = random_mutation(chance)
        shown = f"seed {seed}, mutation {number}\n{chance.schema}\n{mutation.text}\n{mutation.parameters}"
        compiled = graph._session.queries.prepare(mutation.text, None, graph.snapshot()).compiled
        assert isinstance(compiled.body, ir.Mutation)
        given = bound_parameters(compiled, mutation.parameters)
        try:
            expected: Done | str = run_mutation(compiled.body, chance.catalog, tables, given)
        except Refused as refused:
            expected = str(refused)
        except TakesTooLong:
            continue
        found = outcome(graph, mutation)
        if not isinstance(found, og.MutationResult):
            assert found == expected, f"{shown}\n{found} and not {str(expected)[:200]}"
            continue
        assert isinstance(expected, Done), f"{shown}\n{expected} is expected"
        assert plain(tables_of(graph)) == plain(expected.tables), shown
        assert (found.affected, found.unchanged) == (expected.affected, expected.unchanged), shown
        returned = [[exactly(value) for value in row.values()] for row in found.rows()]
        assert returned == [[exactly(value) for value in row] for row in expected.rows], shown
        assert (found.commit is None) == (plain(tables) == plain(expected.tables)), (shown, found.commit)
        tables = expected.tables
    assert plain(tables_of(graph)) == plain(tables)
