"""Advice on queries that are right but probably not what was meant."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from omnigraph.codes import Code
from omnigraph.compiler import ir
from omnigraph.diagnostics import Findings, Span, quoted
from omnigraph.syntax.nodes import Node
from omnigraph.syntax.query_ast import (
    THROWAWAY,
    Binding,
    MutationBody,
    PathClause,
    Query,
    ReadBody,
    TraversalClause,
    UnionBody,
    Variable,
)

ClauseT = TypeVar("ClauseT")


def lint_query(query: Query, body: ir.Body, findings: Findings) -> None:
    """Reports advice on a query that typechecks."""
    _unused_parameters(query, Counter(variable.name for variable in _variables_in(query.body)), findings)
    if isinstance(query.body, ReadBody) and isinstance(body, ir.Read):
        _lint_read(query.body, body, query.span, findings)
    elif isinstance(query.body, UnionBody) and isinstance(body, ir.Union):
        for number, (written, lowered) in enumerate(zip(query.body.parts, body.parts, strict=True)):
            _lint_read(written, lowered, written.span if number else query.span, findings)
    elif isinstance(query.body, MutationBody) and isinstance(body, ir.Mutation):
        # Inserts connect what the match does not, so pairs are meant.
        _check_traversals(query.body, (), _unbounded_edges(body.reads), findings)


def _lint_read(body: ReadBody, read: ir.Read, name: Span, findings: Findings) -> None:
    before: ir.Read | None = None
    last = replace(body, stages=(), span=name)
    for written, lowered in zip((*body.stages, last), (*read.stages, read), strict=True):
        carried = {column.name for column in before.columns} if before is not None else set()
        _check_traversals(written, carried, _unbounded_edges([lowered]), findings)
        _check_paths(written, lowered, findings)
        _cross_product(written, lowered.pattern, before, findings)
        before = lowered


def _unused_parameters(query: Query, mentioned: Mapping[str, int], findings: Findings) -> None:
    for parameter in query.parameters:
        if parameter.name not in mentioned:
            message = f"parameter {quoted('$' + parameter.name)} is never used"
            findings.report(Code.UNUSED_PARAMETER, message, parameter.span)


def _unbounded_edges(reads: Iterable[ir.Read]) -> frozenset[str]:
    """The edges that reads follow as far as they go, by their names in lower case."""
    return frozenset(
        each.edge.lower()
        for read in reads
        for pattern in _all_patterns(read)
        for each in pattern.traversals
        if isinstance(each, ir.Traversal) and each.maximum is None
    )


def _all_patterns(read: ir.Read) -> Iterator[ir.Pattern]:
    """Every pattern of a read, also those that its values ask for."""
    yield from _patterns_below(read.pattern)
    for each in read.shape.expressions:
        yield from _patterns_of(each)


def _patterns_below(pattern: ir.Pattern) -> Iterator[ir.Pattern]:
    """A pattern and all that are nested in it."""
    yield pattern
    for nested in (*pattern.absent, *pattern.optional):
        yield from _patterns_below(nested)
    for condition in pattern.conditions:
        yield from _patterns_of(condition)


def _patterns_of(expression: ir.Expression) -> Iterator[ir.Pattern]:
    """The patterns that an expression asks for."""
    for each in ir.expressions_in(expression):
        if isinstance(each, ir.SubPattern):
            yield from _patterns_below(each.pattern)


def _check_traversals(
    body: ReadBody | MutationBody, carried: Collection[str], unbounded: frozenset[str], findings: Findings
) -> None:
    mentions = Counter(variable.name for variable in _variables_in(body))
    for traversal in _clauses(body, TraversalClause):
        for end in (traversal.source, traversal.destination):
            if end.name != THROWAWAY and end.name not in carried and mentions[end.name] == 1:
                message = f"{quoted('$' + end.name)} is bound and never used"
                findings.report(Code.UNUSED_VARIABLE, message, end.span, "write `$_` for an end that does not matter")
        if traversal.hops is not None and traversal.hops.maximum is None and traversal.edge.lower() in unbounded:
            message = f"{quoted(traversal.edge)} is followed as far as it goes, perhaps through the whole graph"
            findings.report(Code.UNBOUNDED_HOPS, message, traversal.hops.span, "give a maximum: `{1,4}`")


def _check_paths(body: ReadBody, read: ir.Read, findings: Findings) -> None:
    mentions = Counter(variable.name for variable in _variables_in(body))
    unbounded = {
        path.variable
        for pattern in _all_patterns(read)
        for path in pattern.paths
        if path.maximum is None and not _concerned_variables(pattern) >= {path.source, path.destination}
    }
    for clause in _clauses(body, PathClause):
        name = clause.variable.name
        if mentions[name] == 1:
            message = f"{quoted('$' + name)} is bound and never used"
            hint = "without the path, write the step alone: `$a knows{1,6} $b`"
            findings.report(Code.UNUSED_VARIABLE, message, clause.variable.span, hint)
        if name in unbounded:
            message = "paths are searched as far as edges go, because no other clause concerns one of their ends"
            findings.report(Code.UNBOUNDED_HOPS, message, clause.hops.span, "give a maximum: `{1,4}`")


def _concerned_variables(pattern: ir.Pattern) -> set[str]:
    """The variables of a pattern that a condition or an edge concerns, and those of the patterns around it."""
    found = {end for each in pattern.traversals for end in (each.source, each.destination)}
    own = {node.variable for node in pattern.nodes}
    found |= {end for path in pattern.paths for end in (path.source, path.destination) if end not in own}
    for condition in pattern.conditions:
        found |= {each.variable for each in ir.expressions_in(condition) if isinstance(each, ir.Column | ir.Entity)}
    return found


def _cross_product(body: ReadBody, pattern: ir.Pattern, before: ir.Read | None, findings: Findings) -> None:
    """Every pair of unconnected parts multiplies the rows; the rows of the stage before are such a part, too."""
    links = list(_links(pattern))
    parts = [node.variable for node in pattern.nodes]
    carried: tuple[str, ...] = ()
    if before is not None:
        carried = (ir.STAGE, *(name for name, _ in before.shape.entities))
        links.append({*carried})
        if parts and not _is_one_row(before):
            parts.insert(0, ir.STAGE)
    apart = _separate_parts(parts, links)
    if len(apart) > 1:
        names = " and ".join(map(_part_name, apart[:2]))
        message = f"{names} are not connected, so every one is paired with every other"
        findings.report(Code.CROSS_PRODUCT, message, _begin(body), "connect them by a traversal or a filter")
    _separate_optionals(body, pattern, carried, findings)


def _separate_optionals(body: ReadBody, pattern: ir.Pattern, around: tuple[str, ...], findings: Findings) -> None:
    """An optional pattern that nothing connects to the rows around it multiplies them, too."""
    seen = {*around, *pattern.variables}
    neighbours = _neighbours(_links(pattern))
    for optional in pattern.optional:
        own, nearer = {*optional.variables}, _neighbours(_links(optional))

        def is_around(name: str, own: set[str] = own) -> bool:
            return name in seen and name not in own

        def next_to(name: str, nearer: Mapping[str, set[str]] = nearer) -> Iterator[str]:
            yield from nearer.get(name, ())
            yield from neighbours.get(name, ())

        parts = (node.variable for node in optional.nodes)
        apart = next((each for each in parts if not any(map(is_around, _reachable(each, next_to)))), None)
        if apart is not None:
            message = (
                f"{_part_name(apart)} is not connected to the pattern around, so every one is paired with every row"
            )
            findings.report(Code.CROSS_PRODUCT, message, _begin(body), "connect it by a traversal or a filter")
        if optional.optional:
            _separate_optionals(body, optional, (*around, *pattern.variables), findings)


def _begin(body: ReadBody) -> Span:
    """Where people look for what a pattern binds."""
    return next((clause.variable.span for clause in body.match if isinstance(clause, Binding)), body.span)


def _part_name(variable: str) -> str:
    return "the rows of `with`" if variable == ir.STAGE else quoted("$" + variable.partition(":")[0])


def _separate_parts(parts: Iterable[str], links: Iterable[set[str]]) -> list[str]:
    """One variable of each part that nothing connects to the others."""
    neighbours = _neighbours(links)
    seen: set[str] = set()
    apart = []
    for part in parts:
        if part not in seen:
            apart.append(part)
            seen.update(_reachable(part, lambda name: neighbours.get(name, ())))
    return apart


def _neighbours(links: Iterable[set[str]]) -> dict[str, set[str]]:
    """For each variable those that something ties to it."""
    neighbours: dict[str, set[str]] = {}
    for linked in links:
        for name in linked:
            neighbours.setdefault(name, set()).update(linked)
    return neighbours


def _reachable(start: str, next_to: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """A variable and all that are tied to it, directly or through others."""
    seen, pending = {start}, [start]
    while pending:
        name = pending.pop()
        yield name
        found = [each for each in next_to(name) if each not in seen]
        seen.update(found)
        pending += dict.fromkeys(found)


def _is_one_row(stage: ir.Read) -> bool:
    """Whether a stage has at most one row, so that nothing is multiplied by it."""
    shape = stage.shape
    limit = shape.limit.value if isinstance(shape.limit, ir.Constant) else None
    return limit == 1 or (shape.grouped and not shape.keys)


def _links(pattern: ir.Pattern) -> Iterator[set[str]]:
    """The sets of variables that something in the pattern ties together."""
    for traversal in pattern.traversals:
        bound = {traversal.variable} if isinstance(traversal, ir.EdgeBinding) else set()
        yield {traversal.source, traversal.destination} | bound
    for path in pattern.paths:
        yield {path.source, path.destination, path.variable}
    for step in pattern.path_steps:
        yield {step.source, step.destination, step.path, *(() if step.variable is None else (step.variable,))}
    for condition in pattern.conditions:
        named = {each.variable for each in ir.expressions_in(condition) if isinstance(each, ir.Column | ir.Entity)}
        if len(named) > 1:
            yield named


def _clauses(part: Any, kind: type[ClauseT]) -> Iterator[ClauseT]:
    """Every clause of a kind, also in patterns that are nested in clauses."""
    if isinstance(part, kind):
        yield part
    elif isinstance(part, Node):
        for field in fields(part):
            yield from _clauses(getattr(part, field.name), kind)
    elif isinstance(part, tuple):
        for item in part:
            yield from _clauses(item, kind)


def _variables_in(node: Any) -> Iterator[Variable]:
    """Every mention of a variable or parameter below a node."""
    if isinstance(node, Variable):
        yield node
    elif isinstance(node, Node):
        for field in fields(node):
            yield from _variables_in(getattr(node, field.name))
    elif isinstance(node, tuple):
        for item in node:
            yield from _variables_in(item)
