"""Ids and ends of edges take few bytes on disk, and are read as they were written."""

from pathlib import Path

import pyarrow as pa

import lance
import omnigraph as og
from omnigraph.storage.lance_schema import compress_ids
from omnigraph.write.ids import new_ids

SCHEMA = """
node Person { name: String @key, src: I32? }
edge Knows: Person -> Person { since: I32? }
"""
MARK = b"lance-encoding:compression"


def test_ids_and_ends_of_edges_are_marked_for_compression_and_nothing_else() -> None:
    schema = pa.schema([pa.field("id", pa.string()), pa.field("src", pa.int32()), pa.field("name", pa.string())])
    marked = compress_ids(schema)
    assert marked.equals(schema)
    assert [MARK in (field.metadata or {}) for field in marked] == [True, False, False]


def test_the_tables_of_a_graph_are_created_with_the_marks(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    marks = {
        key: [field.name for field in graph.snapshot().table(key).dataset.schema if MARK in (field.metadata or {})]
        for key in ("node:Person", "edge:Knows")
    }
    assert marks == {"node:Person": ["id"], "edge:Knows": ["id", "src", "dst"]}


def test_compressed_ids_take_less_than_half_the_bytes_also_in_a_fragment_that_is_added(tmp_path: Path) -> None:
    rows = pa.table({"id": new_ids(50_000)})
    plain = lance.write_dataset(rows, tmp_path / "plain", data_storage_version="2.2")
    marked = lance.write_dataset(
        compress_ids(rows.schema).empty_table(), tmp_path / "marked", data_storage_version="2.2"
    )
    marked = lance.write_dataset(rows, marked, mode="append")
    assert 2 * _data_bytes(tmp_path / "marked") < _data_bytes(tmp_path / "plain")
    assert marked.to_table()["id"].equals(plain.to_table()["id"])


def test_a_graph_with_compressed_ids_gives_the_same_rows_after_updates_deletes_and_compaction(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    people = pa.table({"name": [f"p{number}" for number in range(300)]})
    edges = pa.table(
        {"from": [f"p{number}" for number in range(299)], "to": [f"p{number + 1}" for number in range(299)]}
    )
    graph.load({"Person": people, "Knows": edges}, engine="local")
    graph.mutate('query q { delete Person where name = "p7" }')
    graph.mutate('query q { update Person set { src: 4 } where name = "p8" }')
    graph.optimize(engine="local")
    found = graph.query("query q { match { $p: Person  $p knows $q } return { $p.id, $q.id } }").rows()
    assert {tuple(row.values()) for row in found} == {
        (f"p{number}", f"p{number + 1}") for number in range(299) if number not in (6, 7)
    }


def _data_bytes(table: Path) -> int:
    return sum(file.stat().st_size for file in (table / "data").iterdir())
