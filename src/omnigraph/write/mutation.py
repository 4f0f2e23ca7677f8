"""Runs a mutation: all its statements as one commit, or nothing."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from omnigraph.api.data import MutationResult
from omnigraph.catalog import Catalog, EdgeType, EntityType, NodeType, Value, node_id
from omnigraph.compiler import CompiledQuery, bound_parameters, ir
from omnigraph.errors import UsageError
from omnigraph.versioning.publisher import Publication, check_expectations
from omnigraph.write import WriteAttempt, write_changes
from omnigraph.write.staging import MutationStaging, Resolve
from omnigraph.write.validate import validate


def run_mutation(attempt: WriteAttempt, query: CompiledQuery, parameters: Mapping[str, Any]) -> MutationResult:
    """Executes the statements against one snapshot, checks the whole change, and commits it."""
    if not isinstance(query.body, ir.Mutation):
        raise UsageError(f"`{query.name}` reads; run it with query")
    resolve = _resolver(bound_parameters(query, parameters))
    _check_precondition(attempt)
    staging = MutationStaging(attempt.base)
    for statement in query.body.statements:
        _execute(statement, staging, attempt.catalog, resolve)
    changes = staging.changes()
    if not changes:
        return MutationResult(None, staging.affected)
    validate(changes, attempt.base)
    return MutationResult(write_changes(attempt, changes), staging.affected)


def _check_precondition(attempt: WriteAttempt) -> None:
    """A failed `if_commit` is reported before any work, also if nothing would change."""
    expectation = Publication(commit_id="", pins={}, expected={}, branch=attempt.branch, if_commit=attempt.if_commit)
    check_expectations(attempt.base.manifest, expectation)


def _execute(statement: ir.Statement, staging: MutationStaging, catalog: Catalog, resolve: Resolve) -> None:
    match statement:
        case ir.InsertNode(type, values):
            staging.insert_node(catalog.nodes[type], _row(values, resolve))
        case ir.InsertEdge(type, source, destination, values):
            start, end = (_node_id(each, catalog, resolve) for each in (source, destination))
            staging.insert_edge(catalog.edges[type], start, end, _row(values, resolve))
        case ir.Update(type, values, conditions):
            staging.update(_entity(catalog, type), _row(values, resolve), conditions, resolve)
        case ir.Delete(type, conditions):
            staging.delete(_entity(catalog, type), conditions, resolve)


def _entity(catalog: Catalog, name: str) -> EntityType:
    entity: NodeType | EdgeType | None = catalog.nodes.get(name) or catalog.edges.get(name)
    assert entity is not None, "the typechecker knows every type"
    return entity


def _row(values: tuple[tuple[str, ir.Expression], ...], resolve: Resolve) -> dict[str, Any]:
    return {name: resolve(value) for name, value in values}


def _node_id(reference: ir.NodeReference, catalog: Catalog, resolve: Resolve) -> str:
    if reference.id is not None:
        identity: str = resolve(reference.id)
        return identity
    node = catalog.nodes[reference.type]
    types = [node.properties[name].type for name in node.key]
    return node_id([resolve(part) for part in reference.key], types)


def _resolver(parameters: Mapping[str, Value | None]) -> Resolve:
    """Gives the value of what is known before anything is read; `now()` is one instant for the whole mutation."""
    instant = datetime.now(UTC)
    instant = instant.replace(microsecond=instant.microsecond // 1000 * 1000)

    def resolve(expression: ir.Expression) -> Any:
        match expression:
            case ir.Constant(value):
                return value
            case ir.ParameterValue(name):
                return parameters[name]
            case ir.Now():
                return instant
            case ir.ListOf(items):
                return tuple(resolve(item) for item in items)
        raise AssertionError(f"the typechecker lets no {expression.__class__.__name__} through")

    return resolve
