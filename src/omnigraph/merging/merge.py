"""Merges one branch into another: three-way, entity by entity, over all types, as one commit or not at all."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field, replace

from omnigraph.api.history import (
    Commit,
    ConflictKind,
    MergeConflict,
    MergeKind,
    MergeResult,
    SchemaStep,
    schema_number,
)
from omnigraph.api.queries import STORED_QUERY
from omnigraph.branching.finding import is_there
from omnigraph.catalog import NodeType
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import MergeConflicts, NotFound, SchemaBehind
from omnigraph.merging.queries import QueriesMerge, merge_queries
from omnigraph.merging.sides import TypeMerge, changes_between, dropped_type, types_of
from omnigraph.merging.three_way import Strategy, TableMerge, touched_ids
from omnigraph.queries.stored import broken_queries
from omnigraph.versioning import Branches, CommitGraph, MergedParent, Snapshot
from omnigraph.versioning.manifest import LoadedBatch
from omnigraph.versioning.query_sets import QueriesUpdate, QuerySet, query_set
from omnigraph.violations import Rule, Violation
from omnigraph.write import TableChange, WriteAttempt, write_changes
from omnigraph.write.change import Origins
from omnigraph.write.groups import SmallWrite, TooLargeToCarry
from omnigraph.write.protocol import small_publication
from omnigraph.write.row_checks import row_violations
from omnigraph.write.validate import SetChecks

_KINDS = {
    Rule.VALUE: ConflictKind.VALUE_CONSTRAINT_VIOLATION,
    Rule.ID: ConflictKind.DIVERGENT_INSERT,
    Rule.UNIQUE: ConflictKind.UNIQUE_VIOLATION,
    Rule.END: ConflictKind.ORPHAN_EDGE,
    Rule.CARDINALITY: ConflictKind.CARDINALITY_VIOLATION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOptions:
    """How a merge decides: who wins where both changed something, whether single properties are merged."""

    strategy: Strategy | None = None
    cells: bool = False
    dry_run: bool = False
    check_queries: Callable[[], None] = lambda: None
    """Raises if the merge may not change the stored queries."""


@dataclass(frozen=True, slots=True)
class _PlannedMerge:
    """What a merge would write, and the batches that it brings. Without a parent it writes nothing."""

    result: MergeResult
    changes: Mapping[str, TableChange] = field(default_factory=dict)
    parent: MergedParent | None = None
    batches: Mapping[str, LoadedBatch] = field(default_factory=dict)
    queries: QuerySet | None = None
    """The stored queries, if they are others."""

    def continue_attempt(self, attempt: WriteAttempt, branches: Branches) -> WriteAttempt:
        """The attempt that writes it."""
        update = None
        if self.queries is not None:
            branches.query_sets.keep(self.queries)
            update = QueriesUpdate(attempt.base.commit.queries_id, self.queries.id)
        return replace(attempt, merged_parent=self.parent, batches=self.batches, queries=update)


def merge(attempt: WriteAttempt, branches: Branches, source: str, options: MergeOptions) -> MergeResult:
    """Brings everything that a branch has, and the branch of the attempt has not, into the latter.

    All conflicts are found in one pass and raised together; nothing is written then. A merge that is only tried gives
    them as part of its result. If they have an older schema, what they did is brought to ours; a newer one is refused.
    """
    planned = _plan_merge(attempt, branches, source, options)
    if planned.parent is None:
        return planned.result
    attempt = planned.continue_attempt(attempt, branches)
    commit = write_changes(attempt, planned.changes, unchanged=planned.changes)
    return replace(planned.result, commit=commit)


def decide_merge(
    attempt: WriteAttempt, branches: Branches, source: str, options: MergeOptions
) -> SmallWrite[MergeResult]:
    """The same merge, to be published with other small writes; `TooLargeToCarry` if it is not one."""
    planned = _plan_merge(attempt, branches, source, options, only_carried=True)
    if planned.parent is None:
        return SmallWrite(None, lambda _: planned.result)
    attempt = planned.continue_attempt(attempt, branches)
    publication = small_publication(attempt, planned.changes, unchanged=planned.changes)
    if publication is None:
        raise TooLargeToCarry
    return SmallWrite(publication, lambda commit: replace(planned.result, commit=commit))


def _plan_merge(
    attempt: WriteAttempt, branches: Branches, source: str, options: MergeOptions, *, only_carried: bool = False
) -> _PlannedMerge:
    """Decides a merge; with `only_carried`, one whose sides differ in carried rows alone, or `TooLargeToCarry`."""
    ours = attempt.base
    theirs = branches.snapshot(branches.log(source).head(), ours.opened)
    graph = CommitGraph(branches, [*ours.manifest.commits, *theirs.manifest.commits])
    if graph.is_ancestor(theirs.commit, ours.commit):
        return _PlannedMerge(MergeResult(kind=MergeKind.ALREADY_UP_TO_DATE, merged_commit_id=theirs.commit_id))
    if _schema(theirs) > _schema(ours):
        raise SchemaBehind(attempt.branch, _schema(ours), source, _schema(theirs))
    if only_carried and _places(ours) != _places(theirs):
        raise TooLargeToCarry
    ground = _common_ground(graph, branches, ours, theirs)
    if only_carried and (ground.doubts or _places(ours) != _places(ground.base)):
        raise TooLargeToCarry
    merges = _merge_tables(ours, theirs, ground, options)
    changes = {key: each.change for key, each in merges.items()}
    diverged = [conflict for each in merges.values() for conflict in each.conflicts]
    diverged += _dropped_types(ours, theirs, ground.base, options)
    stored = _merge_stored(branches, ours, theirs, ground, options)
    diverged += stored.conflicts
    counts = {each.entity.name: _counts(each) for each in merges.values() if not each.change.is_empty}
    result = MergeResult(
        kind=MergeKind.FAST_FORWARD if ground.base.commit_id == ours.commit_id else MergeKind.MERGED,
        merged_commit_id=theirs.commit_id,
        changes={**counts, STORED_QUERY: stored.counts} if stored.touched else counts,
        conflicts=(*diverged, *_broken_rules(ours, changes, diverged)),
        schema=SchemaStep(_schema(theirs), _schema(ours)) if _schema(theirs) != _schema(ours) else None,
    )
    if options.dry_run:
        return _PlannedMerge(result)
    if result.conflicts:
        raise MergeConflicts(source, attempt.branch, result.conflicts)
    parent = MergedParent(theirs.commit_id, theirs.commit.place, theirs.commit.generation)
    queries = None
    if stored.touched:
        options.check_queries()
        queries = query_set(stored.texts)
    return _PlannedMerge(result, changes, parent, theirs.manifest.batches, queries)


def _places(snapshot: Snapshot) -> tuple[str, Mapping[str, tuple[str, int]]]:
    """The schema of a state, and where its tables are, without what is carried for them."""
    return snapshot.commit.schema_id, {key: (pin.path, pin.version) for key, pin in snapshot.manifest.pins.items()}


def _schema(snapshot: Snapshot) -> int:
    return schema_number(snapshot.commit.schema_id)


# --- what both sides began with ---


@dataclass(frozen=True, slots=True)
class _CommonGround:
    """The base of a merge, and pairs of states whose differences say where the base tells nothing.

    After a criss-cross there are several bases, and where they differ none of them is right. Where a base was on a
    branch that was deleted, an older one stands in for it, and what came from that branch is not what it seems.
    """

    base: Snapshot
    doubts: tuple[tuple[Snapshot, Snapshot], ...]

    def disputed_ids(self, identity: int) -> frozenset[str]:
        """The entities of a type of which it is not known what both sides began with."""
        return frozenset(each for pair in self.doubts for each in _different_ids(*pair, identity))


def _different_ids(left: Snapshot, right: Snapshot, identity: int) -> Collection[str]:
    older, newer = (types_of(each).get(identity) for each in sorted((left, right), key=_schema))
    if older is not None and newer is not None:
        found = changes_between(older, newer)
        return frozenset() if found is None else touched_ids(found)
    # A type that goes or comes between two states is all that is different about it.
    ids: list[str] = [] if newer is None else newer.table.scan([ID])[ID].to_pylist()
    return ids


def _common_ground(graph: CommitGraph, branches: Branches, ours: Snapshot, theirs: Snapshot) -> _CommonGround:
    found: dict[str, Snapshot] = {}
    lost: list[Commit] = []
    waiting = graph.merge_bases(ours.commit, theirs.commit)
    while waiting:
        commit = waiting.pop()
        snapshot = ours if commit == ours.commit else _snapshot(branches, commit, ours)
        if snapshot is not None:
            found[commit.graph_commit_id] = snapshot
        else:
            lost.append(commit)
            waiting += graph.parents(commit)
    base, *others = sorted(found.values(), key=lambda each: (-each.commit.generation, each.commit_id))
    doubts = [(base, other) for other in others]
    if lost:
        since = min(each.generation for each in lost)
        doubts += [pair for head in (ours, theirs) for pair in _brought_in(graph, branches, head, since)]
    return _CommonGround(base, tuple(doubts))


def _brought_in(
    graph: CommitGraph, branches: Branches, head: Snapshot, since: int
) -> Iterator[tuple[Snapshot, Snapshot]]:
    """The states before and after each merge of a branch that is gone."""
    for commit in graph.reachable(head.commit):
        if commit.generation <= since:
            return
        if commit.merged_place is None or is_there(branches, commit.merged_place):
            continue
        before = _snapshot(branches, graph.parents(commit)[0], head)
        after = _snapshot(branches, commit, head)
        if before is not None and after is not None:
            yield before, after


def _snapshot(branches: Branches, commit: Commit, beside: Snapshot) -> Snapshot | None:
    """The graph at a commit, with the tables that another state has open; None when its branch was deleted."""
    try:
        return branches.snapshot(branches.manifest_at(commit.place), beside.opened)
    except NotFound:
        return None


# --- the tables ---


def _merge_tables(
    ours: Snapshot, theirs: Snapshot, ground: _CommonGround, options: MergeOptions
) -> dict[str, TableMerge]:
    """The merge of every type that they changed; tables that both pin at the same version are not opened."""
    base, yours = types_of(ground.base), types_of(theirs)
    merges = {}
    for identity, mine in types_of(ours).items():
        if identity not in yours:
            continue
        merged = TypeMerge(
            base=base.get(identity),
            ours=mine,
            theirs=yours[identity],
            disputed=ground.disputed_ids(identity),
            cells=options.cells,
            strategy=options.strategy,
        ).merge()
        if merged is not None:
            merges[mine.entity.table_key] = merged
    return merges


def _dropped_types(ours: Snapshot, theirs: Snapshot, base: Snapshot, options: MergeOptions) -> list[MergeConflict]:
    """What they did to types that we do not have any more."""
    if options.strategy == "ours":
        return []
    kept, before = types_of(ours), types_of(base)
    dropped = (each for identity, each in types_of(theirs).items() if identity not in kept)
    found = (dropped_type(before.get(each.entity.identity), each) for each in dropped)
    return [conflict for conflict in found if conflict is not None]


def _merge_stored(
    branches: Branches, ours: Snapshot, theirs: Snapshot, ground: _CommonGround, options: MergeOptions
) -> QueriesMerge:
    """The merge of the stored queries. One that does not fit our schema is in conflict with it."""

    def texts(snapshot: Snapshot) -> Mapping[str, str]:
        return branches.query_sets.get(snapshot.commit.queries_id).texts

    disputed = {
        name
        for left, right in ground.doubts
        for name in {*texts(left), *texts(right)}
        if texts(left).get(name) != texts(right).get(name)
    }
    merged = merge_queries(texts(ground.base), texts(ours), texts(theirs), disputed=disputed, strategy=options.strategy)
    kept = [name for name in merged.touched if name in merged.texts]
    broken = tuple(
        MergeConflict(
            ConflictKind.VALUE_CONSTRAINT_VIOLATION,
            STORED_QUERY,
            each.name,
            "source",
            theirs=f"line {each.line}: {each.message}",
        )
        for each in (broken_queries(merged.texts, ours.catalog, kept) if kept else ())
    )
    return replace(merged, conflicts=(*merged.conflicts, *broken))


def _counts(merged: TableMerge) -> dict[str, int]:
    inserted = len(merged.new)
    return {"inserted": inserted, "updated": merged.rows.num_rows - inserted, "deleted": len(merged.deleted)}


# --- what is wrong with the merged graph ---


def _broken_rules(
    ours: Snapshot, changes: Mapping[str, TableChange], diverged: Collection[MergeConflict]
) -> Iterator[MergeConflict]:
    """Everything that the schema does not allow in the merged graph.

    An orphaned edge that is in conflict itself, or at a node in conflict, is left out: resolving that resolves it too.
    """
    open_questions = {(each.type, each.id) for each in diverged}
    touched = {key: change for key, change in changes.items() if not change.is_empty}
    for change in touched.values():
        named = replace(change, origins=Origins(ids=change.row_ids))
        yield from (_conflict(violation) for violation in row_violations(named))
    orphans = [*_edges_without_ends(ours, touched)]
    for violation in SetChecks(touched, ours).violations():
        if violation.rule is Rule.END:
            orphans.append(_new_orphan(ours, touched, violation))
        else:
            yield _conflict(violation)
    for orphan in orphans:
        edge = ours.catalog.edges[orphan.type]
        node = edge.source if orphan.property == SOURCE else edge.destination
        end = orphan.ours if orphan.ours is not None else orphan.theirs
        if not {(orphan.type, orphan.id), (node, end)} & open_questions:
            yield orphan


def _conflict(violation: Violation) -> MergeConflict:
    return MergeConflict(
        _KINDS[violation.rule], violation.type, violation.id or "", violation.property, theirs=violation.problem
    )


def _new_orphan(ours: Snapshot, changes: Mapping[str, TableChange], violation: Violation) -> MergeConflict:
    """Their edge at a node that we deleted."""
    rows = changes[ours.catalog.edges[violation.type].table_key].rows
    row = rows.filter(pc.equal(rows[ID], violation.id))
    end = row[violation.property][0].as_py()
    return MergeConflict(ConflictKind.ORPHAN_EDGE, violation.type, violation.id or "", violation.property, theirs=end)


def _edges_without_ends(ours: Snapshot, changes: Mapping[str, TableChange]) -> Iterator[MergeConflict]:
    """Our edges at nodes that they deleted. A delete takes the edges of its own branch along, and none of ours."""
    for nodes in changes.values():
        if not isinstance(nodes.entity, NodeType) or not len(nodes.deleted):
            continue
        for edge in ours.catalog.edges_touching(nodes.entity.name):
            own = changes.get(edge.table_key)
            for column, name in ((SOURCE, edge.source), (DESTINATION, edge.destination)):
                if name != nodes.entity.name:
                    continue
                ends = {column: nodes.deleted.to_pylist()}
                found = ours.scan_ends(edge.table_key, columns=[ID, column], ends=ends)
                if own is not None:
                    found = found.filter(pc.invert(pc.is_in(found[ID], value_set=own.touched_ids)))
                for id, end in zip(found[ID].to_pylist(), found[column].to_pylist(), strict=True):
                    yield MergeConflict(ConflictKind.ORPHAN_EDGE, edge.name, id, column, ours=end)
