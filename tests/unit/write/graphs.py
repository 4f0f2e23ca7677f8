"""A graph that is nowhere: a snapshot whose tables are in memory."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pyarrow as pa

import lance
from omnigraph.api.history import Commit
from omnigraph.catalog import Catalog, EntityType, compile_schema, table_schema
from omnigraph.storage.location import location_of
from omnigraph.storage.tables import Table
from omnigraph.versioning import Manifest, Pin, Snapshot
from omnigraph.write.change import TableChange

Rows = Sequence[Mapping[str, Any]]
CATALOG = compile_schema(
    """
node Person {
  name: String @key
  age: I32?
  mail: String?
  mood: enum(glad, sad)?
  tags: [enum(a, b)]?
  size: F64?
  @unique(mail)
  @range(age, 0..150)
  @check(mail, "@")
}

node City {
  title: String
}

edge Lives: Person -> City @card(0..1) {
  since: I32?
}

edge Knows: Person -> Person
"""
)


def rows_of(entity: EntityType, rows: Rows) -> pa.Table:
    """Rows with all columns of a type; what is not given is null."""
    return pa.Table.from_pylist([dict(row) for row in rows], schema=table_schema(entity))


def entity(name: str, catalog: Catalog = CATALOG) -> EntityType:
    return catalog.nodes[name] if name in catalog.nodes else catalog.edges[name]


def change_of(name: str, rows: Rows = (), **values: Any) -> TableChange:
    """A change of the table of a type; ids are given as lists."""
    ids = {key: pa.array(value, pa.string()) for key, value in values.items() if key != "replaces_all"}
    replaces_all = values.get("replaces_all", False)
    return TableChange(entity=entity(name), rows=rows_of(entity(name), rows), replaces_all=replaces_all, **ids)


def snapshot(catalog: Catalog = CATALOG, **rows: Rows) -> Snapshot:
    """The graph with these rows of each type."""
    pins = {each.table_key: Pin(f"tables/{each.name}", 1) for each in catalog.entities}
    commit = Commit(
        graph_commit_id="base",
        branch="main",
        manifest_version=7,
        parent_commit_id=None,
        created_at=datetime(2020, 1, 1, tzinfo=UTC),
    )
    base = Snapshot(location_of(f"memory:///{uuid4()}"), catalog, Manifest(7, pins, (commit,)))
    for each in catalog.entities:
        dataset = lance.write_dataset(rows_of(each, rows.get(each.name, ())), f"memory:///{uuid4()}")
        base.opened.keep(each.table_key, base.version(each.table_key), Table(base.location, dataset))
    return base
