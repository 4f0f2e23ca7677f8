"""Builds the indexes that a schema declares and a branch lacks, and says what each of them covers."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from omnigraph.api.history import Commit
from omnigraph.api.upkeep import IndexBuild, IndexState, IndexStatus
from omnigraph.catalog import EdgeType, EntityType, IndexIntent, index_intents
from omnigraph.catalog.indexes import FILTERS, IndexKind
from omnigraph.catalog.model import ID
from omnigraph.dataclass_later import dataclass
from omnigraph.maintenance.topology import TOPOLOGY, build_missing_topology, topology_status, why_topology_is_pending
from omnigraph.parts.choice import row_reasons
from omnigraph.parts.engine import Engine
from omnigraph.storage.carrying import TableAt
from omnigraph.storage.environment import count_setting
from omnigraph.storage.indexes import Coverage, index_coverage, pending_reason, stage_indexes, write_index
from omnigraph.storage.tables import Table
from omnigraph.versioning import Snapshot
from omnigraph.write import StagedTable, WriteAttempt, report_staged_table, write_staged
from omnigraph.write.protocol import tables_at_places

LARGE_TABLES = 50_000_000
INDEXED_EDGES = "OMNIGRAPH_INDEXED_EDGES"
_INDEXED_EDGES = 2**20
INDEXED_KEYS = "OMNIGRAPH_INDEXED_KEYS"
_INDEXED_KEYS = 2**17


@dataclass(frozen=True, slots=True)
class _Part:
    """An index that is to be written."""

    table_key: str
    table: TableAt
    intent: IndexIntent


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """How the indexes of one table change."""

    build: tuple[IndexIntent, ...]
    replaced: tuple[str, ...]
    """The names of the indexes to remove, as the table has them."""

    present: tuple[str, ...]
    pending: Mapping[str, str]


def build_missing_indexes(attempt: WriteAttempt, engine: Engine) -> IndexBuild:
    """Builds what is declared and serves no row yet, all in one commit; without any there is no commit.

    Indexes of topology need no commit. They are built meanwhile in a thread of their own, one after the other: the
    other indexes change no fragment, and most of them keep one core busy.
    """
    plans = {
        entity.table_key: _plan_indexes(entity, attempt.base.table(entity.table_key).plain)
        for entity in attempt.catalog.entities
    }
    building = {key: plan for key, plan in plans.items() if plan.build}
    edges = {edge.table_key: attempt.base.table(edge.table_key).plain for edge in attempt.catalog.edges.values()}
    late = {key: reason for key, table in edges.items() if (reason := why_topology_is_pending(table)) is not None}
    with ThreadPoolExecutor(1, "omnigraph-topology") as beside:
        topologies = {key: beside.submit(build_missing_topology, edges[key]) for key in edges if key not in late}
        commit = _commit_indexes(attempt, building, engine)
        with_topology = {key: each.result() for key, each in topologies.items()}
    built = {key: tuple(intent.name for intent in plan.build) for key, plan in building.items()}
    present = {key: plan.present for key, plan in plans.items() if plan.present}
    pending = {key: plan.pending for key, plan in plans.items() if plan.pending}
    for key, is_new in with_topology.items():
        listed = built if is_new else present
        listed[key] = (*listed.get(key, ()), TOPOLOGY)
    for key, reason in late.items():
        pending[key] = {**pending.get(key, {}), TOPOLOGY: reason}
    return IndexBuild(commit=commit, built=built, present=present, pending=pending)


def _commit_indexes(attempt: WriteAttempt, plans: Mapping[str, _Plan], engine: Engine) -> Commit | None:
    """Writes the indexes of these plans and commits them; None if there are no plans."""
    tables = tables_at_places(attempt, plans)
    parts = [
        _Part(key, TableAt(tables[key].location, tables[key].version), intent)
        for key, plan in plans.items()
        for intent in plan.build
    ]
    written = engine.run("indexing", _write_part, parts)
    staged: dict[str, StagedTable] = {}
    for key, table in tables.items():
        indexes = [index for part, index in zip(parts, written, strict=True) if part.table_key == key]
        change = stage_indexes(table, indexes, attempt.operation_id, replaced=plans[key].replaced)
        staged[key] = StagedTable(table, change, keeps_content=True)
        report_staged_table(attempt)
    return write_staged(attempt, staged) if staged else None


def why_pending(entity: EntityType, table: Table, intent: IndexIntent) -> str | None:
    """Why an index is not built now, or None when it is.

    Nobody declared the index on the ids of edges, nor that on the words of a key. On a disk, reading few of them takes
    milliseconds, and once they are used again they are in memory. An index that is there is kept up to date.
    """
    reason = pending_reason(table, intent)
    if reason is not None or table.location.path is None:
        return reason
    if isinstance(entity, EdgeType) and intent.column == ID:
        kind, enough = "edges", count_setting(INDEXED_EDGES, _INDEXED_EDGES)
    elif intent.kind is IndexKind.FULL_TEXT and intent.column not in entity.indexed_properties:
        kind, enough = "keys", count_setting(INDEXED_KEYS, _INDEXED_KEYS)
    else:
        return None
    count = table.count()
    if count < enough:
        return f"expected at least {enough:,} {kind}, found {count:,}; fewer are read without an index"
    return None


def index_statuses(snapshot: Snapshot) -> list[IndexStatus]:
    """All indexes of a graph, declared or there, by table."""
    entities = snapshot.catalog.entities
    return [status for each in entities for status in table_index_statuses(each, snapshot.table(each.table_key))]


def index_reasons(snapshot: Snapshot) -> Iterable[str]:
    """Reasons to build indexes on Spark: tables that one machine would sort for long."""
    rows = sum(snapshot.table(key).count() for key in snapshot.manifest.pins)
    return row_reasons(rows, LARGE_TABLES, "index")


def _write_part(part: _Part) -> Any:
    return write_index(part.table.open(), part.intent)


def _plan_indexes(entity: EntityType, table: Table) -> _Plan:
    intents = index_intents(entity)
    known = index_coverage(table)
    there = {intent for intent, coverage in known.items() if coverage.covered}
    missing = [intent for intent in intents if intent not in there]
    pending = {intent: reason for intent in missing if (reason := why_pending(entity, table, intent)) is not None}
    build = [intent for intent in missing if intent not in pending]
    # Conditions on a column are answered by one index: one that is not declared must not stand before one that is.
    ahead = {intent.column for intent in build if intent.kind in FILTERS}
    obsolete = {intent for intent in known if intent.column in ahead and intent not in intents}
    return _Plan(
        build=tuple(build),
        replaced=tuple(sorted(known[intent].name for intent in obsolete | known.keys() & build)),
        present=tuple(intent.name for intent in intents if intent in there),
        pending={intent.name: reason for intent, reason in pending.items()},
    )


def table_index_statuses(entity: EntityType, table: Table) -> Iterator[IndexStatus]:
    """The indexes of one table, declared or there. No index covers what is carried: it is one more fragment."""
    known = index_coverage(table)
    rows = table.count()
    intents = index_intents(entity)
    for intent in dict.fromkeys([*intents, *known]):
        coverage, reason = known.get(intent), None
        if intent in intents and (coverage is None or not coverage.covered):
            reason = why_pending(entity, table, intent)
        yield IndexStatus(
            table_key=entity.table_key,
            name=intent.name,
            column=intent.column,
            kind=intent.kind,
            state=_state(coverage, reason) if intent in intents else IndexState.UNDECLARED,
            rows=rows,
            reason=reason,
            **_coverage_fields(coverage),
        )
    if isinstance(entity, EdgeType):
        yield topology_status(entity, table)


def _coverage_fields(coverage: Coverage | None) -> dict[str, Any]:
    """How much of a table an index serves, as fields of its status."""
    if coverage is None:
        return {}
    return {
        "covered_rows": coverage.covered_rows,
        "segments": coverage.segments,
        "fragments": len(coverage.covered) + len(coverage.uncovered),
        "covered_fragments": len(coverage.covered),
    }


def _state(coverage: Coverage | None, reason: str | None) -> IndexState:
    if reason is not None:
        return IndexState.PENDING
    if coverage is None or not coverage.covered:
        return IndexState.MISSING
    return IndexState.PARTIAL if coverage.uncovered else IndexState.COMPLETE
