"""Advice on queries that are right but probably not what was meant."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from omnigraph.codes import Code
from omnigraph.compiler import ir
from omnigraph.diagnostics import Findings, quoted
from omnigraph.syntax.nodes import Node
from omnigraph.syntax.query_ast import THROWAWAY, Binding, Clause, Negation, Query, ReadBody, TraversalClause, Variable


def lint_query(query: Query, body: ir.Read | ir.Mutation, findings: Findings) -> None:
    """Reports advice on a query that typechecks."""
    mentions = Counter(variable.name for variable in _variables_in(query.body))
    _unused_parameters(query, mentions, findings)
    if isinstance(query.body, ReadBody) and isinstance(body, ir.Read):
        _check_traversals(query.body.match, mentions, _unbounded_edges(body.pattern), findings)
        _cross_product(query, body.pattern, findings)


def _unused_parameters(query: Query, mentioned: Mapping[str, int], findings: Findings) -> None:
    for parameter in query.parameters:
        if parameter.name not in mentioned:
            message = f"parameter {quoted('$' + parameter.name)} is never used"
            findings.report(Code.UNUSED_PARAMETER, message, parameter.span)


def _unbounded_edges(pattern: ir.Pattern) -> frozenset[str]:
    """The edges that a pattern follows as far as they go, by their names in lower case."""
    own = (each.edge.lower() for each in pattern.traversals if isinstance(each, ir.Traversal) and each.maximum is None)
    return frozenset(own).union(*map(_unbounded_edges, pattern.absent))


def _check_traversals(
    clauses: Iterable[Clause], mentions: Mapping[str, int], unbounded: frozenset[str], findings: Findings
) -> None:
    for traversal in _traversals(clauses):
        for end in (traversal.source, traversal.destination):
            if end.name != THROWAWAY and mentions[end.name] == 1:
                message = f"{quoted('$' + end.name)} is bound and never used"
                findings.report(Code.UNUSED_VARIABLE, message, end.span, "write `$_` for an end that does not matter")
        if traversal.hops is not None and traversal.hops.maximum is None and traversal.edge.lower() in unbounded:
            message = f"{quoted(traversal.edge)} is followed as far as it goes, perhaps through the whole graph"
            findings.report(Code.UNBOUNDED_HOPS, message, traversal.hops.span, "give a maximum: `{1,4}`")


def _cross_product(query: Query, pattern: ir.Pattern, findings: Findings) -> None:
    """Every pair of unconnected parts multiplies the rows."""
    apart = _separate_parts(pattern)
    if len(apart) < 2:
        return
    names = " and ".join(quoted("$" + name.partition(":")[0]) for name in apart[:2])
    assert isinstance(query.body, ReadBody)
    span = next((clause.variable.span for clause in query.body.match if isinstance(clause, Binding)), query.span)
    message = f"{names} are not connected, so every one is paired with every other"
    findings.report(Code.CROSS_PRODUCT, message, span, "connect them by a traversal or a filter")


def _separate_parts(pattern: ir.Pattern) -> list[str]:
    """One variable of each part of a pattern that nothing connects to the others."""
    neighbours: dict[str, set[str]] = {node.variable: set() for node in pattern.nodes}
    for linked in _links(pattern):
        for name in linked:
            neighbours.setdefault(name, set()).update(linked)
    seen: set[str] = set()
    apart = []
    for node in pattern.nodes:
        if node.variable in seen:
            continue
        apart.append(node.variable)
        pending = [node.variable]
        while pending:
            name = pending.pop()
            if name not in seen:
                seen.add(name)
                pending += neighbours[name]
    return apart


def _links(pattern: ir.Pattern) -> Iterator[set[str]]:
    """The sets of variables that something in the pattern ties together."""
    for traversal in pattern.traversals:
        bound = {traversal.variable} if isinstance(traversal, ir.EdgeBinding) else set()
        yield {traversal.source, traversal.destination} | bound
    for condition in pattern.conditions:
        if isinstance(condition, ir.SameEntity):
            yield {condition.left, condition.right}
        elif isinstance(condition, ir.Comparison):
            sides = {side.variable for side in (condition.left, condition.right) if isinstance(side, ir.Column)}
            if len(sides) == 2:
                yield sides


def _traversals(clauses: Iterable[Clause]) -> Iterator[TraversalClause]:
    for clause in clauses:
        if isinstance(clause, TraversalClause):
            yield clause
        elif isinstance(clause, Negation):
            yield from _traversals(clause.clauses)


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
