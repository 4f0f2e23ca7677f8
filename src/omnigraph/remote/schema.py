"""The calls about the schema of a graph, and what needs it: rows out of JSON.

A plan is computed again here, from the catalogs that the server sends, so that its steps are the same objects as for a
local graph. The server adds how many rows they affect, and which rows are in the way.
"""
# ruff: noqa: PLC0415 - a client starts quickly, so the catalog is imported where it is needed

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omnigraph.api.base import MAIN
from omnigraph.api.history import Commit
from omnigraph.api.queries import BrokenQuery
from omnigraph.api.schema import (
    SchemaApplyRequest,
    SchemaCatchUpRequest,
    SchemaDiffRequest,
    SchemaPlanRequest,
    SchemaShowRequest,
)
from omnigraph.api.values import Row
from omnigraph.diagnostics import Diagnostic, Source
from omnigraph.errors import SchemaChanged
from omnigraph.remote.calls import SENT_SCHEMA, Endpoint, decode_answer
from omnigraph.violations import Violation

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog
    from omnigraph.catalog.types import PropertyType
    from omnigraph.evolution.apply import SchemaApplyResult
    from omnigraph.evolution.migration import MigrationPlan
    from omnigraph.versioning.schemas import AcceptedSchema

_ATTEMPTS = 3


def show(endpoint: Endpoint, request: SchemaShowRequest) -> "AcceptedSchema":
    from omnigraph.catalog import catalog_from_json
    from omnigraph.versioning.schemas import AcceptedSchema

    document = endpoint.document(request)
    return AcceptedSchema(document["schema_id"], document["schema"], catalog_from_json(document["catalog"]))


def catalog_of(endpoint: Endpoint, state: Any) -> "Catalog":
    """The types of a state."""
    return show(endpoint, SchemaShowRequest(state)).catalog


class RowDecoder:
    """Makes rows out of JSON, by the types that their properties have in catalogs; the last catalog has priority."""

    def __init__(self, *catalogs: "Catalog") -> None:
        self._types: dict[tuple[str, str], PropertyType] = {
            (entity.name, name): declared.type
            for catalog in catalogs
            for entity in catalog.entities
            for name, declared in entity.properties.items()
        }

    def row(self, type: str, document: Row | None) -> dict[str, Any] | None:
        """An entity of a type; None if it does not exist."""
        if document is None:
            return None
        return {name: _value(self._types.get((type, name)), value) for name, value in document.items()}


def _value(type: "PropertyType | None", document: Any) -> Any:
    """The value of a property. JSON has dates, datetimes and blobs as texts, also in lists."""
    from omnigraph.catalog import value_from_json
    from omnigraph.catalog.types import List, Scalar

    scalar = type.element if isinstance(type, List) else type
    if type is None or document is None or scalar not in (Scalar.DATE, Scalar.DATETIME, Scalar.BLOB):
        return document
    value = value_from_json(document, type)
    return list(value) if isinstance(value, tuple) else value


def row_decoder(endpoint: Endpoint, *states: Any) -> RowDecoder:
    """A decoder of rows for these states."""
    return RowDecoder(*(catalog_of(endpoint, each) for each in states))


def plan(endpoint: Endpoint, request: SchemaPlanRequest) -> "MigrationPlan":
    source = _source(request.new)
    for _ in range(_ATTEMPTS):
        old = catalog_of(endpoint, request.branch)
        document = endpoint.document(request)
        found = _plan(document, old, source)
        if [step.as_json() for step in found.steps] == document["steps"]:
            return found
    raise SchemaChanged(request.branch)


def diff(endpoint: Endpoint, request: SchemaDiffRequest) -> "MigrationPlan":
    from omnigraph.evolution.migration import plan_between

    before, after = (show(endpoint, SchemaShowRequest(each)) for each in (request.left, request.right))
    return plan_between(before.catalog, after.catalog, Source(f"schema {after.number}", after.text))


def apply(endpoint: Endpoint, request: SchemaApplyRequest) -> "SchemaApplyResult":
    return _apply_result(endpoint, endpoint.document(request), MAIN, _source(request.new))


def catch_up(endpoint: Endpoint, request: SchemaCatchUpRequest) -> "SchemaApplyResult":
    return _apply_result(endpoint, endpoint.document(request), request.branch, None)


def _apply_result(
    endpoint: Endpoint, document: Mapping[str, Any], branch: str, source: Source | None
) -> "SchemaApplyResult":
    """The result of a schema change; the schemas before and after are those of the parent and of the commit."""
    from omnigraph.evolution.apply import SchemaApplyResult

    commit: Commit | None = None if document["commit"] is None else decode_answer(Commit, document["commit"])
    accepted = show(endpoint, SchemaShowRequest(branch if commit is None else commit.graph_commit_id))
    old = accepted if commit is None else show(endpoint, SchemaShowRequest(commit.parent_commit_id))
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
    """The plan from the old schema to that of the document."""
    from omnigraph.catalog import catalog_from_json
    from omnigraph.evolution.migration import plan_between

    rows: dict[int, int] = {}
    for step in document["steps"]:
        if step["cost"]["rows"] is not None:
            rows[step["identity"]] = step["cost"]["rows"]
    notes: list[Diagnostic] = [decode_answer(Diagnostic, each) for each in document["notes"]]
    return replace(
        plan_between(old, catalog_from_json(document["catalog"]), source).with_rows(rows),
        notes=tuple(replace(each, file=source.name if each.file == SENT_SCHEMA else each.file) for each in notes),
        violations=tuple(decode_answer(Violation, each) for each in document["violations"]),
        violation_count=document["violation_count"],
        broken_queries=tuple(decode_answer(BrokenQuery, each) for each in document["broken_queries"]),
    )
