"""Printing and parsing are inverse to each other."""

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.diagnostics import Source, render_all
from omnigraph.syntax import parse_queries, parse_schema
from omnigraph.syntax.query_ast import QueryFile
from omnigraph.syntax.schema_ast import SchemaFile
from tests.unit.syntax.printing import print_queries, print_schema
from tests.unit.syntax.strategies import query_files, schemas


@settings(max_examples=120)
@given(schemas, st.booleans())
def test_a_printed_schema_parses_to_the_same_tree(schema: SchemaFile, notes_first: bool) -> None:
    parsed = parse_schema(Source("printed.pg", print_schema(schema, notes_first=notes_first)))
    assert not parsed.diagnostics, render_all(parsed.diagnostics)
    assert parsed.tree == schema


@settings(max_examples=120)
@given(query_files)
def test_a_printed_query_file_parses_to_the_same_tree(queries: QueryFile) -> None:
    parsed = parse_queries(Source("printed.gq", print_queries(queries)))
    assert not parsed.diagnostics, render_all(parsed.diagnostics)
    assert parsed.tree == queries
