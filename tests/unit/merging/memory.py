"""Graphs in memory, as far as a merge looks at them: tables of Arrow, snapshots, and a history of commits."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.api.history import Commit, MergeResult, Place
from omnigraph.api.values import same_value
from omnigraph.catalog import Catalog, compile_schema, table_schema
from omnigraph.diagnostics import Source
from omnigraph.errors import NotFound
from omnigraph.evolution.migration import migration_plan
from omnigraph.merging.merge import MergeOptions, merge
from omnigraph.storage.column_match import ColumnMatch
from omnigraph.storage.differences import DifferenceCounts, Differences
from omnigraph.storage.topology import ends_filter
from omnigraph.versioning import Branches
from omnigraph.versioning.query_sets import NO_QUERIES
from omnigraph.write import WriteAttempt
from tests.unit.versioning.test_commit_graph import Histories, Parents

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
"""The rows of a graph by the names of their types."""


@dataclass(frozen=True)
class MemoryTable:
    """The reading half of a table."""

    rows: pa.Table

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    def count(self) -> int:
        return len(self.rows)

    def scan(self, columns: Sequence[str] | None = None, filter: str | None = None) -> pa.Table:
        found = self.rows
        if filter is not None:
            stored = found.append_column("@row", pa.array(range(len(found)), pa.int64()))
            condition = filter.replace("`", '"')
            query = f'SELECT "@row" FROM stored WHERE {condition} ORDER BY 1'
            with duckdb.connect() as connection:
                connection.register("stored", stored)
                found = found.take(connection.sql(query).to_arrow_table()["@row"])
        return found if columns is None else found.select(list(columns))

    def rows_with_ids(self, ids: pa.Array, columns: Sequence[str] = ("id",)) -> pa.Table:
        return self.rows.filter(pc.is_in(self.rows["id"], value_set=ids)).select(list(columns))


@dataclass(frozen=True)
class MemorySnapshot:
    """A graph at a commit. A table has another version wherever it has other rows or columns."""

    commit: Commit
    catalog: Catalog
    content: Rows
    opened: None = None

    @property
    def commit_id(self) -> str:
        return self.commit.graph_commit_id

    @property
    def manifest(self) -> SimpleNamespace:
        return SimpleNamespace(commits=(self.commit,))

    def table(self, table_key: str) -> MemoryTable:
        entity = next(each for each in self.catalog.entities if each.table_key == table_key)
        schema = table_schema(entity)
        rows = [{**dict.fromkeys(schema.names), **row} for row in self.content.get(entity.name, ())]
        return MemoryTable(pa.Table.from_pylist(rows, schema=schema))

    def scan_ends(self, table_key: str, *, columns: Sequence[str], ends: Mapping[str, Collection[str]]) -> pa.Table:
        return self.table(table_key).scan(columns, ends_filter(ends))

    def rows_with_ids(self, table_key: str, ids: pa.Array, columns: Sequence[str] = ("id",)) -> pa.Table:
        return self.table(table_key).rows_with_ids(ids, columns)

    def version(self, table_key: str) -> tuple[str, int]:
        rows = self.table(table_key).rows
        return table_key, hash((str(rows.schema), str(rows.to_pylist())))


def differing_rows(left: MemoryTable, right: MemoryTable, match: ColumnMatch) -> Differences:
    """What storage finds with two versions of a table, found by looking at every row."""
    before, after = ({row["id"]: row for row in table.rows.to_pylist()} for table in (left, right))

    def is_same(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
        continued = all(same_value(old[name], new[later]) for name, later in match.names.items())
        return continued and all(same_value(value.as_py(), new[name]) for name, value in match.came.items())

    changed = [id for id in before if id in after and not is_same(before[id], after[id])]
    return Differences(
        inserted=pa.Table.from_pylist([row for id, row in after.items() if id not in before], schema=right.schema),
        deleted=pa.Table.from_pylist([row for id, row in before.items() if id not in after], schema=left.schema),
        before=pa.Table.from_pylist([before[id] for id in changed], schema=left.schema),
        after=pa.Table.from_pylist([after[id] for id in changed], schema=right.schema),
    )


def difference_counts(left: MemoryTable, right: MemoryTable, match: ColumnMatch) -> DifferenceCounts:
    found = differing_rows(left, right, match)
    return DifferenceCounts(len(found.inserted), len(found.after), len(found.deleted))


def compare_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets merges compare tables in memory."""
    monkeypatch.setattr("omnigraph.merging.sides.differing_rows", differing_rows)
    monkeypatch.setattr("omnigraph.merging.sides.difference_counts", difference_counts)


def schemas(first: str, *later: str) -> list[Catalog]:
    """A schema and those that it becomes; what goes on keeps its identity."""
    catalogs = [compile_schema(first)]
    for text in later:
        catalogs.append(migration_plan(catalogs[-1], Source("later.pg", text)).catalog)
    return catalogs


@dataclass
class MemoryGraph:
    """A history of commits, each with its rows, of which two can be merged without a write."""

    parents: Parents
    catalogs: Sequence[Catalog]
    content: Mapping[str, Rows]
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Which of the schemas a commit has; without a number, the first."""

    deleted: Sequence[str] = ()
    """Commits whose branches were deleted."""

    def __post_init__(self) -> None:
        self._histories = Histories(self.parents)
        commits = self._histories.commits
        for id, number in self.numbers.items():
            commits[id] = replace(commits[id], schema_id="initial" if number == 1 else f"{number}-later")

    def snapshot(self, id: str) -> MemorySnapshot:
        catalog = self.catalogs[self.numbers.get(id, 1) - 1]
        return MemorySnapshot(self._histories.commits[id], catalog, self.content.get(id, {}))

    def merge(self, theirs: str, into: str, **options: Any) -> MergeResult:
        """What a merge of two commits would be."""
        branches = _Branches(self, self._histories)
        attempt = SimpleNamespace(base=self.snapshot(into), branch="ours")
        return merge(
            cast("WriteAttempt", attempt),
            cast("Branches", branches),
            theirs,
            MergeOptions(**options, dry_run=True),
        )


class _Branches:
    """Every commit is the head of a branch of its name."""

    def __init__(self, graph: MemoryGraph, histories: Histories) -> None:
        self._graph, self._histories = graph, histories
        self.query_sets = SimpleNamespace(get=lambda _id: NO_QUERIES)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._histories, name)

    def log(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(head=lambda: name)

    def snapshot(self, commit_id: str, _opened: None = None) -> MemorySnapshot:
        return self._graph.snapshot(commit_id)

    def manifest_at(self, place: Place) -> str:
        id = next(each for each, commit in self._histories.commits.items() if commit.place == place)
        if id in self._graph.deleted:
            raise NotFound("branch", place.branch)
        return id
