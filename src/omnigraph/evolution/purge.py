"""Removes what a schema has dropped from the history too: old versions of its tables, and what only they refer to.

Only old commits of `main` may need it; that is checked before anything is written. The table of a type that was
dropped goes whole. One that has lost properties stays at its newest version, whose files were rewritten without them
before. A process that is killed in the middle leaves a sound graph with more history than was asked for; cleanup
removes the rest.
"""

from collections.abc import Collection
from contextlib import suppress

from omnigraph import failpoints
from omnigraph.api.base import MAIN
from omnigraph.catalog import EntityType
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import DataStillNeeded, NotFound, StorageError, ensure
from omnigraph.evolution.migration import MigrationPlan
from omnigraph.failpoints import Point
from omnigraph.maintenance.table_files import (
    check_pinned,
    settled_files,
    staying_versions,
    unfinished_writes,
    versions_to_keep,
    writers_of,
)
from omnigraph.parts.scratch import left_behind, remove_left_behind
from omnigraph.storage.compaction import fragments_with_dropped_columns
from omnigraph.storage.durability import sync_everything
from omnigraph.storage.files import delete_files, store_time
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.reclaim import reclaimable
from omnigraph.versioning import Branches, Manifest, Snapshot
from omnigraph.versioning.removal import missing_version
from omnigraph.versioning.tags import tags
from omnigraph.write.forks import table_root
from omnigraph.write.retention import oldest_marked_writer


@dataclass(frozen=True, slots=True)
class Doomed:
    """The tables whose history goes, by their keys with where they lie: whole, or but for the newest version.

    Those in `whole` have the keys that they had, those in `reduced` the keys that they have once the schema is there.
    """

    whole: dict[str, str]
    reduced: dict[str, str]

    @property
    def roots(self) -> frozenset[str]:
        return frozenset([*self.whole.values(), *self.reduced.values()])

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(sorted([*self.whole, *self.reduced]))


NOTHING = Doomed({}, {})


def doomed_tables(base: Snapshot, plan: MigrationPlan) -> Doomed:
    """The tables of which a plan drops something; of one that is refused, none."""
    if plan.refused:
        return NOTHING
    staying = {each.identity: each for each in plan.catalog.entities}
    whole, reduced = {}, {}
    for entity in base.catalog.entities:
        root = table_root(base.manifest.pins[entity.table_key].path)
        successor = staying.get(entity.identity)
        if successor is None:
            whole[entity.table_key] = root
        elif _properties(entity) - _properties(successor):
            reduced[successor.table_key] = root
    return Doomed(whole, reduced)


def check_not_needed(branches: Branches, doomed: Doomed) -> None:
    """Raises when another branch, or a tag, has what would go.

    The caller holds the history, so it stays true, but for branches that begin at the head.
    """
    if not doomed.roots:
        return
    graph = branches.graph
    needing = []
    for log in branches.logs():
        with suppress(NotFound), log.noticing_deletion():
            if log.branch != MAIN and _has(graph, log.head(), doomed.roots):
                needing.append(log.branch)
    named = [tag.name for tag in tags(graph) if _has(graph, branches.manifest_at(tag.place), doomed.roots)]
    if needing or named:
        raise DataStillNeeded(needing, named)


def purge(branches: Branches, doomed: Doomed) -> None:
    """Removes the history of tables. The caller holds the history; `main` has no dropped values in its files any more.

    Readers of what is removed fail. Files of running writers that nothing refers to yet stay.
    """
    failpoints.hit(Point.SCHEMA_BEFORE_PURGE)
    if branches.graph.path is not None:
        # What is to stay must survive a power cut that comes after the end of what was there before.
        sync_everything()
    pinned = {table_root(pin.path) for pin in branches.main.head().pins.values()}
    for root in doomed.whole.values():
        ensure(root not in pinned, f"only tables of dropped types are deleted, and the graph pins {root}")
        objects_at(branches.graph).delete_folder(root)
        failpoints.hit(Point.SCHEMA_TABLE_PURGED)
    for key, root in doomed.reduced.items():
        _purge_table(branches, key, root)
        failpoints.hit(Point.SCHEMA_TABLE_PURGED)
    graph = branches.graph
    remove_left_behind(graph, left_behind(graph, store_time(graph)))


def _purge_table(branches: Branches, key: str, root: str) -> None:
    """Leaves a table with the version that `main` has, and what unfinished writes need."""
    graph = branches.graph
    location = graph.child(root)
    sidecars = [*unfinished_writes(graph)]
    # What comes after this version stays too, so it is looked up before the files are listed.
    head = branches.snapshot(branches.main.head())
    if fragments_with_dropped_columns(head.table(key)):
        raise StorageError(location.uri, "its files still have values of dropped properties")
    needed = versions_to_keep([head.manifest], sidecars)[root]
    # The marks of dead writers go first: their files are unused, and have dropped values.
    oldest_marked_writer(graph)
    writers = writers_of(root, {MAIN: head.manifest}, sidecars)
    files = settled_files(graph, branches, root, writers, known=branches.names())
    check_pinned(branches, root, files.there, needed)
    kept = {line: needed.of_line(line) for line in needed.lines}
    staying = staying_versions(location, files.there, kept)
    found = reclaimable(location, files.there, staying, writers=files.writers)
    delete_files(location, [file.name for file in found.versions])
    delete_files(location, [file.name for file in found.files])
    if files.forks.left:
        raise StorageError(location.uri, "; ".join(files.forks.left))


def _properties(entity: EntityType) -> set[int]:
    return {each.identity for each in entity.properties.values()}


def _has(graph: Location, manifest: Manifest, roots: Collection[str]) -> bool:
    """Whether a manifest pins a version of one of the tables that was not removed; a damaged one counts."""
    return any(
        not isinstance(missing_version(graph, manifest, key), NotFound)
        for key, pin in manifest.pins.items()
        if table_root(pin.path) in roots
    )
