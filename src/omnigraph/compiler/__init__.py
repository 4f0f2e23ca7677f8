"""From query text and a catalog to typed, plannable queries."""

from omnigraph.compiler.compile import (
    CompiledQuery,
    bound_parameters,
    check_queries,
    compile_queries,
    compile_query,
)
