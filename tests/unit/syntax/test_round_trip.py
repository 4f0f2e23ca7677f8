"""Printing and parsing are inverse to each other."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.diagnostics import Source, render_all
from omnigraph.syntax import parse_queries, parse_schema
from omnigraph.syntax.query_ast import QueryFile
from omnigraph.syntax.schema_ast import SchemaFile
from tests.unit.syntax.printing import print_queries, print_schema
from tests.unit.syntax.strategies import query_files, schemas


def with_line_breaks(printed: str) -> str:
    """The same with line breaks in texts in place of their escapes; nothing but a text has a backslash in it."""
    return re.sub(r"\\(.)", lambda escape: "\n" if escape[1] == "n" else escape[0], printed)


@settings(max_examples=120)
@given(schemas, st.booleans(), st.booleans())
def test_a_printed_schema_parses_to_the_same_tree(schema: SchemaFile, notes_first: bool, breaks_lines: bool) -> None:
    text = print_schema(schema, notes_first=notes_first)
    parsed = parse_schema(Source("printed.pg", with_line_breaks(text) if breaks_lines else text))
    assert not parsed.diagnostics, render_all(parsed.diagnostics)
    assert parsed.tree == schema


@settings(max_examples=120)
@given(query_files, st.booleans())
def test_a_printed_query_file_parses_to_the_same_tree(queries: QueryFile, breaks_lines: bool) -> None:
    text = print_queries(queries)
    parsed = parse_queries(Source("printed.gq", with_line_breaks(text) if breaks_lines else text))
    assert not parsed.diagnostics, render_all(parsed.diagnostics)
    assert parsed.tree == queries
