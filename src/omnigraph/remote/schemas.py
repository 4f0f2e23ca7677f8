"""The schema of a remote graph.

A plan is computed here once more, from the catalogs that the server sends, so its steps are objects as everywhere else.
How many rows they are about, and which are in the way, only the server knows.
"""
# ruff: noqa: PLC0415 - a client starts quickly, so the catalog is imported where it is needed

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omnigraph.api.base import MAIN
from omnigraph.api.history import Commit
from omnigraph.api.schema import (
    SchemaApplyRequest,
    SchemaCatchUpRequest,
    SchemaDiffRequest,
    SchemaPlanRequest,
    SchemaShowRequest,
)
from omnigraph.diagnostics import Diagnostic, Source
from omnigraph.errors import SchemaChanged, UsageError
from omnigraph.remote.asking import Door
from omnigraph.remote.decoding import decode_answer
from omnigraph.violations import Violation

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog
    from omnigraph.evolution.apply import SchemaApplyResult
    from omnigraph.evolution.migration import MigrationPlan
    from omnigraph.remote.values import Rows
    from omnigraph.versioning.schemas import AcceptedSchema

_SENT = "<schema>"
"""What a server calls a text that it was sent."""
_ATTEMPTS = 3


def show(door: Door, request: SchemaShowRequest) -> "AcceptedSchema":
    from omnigraph.catalog import catalog_from_json
    from omnigraph.versioning.schemas import AcceptedSchema

    document = door.wire.document(door.ask_for(request))
    return AcceptedSchema(document["schema_id"], document["schema"], catalog_from_json(document["catalog"]))


def catalog_of(door: Door, state: Any) -> "Catalog":
    """The types of a state."""
    return show(door, SchemaShowRequest(state)).catalog


def rows_at(door: Door, *states: Any) -> "Rows":
    """Makes rows out of JSON, by the schemas of these states; the last one has the names."""
    from omnigraph.remote.values import Rows

    return Rows(*(catalog_of(door, each) for each in states))


def plan(door: Door, request: SchemaPlanRequest) -> "MigrationPlan":
    source = _source(request.new)
    for _ in range(_ATTEMPTS):
        old = catalog_of(door, request.branch)
        document = door.wire.document(door.ask_for(request))
        found = _plan(document, old, source)
        if [step.as_json() for step in found.steps] == document["steps"]:
            return found
    raise SchemaChanged(request.branch)


def diff(door: Door, request: SchemaDiffRequest) -> "MigrationPlan":
    from omnigraph.evolution.migration import plan_between

    before, after = (show(door, SchemaShowRequest(each)) for each in (request.left, request.right))
    return plan_between(before.catalog, after.catalog, Source(f"schema {after.number}", after.text))


def apply(door: Door, request: SchemaApplyRequest) -> "SchemaApplyResult":
    return _apply_result(door, door.wire.document(door.ask_for(request)), MAIN, _source(request.new))


def catch_up(door: Door, request: SchemaCatchUpRequest) -> "SchemaApplyResult":
    if request.branch == MAIN:
        raise UsageError(f"`{MAIN}` has no schema to catch up with; it is the one that others catch up with")
    return _apply_result(door, door.wire.document(door.ask_for(request)), request.branch, None)


def _apply_result(door: Door, document: Mapping[str, Any], branch: str, source: Source | None) -> "SchemaApplyResult":
    """What was done to a branch; its schemas before and after are those of the commit and of its parent."""
    from omnigraph.evolution.apply import SchemaApplyResult

    commit: Commit | None = None if document["commit"] is None else decode_answer(Commit, document["commit"])
    accepted = show(door, SchemaShowRequest(branch if commit is None else commit.graph_commit_id))
    old = accepted if commit is None else show(door, SchemaShowRequest(commit.parent_commit_id))
    return SchemaApplyResult(
        plan=_plan(document, old.catalog, source or Source(f"schema of {MAIN}", accepted.text)),
        schema=accepted,
        commit=commit,
        purged=tuple(document["purged"]),
    )


def _source(new: Any) -> Source:
    from omnigraph.source_files import schema_text

    text, name = schema_text(new)
    return Source(name, text)


def _plan(document: Mapping[str, Any], old: "Catalog", source: Source) -> "MigrationPlan":
    """The plan that leads from the old schema to that of the document."""
    from omnigraph.catalog import catalog_from_json
    from omnigraph.evolution.migration import plan_between

    rows: dict[int, int] = {}
    for step in document["steps"]:
        if step["cost"]["rows"] is not None:
            rows[step["identity"]] = step["cost"]["rows"]
    notes: list[Diagnostic] = [decode_answer(Diagnostic, each) for each in document["notes"]]
    return replace(
        plan_between(old, catalog_from_json(document["catalog"]), source).with_rows(rows),
        notes=tuple(replace(each, file=source.name if each.file == _SENT else each.file) for each in notes),
        violations=tuple(decode_answer(Violation, each) for each in document["violations"]),
        violation_count=document["violation_count"],
    )
