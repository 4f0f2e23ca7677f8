"""Merges one branch into another: three-way, entity by entity, over all types, as one commit or not at all."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import EdgeType, EntityType, NodeType
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.errors import MergeConflicts, NotFound, Rule, Violation
from omnigraph.operations.three_way import ConflictKind, MergeConflict, Strategy, TableMerge, merged_table
from omnigraph.storage import Differences, among, differing_rows
from omnigraph.versioning import Branches, Commit, CommitGraph, MergedParent, Snapshot
from omnigraph.write import TableChange, WriteAttempt, write_changes
from omnigraph.write.row_checks import row_violations
from omnigraph.write.set_checks import SetChecks

_KINDS = {
    Rule.VALUE: ConflictKind.VALUE_CONSTRAINT_VIOLATION,
    Rule.ID: ConflictKind.DIVERGENT_INSERT,
    Rule.UNIQUE: ConflictKind.UNIQUE_VIOLATION,
    Rule.END: ConflictKind.ORPHAN_EDGE,
    Rule.CARDINALITY: ConflictKind.CARDINALITY_VIOLATION,
}


class MergeKind(StrEnum):
    """What a merge turned out to be."""

    ALREADY_UP_TO_DATE = "AlreadyUpToDate"
    FAST_FORWARD = "FastForward"
    MERGED = "Merged"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """What a merge did, or would do. There is no commit when nothing was to be merged, or when it was only tried."""

    kind: MergeKind
    commit: Commit | None = None
    changes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    conflicts: tuple[MergeConflict, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The result as scripts read it."""
        return {
            "kind": self.kind.value,
            "commit": self.commit.as_json() if self.commit else None,
            "changes": {name: dict(counts) for name, counts in self.changes.items()},
            "conflicts": [conflict.as_json() for conflict in self.conflicts],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOptions:
    """How a merge decides: who wins where both changed something, whether single properties are merged."""

    strategy: Strategy | None = None
    cells: bool = False
    dry_run: bool = False


def merge(attempt: WriteAttempt, branches: Branches, source: str, options: MergeOptions) -> MergeResult:
    """Brings everything that a branch has, and the branch of the attempt has not, into the latter.

    All conflicts are found in one pass and raised together; nothing is written then. A merge that is only tried gives
    them as part of its result.
    """
    theirs = Snapshot(attempt.base.location, attempt.catalog, branches.log(source).head())
    graph = CommitGraph(branches)
    if graph.is_ancestor(theirs.commit, attempt.base.commit):
        return MergeResult(kind=MergeKind.ALREADY_UP_TO_DATE)
    bases = _readable(graph, branches, graph.merge_bases(attempt.base.commit, theirs.commit), attempt.base)
    ahead = [base.commit_id for base in bases] == [attempt.base.commit_id]
    kind = MergeKind.FAST_FORWARD if ahead else MergeKind.MERGED
    merges = _merged_tables(attempt.base, theirs, bases, options)
    changes = {key: each.change for key, each in merges.items()}
    conflicts = (
        *(each for table in merges.values() for each in table.conflicts),
        *_broken_rules(attempt.base, changes),
    )
    counts = {each.entity.name: _counts(each) for each in merges.values() if not each.change.is_empty}
    if options.dry_run:
        return MergeResult(kind=kind, changes=counts, conflicts=conflicts)
    if conflicts:
        raise MergeConflicts(source, attempt.branch, conflicts)
    parent = MergedParent(theirs.commit_id, theirs.commit.place, theirs.commit.generation)
    commit = write_changes(replace(attempt, merged_parent=parent), changes)
    return MergeResult(kind=kind, commit=commit, changes=counts)


def _readable(graph: CommitGraph, branches: Branches, bases: Collection[Commit], like: Snapshot) -> list[Snapshot]:
    """The bases that can still be read; in place of one whose branch was deleted, its own parents."""
    found: dict[str, Snapshot] = {}
    waiting = [*bases]
    while waiting:
        base = waiting.pop()
        try:
            found[base.graph_commit_id] = Snapshot(like.location, like.catalog, branches.manifest_at(base.place))
        except NotFound:
            waiting += graph.parents(base)
    return sorted(found.values(), key=lambda each: (-each.commit.generation, each.commit_id))


def _merged_tables(
    ours: Snapshot, theirs: Snapshot, bases: list[Snapshot], options: MergeOptions
) -> dict[str, TableMerge]:
    """The merge of every type that they changed; tables that both pin at the same version are not opened."""
    base, others = bases[0], bases[1:]
    entities: list[EntityType] = [*ours.catalog.nodes.values(), *ours.catalog.edges.values()]
    merges = {}
    for entity in entities:
        key = entity.table_key
        yours = _differences(base, theirs, key)
        if yours is None and all(_differences(base, other, key) is None for other in others):
            continue
        nothing = differing_rows(base.table(key), base.table(key))
        merges[key] = merged_table(
            entity,
            _differences(base, ours, key) or nothing,
            yours or nothing,
            cells=options.cells,
            strategy=options.strategy,
            disputed=_disputed(base, others, key),
        )
    return merges


def _differences(left: Snapshot, right: Snapshot, key: str) -> Differences | None:
    if left.version(key) == right.version(key):
        return None
    return differing_rows(left.table(key), right.table(key))


def _disputed(base: Snapshot, others: list[Snapshot], key: str) -> frozenset[str]:
    """The entities that are not the same in all bases."""
    found = [each for other in others if (each := _differences(base, other, key)) is not None]
    parts = [part for each in found for part in (each.inserted, each.deleted, each.before)]
    return frozenset(identity for part in parts for identity in part[ID].to_pylist())


def _counts(merged: TableMerge) -> dict[str, int]:
    inserted = len(merged.new)
    return {"inserted": inserted, "updated": merged.rows.num_rows - inserted, "deleted": len(merged.deleted)}


# --- what is wrong with the merged graph ---


def _broken_rules(ours: Snapshot, changes: Mapping[str, TableChange]) -> Iterator[MergeConflict]:
    """Everything that the schema does not allow in the merged graph."""
    touched = {key: change for key, change in changes.items() if not change.is_empty}
    for change in touched.values():
        yield from (_conflict(violation) for violation in row_violations(change))
    yield from (_conflict(violation) for violation in SetChecks(touched, ours).violations())
    yield from _edges_without_ends(ours, touched)


def _conflict(violation: Violation) -> MergeConflict:
    return MergeConflict(
        _KINDS[violation.rule], violation.type, violation.id or "", violation.property, theirs=violation.problem
    )


def _edges_without_ends(ours: Snapshot, changes: Mapping[str, TableChange]) -> Iterator[MergeConflict]:
    """Our edges at nodes that they deleted. A delete takes the edges of its own branch along, and none of ours."""
    for change in changes.values():
        if not isinstance(change.entity, NodeType) or not len(change.deleted):
            continue
        for edge in ours.catalog.edges_touching(change.entity.name):
            yield from _edges_at(ours, changes, edge, change)


def _edges_at(
    ours: Snapshot, changes: Mapping[str, TableChange], edge: EdgeType, nodes: TableChange
) -> Iterator[MergeConflict]:
    own = changes.get(edge.table_key)
    for column, name in ((SOURCE, edge.source), (DESTINATION, edge.destination)):
        if name != nodes.entity.name:
            continue
        found = ours.table(edge.table_key).scan([ID, column], among(column, nodes.deleted.to_pylist()))
        if own is not None:
            found = found.filter(pc.invert(pc.is_in(found[ID], value_set=own.touched)))
        yield from _orphans(edge, column, found)


def _orphans(edge: EdgeType, column: str, found: pa.Table) -> Iterator[MergeConflict]:
    for identity, end in zip(found[ID].to_pylist(), found[column].to_pylist(), strict=True):
        yield MergeConflict(ConflictKind.ORPHAN_EDGE, edge.name, identity, column, base=end, ours=end, theirs=None)
