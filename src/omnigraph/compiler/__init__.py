"""From query text and a catalog to typed, plannable queries."""

from omnigraph.compiler.access import Access
from omnigraph.compiler.compile import (
    CompiledQueries,
    CompiledQuery,
    check_queries,
    compile_queries,
    compile_query,
)
from omnigraph.compiler.parameters import bound_parameters

__all__ = [
    "Access",
    "CompiledQueries",
    "CompiledQuery",
    "bound_parameters",
    "check_queries",
    "compile_queries",
    "compile_query",
]
