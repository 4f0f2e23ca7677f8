"""Changes the schema of a branch, and its data with it, as one commit.

The schema of a graph changes on `main`. Another branch keeps the one it has until it catches up with that of `main`.
A schema change holds all tables of the branch, so the rows that are checked and written are all of them.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from omnigraph import failpoints
from omnigraph.api.base import MAIN
from omnigraph.api.history import Commit
from omnigraph.catalog import Catalog
from omnigraph.codes import Code
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Source
from omnigraph.embedding import current_settings, model_findings, with_models
from omnigraph.errors import QueriesBroken, RecoveryRequired, SchemaRefused, UnsuitableModel, ValidationError, ensure
from omnigraph.evolution.columns import column_work, write_all_columns
from omnigraph.evolution.migration import MigrationPlan, migration_plan, plan_between
from omnigraph.evolution.rules import new_rule_violations, rules_added_by
from omnigraph.exporting.export import LARGE_EXPORT
from omnigraph.failpoints import Point
from omnigraph.maintenance.table_files import unfinished_writes
from omnigraph.parts.choice import row_reasons, size_reasons
from omnigraph.parts.engine import Engine
from omnigraph.queries import breaking_queries
from omnigraph.source_files import schema_text
from omnigraph.storage.columns import stage_columns
from omnigraph.versioning import Branches, Pin, SchemaChange, Snapshot
from omnigraph.versioning.file_checksums import check_pinned_version
from omnigraph.versioning.query_sets import QueriesUpdate
from omnigraph.versioning.schemas import AcceptedSchema, accepted_schema
from omnigraph.write import StagedTable, WriteAttempt, report_staged_table, tables_to_write, write_staged
from omnigraph.write.attempt import NewSchema
from omnigraph.write.change import ReliedOn
from omnigraph.write.creation import create_table


@dataclass(frozen=True, slots=True)
class SchemaTarget:
    """The schema that a graph is to have: a text, or one that was accepted before, which a branch catches up with.

    With `allow_data_loss`, what is dropped goes from the history too.
    """

    source: Source
    accepted: AcceptedSchema | None = None
    allow_data_loss: bool = False


def new_schema(new: str | Path | Source, *, allow_data_loss: bool = False) -> SchemaTarget:
    """A text, or the file that a path leads to; a `Source` is a text whatever it says."""
    text, name = schema_text(new)
    return SchemaTarget(Source(name, text), allow_data_loss=allow_data_loss)


def schema_of_main(branches: Branches) -> SchemaTarget:
    """What another branch can catch up with."""
    accepted = branches.schemas.get(branches.main.head().commit.schema_id)
    return SchemaTarget(Source(f"schema of {MAIN}", accepted.text), accepted)


def schema_plan(snapshot: Snapshot, target: SchemaTarget) -> MigrationPlan:
    """What leads from the schema of a snapshot to another; rows are those of the snapshot, and nothing is written.

    A vector that is new gets the model that a new graph would record for it.
    """
    catalog = snapshot.catalog
    if target.accepted is not None:
        plan = plan_between(catalog, target.accepted.catalog, target.source)
    else:
        plan = _plan_of_text(catalog, target.source)
    touched = {step.identity for step in plan.steps} & catalog.by_identity.keys()
    return plan.with_rows(
        {identity: snapshot.table(catalog.by_identity[identity].table_key).count() for identity in touched}
    )


def _plan_of_text(catalog: Catalog, source: Source) -> MigrationPlan:
    """What leads to a text, with a note about each vector that no configured model can fill."""
    unfilled: list[UnsuitableModel] = []

    def settle(compiled: Catalog, filled: Collection[int]) -> Catalog:
        models = with_models(compiled, current_settings(), filled)
        unfilled.extend(models.unfilled)
        return models.catalog

    plan = migration_plan(catalog, source, settled=settle)
    return replace(plan, notes=(*plan.notes, *model_findings(source, unfilled, Code.UNFILLED_VECTOR)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaApplyResult:
    """What was done; there is no commit when the schema was already as asked."""

    plan: MigrationPlan
    schema: AcceptedSchema
    commit: Commit | None
    purged: tuple[str, ...] = ()
    """The tables whose history was removed, with the values that were dropped."""

    def as_json(self) -> dict[str, Any]:
        """The result as scripts read it."""
        return {
            "commit": self.commit.as_json() if self.commit else None,
            "schema_id": self.schema.id,
            "schema_number": self.schema.number,
            "purged": list(self.purged),
            **self.plan.as_json(),
        }


def apply_reasons(snapshot: Snapshot, plan: MigrationPlan) -> Iterator[str]:
    """Reasons to run a change on Spark: the rows that it reads and writes; computing vectors takes the longest."""
    if plan.refused:
        return
    work = column_work(snapshot, plan)
    computed = [key for key, each in work.items() if each.is_computed]
    yield from size_reasons(records=sum(snapshot.table(key).count() for key in computed))
    touched = [*rules_added_by(snapshot, plan).tables(), *(key for key, each in work.items() if each.makers)]
    rows = sum(snapshot.table(key).count() for key in touched)
    yield from row_reasons(rows, LARGE_EXPORT, "read or write")


def apply_schema(
    attempt: WriteAttempt,
    branches: Branches,
    target: SchemaTarget,
    engine: Engine,
    *,
    allow_broken_queries: bool = False,
) -> SchemaApplyResult:
    """Gives a branch another schema. The caller holds the schema and all tables of the branch.

    What cannot be done is refused, and so are rows that a new rule does not allow, and stored queries that would no
    longer fit, unless that is allowed; then nothing was written.
    """
    ensure(target.accepted is not None or attempt.branch == MAIN, "the schema of a graph changes on its main branch")
    _refuse_unsettled(attempt)
    for pin in attempt.base.manifest.pins.values():
        check_pinned_version(attempt.base.location, pin)
    current = branches.schemas.get(attempt.base.commit.schema_id)
    plan = schema_plan(attempt.base, target)
    if plan.refused:
        raise SchemaRefused(plan.refused)
    accepted = target.accepted or accepted_schema(current.number + 1, target.source.text, plan.catalog)
    is_same = target.accepted is None and plan.is_empty and accepted.text == current.text
    if is_same or accepted.id == current.id:
        return SchemaApplyResult(plan=plan, schema=current, commit=None)
    stored = branches.query_sets.get(attempt.base.commit.queries_id)
    broken = () if allow_broken_queries else breaking_queries(stored.texts, current.catalog, plan.catalog)
    if broken:
        raise QueriesBroken([(each.name, each.line, each.code, each.message) for each in broken])
    faults = new_rule_violations(attempt.base, plan, engine)
    if faults.total:
        raise ValidationError(faults.shown, faults.total)
    branches.schemas.keep(accepted)
    # Whoever stores a query now has checked it against the old schema.
    attempt = replace(attempt, queries=QueriesUpdate(stored.id, stored.id))
    commit = _write_schema(attempt, plan, accepted, engine)
    return SchemaApplyResult(plan=plan, schema=accepted, commit=commit)


def _refuse_unsettled(attempt: WriteAttempt) -> None:
    """Refuses where a writer died: its sidecar has the old names of tables, and rows of the old schema."""
    for sidecar in unfinished_writes(attempt.base.location):
        if sidecar.branch == attempt.branch:
            key = sidecar.table_keys[0] if sidecar.tables else "the schema"
            raise RecoveryRequired(key, sidecar.manifest_version, sidecar.operation_id)


def _write_schema(attempt: WriteAttempt, plan: MigrationPlan, accepted: AcceptedSchema, engine: Engine) -> Commit:
    base = attempt.base
    before, after = base.catalog.by_identity, plan.catalog.by_identity
    created: dict[str, Pin] = {}
    for identity, entity in after.items():
        if identity not in before:
            created[entity.table_key] = create_table(base.location, entity, attempt.operation_id)
            failpoints.hit(Point.SCHEMA_TABLE_CREATED)
    work = column_work(base, plan)
    tables = tables_to_write(attempt, work)
    written = write_all_columns(tables, work, engine)
    parts = {}
    for key, table in tables.items():
        *first, last = stage_columns(table, work[key].layout, written[key], attempt.operation_id)
        parts[key] = StagedTable(table, last, before=tuple(first))
        report_staged_table(attempt)
    renamed = {
        entity.table_key: after[identity].table_key
        for identity, entity in before.items()
        if identity in after and entity.table_key != after[identity].table_key
    }
    moved = {new: base.manifest.pins[old] for old, new in renamed.items() if old not in parts}
    ended = [entity.table_key for identity, entity in before.items() if identity not in after]
    change = SchemaChange(accepted.id, {**created, **moved}, (*ended, *renamed))
    brought = NewSchema(accepted=accepted, change=change, renamed=renamed)
    others = base.manifest.pins.keys() - parts.keys()
    return write_staged(replace(attempt, new_schema=brought), parts, relied_on=ReliedOn(unchanged=others))
