"""A schema of the size that people really have compiles, and so do many queries over it."""

from benchmarks.large_schema import EDGE_TYPES, NODE_TYPES, QUERIES, query_text, schema_text

from omnigraph.catalog import check_schema
from omnigraph.compiler import check_queries
from omnigraph.diagnostics import Source


def test_a_large_schema_and_hundreds_of_queries_have_no_findings() -> None:
    compiled = check_schema(Source("large.pg", schema_text()))
    assert compiled.diagnostics == ()
    assert compiled.catalog is not None
    assert (len(compiled.catalog.nodes), len(compiled.catalog.edges)) == (NODE_TYPES, EDGE_TYPES) == (17, 67)
    checked = check_queries(Source("large.gq", query_text()), compiled.catalog)
    assert checked.diagnostics == ()
    assert len(checked.queries) == QUERIES == 300
