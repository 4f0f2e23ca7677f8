"""Compiles query text against a catalog: parse, typecheck, lower, and say what each query touches."""

import json
from collections.abc import Mapping
from typing import Any

from omnigraph.catalog import Catalog, KeptAnnotation, OutOfRange, Value, WrongType, value_from_json
from omnigraph.catalog.annotations import report_misspelt, single_text
from omnigraph.catalog.types import PARAMETER_TYPE_CODES, resolve_type
from omnigraph.codes import Code
from omnigraph.compiler import ir
from omnigraph.compiler.access import Access, access_of
from omnigraph.compiler.lint import lint_query
from omnigraph.compiler.mutations import MutationCompiler
from omnigraph.compiler.reads import ReadCompiler
from omnigraph.compiler.unions import UnionCompiler
from omnigraph.compiler.values import header_hint
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Diagnostic, Findings, Source, any_of, did_you_mean, quoted
from omnigraph.errors import NotFound, ParameterError, QueryError
from omnigraph.syntax import parse_queries
from omnigraph.syntax.printer import print_annotation_value
from omnigraph.syntax.query_ast import THROWAWAY, Query, ReadBody, UnionBody

_TEXTS = frozenset({"description", "instruction", "tag"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledQuery:
    """A query that typechecks, ready to be planned."""

    name: str
    """Empty if the query has no header."""
    parameters: tuple[ir.ParameterValue, ...]
    body: ir.Body
    access: Access
    annotations: tuple[KeptAnnotation, ...] = ()

    @property
    def title(self) -> str:
        """The query as messages call it."""
        return quoted(self.name) if self.name else "this query"

    def texts_of(self, annotation: str) -> tuple[str, ...]:
        """The texts of the annotations of a name, each once."""
        found = (each.arguments[0] for each in self.annotations if each.name == annotation and each.arguments)
        return tuple(dict.fromkeys(map(json.loads, found)))

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags, by which rules and lists select queries."""
        return self.texts_of("tag")

    @property
    def is_mutation(self) -> bool:
        return isinstance(self.body, ir.Mutation)


@dataclass(frozen=True, slots=True)
class CompiledQueries:
    """The queries of one source that are right, and all findings about all of them."""

    queries: tuple[CompiledQuery, ...]
    diagnostics: tuple[Diagnostic, ...]


def compile_queries(text: str, catalog: Catalog, *, name: str = "<query>") -> tuple[CompiledQuery, ...]:
    """All queries of a text; raises `QueryError` with everything that is wrong with any of them."""
    checked = check_queries(Source(name, text), catalog)
    errors = [finding for finding in checked.diagnostics if finding.is_error]
    if errors:
        raise QueryError(errors)
    return checked.queries


def compile_query(text: str, catalog: Catalog, query: str | None = None, *, name: str = "<query>") -> CompiledQuery:
    """One query of a text: the one called `query`, or the only one there is."""
    queries = {each.name: each for each in compile_queries(text, catalog, name=name)}
    if query is None and len(queries) == 1:
        return next(iter(queries.values()))
    if query is None:
        hint = f"name one of {any_of(queries)}" if queries else "the source is empty"
        raise NotFound("query", "(no name given)", hint)
    if "" in queries:
        raise NotFound("query", query, "the query of this source has no name; leave the name out")
    if query not in queries:
        raise NotFound("query", query, did_you_mean(query, queries))
    return queries[query]


def check_queries(source: Source, catalog: Catalog) -> CompiledQueries:
    """Compiles each query on its own and reports all findings, warnings included."""
    parsed = parse_queries(source)
    diagnostics = list(parsed.diagnostics)
    compiled = []
    names: set[str] = set()
    for query in parsed.tree.queries:
        findings = Findings(source, query.name or None)
        if query.name in names:
            message = f"two queries are called {quoted(query.name)}"
            findings.report(Code.DUPLICATE_QUERY, message, query.span)
        names.add(query.name)
        result = _compile_one(query, catalog, findings)
        if findings.has_errors:
            # Advice on a query that is wrong would distract from what is wrong.
            diagnostics += [finding for finding in findings.diagnostics if finding.is_error]
        else:
            compiled.append(result)
            lint_query(query, result.body, findings)
            diagnostics += findings.diagnostics
    diagnostics.sort(key=lambda each: (each.line, each.column))
    return CompiledQueries(tuple(compiled), tuple(diagnostics))


def _compile_one(query: Query, catalog: Catalog, findings: Findings) -> CompiledQuery:
    parameters = _parameters(query, findings)
    annotations = _annotations(query, findings)
    body: ir.Body
    if isinstance(query.body, ReadBody):
        body = ReadCompiler(catalog, parameters, findings).lower(query.body, query.span)
    elif isinstance(query.body, UnionBody):
        body = UnionCompiler(catalog, parameters, findings).lower(query.body, query.span)
    else:
        body = MutationCompiler(catalog, parameters, findings).lower(query.body, query.span)
    return CompiledQuery(
        name=query.name,
        parameters=tuple(parameter for parameter in parameters.values() if parameter is not None),
        body=body,
        access=Access({}, ()) if findings.has_errors else access_of(body, catalog),
        annotations=annotations,
    )


def _parameters(query: Query, findings: Findings) -> dict[str, ir.ParameterValue | None]:
    """The declared parameters; None for one whose type is not understood, so that its uses are not reported too."""
    declared: dict[str, ir.ParameterValue | None] = {}
    for parameter in query.parameters:
        if parameter.name == THROWAWAY:
            findings.report(Code.VARIABLE_REUSED, "`$_` is a placeholder and cannot be a parameter", parameter.span)
            continue
        if parameter.name in declared:
            message = f"two parameters are called {quoted('$' + parameter.name)}"
            findings.report(Code.DUPLICATE_PARAMETER, message, parameter.span)
            continue
        type = resolve_type(parameter.type, findings, PARAMETER_TYPE_CODES)
        declared[parameter.name] = (
            ir.ParameterValue(parameter.name, type, parameter.type.nullable) if type is not None else None
        )
    return declared


def _annotations(query: Query, findings: Findings) -> tuple[KeptAnnotation, ...]:
    """What is said about a query, for people and agents that choose among queries."""
    for annotation in query.annotations:
        if annotation.name in _TEXTS:
            single_text(annotation, findings, Code.WRONG_ARGUMENTS)
        else:
            report_misspelt(annotation, _TEXTS, findings)
    return tuple(
        KeptAnnotation(each.name, tuple(print_annotation_value(argument.value) for argument in each.arguments))
        for each in query.annotations
    )


def bound_parameters(query: CompiledQuery, given: Mapping[str, Any]) -> dict[str, Value | None]:
    """A value of the declared type for every parameter.

    A nullable parameter that is left out is null. Raises `ParameterError` that names every parameter which is missing,
    unknown, or given a value that is not of its type.
    """
    values: dict[str, Value | None] = {}
    problems: list[tuple[str, str]] = []
    for parameter in query.parameters:
        value = given.get(parameter.name)
        if value is None:
            if not parameter.nullable:
                problem = "cannot be null" if parameter.name in given else f"is missing; it is {parameter.type}"
                problems.append((parameter.name, problem))
            values[parameter.name] = None
            continue
        try:
            values[parameter.name] = value_from_json(value, parameter.type)
        except (WrongType, OutOfRange) as error:
            values[parameter.name] = None
            problems.append((parameter.name, f"does not fit: {error}"))
    for name in given:
        if name not in values:
            hint = did_you_mean(str(name), values) if query.name else header_hint(str(name))
            problems.append((str(name), "is not declared" + (f"; {hint}" if hint else "")))
    if problems:
        raise ParameterError(query.name, problems)
    return values
