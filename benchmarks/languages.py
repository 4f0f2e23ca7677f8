"""How long the languages take."""

from benchmarks.large_schema import EDGE_TYPES, NODE_TYPES, QUERIES, query_text, schema_text
from benchmarks.measure import Figure, medians
from omnigraph.catalog import compile_schema
from omnigraph.compiler import compile_queries


def figures() -> list[Figure]:
    """The time to compile a large schema, and many queries over it, with the grammars already built."""
    schema, queries = schema_text(), query_text()
    catalog = compile_schema(schema)
    compile_queries("query warm { match { $x: Named } return { $x.name } }", catalog)
    seconds = medians(
        {"schema": lambda: compile_schema(schema), "queries": lambda: compile_queries(queries, catalog)}, rounds=7
    )
    return [
        Figure(
            name=f"{QUERIES} queries parse and typecheck",
            value=seconds["queries"],
            unit="s",
            bound=1.0,
            raw=f"{len(queries) / 1024:.0f} KiB, {seconds['queries'] / QUERIES * 1e3:.2f} ms a query",
        ),
        Figure(
            name=f"a schema of {NODE_TYPES} node and {EDGE_TYPES} edge types compiles",
            value=seconds["schema"],
            unit="s",
            bound=1.0,
            raw=f"{len(schema) / 1024:.0f} KiB",
        ),
    ]
