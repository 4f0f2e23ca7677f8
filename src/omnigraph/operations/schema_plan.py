"""Plans a change of the schema of a graph: what it takes, and how many rows each step is about."""

from functools import partial

from omnigraph.catalog import EntityType
from omnigraph.catalog.migration import MigrationPlan, migration_plan
from omnigraph.diagnostics import Source
from omnigraph.embedding import current_settings, with_models
from omnigraph.versioning import Snapshot


def schema_plan(snapshot: Snapshot, new: Source) -> MigrationPlan:
    """What leads from the schema of a snapshot to a new one; rows are those of the snapshot, and nothing is written.

    A vector that is new gets the model that a new graph would record for it.
    """
    catalog = snapshot.catalog
    plan = migration_plan(catalog, new, settled=partial(with_models, settings=current_settings()))
    touched = {step.identity for step in plan.steps}
    entities: list[EntityType] = [*catalog.nodes.values(), *catalog.edges.values()]
    return plan.with_rows(
        {each.identity: snapshot.table(each.table_key).count() for each in entities if each.identity in touched}
    )
