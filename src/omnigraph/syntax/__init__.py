"""The schema language `.pg` and the query language `.gq`: text to syntax tree."""

from omnigraph.syntax.language import MAX_FAULTS, MAX_NESTING, MAX_SOURCE_BYTES, QUERY, SCHEMA, Language
from omnigraph.syntax.parse import decode_source, parse_queries, parse_schema
