"""Why a version that a commit pins does not exist: it was removed on purpose, or its file is damaged.

Three operations remove versions on purpose: cleanup, which first records what it keeps; the deletion of a branch; and a
schema change of `main` that removes dropped data from the history. Anything else is damage.
"""

from omnigraph.api.base import MAIN
from omnigraph.api.history import schema_number
from omnigraph.errors import Damaged, NotFound, OmnigraphError
from omnigraph.storage.branches import branch_refs
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.tables import check_version, listed_versions, version_file
from omnigraph.versioning.heads import read_retained
from omnigraph.versioning.log import open_main
from omnigraph.versioning.manifest import Manifest
from omnigraph.versioning.names import physical_name
from omnigraph.versioning.schemas import Schemas

REMOVED = "its data was removed by a schema change that dropped it, or by cleanup"


def missing_version(graph: Location, manifest: Manifest, table_key: str) -> OmnigraphError | None:
    """Why the version of a table that a manifest pins cannot be read; None if its file exists and is complete.

    `NotFound` if it was removed on purpose, otherwise `Damaged`.
    """
    pin = manifest.pins[table_key]
    location = graph.child(pin.path)
    try:
        check_version(location, pin.version)
    except Damaged as error:
        is_there = objects_at(location).exists(version_file(pin.version))
        if not is_there and was_removed(graph, manifest, table_key):
            return NotFound("table", table_key, REMOVED)
        return error
    return None


def was_removed(graph: Location, manifest: Manifest, table_key: str) -> bool:
    """Whether a version that a manifest pins, and whose file does not exist, was removed on purpose."""
    commit = manifest.commit
    name = physical_name(commit.branch)
    if not read_retained(graph, name, commit.incarnation).has(commit.manifest):
        return True
    if commit.branch != MAIN:
        ref = open_main(graph).refs.get(name)
        return ref is None or ref.incarnation != commit.incarnation
    return _may_be_dropped(graph, manifest, table_key)


def _may_be_dropped(graph: Location, manifest: Manifest, table_key: str) -> bool:
    """Whether a schema dropped data of a type, and no version of its table as old as the pinned one is left.

    Such a change keeps only the version of `main` whose files no longer have the dropped data, which may be some
    commits after the change, and the versions at which forks began.
    """
    pin = manifest.pins[table_key]
    if pin in open_main(graph).head().pins.values():
        return False
    root = graph.child(pin.path)
    began = {ref.parent_version for ref in branch_refs(root)}
    if any(version < pin.version for version in listed_versions(root) if version not in began):
        return False
    schemas = Schemas(graph)
    number = schema_number(manifest.commit.schema_id)
    catalog = schemas.get(manifest.commit.schema_id).catalog
    identity = next(each.identity for each in catalog.entities if each.table_key == table_key)
    had: set[int] = set()
    for schema_id in schemas.ids_from(number - 1):
        found = {each.identity: each for each in schemas.get(schema_id).catalog.entities}
        if identity not in found:
            if schema_number(schema_id) > number:
                return True
            continue
        has = {each.identity for each in found[identity].properties.values()}
        if had - has:
            return True
        had |= has
    return False
