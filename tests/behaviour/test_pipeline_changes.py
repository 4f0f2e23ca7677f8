"""Pipelines of changes: rows that update and delete in an order, other graphs as sources, and rows that come again."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import omnigraph as og
from omnigraph import failpoints
from omnigraph.cli.main import app
from omnigraph.pipelines import Pipeline, inputs, read_pipeline
from omnigraph.pipelines.duck_rows import DuckRows
from tests.behaviour.shop import TEXT, content, make_shop, write_customers, write_orders

ACCOUNTS = """
node Account { number: I64 @key, owner: String, balance: F64, version: I64 }
node Owner { name: String @key }
edge Owns: Owner -> Account
"""
CHANGES = """
pipeline: accounts
sources:
  changes:
    files: changes/*.parquet
    increment: files
views:
  owners: select distinct owner as name from changes where op <> 'd'
nodes:
  Account:
    view: changes
    properties: {number: number, owner: owner, balance: balance, version: version}
    sequence: version
    delete: op = 'd'
  Owner: {view: owners}
edges:
  Owns:
    view: changes
    from: owner
    to: number
    id: [to]
    sequence: version
    delete: op = 'd'
missing_ends: quarantine
quarantine: rejected
"""


def write_changes(folder: Path, number: int, rows: Sequence[tuple[int, str | None, float | None, int, str]]) -> None:
    """A file of changes: number, owner, balance, version and operation."""
    (folder / "changes").mkdir(exist_ok=True)
    names = ("number", "owner", "balance", "version", "op")
    types = (pa.int64(), pa.string(), pa.float64(), pa.int64(), pa.string())
    columns = zip(*rows, strict=True)
    table = pa.table({name: pa.array(each, type) for name, each, type in zip(names, columns, types, strict=True)})
    pq.write_table(table, folder / f"changes/{number}.parquet")


def accounts(folder: Path, text: str = CHANGES) -> tuple[og.Graph, Pipeline]:
    (folder / "accounts.yaml").write_text(text)
    return og.init(folder / "accounts.omni", ACCOUNTS), read_pipeline(folder / "accounts.yaml")


def names_of(graph: og.Graph) -> list[tuple[str, Any]]:
    """What is in the graph, briefly."""
    return [
        (each.get("type") or each["edge"], next(data[key] for key in ("balance", "id", "name") if key in data))
        for each in content(graph)
        for data in [each["data"]]
    ]


def codes(pipeline: Pipeline, graph: og.Graph) -> list[tuple[str, int]]:
    return [(each.code.value, each.line) for each in pipeline.validate(graph, engine="local")]


# --- change data ---


def test_changes_are_applied_in_their_order_and_deletions_take_edges_along(tmp_path: Path) -> None:
    graph, pipeline = accounts(tmp_path)
    rows = [(1, "Ada", 5.0, 2, "u"), (1, "Ada", 1.0, 1, "c"), (2, "Bob", 7.0, 3, "c")]
    write_changes(tmp_path, 1, rows)
    assert pipeline.validate(graph) == ()
    done = pipeline.run(graph)
    assert done.commit is not None
    assert done.commit.applied is not None
    assert names_of(graph) == [
        ("Account", 5.0),
        ("Account", 7.0),
        ("Owner", "Ada"),
        ("Owner", "Bob"),
        ("Owns", "1"),
        ("Owns", "2"),
    ]
    write_changes(tmp_path, 2, [(2, None, None, 4, "d")])
    pipeline.run(graph)
    assert names_of(graph) == [("Account", 5.0), ("Owner", "Ada"), ("Owner", "Bob"), ("Owns", "1")]


def test_a_change_that_comes_in_a_later_file_than_a_newer_one_is_skipped(tmp_path: Path) -> None:
    """The sequence is a property, so the graph knows how new it is."""
    graph, pipeline = accounts(tmp_path)
    write_changes(tmp_path, 1, [(1, "Ada", 5.0, 9, "u")])
    pipeline.run(graph)
    write_changes(tmp_path, 2, [(1, "Ada", 1.0, 8, "u")])
    done = pipeline.run(graph)
    assert done.commit is not None
    assert done.commit.applied is not None
    assert done.commit.applied.stale == 1
    assert graph.entity("Account", "1")["balance"] == 5.0  # type: ignore[index]


def test_deletions_of_edges_are_not_rejected_for_ends_that_are_missing(tmp_path: Path) -> None:
    graph, pipeline = accounts(tmp_path)
    write_changes(tmp_path, 1, [(1, "Ada", 5.0, 1, "c")])
    pipeline.run(graph)
    write_changes(tmp_path, 2, [(1, "Nobody", None, 2, "d")])
    assert pipeline.run(graph).rejected_rows == 0
    assert names_of(graph) == [("Owner", "Ada")]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("    sequence: version\n    delete: op = 'd'\n  Owner", "    delete: op = 'd'\n  Owner", [("D104", 13)]),
        ("    delete: op = 'd'\n  Owner", "    delete: op\n  Owner", [("D108", 14)]),
        ("    sequence: version\n    delete: op = 'd'\n  Owner", "    sequence: array(1)\n  Owner", [("D108", 13)]),
        ("    id: [to]\n", "    id: [to, nmber]\n", [("D110", 21)]),
        ("    id: [to]\n", "", [("D104", 17)]),
        ("quarantine: rejected\n", "quarantine: rejected\npublish: {mode: merge}\n", [("D105", 13), ("D105", 22)]),
        ("    sequence: version\n", "", [("D104", 13), ("D104", 21)]),
        ("    sequence: version\n", "    sequence: versoin\n", [("D107", 13), ("D107", 22)]),
    ],
)
def test_mistakes_about_changes_are_reported_with_their_lines(
    tmp_path: Path, old: str, new: str, expected: list[tuple[str, int]]
) -> None:
    assert old in CHANGES
    write_changes(tmp_path, 1, [(1, "Ada", 5.0, 1, "c")])
    (tmp_path / "accounts.yaml").write_text(CHANGES.replace(old, new))
    graph = og.init(tmp_path / "accounts.omni", ACCOUNTS)
    try:
        found = codes(read_pipeline(tmp_path / "accounts.yaml"), graph)
    except og.PipelineError as error:
        found = [(each.code.value, each.line) for each in error.diagnostics]
    assert found == expected


# --- ids ---


def test_edges_whose_id_is_formed_of_their_ends_are_the_same_edges_again(tmp_path: Path) -> None:
    text = TEXT.replace("id: concat(customer, ' ', sku)", "id: [from, to]")
    graph, shop = make_shop(tmp_path, text)
    shop.run(graph)
    shop.run(graph, full=True)
    assert [each["data"]["id"] for each in content(graph) if "edge" in each] == ['["1","A"]', '["3","B"]']


def test_nodes_that_could_not_be_found_again_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.csv").write_text("text\nhello\n")
    graph = og.init(tmp_path / "graph", "node Note { text: String }")
    text = "pipeline: notes\nsources: {notes: {files: notes.csv}}\nnodes: {Note: {view: notes}}\n"
    assert codes(read_pipeline(text, folder=tmp_path), graph) == [("D104", 3)]
    appended = read_pipeline(text + "publish: {mode: append}\n", folder=tmp_path)
    assert appended.run(graph).nodes == {"Note": 1}


def test_a_file_that_is_changed_while_it_is_read_ends_the_run(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path)
    keep = DuckRows.keep

    def keep_late(rows: DuckRows, name: str) -> None:
        keep(rows, name)
        write_orders(tmp_path, 1, [(1, "A", 2, 1.5)])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DuckRows, "keep", keep_late)
        with pytest.raises(og.StorageError, match=r"orders-1.jsonl: was changed"):
            shop.run(graph)
    assert content(graph) == []
    assert shop.run(graph).sources == {"customers": 3, "orders": 1}


def test_columns_that_are_declared_are_those_of_parquet_files_too(tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": ["a"], "size": ["7"], "more": [1]}), tmp_path / "things.parquet")
    text = """
pipeline: things
sources: {things: {files: things.parquet, columns: {name: string, size: bigint}}}
nodes: {Thing: {view: things}}
"""
    graph = og.init(tmp_path / "graph", "node Thing { name: String @key, size: I64, more: I64? }")
    read_pipeline(text, folder=tmp_path).run(graph)
    assert [each["data"] for each in content(graph)] == [{"name": "a", "size": 7}]


# --- what is there in the end ---


def test_an_overwrite_removes_what_is_gone_and_edges_to_it_lack_their_end(tmp_path: Path) -> None:
    text = TEXT.replace("    increment: files\n", "") + "publish: {mode: overwrite}\n"
    graph, shop = make_shop(tmp_path, text)
    shop.run(graph)
    write_customers(tmp_path, 1, [(1, "Ada", "uk")])
    done = shop.run(graph)
    assert done.rejected_rows == 2  # the orders of the customers 3 and 9
    assert [(each["from"], each["to"]) for each in content(graph) if "edge" in each] == [("1", "A")]
    assert len(list(graph.commits.changes(done.commit.graph_commit_id))) == 2  # type: ignore[union-attr]


def test_ends_with_keys_of_several_properties_are_found_among_the_nodes_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "seats.csv").write_text("building,number,person\nmain,7,Ada\n")
    text = r"""
pipeline: seats
sources: {seats: {files: seats.csv, columns: {building: string, number: int, person: string}}}
views:
  people: select person as name from seats
  sits: |
    select person, concat('["', building, '","', number, '"]') as room,
           concat('["', building, '","', number + 1, '"]') as next
    from seats
nodes:
  Room: {view: seats, properties: {building: building, number: number}}
  Person: {view: people}
edges:
  SitsIn: {view: sits, from: person, to: room, id: "[from, to]"}
missing_ends: quarantine
quarantine: rejected
""".replace('"[from, to]"', "[from, to]")
    schema = """
    node Room { building: String, number: I32, @key(building, number) }
    node Person { name: String @key }
    edge SitsIn: Person -> Room
    """
    graph = og.init(tmp_path / "graph", schema)
    done = read_pipeline(text, folder=tmp_path).run(graph)
    assert (done.edges, done.rejected_rows) == ({"SitsIn": 1}, 0)
    other = og.init(tmp_path / "other", schema)
    done = read_pipeline(text.replace("to: room", "to: next"), folder=tmp_path).run(other)
    assert (done.edges, done.rejected_rows) == ({}, 1)


def test_a_value_that_cannot_be_cast_is_an_error_and_not_a_null(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path)
    (tmp_path / "landing/customers-2.csv").write_text("number,name,country\nseven,Eve,uk\n")
    with pytest.raises(og.OmnigraphError, match="seven"):
        shop.run(graph)
    assert content(graph) == []


def test_vectors_are_computed_where_the_schema_declares_them(tmp_path: Path) -> None:
    (tmp_path / "docs.csv").write_text("slug,text\na,hello\nb,world\n")
    schema = 'node Doc { slug: String @key, text: String, meaning: Vector(4) @embed("text", model="mock/small") }'
    graph = og.init(tmp_path / "graph", schema)
    docs = {
        "pipeline": "docs",
        "sources": {"docs": {"files": "docs.csv"}},
        "nodes": {"Doc": {"view": "docs"}},
        "expectations": [{"name": "said", "view": "docs", "check": "length(text) > 0"}],
    }
    pipeline = read_pipeline(docs, folder=tmp_path)
    assert pipeline.validate(graph) == ()
    pipeline.run(graph)
    vectors = graph.snapshot().table("node:Doc").scan(["meaning"])["meaning"].to_pylist()
    assert [len(each) for each in vectors] == [4, 4]


# --- other sources ---


def test_another_graph_is_a_source_of_which_only_changes_are_read(tmp_path: Path) -> None:
    shops, shop = make_shop(tmp_path)
    shop.run(shops)
    text = """
pipeline: copies
sources:
  customers: {graph: shop.omni, type: Customer, increment: changes}
  bought: {graph: shop.omni, type: Bought}
nodes:
  Person:
    view: customers
    properties: {number: number, name: name}
    sequence: _commit_version
    delete: _change_type = 'delete'
quarantine: rejected
"""
    copies = read_pipeline(text, folder=tmp_path)
    graph = og.init(tmp_path / "copies.omni", "node Person { number: I64 @key, name: String }")
    assert copies.run(graph).sources == {"customers": 2, "bought": 2}
    assert copies.run(graph).commit is None

    write_customers(tmp_path, 2, [(3, "Rob", "fr"), (4, "Eve", "fr")])
    shop.run(shops)
    shops.mutate("query gone { delete Customer where number = 1 }")
    done = copies.run(graph)
    assert done.sources["customers"] == 3
    assert [each["data"] for each in content(graph)] == [{"number": 3, "name": "Rob"}, {"number": 4, "name": "Eve"}]
    plan = copies.plan(graph)
    assert [each.is_new for each in plan.sources] == [False, False]
    assert plan.sources[0].after == plan.sources[0].upto == shops.snapshot().commit.graph_commit_id


def test_an_unknown_type_of_a_graph_is_reported_with_its_line(tmp_path: Path) -> None:
    graph, _ = make_shop(tmp_path)
    text = "pipeline: p\nsources:\n  people: {graph: shop.omni, type: Custmer}\nnodes: {Customer: {view: people}}\n"
    (found,) = read_pipeline(text, folder=tmp_path).validate(graph, engine="local")
    assert (found.line, "did you mean `Customer`?" in str(found)) == (3, True)


@pytest.mark.parametrize(("compressed", "separator"), [(False, "\n\n"), (True, "\n\n"), (False, None)])
def test_text_files_are_cut_into_rows_and_sql_takes_them_apart(
    tmp_path: Path, compressed: bool, separator: str | None
) -> None:
    text = "Name: a\nSize: 1\n\nName: b\nSize: 2\n"
    name = "things.txt.gz" if compressed else "things.txt"
    with pa.output_stream(tmp_path / name, compression="gzip" if compressed else None) as stream:
        stream.write(text.encode())
    things: Mapping[str, Any] = {"files": name, **({"options": {"lineSep": separator}} if separator else {})}
    pipeline = read_pipeline(
        {
            "pipeline": "things",
            "sources": {"things": things},
            "views": {
                "named": r"select regexp_extract(value, 'Name: ([^\\n]*)', 1) as name, value from things",
                "found": "select name from named where length(name) > 0",
            },
            "nodes": {"Thing": {"view": "found"}},
        },
        folder=tmp_path,
    )
    graph = og.init(tmp_path / "graph", "node Thing { name: String @key }")
    assert pipeline.run(graph).sources == {"things": 2 if separator else 5}
    assert [each["data"]["name"] for each in content(graph)] == ["a", "b"]


# --- once ---


def test_a_run_of_everything_continues_with_the_files_that_one_batch_does_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, shop = make_shop(tmp_path)
    for number in range(2, 6):
        write_orders(tmp_path, number, [(1, f"new {number}", 1, 1.0)])
    shop.run(graph)
    monkeypatch.setattr(inputs, "MOST_FILES", 2)
    command = ["pipeline", "run", str(tmp_path / "shop.yaml"), graph.uri, "--full", "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert [batch.details["read"]["orders"] for batch in shop.history(graph)] == [8, 5, 2, 1]
    assert shop.run(graph).commit is None


def test_a_run_whose_rows_are_all_rejected_keeps_what_it_read(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path)
    shop.run(graph)
    write_customers(tmp_path, 2, [(7, "", "de")])
    changed = TEXT.replace("allowed: 50%", "allowed: 100%")
    lenient = read_pipeline(changed, folder=tmp_path)
    done = lenient.run(graph)
    assert (done.commit is not None, done.nodes, done.rejected_rows) == (True, {}, 1)
    assert lenient.run(graph).commit is None
    assert lenient.run(graph, replay=[done.run]).rejected_rows == 1


def test_rejected_rows_are_read_again_once_and_only_of_runs_that_made_a_commit(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path)
    first = shop.run(graph)
    shop.run(graph, replay=[first.run])
    with pytest.raises(og.UsageError, match="were read again by batch 2"):
        shop.run(graph, replay=[first.run])
    (tmp_path / "rejected/killed").mkdir()  # of a run that ended before its commit
    with pytest.raises(og.NotFound):
        shop.run(graph, replay=["killed"])


def test_equal_rows_that_were_rejected_are_all_read_again(tmp_path: Path) -> None:
    text = TEXT.replace("check: price > 0", "check: price > 0, action: quarantine")
    text = text.replace(
        "{name: named,", "{name: sold, view: orders, check: quantity > 0, action: quarantine}\n  - {name: named,"
    )
    graph, shop = make_shop(tmp_path, text)
    write_orders(tmp_path, 1, [(1, "A", 2, -1.0), (1, "A", 2, -1.0), (1, "A", -2, -1.0)])
    done = shop.run(graph)
    rows = pq.read_table(tmp_path / "rejected" / done.run / "orders").to_pylist()
    assert sorted(row["__rule"] for row in rows) == ["priced", "priced", "sold, priced"]
    mended = read_pipeline(
        text.replace("price > 0", "price < 0").replace("quantity > 0", "quantity <> 0"), folder=tmp_path
    )
    mended.run(graph, replay=[done.run])
    (edge,) = [each for each in content(graph) if "edge" in each]
    assert edge["data"]["quantity"] == 2


def test_a_commit_keeps_the_hash_of_the_definition(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path)
    shop.run(graph)
    write_orders(tmp_path, 2, [(1, "B", 1, 2.0)])
    other = read_pipeline(TEXT + "# a comment\n", folder=tmp_path)
    other.run(graph)
    digests = [batch.details["definition"] for batch in shop.history(graph)]
    assert digests == [shop.definition.digest, other.definition.digest]
    assert len({*digests}) == 2


@pytest.mark.parametrize("is_manual", [True, False])
def test_what_a_killed_run_leaves_of_a_review_is_finished_by_the_next(tmp_path: Path, is_manual: bool) -> None:
    review = "manual" if is_manual else "automatic"
    graph, shop = make_shop(tmp_path, TEXT + f"publish: {{review: {review}}}\n")
    write_customers(tmp_path, 1, [(1, "Ada", "uk")])
    write_orders(tmp_path, 1, [(1, "A", 2, 1.5)])
    graph.branches.create("pipeline/shop/1")  # the run was killed before it loaded
    with failpoints.armed("pipeline.batch_loaded=error"), pytest.raises(og.StorageError):
        shop.run(graph)
    assert content(graph) == []
    if is_manual:
        assert shop.status(graph).waiting == ("pipeline/shop/1",)
        with pytest.raises(og.UsageError, match="merge or delete"):
            shop.run(graph)
        graph.merge("pipeline/shop/1")  # and does not delete it
    else:
        assert shop.run(graph).commit is None
    assert shop.run(graph).commit is None
    assert [batch.number for batch in shop.history(graph)] == [1]
    assert sum("edge" in each for each in content(graph)) == 1
    assert [each.name for each in graph.branches.list()] == ["main"]
