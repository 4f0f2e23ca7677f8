"""Plans a change of the schema of a graph: what it takes, and how many rows each step is about."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from omnigraph.api.base import MAIN
from omnigraph.diagnostics import Source
from omnigraph.embedding import current_settings, with_models
from omnigraph.evolution.migration import MigrationPlan, migration_plan, plan_between
from omnigraph.source_files import schema_text
from omnigraph.versioning import Branches, Snapshot
from omnigraph.versioning.schemas import AcceptedSchema


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
        plan = migration_plan(catalog, target.source, settled=partial(with_models, settings=current_settings()))
    touched = {step.identity for step in plan.steps} & catalog.by_identity.keys()
    return plan.with_rows(
        {identity: snapshot.table(catalog.by_identity[identity].table_key).count() for identity in touched}
    )
