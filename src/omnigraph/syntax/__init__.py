"""The schema language `.pg` and the query language `.gq`: text to syntax tree and back."""

from omnigraph.syntax.language import MAX_FAULTS, MAX_NESTING, MAX_SOURCE_BYTES, QUERY, SCHEMA, Language
from omnigraph.syntax.parse import Parsed, decoded, parse_queries, parse_schema
from omnigraph.syntax.printer import print_expression, print_literal, print_queries, print_schema, print_type

__all__ = [
    "MAX_FAULTS",
    "MAX_NESTING",
    "MAX_SOURCE_BYTES",
    "QUERY",
    "SCHEMA",
    "Language",
    "Parsed",
    "decoded",
    "parse_queries",
    "parse_schema",
    "print_expression",
    "print_literal",
    "print_queries",
    "print_schema",
    "print_type",
]
