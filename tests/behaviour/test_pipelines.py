"""A pipeline brings what is new from its sources into a graph, checked, as one commit, and exactly once."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import omnigraph as og
from omnigraph import failpoints
from omnigraph.cli.main import app
from omnigraph.failpoints import Writer, WriteStep
from omnigraph.pipelines import inputs, read_pipeline
from tests.behaviour.shop import TEXT, content, make_shop, write_customers, write_orders

FIRST = [
    {"type": "Customer", "data": {"number": 1, "name": "Ada", "country": "UK"}},
    {"type": "Customer", "data": {"number": 3, "name": "Bob"}},
    {"type": "Product", "data": {"sku": "A"}},
    {"type": "Product", "data": {"sku": "B"}},
    {"edge": "Bought", "from": "1", "to": "A", "data": {"id": "1 A", "quantity": 3, "total": 4.5}},
    {"edge": "Bought", "from": "3", "to": "B", "data": {"id": "3 B", "quantity": 5, "total": 10.0}},
]


def edited(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


# --- runs ---


def test_a_run_writes_all_types_as_one_commit_and_says_what_it_did(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path)
    done = shop.run(graph, engine="local", actor="ann")
    assert content(graph) == FIRST
    assert done.commit is not None
    assert (done.batch, done.branch, done.commit.actor, done.commit.message) == (1, "main", "ann", "shop, batch 1")
    assert (done.sources, done.nodes, done.edges) == (
        {"customers": 3, "orders": 4},
        {"Customer": 2, "Product": 2},
        {"Bought": 2},
    )
    assert [(each.name, each.violations, each.rows) for each in done.expectations] == [
        ("named", 1, 3),
        ("priced", 0, 4),
        ("missing_ends", 1, 3),
    ]
    assert len(graph.commits.list()) == 2


def test_a_run_with_nothing_new_makes_no_commit(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path)
    shop.run(graph)
    assert shop.run(graph).commit is None
    assert len(graph.commits.list()) == 2


def test_a_run_reads_only_files_that_are_new_or_changed(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path)
    shop.run(graph)
    write_orders(tmp_path, 2, [(1, "B", 1, 2.0)])
    write_customers(tmp_path, 1, [(1, "Ada", "fr")])
    done = shop.run(graph)
    assert done.sources == {"customers": 1, "orders": 1}
    assert [change.id for change in graph.commits.changes(done.commit.graph_commit_id)] == ["1", "1 B"]  # type: ignore[union-attr]
    assert shop.run(graph).commit is None


def test_a_run_of_everything_reads_again_and_changes_nothing(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path)
    shop.run(graph)
    before = content(graph)
    assert shop.run(graph, full=True).sources == {"customers": 3, "orders": 4}
    assert content(graph) == before


def test_many_new_files_are_read_in_several_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MOST_FILES", 2)
    graph, shop = make_shop(tmp_path)
    for number in range(2, 6):
        write_orders(tmp_path, number, [(1, f"new {number}", 1, 1.0)])
    runs = [shop.run(graph) for _ in range(4)]
    assert [run.has_more for run in runs] == [True, True, False, False]
    assert [run.sources.get("orders") for run in runs] == [5, 2, 1, None]
    assert sum("edge" in each for each in content(graph)) == 6


def test_a_source_without_an_increment_is_read_whole_when_any_file_changed(tmp_path: Path) -> None:
    text = TEXT.replace("    increment: files\n", "")
    graph, shop = make_shop(tmp_path, text)
    shop.run(graph)
    assert shop.run(graph).commit is None
    write_orders(tmp_path, 2, [(1, "A", 7, 1.0)])
    assert shop.run(graph).sources == {"customers": 3, "orders": 5}
    (edge,) = [each for each in content(graph) if each.get("from") == "1"]
    assert edge["data"]["quantity"] == 10


def test_an_increment_by_a_column_reads_greater_values_only(tmp_path: Path) -> None:
    text = """
pipeline: people
sources:
  people: {files: people.parquet, increment: column, column: changed}
nodes:
  Person: {view: people, properties: {name: name}}
"""
    (tmp_path / "people.yaml").write_text(text)
    graph = og.init(tmp_path / "graph", "node Person { name: String @key }")
    people = read_pipeline(tmp_path / "people.yaml")

    def write(*names: str) -> None:
        rows = {"name": names, "changed": pa.array(range(len(names)), pa.timestamp("us", "UTC"))}
        pq.write_table(pa.table(rows), tmp_path / "people.parquet")

    write("Ada", "Bob")
    assert people.run(graph).sources == {"people": 2}
    assert people.run(graph).commit is None
    write("Ada", "Bob", "Cid")
    assert people.run(graph).sources == {"people": 1}
    assert people.status(graph).after.keys() == {"people"}


# --- what must hold ---


def test_too_many_violations_write_nothing(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path, edited(TEXT, "allowed: 50%", "allowed: 0.1"))
    with pytest.raises(og.ExpectationFailed, match="named: 1 of 3 rows of customers violate it"):
        shop.run(graph)
    assert content(graph) == []
    assert not (tmp_path / "rejected").exists()


def test_rows_that_violate_an_expectation_that_is_to_fail_write_nothing(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path)
    write_orders(tmp_path, 2, [(1, "A", 1, 0.0)])
    with pytest.raises(og.ExpectationFailed, match="priced"):
        shop.run(graph)
    assert content(graph) == []


def test_rejected_rows_are_kept_with_their_rule_and_can_be_read_again(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path)
    done = shop.run(graph)
    folder = tmp_path / "rejected" / done.run
    customers = pq.read_table(folder / "customers").to_pylist()
    assert customers == [
        {"number": 2, "name": None, "country": "de", "__rule": "named", "__run": done.run, "__view": "customers"}
    ]
    (edge,) = pq.read_table(folder / "Bought-2").to_pylist()
    assert (edge["from"], edge["to"], edge["__rule"]) == (9, "B", "the node of `from` is missing")

    assert done.rejected_rows == 2
    write_customers(tmp_path, 2, [(9, "Zoe", "at")])
    shop.run(graph)
    again = shop.run(graph, replay=[done.run])
    assert again.edges == {"Bought": 1}
    assert (again.rejected_rows, again.commit is not None) == (1, True)
    assert graph.entity("Bought", "9 B") is not None
    assert shop.run(graph).commit is None  # a replay does not change what was read of the sources


def test_a_missing_end_is_an_error_unless_it_is_to_be_put_away(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path, edited(TEXT, "missing_ends: quarantine\n", ""))
    with pytest.raises(og.ValidationError, match="there is no `Customer` with the id `9`"):
        shop.run(graph)
    assert content(graph) == []


# --- reviews ---


def test_a_batch_for_review_waits_on_its_own_branch(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path, TEXT + "publish: {review: manual}\n")
    done = shop.run(graph)
    assert (done.branch, done.merged) == ("pipeline/shop/1", None)
    assert content(graph) == []
    assert shop.status(graph).waiting == ("pipeline/shop/1",)
    with pytest.raises(og.UsageError, match="merge or delete the branch `pipeline/shop/1` first"):
        shop.run(graph)
    graph.merge(done.branch, delete_branch=True)
    assert content(graph) == FIRST
    assert shop.status(graph).batch == 1
    assert shop.run(graph).commit is None


def test_a_batch_that_was_discarded_is_read_again(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path, TEXT + "publish: {review: manual}\n")
    graph.branches.delete(shop.run(graph).branch)
    assert shop.run(graph).sources == {"customers": 3, "orders": 4}


def test_a_batch_merges_itself_if_all_expectations_hold(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path, TEXT + "publish: {review: automatic}\n")
    assert shop.run(graph).merged is None  # rows were rejected
    graph.merge("pipeline/shop/1", delete_branch=True)
    write_orders(tmp_path, 2, [(1, "B", 1, 2.0)])
    assert shop.run(graph).merged is not None
    assert shop.status(graph).waiting == ()


# --- exactly once ---


@pytest.mark.parametrize("step", WriteStep)
def test_a_run_that_is_killed_at_any_step_is_repeated_or_done(tmp_path: Path, step: WriteStep) -> None:
    graph, shop = make_shop(tmp_path)
    command = [sys.executable, "-m", "omnigraph", "pipeline", "run", str(tmp_path / "shop.yaml"), graph.uri]
    armed = {**os.environ, failpoints.VARIABLE: f"{Writer.LOAD}.{step}=crash"}
    killed = subprocess.run(command, env=armed, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = og.open(graph.uri)
    shop.run(again)
    assert content(again) == FIRST
    assert [batch.number for batch in shop.history(again)] == [1]
    assert shop.run(again).commit is None


def test_of_two_runs_at_once_one_makes_the_batch(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path)
    other, later = og.open(graph.uri), read_pipeline(tmp_path / "shop.yaml")
    plan = later.plan(other)
    assert plan.batch == 1
    shop.run(graph)
    assert later.run(other).commit is None
    assert [batch.number for batch in shop.history(graph)] == [1]


def test_a_copy_of_the_graph_continues_where_the_original_was(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path)
    shop.run(graph)
    shutil.copytree(graph.uri, tmp_path / "copy.omni")
    assert shop.run(og.open(tmp_path / "copy.omni")).commit is None


# --- plans and mistakes ---


def test_a_plan_counts_and_writes_nothing(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path)
    plan = shop.plan(graph)
    assert [(each.name, each.is_new, each.rows) for each in plan.sources] == [
        ("customers", True, 3),
        ("orders", True, 4),
    ]
    assert plan.writes == {"Customer": 3, "Product": 2, "Bought": 3}
    assert (plan.batch, plan.branch, plan.schema_changes) == (1, "main", ())
    assert content(graph) == []


def test_a_plan_names_columns_that_the_schema_lacks(tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path, edited(TEXT, "select distinct sku from", "select distinct sku, price from"))
    assert shop.plan(graph).schema_changes == ("Product has no property for it: `price: F64?`",)


def test_all_mistakes_are_reported_at_once_with_their_lines(tmp_path: Path) -> None:
    text = edited(TEXT, "number: number, name: trim(name)", "number: country, nam: trim(name)")
    text = edited(text, "    to: sku\n", "    to: skuu\n")
    text = edited(text, "select distinct sku from orders", "select distinct sku from order")
    graph, shop = make_shop(tmp_path, text)
    found = [(each.code.value, each.line) for each in shop.validate(graph, engine="local")]
    assert found == [("D106", 13), ("D104", 18), ("D110", 20), ("D107", 26)]
    with pytest.raises(og.PipelineError):
        shop.run(graph, engine="local")


def test_a_pipeline_that_needs_spark_says_so_if_it_may_not_use_it(tmp_path: Path) -> None:
    text = edited(TEXT, "    files: landing/customers-*.csv\n    increment: files\n", "    spark: csv\n")
    graph, shop = make_shop(tmp_path, text)
    with pytest.raises(og.UsageError, match="`customers` is read by Spark"):
        shop.run(graph, engine="local")


def test_definitions_that_are_no_pipelines_are_refused(tmp_path: Path) -> None:
    with pytest.raises(og.PipelineError) as caught:
        read_pipeline("pipeline: a b\nsources: {x: {files: x.dat}}\n")
    assert [each.code.value for each in caught.value.diagnostics] == ["D101", "D104", "D104"]
    with pytest.raises(og.NotFound):
        read_pipeline(tmp_path / "none.yaml")


# --- the command line ---


def test_commands_run_a_pipeline_and_report_as_json(tmp_path: Path) -> None:
    graph, _ = make_shop(tmp_path)
    words = [str(tmp_path / "shop.yaml"), graph.uri, "--json"]

    def run(command: str, *options: str) -> object:
        result = CliRunner().invoke(app, ["pipeline", command, *words, *options])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    assert run("validate") == {"ok": True, "findings": []}
    assert run("plan")["writes"] == {"Customer": 3, "Product": 2, "Bought": 3}  # type: ignore[index]
    assert run("run")["nodes"] == {"Customer": 2, "Product": 2}  # type: ignore[index]
    assert run("run")["commit"] is None  # type: ignore[index]
    assert run("status")["batch"] == 1  # type: ignore[index]
    assert [each["number"] for each in run("history")] == [1]  # type: ignore[attr-defined]
