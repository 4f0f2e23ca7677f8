"""Forms that texts in use elsewhere have mean the same in memory, through DuckDB and on Spark."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from omnigraph.spark import relations
from tests.engines.random_worlds import Executors
from tests.unit.query.random_queries import RandomQuery

SCHEMA = """
interface Titled { title: String @index }

node Ticket @description("A piece of work.
Tickets block each other.") implements Titled {
    id: U64 @key
    title: String
    labels: [String]?
    due: Date?
    picture: Blob?
    meaning: Vector(3072) @embed(title) @index
    place: Vector(4)?
}
node Person { name: String @key }
node Review { text: String }

edge Review: Person -> Ticket { on: Date?  @unique(@src, @dst) }
edge Blocks: Ticket -> Ticket { reason: String? }
"""
RECORDS: list[dict[str, Any]] = [
    {"type": "Person", "data": {"name": "Ada"}},
    {"type": "Person", "data": {"name": "Bob"}},
    {"type": "Review", "data": {"id": "r", "text": "well done"}},
    {"type": "Ticket", "data": {"id": 7, "title": "Paint", "labels": ["wall", "red"], "due": 20_484}},
    {"type": "Ticket", "data": {"id": 12, "title": "Sand\nthe wall", "labels": ["wall"], "place": [1, 0, 0, 0]}},
    {"type": "Ticket", "data": {"id": 100, "title": "Buy paint", "due": "2026-02-01", "place": [0, 1, 0, 0]}},
    {"edge": "Review", "from": "Ada", "to": 7, "data": {"on": 20_500}},
    {"edge": "Review", "from": "Bob", "to": "12"},
    {"edge": "Blocks", "from": 12, "to": 7, "data": {"id": "b1", "reason": "dust"}},
    {"edge": "Blocks", "from": 100, "to": 12, "data": {"id": "b2"}},
    {"edge": "Blocks", "from": 7, "to": 7, "data": {"id": "b3"}},
]
READS = {
    "match { $t: Ticket { id: 12 } } return { $t.id, $t.@id, $t.title, $t.meaning }": [
        (12, "12", "Sand\nthe wall", None)
    ],
    'match { $t: Ticket { labels: "wall" } $t.id > 9 } return { $t.id }': [(12,)],
    'match { $t: Ticket "red" = $t.labels } return { $t.id }': [(7,)],
    'match { $t: Ticket { title: "Sand\nthe wall" } } return { $t.id }': [(12,)],
    'match { $t: Ticket { due: date("2026-01-31") } } return { $t.id }': [(7,)],
    "match { $p review{1,3} $t } return { $p.name, $t.id } order { $t.id }": [("Ada", 7), ("Bob", 12)],
    "match { $p: Person not { $p review{2,} $_ } } return { count($p) as all }": [(2,)],
    'match { $p $r:review $t  $r.from = "Ada" } return { $r.to, $t.id }': [("7", 7)],
    "match { $t: Ticket { id: 7 } $t $b:<blocks> $o } return { $o.id, $b.@src, $b.@id } order { $b.@id }": [
        (12, "12", "b1"),
        (7, "7", "b3"),
    ],
    "match { $t: Ticket $t $b:<blocks> $o } return { $t.id, count($b) as n } order { $t.id }": [
        (7, 2),
        (12, 2),
        (100, 1),
    ],
    "match { $r: Review } return { $r.text }": [("well done",)],
    """match { $t: Ticket } return { $t.id }
       order { rrf(nearest($t.place, [0.0, 1.0, 0.0, 0.0]), bm25($t.title, "paint"), 60) } limit 2""": [(100,), (7,)],
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    folder = Path(tmp_path_factory.mktemp("texts"))
    graph = og.init(folder / "graph", SCHEMA, durability="fast")
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, RECORDS)))
    graph.load(folder / "data.jsonl")
    return graph


@pytest.mark.parametrize("text", READS, ids=range(len(READS)))
def test_a_read_gives_the_same_rows_on_every_executor(
    graph: og.Graph, text: str, spark_for_few_rows: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark_for_few_rows is not None
    monkeypatch.setattr(relations, "SMALL_TABLE", -1)
    query = f"query q {{ {text} }}"
    at = graph.snapshot()
    answers = (
        graph.query(query, engine="local").rows(),
        Executors(graph).from_tables(RandomQuery(query, {}), at),
        graph.query(query, engine="spark").rows(),
    )
    for rows in answers:
        assert isinstance(rows, list)
        assert [tuple(row.values()) for row in rows] == READS[text]


def test_what_is_read_can_be_written_in_the_same_forms(graph: og.Graph) -> None:
    change = """query change($picture: String) {
        insert Ticket { id: 8, title: "Wash
brushes", picture: $picture }
        insert Review { from: "Ada", to: 8 }
        delete Review where to = "12" and from = "Bob"
        delete Blocks where @src = "100"
        update Ticket set { title: "Sand" } where labels = "wall" and id > 9
        delete Review where text = "well done"
    }"""
    branch = graph.branches.create("changed")
    result = graph.mutate(change, params={"picture": "base64:aGk="}, branch=branch.name)
    assert result.affected == {"nodes": 3, "edges": 3}
    text = "query q { match { $t: Ticket { id: 8 } } return { $t.title, $t.picture } }"
    assert graph.query(text, branch=branch.name).rows() == [{"t.title": "Wash\nbrushes", "t.picture": b"hi"}]
    assert graph.query("query q { match { $r: Review } return { $r } }", branch=branch.name).rows() == []
