"""Changes the schema of a branch, and its data with it, as one commit.

The schema of a graph changes on `main`. Another branch keeps the one it has until it catches up with that of `main`.
Whoever applies a schema holds all tables of the branch, so the rows that are checked and written are all there are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from omnigraph import failpoints
from omnigraph.api.base import MAIN
from omnigraph.api.history import Commit
from omnigraph.errors import RecoveryRequired, SchemaRefused, ValidationError, ensure
from omnigraph.evolution.migration import MigrationPlan
from omnigraph.evolution.plan import SchemaTarget, schema_plan
from omnigraph.evolution.rows import column_work, new_rule_violations, reasons_for_spark, write_all_columns
from omnigraph.failpoints import Point
from omnigraph.parts.engine import Engine
from omnigraph.storage.columns import stage_columns
from omnigraph.versioning import Branches, Pin, SchemaChange, Snapshot
from omnigraph.versioning.schemas import AcceptedSchema, accepted_schema
from omnigraph.write import StagedTable, WriteAttempt, table_staged, tables_to_write, write_staged
from omnigraph.write.attempt import NewSchema
from omnigraph.write.creation import created_table
from omnigraph.write.protocol import ReliedOn
from omnigraph.write.sidecar import pending_operations, read_sidecar


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


def apply_reasons(snapshot: Snapshot, target: SchemaTarget) -> Iterator[str]:
    """Why a change would run on Spark: because of the rows that it reads and writes."""
    plan = schema_plan(snapshot, target)
    return iter(()) if plan.refused else reasons_for_spark(snapshot, plan)


def apply_schema(attempt: WriteAttempt, branches: Branches, target: SchemaTarget, engine: Engine) -> SchemaApplyResult:
    """Gives a branch another schema. The caller holds the schema and all tables of the branch.

    What cannot be done is refused, and so are rows that a new rule does not allow; then nothing was written.
    """
    ensure(target.accepted is not None or attempt.branch == MAIN, "the schema of a graph changes on its main branch")
    _refuse_unsettled(attempt)
    current = branches.schemas.get(attempt.base.commit.schema_id)
    plan = schema_plan(attempt.base, target)
    if plan.refused:
        raise SchemaRefused(plan.refused)
    accepted = target.accepted or accepted_schema(current.number + 1, target.source.text, plan.catalog)
    is_same = target.accepted is None and plan.is_empty and accepted.text == current.text
    if is_same or accepted.id == current.id:
        return SchemaApplyResult(plan=plan, schema=current, commit=None)
    faults = new_rule_violations(attempt.base, plan, engine)
    if faults.total:
        raise ValidationError(faults.shown, faults.total)
    branches.schemas.keep(accepted)
    commit = _written(attempt, plan, accepted, engine)
    return SchemaApplyResult(plan=plan, schema=accepted, commit=commit)


def _refuse_unsettled(attempt: WriteAttempt) -> None:
    """Refuses where a writer died; its sidecar speaks of tables as they were called, and of rows as they were."""
    for operation_id in pending_operations(attempt.base.location):
        sidecar = read_sidecar(attempt.base.location, operation_id)
        if sidecar is not None and sidecar.branch == attempt.branch:
            key = sidecar.table_keys[0] if sidecar.tables else "the schema"
            raise RecoveryRequired(key, sidecar.manifest_version, operation_id)


def _written(attempt: WriteAttempt, plan: MigrationPlan, accepted: AcceptedSchema, engine: Engine) -> Commit:
    base = attempt.base
    before, after = base.catalog.by_identity, plan.catalog.by_identity
    created: dict[str, Pin] = {}
    for identity, entity in after.items():
        if identity not in before:
            created[entity.table_key] = created_table(base.location, entity, attempt.operation_id)
            failpoints.hit(Point.SCHEMA_TABLE_CREATED)
    work = column_work(base, plan)
    tables = tables_to_write(attempt, work)
    written = write_all_columns(tables, work, engine)
    parts = {}
    for key, table in tables.items():
        *first, last = stage_columns(table, work[key].layout, written[key], attempt.operation_id)
        parts[key] = StagedTable(table, last, before=tuple(first))
        table_staged(attempt)
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
