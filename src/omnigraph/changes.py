"""What differs between two snapshots of the graph, entity by entity.

Types and properties are matched by their identities, so a snapshot from before a change of the schema can be compared
with one from after it. A property that only one of them has is a difference of schemas, and not of any entity.
"""

import base64
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial

import pyarrow as pa

from omnigraph.api.history import Change, ChangeBlock, ChangeKind, Commit
from omnigraph.catalog import Catalog, EntityType
from omnigraph.catalog.conversion import continued_columns, kept_columns
from omnigraph.catalog.model import ID
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import ChangesGap, NotFound, UsageError
from omnigraph.storage.column_match import ColumnMatch
from omnigraph.storage.differences import difference_batches
from omnigraph.storage.tables import Table
from omnigraph.versioning import Manifest, ManifestLog, Snapshot


def diff_snapshots(left: Snapshot, right: Snapshot, types: Collection[str] | None = None) -> Iterator[Change]:
    """What leads from one snapshot to another; they may stand in any relation.

    Nodes come first, then edges, both in the order of the right catalog, and after them types that only the left one
    has. Of each type come the inserts, then the updates, then the deletes, each in the order in which the table holds
    its rows: the same two snapshots always give the same order. Some rows at a time are in memory. A table that both
    pin at the same version is not opened. `types` are named as in either catalog.
    """
    for pair in _differing_tables(left, right, types):
        yield from pair.changes()


@dataclass(frozen=True, slots=True)
class TypeSide:
    """A type as one of the snapshots has it, and its table there."""

    entity: EntityType
    table: Table


@dataclass(frozen=True, slots=True)
class TypePair:
    """One type in both snapshots; where it is not there it is None, and counts as empty."""

    name: str
    left: TypeSide | None
    right: TypeSide | None

    @property
    def match(self) -> ColumnMatch:
        """The columns to compare, of a type that is in both."""
        assert self.left is not None, "the type is in both"
        assert self.right is not None, "the type is in both"
        continued = continued_columns(self.left.entity, self.right.entity)
        return ColumnMatch(continued, kept=kept_columns(self.left.entity, self.right.entity))

    def changes(self) -> Iterator[Change]:
        if self.left is not None and self.right is not None:
            match = self.match
            shown = _shown_names(match.names, self.left.table.schema.names, self.right.table.schema.names)
            for batch in difference_batches(self.left.table, self.right.table, match):
                yield from self._each(ChangeKind.INSERT, None, batch.inserted)
                yield from self._each(ChangeKind.UPDATE, _rename_columns(batch.before, shown), batch.after)
                yield from self._each(ChangeKind.DELETE, _rename_columns(batch.deleted, shown), None)
        elif self.right is not None:
            for rows in self.right.table.batches():
                yield from self._each(ChangeKind.INSERT, None, rows)
        elif self.left is not None:
            for rows in self.left.table.batches():
                yield from self._each(ChangeKind.DELETE, rows, None)

    def _each(
        self, kind: ChangeKind, before: pa.Table | pa.RecordBatch | None, after: pa.Table | pa.RecordBatch | None
    ) -> Iterator[Change]:
        old = before.to_pylist() if before is not None else None
        new = after.to_pylist() if after is not None else None
        for position, row in enumerate(new if new is not None else old or []):
            yield Change(
                type=self.name,
                id=row[ID],
                kind=kind,
                before=old[position] if old is not None else None,
                after=new[position] if new is not None else None,
            )


def _shown_names(continued: Mapping[str, str], left: Collection[str], right: Collection[str]) -> dict[str, str]:
    """How the columns of the left table are shown; one that nothing continues is not, if its name is another's."""
    return {name: continued.get(name, name) for name in left if name in continued or name not in right}


def _rename_columns(rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    return rows.select([*names]).rename_columns([*names.values()])


def _differing_tables(left: Snapshot, right: Snapshot, types: Collection[str] | None) -> Iterator[TypePair]:
    """The tables that may differ, opened one after the other."""
    for mine, yours in _chosen_types(left.catalog, right.catalog, types):
        pair = _open_pair(left, right, mine, yours)
        if pair is not None:
            yield pair


def differing_type(left: Snapshot, right: Snapshot, identity: int) -> TypePair | None:
    """One type in two snapshots, by its identity; None if nothing of it differs."""
    mine, yours = (side.catalog.by_identity.get(identity) for side in (left, right))
    return None if mine is None and yours is None else _open_pair(left, right, mine, yours)


def _open_pair(left: Snapshot, right: Snapshot, mine: EntityType | None, yours: EntityType | None) -> TypePair | None:
    before, after = _pinned_type(left, mine), _pinned_type(right, yours)
    if (before and left.version(before.table_key)) == (after and right.version(after.table_key)):
        return None
    entity = yours or mine
    assert entity is not None, "a type is in one of the catalogs"
    return TypePair(
        entity.name,
        TypeSide(before, left.table(before.table_key)) if before is not None else None,
        TypeSide(after, right.table(after.table_key)) if after is not None else None,
    )


def _pinned_type(snapshot: Snapshot, entity: EntityType | None) -> EntityType | None:
    return entity if entity is not None and entity.table_key in snapshot.manifest.pins else None


def _chosen_types(
    left: Catalog, right: Catalog, types: Collection[str] | None
) -> list[tuple[EntityType | None, EntityType | None]]:
    """The types that were named, or all that either catalog has, as both have them; nodes first."""
    chosen = None if types is None else {identity for name in types for identity in _identities(left, right, name)}
    kinds: list[tuple[Mapping[str, EntityType], Mapping[str, EntityType]]] = [
        (left.nodes, right.nodes),
        (left.edges, right.edges),
    ]
    pairs = []
    for mine, yours in kinds:
        before = {each.identity: each for each in mine.values()}
        after = {each.identity: each for each in yours.values()}
        pairs += [
            (before.get(number), after.get(number))
            for number in dict.fromkeys([*after, *before])
            if chosen is None or number in chosen
        ]
    return pairs


def _identities(left: Catalog, right: Catalog, name: str) -> set[int]:
    """The types that have a name in one of the catalogs."""
    found = [entity for entity in (left.entity(name), right.entity(name)) if entity is not None]
    if not found:
        raise NotFound("type", name)
    return {entity.identity for entity in found}


def blocks_after(
    log: ManifestLog,
    snapshot: Callable[[Manifest], Snapshot],
    cursor: str | None,
    types: Collection[str] | None = None,
    also: Callable[[Snapshot, Snapshot], Iterator[Change]] = lambda _before, _after: iter(()),
) -> Iterator[ChangeBlock]:
    """The blocks of a branch after a cursor, or all of them: its own commits in order, each against the one before.

    With types, only what changed of these is in them. `also` gives other changes, which come last.
    """

    def changes(before: Manifest, after: Manifest) -> Iterator[Change]:
        try:
            sides = snapshot(before), snapshot(after)
            yield from diff_snapshots(*sides, types)
            yield from also(*sides)
        except NotFound as error:
            raise ChangesGap(log.branch, after.commit.manifest_version) from error

    oldest = log.first_version if log.origin is not None else log.first_version - 1
    version, ahead = (oldest, 0) if cursor is None else _position(cursor, log)
    head = log.head().version
    before = _read(log, version).before_last(ahead) if version >= log.first_version else None
    while version < head or ahead:
        if not ahead:
            version += 1
        try:
            manifest = _read(log, version)
        except ChangesGap:
            # Cleanup may have removed a version that published no commit.
            if any(each.manifest == version for each in log.commits_to(version)):
                raise
            continue
        for commit in manifest.own_commits[-ahead:]:
            after = manifest.before_last(commit.ahead)
            changed = partial(changes, before, after) if before is not None else partial(iter, ())
            yield ChangeBlock(commit, _cursor(log, commit), changed)
            before = after
        ahead = 0


def _read(log: ManifestLog, version: int) -> Manifest:
    try:
        return log.at(version)
    except NotFound as error:
        raise ChangesGap(log.branch, version) from error


def _cursor(log: ManifestLog, commit: Commit) -> str:
    state = {"branch": log.branch, "incarnation": log.incarnation, "version": commit.manifest}
    if commit.ahead:
        state["ahead"] = commit.ahead
    return base64.urlsafe_b64encode(json.dumps(state).encode()).decode().rstrip("=")


def _position(cursor: str, log: ManifestLog) -> tuple[int, int]:
    """The version that a cursor stands at, and how many commits of it come after the cursor.

    Refuses a cursor of another branch, or of one that had this name before.
    """
    try:
        state = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        branch, incarnation, version = state["branch"], state["incarnation"], int(state["version"])
        ahead = int(state.get("ahead", 0))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise UsageError(f"invalid cursor {cursor!r}") from error
    if branch != log.branch:
        raise UsageError(f"the cursor belongs to branch `{branch}`, not to `{log.branch}`")
    if incarnation != log.incarnation:
        raise UsageError(f"the cursor belongs to a deleted branch `{branch}`; start again without a cursor")
    return version, ahead
