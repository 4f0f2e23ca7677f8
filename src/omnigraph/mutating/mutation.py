"""Runs a mutation: all its statements as one commit, or nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from omnigraph.api.data import MutationResult
from omnigraph.compiler import CompiledQuery, bound_parameters, ir
from omnigraph.embedding import embedded_properties
from omnigraph.errors import UsageError
from omnigraph.mutating.conditions import is_by_identity
from omnigraph.mutating.matches import MatchRead, ReadMatch, no_match
from omnigraph.mutating.staging import MutationStaging
from omnigraph.mutating.statements import Statements, entity_of
from omnigraph.mutating.values import RunValues
from omnigraph.versioning import Snapshot
from omnigraph.versioning.publisher import Publication, check_expectations
from omnigraph.write import TableChange, WriteAttempt, write_changes
from omnigraph.write.groups import SmallWrite, TooLargeToCarry
from omnigraph.write.protocol import small_publication
from omnigraph.write.validate import validate

SMALL_TABLE = 20_000
"""Tables with fewer rows are searched while other small writes wait."""


def run_mutation(
    attempt: WriteAttempt, query: CompiledQuery, parameters: Mapping[str, Any], read: ReadMatch = no_match
) -> MutationResult:
    """Executes the statements against one snapshot, checks the whole change, and commits it."""
    changes, done = _execute_all(attempt, query, parameters, read)
    commit = write_changes(attempt, changes, unchanged=query.access.matched) if changes else None
    return replace(done, commit=commit)


def decide_mutation(
    attempt: WriteAttempt, query: CompiledQuery, parameters: Mapping[str, Any], read: ReadMatch
) -> SmallWrite[MutationResult]:
    """Executes the statements and checks the change, to be published with others (or `TooLargeToCarry`)."""
    changes, done = _execute_all(attempt, query, parameters, read)
    publication = None
    if changes:
        publication = small_publication(attempt, changes, unchanged=query.access.matched)
        if publication is None:
            raise TooLargeToCarry
    return SmallWrite(publication, lambda commit: replace(done, commit=commit))


def is_probably_small(query: CompiledQuery, matches: Iterable[MatchRead], base: Snapshot) -> bool:
    """Whether a mutation takes little time and changes little: it finds rows by ids or in small tables.

    One that computes vectors does not: its model may take long.
    """
    if not isinstance(query.body, ir.Mutation):
        return False
    written = [each for each in base.catalog.entities if each.table_key in query.access.writes]
    if any([*embedded_properties(each)] for each in written):
        return False
    if not all(each.is_pinned for each in matches) and not all(_is_small(base, key) for key in query.access.matched):
        return False
    return all(_finds_few(each, base) for each in query.body.statements)


def _finds_few(statement: ir.Statement, base: Snapshot) -> bool:
    if not isinstance(statement, ir.Update | ir.Delete):
        return True
    entity = entity_of(base.catalog, statement.type)
    return is_by_identity(entity, statement.conditions) or _is_small(base, entity.table_key)


def _is_small(base: Snapshot, table_key: str) -> bool:
    return base.table(table_key).most_rows <= SMALL_TABLE


def _execute_all(
    attempt: WriteAttempt, query: CompiledQuery, parameters: Mapping[str, Any], read: ReadMatch
) -> tuple[dict[str, TableChange], MutationResult]:
    """The valid changes of all statements, and the result, which lacks the commit."""
    if not isinstance(query.body, ir.Mutation):
        raise UsageError(f"{query.title} reads; run it with query")
    values = RunValues(query.name, bound_parameters(query, parameters))
    _check_precondition(attempt)
    staging = MutationStaging(attempt.base)
    statements = Statements(staging, attempt.catalog, values, lambda number: read(attempt.base, number, values.now))
    returned = [table for each in query.body.statements if (table := statements.run(each)) is not None]
    changes = staging.changes()
    if changes:
        validate(changes, attempt.base)
    table = returned[0] if returned else None
    return changes, MutationResult(None, staging.affected, staging.unchanged, table)


def _check_precondition(attempt: WriteAttempt) -> None:
    """A failed `if_commit` is reported before any work, also if nothing would change."""
    expectation = Publication(commit_id="", based_on=0, branch=attempt.branch, if_commit=attempt.if_commit)
    check_expectations(attempt.base.manifest, expectation)
