"""One load, three ways to run it: whole in this process, in many parts here, in many parts on Spark. All agree."""

import gzip
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd  # type: ignore[import-untyped]
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.parts.choice import Machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Person {
    name: String @key, age: I32?, mail: String? @unique, size: I32 @default(1), city: enum(oslo, rome)?
    @range(age, 0..200)
}
node Note { text: String, tags: [String]?, at: DateTime?, mark: Vector(3)?, big: U64?, raw: Blob? }
edge Knows: Person -> Person @card(0..3) { since: Date? }
edge Wrote: Person -> Note
"""
PEOPLE = [{"type": "Person", "data": {"name": f"p{number}", "age": number % 90}} for number in range(60)]
KNOWS = [
    {"edge": "Knows", "from": f"p{number}", "to": f"p{(7 * number + step) % 60}", "data": {"since": "2024-02-29"}}
    for number in range(60)
    for step in range(2)
]

Load = Callable[..., Any]


@pytest.fixture(params=["whole", "in parts", "on Spark"])
def load(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Loads into one graph; what is loaded is cut into many small parts and buckets, but for the first way."""
    engine = "local"
    if request.param == "on Spark":
        request.getfixturevalue("spark")
        engine = "spark"
    if request.param != "whole":
        monkeypatch.setattr("omnigraph.loading.sources.PART_BYTES", 1_500)
        monkeypatch.setattr("omnigraph.loading.sources.PART_ROWS", 25)
        monkeypatch.setattr("omnigraph.parts.buckets.KEYS_A_BUCKET", 100)
        monkeypatch.setattr("omnigraph.loading.inputs._FRAME_RECORDS", 150)
    graph = og.init(tmp_path / "graph", SCHEMA, durability="fast")

    def run(data: Any, mode: str = "append", **options: Any) -> og.Graph:
        result = graph.load(data, mode, engine=engine, **options)
        assert result.engine == engine
        return graph

    return run


def lines(folder: Path, *records: Any, name: str = "data.jsonl") -> Path:
    path = folder / name
    path.write_text("".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in records))
    return path


def content(graph: og.Graph, branch: str = "main") -> list[Any]:
    """Everything in the graph but the ids that were made up."""
    exported = graph.export(branch=branch)
    assert not isinstance(exported, int)
    records = [json.loads(line) for line in exported]
    for record in records:
        record["data"].pop("id", None)
    return sorted(records, key=json.dumps)


def problems(caught: pytest.ExceptionInfo[og.ValidationError]) -> list[tuple[Any, ...]]:
    return [(each.file and Path(each.file).name, each.line, each.problem) for each in caught.value.violations]


def person(name: str, **data: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, **data}}


def defaults(records: list[dict[str, Any]]) -> list[Any]:
    """People as they are exported: with the default of what they do not give."""
    filled = [
        {**each, "data": {**each["data"], "size": 1}} if each.get("type") == "Person" else each for each in records
    ]
    return sorted(filled, key=json.dumps)


def test_lines_of_several_types_in_any_order_are_one_commit(load: Load, tmp_path: Path) -> None:
    people = iter(PEOPLE)
    records = [
        record for index, knows in enumerate(KNOWS) for record in ([knows, next(people)] if index % 2 else [knows])
    ]
    graph = load(lines(tmp_path, *records))
    assert content(graph) == defaults(records)
    assert len(graph.commits.list()) == 2
    assert not any(path.is_file() for path in (tmp_path / "graph" / "__bulk").rglob("*"))


def test_dates_are_also_read_as_days_since_1970(load: Load, tmp_path: Path) -> None:
    days = [{**edge, "data": {"since": 19_782 if at % 2 else "2024-02-29"}} for at, edge in enumerate(KNOWS)]
    assert content(load(lines(tmp_path, *PEOPLE, *days))) == defaults([*PEOPLE, *KNOWS])


def test_a_merge_takes_the_last_of_each_and_keeps_what_is_not_given(load: Load, tmp_path: Path) -> None:
    graph = load(lines(tmp_path, *PEOPLE, *KNOWS))
    changes = [person(f"p{number}", mail=f"m{number}@x") for number in range(0, 80, 2)]
    graph = load(lines(tmp_path, *changes, person("p0", age=77), person("p2", mail=None)), "merge")
    rows = {row["id"]: row for row in graph.snapshot().table("node:Person").scan().to_pylist()}
    assert len(rows) == 70
    assert (rows["p0"]["age"], rows["p0"]["mail"]) == (77, None)
    assert (rows["p2"]["age"], rows["p2"]["mail"], rows["p4"]["mail"]) == (2, None, "m4@x")
    assert (rows["p70"]["age"], rows["p70"]["size"]) == (None, 1)
    diff = [(change.kind, change.id) for change in graph.diff(graph.commits.list()[1].graph_commit_id, "main")]
    assert len(diff) == 39  # p2 is as it was


def test_an_overwrite_leaves_only_what_it_brings(load: Load, tmp_path: Path) -> None:
    load(lines(tmp_path, *PEOPLE, *KNOWS, {"type": "Note", "data": {"text": "kept"}}))
    with pytest.raises(og.ValidationError, match=r"\d+ edges would lose an end"):
        load(lines(tmp_path, *PEOPLE[:30]), "overwrite")
    graph = load(lines(tmp_path, *PEOPLE[:2], {"edge": "Knows", "from": "p0", "to": "p1"}), "overwrite")
    assert [each.get("type", each.get("edge")) for each in content(graph)] == ["Knows", "Note", "Person", "Person"]


def test_what_is_wrong_is_found_with_its_line(load: Load, tmp_path: Path) -> None:
    load(lines(tmp_path, person("old", mail="old@x"), person("older")))
    records: list[Any] = [*PEOPLE, *KNOWS]
    records[13] = person("p13", age=201)
    records[40] = person("p40", age="old")
    with pytest.raises(og.ValidationError) as caught:
        load(lines(tmp_path, *records))
    assert [line for _, line, _ in problems(caught)] == [41]
    records[40] = person("p40")
    with pytest.raises(og.ValidationError) as caught:
        load(lines(tmp_path, *records))
    assert problems(caught) == [("data.jsonl", 14, "201 is outside 0..200")]


def test_rows_that_do_not_go_together_are_found_with_their_lines(load: Load, tmp_path: Path) -> None:
    load(lines(tmp_path, person("old", mail="old@x"), person("older")))
    records = [*PEOPLE, *KNOWS]
    records[10] = person("old")
    records[20] = person("p3")
    records[30] = person("p30", mail="old@x")
    records[50] = person("p50", mail="new@x")
    records[51] = person("p51", mail="new@x")
    records.append({"edge": "Knows", "from": "p1", "to": "nobody"})
    records += [{"edge": "Knows", "from": "older", "to": "p1"}] * 4
    with pytest.raises(og.ValidationError) as caught:
        load(lines(tmp_path, *records))
    found = problems(caught)
    assert ("data.jsonl", 11, "there is already one with the id `old`") in found
    assert ("data.jsonl", 21, "the id `p3` is there twice") in found
    assert ("data.jsonl", 31, "(mail) = (old@x) is already that of `old`") in found
    assert ("data.jsonl", 52, "(mail) = (new@x) is already that of `p50`") in found
    assert ("data.jsonl", 181, "there is no `Person` with the id `nobody`") in found
    assert ("data.jsonl", 182, "`older` has 4 edges, and 0..3 are allowed") in found
    # p10 and p20 were not brought, so the edges at them dangle, once at each end that is one of them.
    dangling = sum(each.get(end) in ("p10", "p20") for each in records for end in ("from", "to"))
    assert caught.value.total == dangling + 6


def test_every_mistake_is_counted_and_twenty_are_shown(load: Load, tmp_path: Path) -> None:
    records = [*PEOPLE, *({"edge": "Knows", "from": f"p{number}", "to": f"x{number}"} for number in range(45))]
    with pytest.raises(og.ValidationError) as caught:
        load(lines(tmp_path, *records))
    assert caught.value.total == 45
    assert [line for _, line, _ in problems(caught)] == [*range(61, 81)]


def test_a_merge_counts_what_it_replaces_no_longer(load: Load, tmp_path: Path) -> None:
    people = [person(f"p{number}", mail=f"m{number}") for number in range(40)]
    edges = [{"edge": "Knows", "from": "p0", "to": f"p{number}", "data": {"id": f"e{number}"}} for number in range(3)]
    load(lines(tmp_path, *people, *edges))
    swapped = [person("p0", mail="m1"), person("p1", mail="m0")]
    moved = [{"edge": "Knows", "from": "p1", "to": "p0", "data": {"id": "e0"}}]
    added = [{"edge": "Knows", "from": "p0", "to": "p9", "data": {"id": "e9"}}]
    graph = load(lines(tmp_path, *swapped, *moved, *added), "merge")
    sources = graph.snapshot().table("edge:Knows").scan(["src"])["src"].to_pylist()
    assert sorted(sources) == ["p0", "p0", "p0", "p1"]
    with pytest.raises(og.ValidationError, match="`p0` has 4 edges"):
        load(lines(tmp_path, *({**added[0], "data": {"id": f"f{number}"}} for number in range(1))), "merge")
    with pytest.raises(og.ValidationError, match="is already that of `p1`"):
        load(lines(tmp_path, person("p5", mail="m0")), "merge")


def test_tables_of_every_kind_of_file(load: Load, tmp_path: Path) -> None:
    people = pa.table({"name": [f"p{number}" for number in range(60)], "age": pa.array(range(60), pa.int64())})
    knows = pa.table({"from": [f"p{n}" for n in range(60)], "to": ["p0"] * 60, "since": ["2024-01-02"] * 60})
    pq.write_table(people, tmp_path / "people.parquet", row_group_size=20)
    pa.csv.write_csv(knows, tmp_path / "knows.csv")
    graph = load({"Person": tmp_path / "people.parquet", "Knows": str(tmp_path / "knows.csv")})
    records = [person(f"p{number}", age=number) for number in range(60)]
    records += [
        {"edge": "Knows", "from": f"p{number}", "to": "p0", "data": {"since": "2024-01-02"}} for number in range(60)
    ]
    assert content(graph) == defaults(records)


def test_tables_in_memory(load: Load) -> None:
    people = pd.DataFrame({"name": [f"p{number}" for number in range(60)], "age": [1.0, None] * 30})
    notes = pa.table(
        {
            "id": [f"n{number}" for number in range(30)],
            "text": ["x"] * 30,
            "tags": [["a", "b"], None, []] * 10,
            "mark": [[1, 2, 3]] * 30,
            "big": pa.array([2**64 - 1] * 30, pa.uint64()),
            "at": pa.array([1_700_000_000_123_456] * 30, pa.timestamp("us", "UTC")),
            "raw": [b"\x00\xff"] * 30,
        }
    )
    wrote = pa.table({"src": [f"p{number}" for number in range(30)], "dst": [f"n{number}" for number in range(30)]})
    graph = load({"Person": people, "Note": notes, "Wrote": wrote})
    row = graph.entity("Note", "n3")
    assert row is not None
    assert (row["big"], row["raw"], row["mark"], row["tags"]) == (2**64 - 1, b"\x00\xff", [1.0, 2.0, 3.0], ["a", "b"])
    assert row["at"].isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert graph.snapshot().table("edge:Wrote").count() == 30


def test_whatever_speaks_arrow_can_be_loaded(load: Load) -> None:
    people = polars.DataFrame({"name": [f"p{number}" for number in range(30)], "city": ["oslo", None, "rome"] * 10})
    graph = load({"Person": people, "Note": [{"text": "a", "tags": ["x"]}, {"text": "b", "tags": None}]})
    knows = pa.table({"from": ["p0", "p1"], "to": ["p1", "p2"]}).to_reader()
    graph = load({"Knows": knows})
    assert graph.snapshot().table("node:Person").count("city = 'rome'") == 10
    assert graph.snapshot().table("node:Note").count() == 2
    assert graph.snapshot().table("edge:Knows").count() == 2
    with pytest.raises(og.UsageError, match="a mapping such as"):
        load(people)
    with pytest.raises(og.NotFound, match="Persn"):
        load({"Persn": people})


def test_a_wrong_row_of_a_table_is_named_by_its_number(load: Load, tmp_path: Path) -> None:
    ages = [*range(50), 999, *range(9)]
    people = pa.table({"name": [f"p{number}" for number in range(60)], "age": ages})
    pq.write_table(people, tmp_path / "people.parquet", row_group_size=20)
    pa.csv.write_csv(people, tmp_path / "people.csv")
    for data, line in ((tmp_path / "people.parquet", 51), (tmp_path / "people.csv", 52), (people, 51)):
        with pytest.raises(og.ValidationError) as caught:
            load({"Person": data})
        assert [each[1:] for each in problems(caught)] == [(line, "999 is outside 0..200")]


def test_a_csv_that_is_none_and_a_row_after_cells_of_several_lines(load: Load, tmp_path: Path) -> None:
    (tmp_path / "notes.csv").write_text('text,tags\n"a\nb\nc",\n"",x\n')
    with pytest.raises(og.ValidationError) as caught:
        load({"Note": tmp_path / "notes.csv"})
    assert problems(caught) == [("notes.csv", 5, "expected a [String], found the text `x`")]
    (tmp_path / "notes.csv").write_text("text,tags\na\n")
    with pytest.raises(og.ValidationError, match=r"notes\.csv: Note: invalid CSV"):
        load({"Note": tmp_path / "notes.csv"})
    (tmp_path / "notes.csv").write_text('text,tags\n"a ""b""","[""x"", ""y""]"\n"",\n')
    graph = load({"Note": tmp_path / "notes.csv"})
    rows = graph.snapshot().table("node:Note").scan(["text", "tags"]).to_pylist()
    assert sorted(rows, key=str) == [{"text": "", "tags": None}, {"text": 'a "b"', "tags": ["x", "y"]}]


def test_folders_patterns_and_compressed_files(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "input"
    (folder / "nodes" / "Note").mkdir(parents=True)
    pq.write_table(pa.table({"text": ["x", "y"]}), folder / "nodes" / "Note" / "part-0.parquet")
    monkeypatch.setattr("omnigraph.loading.sources.BLOCK_BYTES", 700)
    lines(folder, *PEOPLE[:30], name="a.jsonl")
    with gzip.open(folder / "b.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(record) + "\n" for record in PEOPLE[30:])
    (folder / "_SUCCESS").write_text("")
    graph = load(folder)
    assert graph.snapshot().table("node:Person").count() == 60
    assert graph.snapshot().table("node:Note").count() == 2
    graph = load(f"{folder}/*.jsonl", "merge")
    assert graph.snapshot().table("node:Person").count() == 60


def test_a_load_can_make_its_branch(load: Load, tmp_path: Path) -> None:
    graph = load(lines(tmp_path, *PEOPLE[:2]))
    with pytest.raises(og.ValidationError):
        load(lines(tmp_path, *KNOWS), branch="review/1", from_="main")
    assert [branch.name for branch in graph.branches.list()] == ["main"]
    load(lines(tmp_path, *PEOPLE[2:], *KNOWS), branch="review/1", from_="main")
    assert graph.snapshot("main").table("node:Person").count() == 2
    assert content(graph, "review/1") == defaults([*PEOPLE, *KNOWS])
    assert graph.snapshot("review/1").manifest.pins["node:Note"] == graph.snapshot().manifest.pins["node:Note"]


def test_frames_of_spark_are_loaded_together_in_one_commit(
    spark: "SparkSession", tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "omnigraph.engine")
    graph = og.init(tmp_path / "graph", SCHEMA, durability="fast")
    people = spark.range(60).repartition(3).selectExpr("concat('p', id) AS name", "cast(id AS int) AS age")
    knows = spark.range(60).selectExpr("concat('p', id) AS src", "'p0' AS dst", "date '2024-01-02' AS since")
    result = graph.load({"Person": people, "Knows": knows})
    assert (result.nodes, result.edges, result.engine) == ({"Person": 60}, {"Knows": 60}, "spark")
    assert "engine: spark, because the rows are a Spark DataFrame" in caplog.text
    records = [person(f"p{number}", age=number) for number in range(60)]
    records += [
        {"edge": "Knows", "from": f"p{number}", "to": "p0", "data": {"since": "2024-01-02"}} for number in range(60)
    ]
    assert content(graph) == defaults(records)
    assert len(graph.commits.list()) == 2
    wrong = people.selectExpr("concat('q', substring(name, 2)) AS name", "if(age = 7, 999, age) AS age")
    with pytest.raises(og.UsageError, match="loaded on Spark"):
        graph.load({"Person": wrong}, engine="local")
    with pytest.raises(og.ValidationError, match=r"Person partition \d+:\d+: Person.age: 999 is outside 0..200"):
        graph.load({"Person": wrong})


def test_a_large_input_runs_on_spark_if_it_ends_first_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.session.engines.this_machine", lambda: Machine(threads=8, cores=64))
    graph = og.init(tmp_path / "graph", SCHEMA, durability="fast")
    small = lines(tmp_path, *PEOPLE)
    assert graph.explain_load(small).startswith("engine: local, because the work is small")
    with (tmp_path / "large.jsonl").open("wb") as file:
        file.truncate(12_800_000_000)
    why = "because it takes about 20 s in 8 threads and 12 s on Spark with 64 slots, of which 8 s to start\n"
    assert graph.explain_load(tmp_path / "large.jsonl").startswith(f"engine: spark, {why}")
    monkeypatch.setattr("omnigraph.session.engines.this_machine", lambda: Machine(threads=2, cores=2))
    assert graph.explain_load(tmp_path / "large.jsonl").startswith("engine: local, because it takes about 80 s in 2")
