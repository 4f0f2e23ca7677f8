"""Why a version that a commit pins is not there: it was removed on purpose, or its file is damaged.

Three things remove versions on purpose: cleanup, which writes down before what it leaves; the end of a branch; and a
change of the schema of `main` that removes what it drops from the history. Anything else is damage.
"""

from omnigraph.errors import Damaged, NotFound, OmnigraphError
from omnigraph.storage import Location, branch_ref, branch_refs, check_version, objects_at, version_numbers
from omnigraph.storage.tables import version_file
from omnigraph.versioning.manifest import MAIN, Manifest
from omnigraph.versioning.names import physical_name
from omnigraph.versioning.retained import read_retained
from omnigraph.versioning.schemas import Schemas, schema_number

REMOVED = "its data was removed, with what a schema change dropped, or by cleanup"
_MANIFESTS = "__manifest"


def missing_version(graph: Location, manifest: Manifest, table_key: str) -> OmnigraphError | None:
    """Why the version of a table that a manifest pins cannot be read; None if its file is there and has its end.

    `NotFound` if it was removed on purpose, `Damaged` if not.
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
    """Whether a version that a manifest pins, and whose file is not there, was removed on purpose."""
    commit = manifest.commit
    name = physical_name(commit.branch)
    if not read_retained(graph, name, commit.incarnation).has(commit.manifest_version):
        return True
    if commit.branch != MAIN:
        ref = branch_ref(graph.child(_MANIFESTS), name)
        return ref is None or ref.identity != commit.incarnation
    return _may_be_dropped(graph, manifest, table_key)


def _may_be_dropped(graph: Location, manifest: Manifest, table_key: str) -> bool:
    """Whether a later schema dropped something of a type, and no version of its table as old as the pinned one is left.

    Versions that forks began on stay whatever is dropped.
    """
    pin = manifest.pins[table_key]
    root = graph.child(pin.path)
    began = {ref.parent_version for ref in branch_refs(root)}
    if any(version < pin.version for version in version_numbers(root) if version not in began):
        return False
    schemas = Schemas(graph)
    commit = manifest.commit
    entity = next(each for each in schemas.get(commit.schema_id).catalog.entities if each.table_key == table_key)
    had = {each.identity for each in entity.properties.values()}
    for schema_id in schemas.ids_from(schema_number(commit.schema_id)):
        found = {each.identity: each for each in schemas.get(schema_id).catalog.entities}
        if entity.identity not in found:
            return True
        has = {each.identity for each in found[entity.identity].properties.values()}
        if had - has:
            return True
        had |= has
    return False
