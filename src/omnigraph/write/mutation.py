"""Runs a mutation: all its statements as one commit, or nothing."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from omnigraph.api.data import MutationResult
from omnigraph.catalog import (
    Catalog,
    EdgeType,
    EntityType,
    NodeType,
    OutOfRange,
    Scalar,
    Value,
    WrongType,
    node_id,
    value_from_json,
)
from omnigraph.compiler import CompiledQuery, bound_parameters, ir
from omnigraph.embedding import embedded_properties
from omnigraph.errors import ParameterError, UsageError
from omnigraph.versioning import Snapshot
from omnigraph.versioning.publisher import Publication, check_expectations
from omnigraph.write import TableChange, WriteAttempt, write_changes
from omnigraph.write.groups import SmallWrite, TooLargeToCarry
from omnigraph.write.protocol import small_publication
from omnigraph.write.staging import MutationStaging, Resolve, is_by_identity
from omnigraph.write.validate import validate

SMALL_TABLE = 20_000
"""Tables with fewer rows are searched while other small writes wait."""


def run_mutation(attempt: WriteAttempt, query: CompiledQuery, parameters: Mapping[str, Any]) -> MutationResult:
    """Executes the statements against one snapshot, checks the whole change, and commits it."""
    changes, affected = _execute_all(attempt, query, parameters)
    return MutationResult(write_changes(attempt, changes) if changes else None, affected)


def decide_mutation(
    attempt: WriteAttempt, query: CompiledQuery, parameters: Mapping[str, Any]
) -> SmallWrite[MutationResult]:
    """Executes the statements and checks the change, to be published with others (or `TooLargeToCarry`)."""
    changes, affected = _execute_all(attempt, query, parameters)
    publication = None
    if changes:
        publication = small_publication(attempt, changes)
        if publication is None:
            raise TooLargeToCarry
    return SmallWrite(publication, lambda commit: MutationResult(commit, affected))


def is_probably_small(query: CompiledQuery, base: Snapshot) -> bool:
    """Whether a mutation takes little time and changes little: it finds rows by ids or in small tables.

    One that computes vectors does not: its model may take long.
    """
    if not isinstance(query.body, ir.Mutation):
        return False
    written = [each for each in base.catalog.entities if each.table_key in query.access.writes]
    if any([*embedded_properties(each)] for each in written):
        return False
    return all(_finds_few(each, base) for each in query.body.statements)


def _finds_few(statement: ir.Statement, base: Snapshot) -> bool:
    if not isinstance(statement, ir.Update | ir.Delete):
        return True
    entity = _entity(base.catalog, statement.type)
    if is_by_identity(entity, statement.conditions):
        return True
    return base.table(entity.table_key).most_rows <= SMALL_TABLE


def _execute_all(
    attempt: WriteAttempt, query: CompiledQuery, parameters: Mapping[str, Any]
) -> tuple[dict[str, TableChange], dict[str, int]]:
    """The valid changes of all statements, and how many entities they affect."""
    if not isinstance(query.body, ir.Mutation):
        raise UsageError(f"`{query.name}` reads; run it with query")
    resolve = _resolver(bound_parameters(query, parameters), query.name)
    _check_precondition(attempt)
    staging = MutationStaging(attempt.base)
    for statement in query.body.statements:
        _execute(statement, staging, attempt.catalog, resolve)
    changes = staging.changes()
    if changes:
        validate(changes, attempt.base)
    return changes, staging.affected


def _check_precondition(attempt: WriteAttempt) -> None:
    """A failed `if_commit` is reported before any work, also if nothing would change."""
    expectation = Publication(commit_id="", based_on=0, branch=attempt.branch, if_commit=attempt.if_commit)
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


def _blob_of(query: str, name: str, text: Value | None) -> Value:
    """The bytes of a text parameter that is written to a Blob."""
    try:
        return value_from_json(text, Scalar.BLOB)
    except (WrongType, OutOfRange) as error:
        raise ParameterError(query, [(name, f"does not fit: {error}")]) from error


def _resolver(parameters: Mapping[str, Value | None], query: str) -> Resolve:
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
            case ir.BlobOfText(ir.ParameterValue(name)):
                return None if parameters[name] is None else _blob_of(query, name, parameters[name])
        raise AssertionError(f"the typechecker lets no {expression.__class__.__name__} through")

    return resolve
