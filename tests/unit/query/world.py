"""A small graph in real Lance tables, and a reader over it that remembers what was asked."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

import lance
from omnigraph.catalog import Catalog, EntityType, derived_ids, table_schema
from omnigraph.compiler import bound_parameters, compile_query
from omnigraph.query import AdjacencyCache, Embed, Plan, Shortcuts
from omnigraph.query.unions import UnionPlan, execute_answer, plan_answer
from omnigraph.storage.location import location_of
from omnigraph.storage.tables import Table, open_table
from omnigraph.storage.topology import ends_filter

NOW = datetime(2026, 3, 4, 5, 6, 7, 891_000, tzinfo=UTC)
Rows = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Scan:
    """One call of the reader."""

    table_key: str
    columns: tuple[str, ...]
    filter: str | None


@dataclass
class LanceReader:
    """Tables in a directory. Filters are evaluated by Lance itself."""

    tables: Mapping[str, lance.LanceDataset]
    scans: list[Scan] = field(default_factory=list)

    def scan(
        self,
        table_key: str,
        *,
        columns: Sequence[str],
        filter: str | None = None,
        check: Callable[[int], None] = lambda _bytes: None,
    ) -> pa.Table:
        self.scans.append(Scan(table_key, tuple(columns), filter))
        scanner = self.tables[table_key].scanner(columns=list(columns), filter=filter, blob_handling="all_binary")
        found = scanner.to_table()
        check(found.nbytes)
        return found

    def scan_ends(
        self,
        table_key: str,
        *,
        columns: Sequence[str],
        ends: Mapping[str, Collection[str]],
        check: Callable[[int], None] = lambda _bytes: None,
    ) -> pa.Table:
        return self.scan(table_key, columns=columns, filter=ends_filter(ends), check=check)

    def version(self, table_key: str) -> Hashable:
        return self.tables[table_key].version

    def table(self, table_key: str) -> Table:
        dataset = self.tables[table_key]
        return open_table(location_of(dataset.uri), dataset.version)


def entities(catalog: Catalog) -> list[EntityType]:
    """All types that have a table."""
    return [*catalog.nodes.values(), *catalog.edges.values()]


def complete(rows: Rows, catalog: Catalog) -> dict[str, list[dict[str, Any]]]:
    """The rows with all columns; ids of keyed nodes are derived, others numbered."""
    whole: dict[str, list[dict[str, Any]]] = {}
    for entity in entities(catalog):
        schema = table_schema(entity)
        key = getattr(entity, "key", ())
        whole[entity.table_key] = []
        for number, row in enumerate(rows.get(entity.table_key, ())):
            full = {name: row.get(name) for name in schema.names}
            if full["id"] is None and key:
                full["id"] = derived_ids([pa.array([row[name]], schema.field(name).type) for name in key])[0].as_py()
            if full["id"] is None:
                full["id"] = f"{entity.name}-{number}"
            whole[entity.table_key].append(full)
    return whole


def written(path: Path, catalog: Catalog, rows: Rows) -> LanceReader:
    """A reader over these rows."""
    tables = {}
    whole = complete(rows, catalog)
    for entity in entities(catalog):
        table = pa.Table.from_pylist(whole[entity.table_key], schema=table_schema(entity))
        tables[entity.table_key] = lance.write_dataset(table, str(path / entity.table_key.replace(":", "-")))
    return LanceReader(tables)


@dataclass
class World:
    """A graph that can be asked."""

    catalog: Catalog
    reader: LanceReader
    cache: AdjacencyCache | None = None
    embed: Embed | None = None

    def plan(self, text: str, **parameters: Any) -> Plan:
        """The plan of a query, given without `query q { … }` or with parameters in front of it."""
        return self.planned(text, parameters, Shortcuts.ALLOWED)

    def planned(self, text: str, parameters: Mapping[str, Any], shortcuts: Shortcuts) -> Plan:
        """The plan of a query, with or without what only pays in this process."""
        plan = self.planned_answer(text, parameters, shortcuts)
        assert isinstance(plan, Plan)
        return plan

    def planned_answer(self, text: str, parameters: Mapping[str, Any], shortcuts: Shortcuts) -> Plan | UnionPlan:
        """The same for a query that may be a union."""
        query = compile_query(text if text.startswith("query") else f"query q {{ {text} }}", self.catalog)
        return plan_answer(query, bound_parameters(query, parameters), self.catalog, now=NOW, shortcuts=shortcuts)

    def table(self, text: str, **parameters: Any) -> pa.Table:
        """The answer of a query."""
        plan = self.planned_answer(text, parameters, Shortcuts.ALLOWED)
        return execute_answer(plan, self.reader, self.cache, embed=self.embed)

    def rows(self, text: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """The answer as tuples."""
        return [tuple(row.values()) for row in self.table(text, **parameters).to_pylist()]

    def column(self, text: str, **parameters: Any) -> list[Any]:
        """The only column of the answer."""
        (column,) = self.table(text, **parameters).columns
        return list(column.to_pylist())
