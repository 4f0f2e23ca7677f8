"""Changes are applied in their order: what each entity is in the end, what goes with deleted nodes, what is refused."""

import json
import signal
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import omnigraph as og
from omnigraph.api.history import ChangeKind
from omnigraph.cli.main import app
from omnigraph.failpoints import Point, Writer, WriteStep
from tests import nursery
from tests.behaviour.apply_model import SCHEMA, START, Change, Model, Refused, changes, entities_of
from tests.servers import running_server


def write_lines(folder: Path, records: Iterable[Any]) -> Path:
    file = folder / "changes.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in records))
    return file


def start_graph(folder: Path) -> tuple[og.Graph, Model]:
    """A graph with a few entities, and its model."""
    graph = og.init(folder / "graph.omni", SCHEMA, durability="fast")
    model = Model()
    result = graph.load(write_lines(folder, (each.record("ts") for each in START)), "apply", sequence="ts")
    assert counts_of(result) == model.apply(START, kept_order=False)
    assert entities_of(graph) == model.entities
    return graph, model


def counts_of(result: og.LoadResult) -> dict[str, int]:
    assert result.applied is not None
    return result.applied.as_json()


def check_load(graph: og.Graph, model: Model, folder: Path, load: list[Change], order: str, **options: Any) -> None:
    """Applies the same to the graph and to the model, and compares."""
    file = write_lines(folder, (each.record(order) for each in load))
    before = graph.snapshot().commit_id
    try:
        expected = model.apply(load, kept_order=order == "version")
    except Refused:
        with pytest.raises(og.ValidationError, match="there is no `P"):
            graph.load(file, "apply", sequence=order, delete="gone", **options)
        assert entities_of(graph) == model.entities
        return
    result = graph.load(file, "apply", sequence=order, delete="gone", **options)
    assert entities_of(graph) == model.entities
    assert counts_of(result) == expected
    assert result.total == sum(expected[name] for name in ("inserted", "updated", "deleted"))
    differs = any(expected[name] for name in ("inserted", "updated", "deleted", "cascaded"))
    assert (result.commit is not None) == differs
    if result.commit is not None:
        assert result.commit.applied == graph.commits.show(result.commit.graph_commit_id).applied == result.applied
        kinds = Counter(change.kind for change in graph.diff(before, result.commit.graph_commit_id))
        assert kinds[ChangeKind.INSERT] == expected["inserted"]
        assert kinds[ChangeKind.DELETE] == expected["deleted"] + expected["cascaded"]
        assert kinds[ChangeKind.UPDATE] <= expected["updated"]


@pytest.fixture(params=["whole", "in parts"])
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether loads are cut into many parts and buckets."""
    if request.param == "in parts":
        monkeypatch.setattr("omnigraph.loading.sources.PART_BYTES", 300)
        monkeypatch.setattr("omnigraph.parts.buckets.KEYS_A_BUCKET", 2)
    return str(request.param)


@pytest.mark.parametrize("order", ["ts", "version"])
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_graph_is_what_the_model_says(
    tmp_path_factory: pytest.TempPathFactory, parts: str, order: str, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("graph")
    graph, model = start_graph(folder)
    for load in data.draw(st.lists(changes(kept_order=order == "version"), min_size=1, max_size=3)):
        check_load(graph, model, folder, load, order)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_entities_do_not_depend_on_how_their_changes_are_spread_over_loads(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Of nodes: changes of different entities have no order."""
    drawn = data.draw(changes(kept_order=False, largest=20))
    ordered = sorted((each for each in drawn if each.type == "Person"), key=lambda change: change.order)
    folder = tmp_path_factory.mktemp("graph")
    whole, _ = start_graph(folder)
    whole.load(write_lines(folder, (each.record("ts") for each in ordered)), "apply", sequence="ts", delete="gone")
    (folder / "cut").mkdir()
    cut, _ = start_graph(folder / "cut")
    for load in [[each for each in ordered if each.order // 8 == number] for number in range(4)]:
        cut.load(write_lines(folder, (each.record("ts") for each in load)), "apply", sequence="ts", delete="gone")
    assert entities_of(cut) == entities_of(whole)


# --- order and ties ---


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return start_graph(tmp_path)[0]


def person(graph: og.Graph, name: str) -> dict[str, Any] | None:
    return entities_of(graph).get(("Person", name))


def refused(graph: og.Graph, data: Any, **options: Any) -> str:
    """The text of the refusal of a load that changes nothing."""
    before = graph.snapshot().commit_id
    with pytest.raises(og.OmnigraphError) as caught:
        graph.load(data, "apply", **options)
    assert graph.snapshot().commit_id == before
    return str(caught.value)


def test_what_changes_do_not_give_comes_from_the_change_before(graph: og.Graph) -> None:
    rows = [{"name": "a", "city": "rome", "ts": 2}, {"name": "a", "age": 7, "ts": 3}, {"name": "a", "age": 6, "ts": 1}]
    result = graph.load({"Person": rows}, "apply", sequence="ts")
    assert person(graph, "a") == {"age": 7, "city": "rome", "version": 3}
    assert counts_of(result) == {**dict.fromkeys(counts_of(result), 0), "updated": 1, "ignored": 2}


def test_an_entity_that_comes_again_after_its_deletion_has_nothing_of_before(graph: og.Graph) -> None:
    rows = [{"name": "a", "ts": 1, "gone": True}, {"name": "a", "city": "rome", "ts": 2}]
    graph.load({"Person": rows}, "apply", sequence="ts", delete="gone")
    assert person(graph, "a") == {"age": None, "city": "rome", "version": None}
    knows = {key: edge for key, edge in entities_of(graph).items() if "a" in (edge.get("from"), edge.get("to"))}
    assert knows == {}


def test_different_changes_with_one_sequence_are_refused_with_their_lines(graph: og.Graph, tmp_path: Path) -> None:
    lines = [{"type": "Person", "data": {"name": "a", "age": age, "ts": 5}} for age in (1, 2)]
    said = refused(graph, write_lines(tmp_path, lines), sequence="ts")
    assert "changes.jsonl:2: Person: two different changes of `a` have the sequence 5" in said
    rows = [{"name": "a", "ts": 5, "gone": None}, {"name": "a", "ts": 5, "gone": True}]
    assert "two different changes" in refused(graph, {"Person": rows}, sequence="ts", delete="gone")
    ends = [{"id": "e0", "from": "a", "to": to, "ts": 5} for to in "ab"]
    assert "Knows: two different changes of `e0`" in refused(graph, {"Knows": ends}, sequence="ts")
    given = [{"name": "a", "ts": 5}, {"name": "a", "ts": 5, "age": None}]
    assert "two different changes" in refused(graph, {"Person": given}, sequence="ts")


def test_the_same_change_may_come_twice(graph: og.Graph) -> None:
    rows = [{"name": "a", "age": 9, "ts": 5}] * 2 + [{"name": "b", "age": n, "ts": 5, "gone": True} for n in range(3)]
    result = graph.load({"Person": rows}, "apply", sequence="ts", delete="gone")
    assert counts_of(result) | {"cascaded": 0} == {
        **dict.fromkeys(counts_of(result), 0), "updated": 1, "deleted": 1, "ignored": 3
    }  # fmt: skip


def test_late_changes_are_skipped_where_the_sequence_is_a_property(graph: og.Graph) -> None:
    late = [{"name": "a", "age": 9, "version": 2}, {"name": "b", "version": 2, "gone": True}]
    result = graph.load({"Person": late}, "apply", sequence="version", delete="gone")
    assert (result.commit, result.total, counts_of(result)["stale"]) == (None, 0, 2)
    again = [{"name": "a", "age": 8, "version": 3}]
    assert counts_of(graph.load({"Person": again}, "apply", sequence="version"))["updated"] == 1
    assert person(graph, "a") == {"age": 8, "city": "oslo", "version": 3}


def test_a_late_deletion_does_not_make_a_later_change_fresh(graph: og.Graph) -> None:
    rows = [{"name": "a", "version": 1, "gone": True}, {"name": "a", "city": "rome", "version": 4}]
    graph.load({"Person": rows}, "apply", sequence="version", delete="gone")
    assert person(graph, "a") == {"age": 1, "city": "rome", "version": 4}


def _arrow(values: list[Any]) -> pa.Array:
    return pa.array(values, pa.uint64() if values[0] == 2**63 + 1 else None)


@pytest.mark.parametrize(
    ("sequence", "values"),
    [
        ("at: DateTime", ["2024-01-02T00:00:00+02:00", "2024-01-01T23:00:00Z", "2024-01-01T23:00:00.001Z"]),
        ("at: Date", ["2023-12-31", "2024-01-01", "2024-01-02"]),
        ("at: String", ["0/15D6B8", "0/15D6B9", "0/15D6BA"]),
        ("at: F64", [-1.5, 0, 0.25]),
        ("at: U64", [2**63, 2**63 + 1, 2**64 - 1]),
        ("at", [-1, 9, 10]),
    ],
)
@pytest.mark.parametrize("kind", ["lines", "csv", "parquet"])
def test_values_of_several_types_order_changes(
    graph: og.Graph, tmp_path: Path, sequence: str, values: list[Any], kind: str
) -> None:
    rows = [{"name": "a", "age": age, "at": values[age]} for age in (1, 2, 0)]
    data: Any = write_lines(tmp_path, ({"type": "Person", "data": row} for row in rows))
    if kind == "csv":
        data = {"Person": tmp_path / "rows.csv"}
        pd.DataFrame(rows).to_csv(tmp_path / "rows.csv", index=False)
    if kind == "parquet":
        data = {"Person": tmp_path / "rows.parquet"}
        pq.write_table(
            pa.table({name: _arrow([row[name] for row in rows]) for name in rows[0]}), tmp_path / "rows.parquet"
        )
    assert counts_of(graph.load(data, "apply", sequence=sequence))["ignored"] == 2
    assert person(graph, "a") == {"age": 2, "city": "oslo", "version": 3}


def test_each_type_may_have_a_sequence_of_its_own(graph: og.Graph) -> None:
    data = {"Person": [{"name": "a", "age": 5, "version": 1}], "Place": [{"name": "a", "size": 5, "lsn": "b"}]}
    result = graph.load(data, "apply", sequence=["version", "Place=lsn: String"])
    assert (counts_of(result)["stale"], counts_of(result)["updated"]) == (1, 1)
    said = refused(graph, data, sequence="Place=lsn: String")
    assert "no sequence is named for `Person`: expected `Person=COLUMN`" in said or "no such property" in said


# --- what marks deletions ---


def test_values_of_a_column_mark_deletions(graph: og.Graph) -> None:
    rows = [{"name": name, "ts": 1, "op": op} for name, op in (("a", "d"), ("b", "u"), ("c", None), ("d", "truncate"))]
    result = graph.load({"Person": rows}, "apply", sequence="ts", delete="op=d, truncate")
    assert (counts_of(result)["deleted"], counts_of(result)["updated"]) == (2, 2)
    said = refused(graph, {"Person": [{"name": "b", "ts": 1, "op": "D"}]}, sequence="ts", delete="op=d")
    assert "`D` differs from `d` in its case only" in said


def test_a_deletion_needs_only_what_says_whose_it_is(tmp_path: Path) -> None:
    schema = """
    node Room { house: String, number: I32, @key(house, number), name: String }
    edge Beside: Room -> Room { note: String }
    """
    graph = og.init(tmp_path / "rooms.omni", schema)
    rooms = [{"house": "x", "number": n, "name": f"r{n}", "ts": 1} for n in range(3)]
    ids = [f'["x","{n}"]' for n in range(3)]
    beside = [{"from": ids[0], "to": ids[n], "note": "", "ts": 1} for n in (1, 2)]
    graph.load({"Room": rooms, "Beside": beside}, "apply", sequence="ts", edge_id="from,to")
    lines = [
        {"edge": "Beside", "data": {"id": json.dumps([ids[0], ids[1]], separators=(",", ":")), "ts": 2, "gone": True}},
        {"edge": "Beside", "from": ["x", 0], "to": ["x", 2], "data": {"ts": 2, "gone": True}},
        {"type": "Room", "data": {"house": "x", "number": 2, "ts": 2, "gone": True}},
    ]
    result = graph.load(write_lines(tmp_path, lines), "apply", sequence="ts", delete="gone", edge_id="from,to")
    assert counts_of(result) == {**dict.fromkeys(counts_of(result), 0), "deleted": 3}
    again = [{"house": "x", "number": 2, "ts": 3}]
    assert "a value is required" in refused(graph, {"Room": again}, sequence="ts")


def test_tables_of_edges_without_ends_delete(graph: og.Graph) -> None:
    table = pa.table({"id": ["e0", "e1", "nobody"], "ts": [1, 1, 1], "gone": [True, True, True]})
    result = graph.load({"Knows": table}, "apply", sequence="ts", delete="gone")
    assert (counts_of(result)["deleted"], counts_of(result)["ignored"]) == (2, 1)
    mixed = pa.table(
        {"id": ["e2", "e9"], "from": [None, "a"], "to": pa.array([None, "b"]), "ts": [2, 2], "gone": [True, False]}
    )
    result = graph.load({"Knows": mixed}, "apply", sequence="ts", delete="gone")
    assert (counts_of(result)["deleted"], counts_of(result)["inserted"]) == (1, 1)
    lacking = pa.table({"id": ["e9"], "from": pa.array([None], pa.string()), "to": ["b"], "ts": [3]})
    assert "an end of the edge is missing" in refused(graph, {"Knows": lacking}, sequence="ts", delete="gone")
    nulls = pa.table({"id": ["e9"], "from": pa.nulls(1), "to": pa.nulls(1), "ts": [3], "gone": [True]})
    assert counts_of(graph.load({"Knows": nulls}, "apply", sequence="ts", delete="gone"))["deleted"] == 1


# --- what must hold in the end ---

RULES = """
node Person { name: String @key, mail: String? @unique }
node Task { name: String @key }
edge Does: Person -> Task @card(1..2)
"""


@pytest.fixture
def ruled(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "rules.omni", RULES)
    people = [{"name": name, "mail": f"{name}@x"} for name in "ab"]
    does = [{"id": f"d{n}", "from": end, "to": f"t{n}"} for n, end in enumerate("aab")]
    graph.load({"Person": people, "Task": [{"name": f"t{n}"} for n in range(4)], "Does": does})
    return graph


def test_values_of_deleted_entities_are_free(ruled: og.Graph, parts: str) -> None:
    rows = [{"name": "a", "ts": 1, "gone": True}, {"name": "c", "ts": 1, "mail": "a@x"}]
    data = {"Person": rows, "Does": [{"id": "d9", "from": "c", "to": "t1", "ts": 1}]}
    result = ruled.load(data, "apply", sequence="ts", delete="gone")
    assert counts_of(result) == {
        "inserted": 2, "updated": 0, "deleted": 1, "cascaded": 2, "stale": 0, "ignored": 0
    }  # fmt: skip
    taken = {"Person": [{"name": "c", "ts": 2, "mail": "b@x"}]}
    assert "is already that of `b`" in refused(ruled, taken, sequence="ts")


def test_edges_that_go_count_for_the_nodes_that_stay(ruled: og.Graph, parts: str) -> None:
    gone = {"Task": [{"name": "t2", "ts": 1, "gone": True}]}
    assert "`b` has 0 edges, and 1..2 are allowed" in refused(ruled, gone, sequence="ts", delete="gone")
    edge = {"Does": [{"id": "d2", "ts": 1, "gone": True}]}
    assert "`b` has 0 edges" in refused(ruled, edge, sequence="ts", delete="gone")
    one = {"Task": [{"name": "t0", "ts": 1, "gone": True}]}
    assert counts_of(ruled.load(one, "apply", sequence="ts", delete="gone"))["cascaded"] == 1
    moved = {**gone, "Does": [{"id": "d2", "from": "b", "to": "t3", "ts": 1}]}
    result = ruled.load(moved, "apply", sequence="ts", delete="gone")
    assert (counts_of(result)["updated"], counts_of(result)["cascaded"]) == (1, 0)


def test_edges_of_nodes_that_are_nowhere_are_refused(graph: og.Graph) -> None:
    edge = {"Knows": [{"id": "new", "from": "a", "to": "nobody", "ts": 1}]}
    assert "there is no `Person` with the id `nobody`" in refused(graph, edge, sequence="ts", delete="gone")
    result = graph.load(
        {**edge, "Person": [{"name": "nobody", "ts": 0, "gone": True}]}, "apply", sequence="ts", delete="gone"
    )
    assert (counts_of(result)["ignored"], result.commit) == (2, None)


# --- what is asked wrongly ---


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "mode `apply` orders changes by a column: expected `sequence`"),
        ({"sequence": ""}, "expected `sequence`"),
        ({"sequence": ["a", "b"]}, "expected one column for all types, and `Type=COLUMN` for others"),
        ({"sequence": "id"}, "expected the name of a column that orders changes"),
        ({"sequence": "ts: Tim"}, "expected the type"),
        ({"sequence": "ts: Bool"}, "expected the type"),
        ({"sequence": "version: String"}, "Person.version is I64: omit the type"),
        ({"sequence": "Persn=ts"}, "did you mean `Person`"),
        ({"sequence": ["Person=a", "Person=b"]}, "is given twice"),
        ({"sequence": "ts", "delete": "ts"}, "cannot both order changes and mark deletions"),
        ({"sequence": "ts", "delete": "age"}, "Person.age is I32 and cannot mark deletions: expected a Bool"),
        ({"sequence": "ts", "delete": "age=1"}, "expected a String or an enum"),
        ({"sequence": "ts", "delete": "op="}, "expected `COLUMN` or `COLUMN=VALUE,VALUE`"),
        ({"sequence": "ts", "delete": ""}, "expected `COLUMN` or `COLUMN=VALUE,VALUE`"),
        ({"sequence": "ts", "delete": "from"}, "expected `COLUMN` or `COLUMN=VALUE,VALUE`"),
    ],
)
def test_options_that_mean_nothing_are_refused(graph: og.Graph, options: dict[str, Any], problem: str) -> None:
    assert problem in refused(graph, {"Person": [{"name": "a", "ts": 1}]}, **options)


def test_options_of_changes_are_refused_in_other_modes(graph: og.Graph) -> None:
    for name in ("sequence", "delete"):
        options: dict[str, Any] = {name: "ts"}
        with pytest.raises(og.UsageError, match=f"`{name}` is for mode `apply`, found mode `merge`"):
            graph.load({"Person": []}, "merge", **options)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"name": "a"}, "a change needs a value in `ts`, which orders it"),
        ({"name": "a", "ts": None}, "a change needs a value in `ts`, which orders it"),
        ({"name": "a", "ts": "soon"}, "I64"),
        ({"name": "a", "ts": 1, "opp": True}, "no such property"),
        ({"name": "a", "ts": 1, "op": 7}, "expected a Bool"),
        ({"ts": 1, "op": True}, "a key cannot be null"),
    ],
)
@pytest.mark.parametrize("kind", ["lines", "rows"])
def test_changes_that_cannot_be_read_are_refused_with_their_lines(
    graph: og.Graph, tmp_path: Path, row: dict[str, Any], problem: str, kind: str
) -> None:
    rows = [{"name": "b", "ts": 1}, row]
    lines = write_lines(tmp_path, ({"type": "Person", "data": each} for each in rows))
    data: Any = lines if kind == "lines" else {"Person": rows}
    said = refused(graph, data, sequence="ts", delete="op")
    assert problem in said
    assert "changes.jsonl:2" in said if kind == "lines" else "Person:2" in said


def test_a_change_of_an_edge_needs_its_id(graph: og.Graph, tmp_path: Path) -> None:
    row = {"from": "a", "to": "b", "ts": 1}
    assert "a change needs the id of what it changes" in refused(graph, {"Knows": [row]}, sequence="ts")
    line = {"edge": "Knows", "from": "a", "to": "b", "data": {"ts": 1}}
    assert "form that of an edge with `edge_id`" in refused(graph, write_lines(tmp_path, [line]), sequence="ts")
    assert graph.load({"Knows": [row] * 2}, "apply", sequence="ts", edge_id="from,to").edges == {"Knows": 1}


# --- commits, keys, branches, doors ---


def test_a_batch_of_changes_is_applied_once_even_if_it_leaves_nothing(graph: og.Graph) -> None:
    stale = {"Person": [{"name": "a", "version": 1}]}
    first = graph.load(stale, "apply", sequence="version", application="cdc", batch=1)
    assert first.commit is not None
    assert first.commit.applied == first.applied
    assert counts_of(first)["stale"] == 1
    again = graph.load(stale, "apply", sequence="version", application="cdc", batch=1)
    assert (again.repeated, again.commit, again.total) == (True, first.commit, 0)
    with pytest.raises(og.BatchConflict):
        graph.load({"Person": [{"name": "a", "version": 2}]}, "apply", sequence="version", application="cdc", batch=1)


def test_nothing_to_apply_makes_no_commit(graph: og.Graph) -> None:
    result = graph.load({"Person": pa.table({"name": pa.array([], pa.string())})}, "apply", sequence="ts")
    assert (result.commit, set(counts_of(result).values())) == (None, {0})


def test_changes_of_a_branch_leave_main_as_it_is(graph: og.Graph) -> None:
    before = entities_of(graph)
    gone = {"Person": [{"name": "a", "ts": 1, "gone": True}]}
    result = graph.load(gone, "apply", sequence="ts", delete="gone", branch="b", from_="main")
    assert (counts_of(result)["deleted"], counts_of(result)["cascaded"]) == (1, 3)
    assert entities_of(graph) == before
    graph.merge("b")
    assert ("Person", "a") not in entities_of(graph)
    assert graph.verify().whole


def test_deleting_nodes_needs_the_right_to_change_their_edges(graph: og.Graph, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("""
rules:
  - {id: all, actors: any, actions: [read, change]}
  - {id: not-in, effect: forbid, actors: [ada], actions: [change], types: [In]}
""")
    mine = og.open(graph.uri, policy=policy, actor="ada")
    mine.load({"Person": [{"name": "a", "age": 4, "ts": 1}]}, "apply", sequence="ts", delete="gone")
    with pytest.raises(og.PolicyDenied, match="`In`"):
        mine.load({"Person": [{"name": "z", "ts": 1, "gone": True}]}, "apply", sequence="ts", delete="gone")


def test_changes_find_rows_that_small_writes_left_in_the_manifest(graph: og.Graph) -> None:
    graph.mutate("query add { insert Person { name: 'e', age: 5 } insert In { from: 'e', to: 'a' } }".replace("'", '"'))
    rows = [{"name": "e", "ts": 1, "gone": True}, {"name": "d", "age": 2, "ts": 1}]
    result = graph.load({"Person": rows}, "apply", sequence="ts", delete="gone")
    assert (counts_of(result)["deleted"], counts_of(result)["cascaded"], counts_of(result)["updated"]) == (1, 1, 1)
    assert graph.verify().whole


LINES = [
    {"type": "Person", "data": {"name": "a", "op": "d", "ts": 2}},
    {"type": "Person", "data": {"name": "n", "age": 1, "op": "c", "ts": 1}},
    {"edge": "Knows", "from": "n", "to": "b", "data": {"id": "new", "ts": 1}},
]
EXPECTED = {"inserted": 2, "updated": 0, "deleted": 1, "cascaded": 3, "stale": 0, "ignored": 0}


def test_a_command_applies_changes(graph: og.Graph, tmp_path: Path) -> None:
    file = write_lines(tmp_path, LINES)
    command = ["load", graph.uri, "--data", str(file), "--mode", "apply", "--sequence", "ts", "--delete", "op=d"]
    said = CliRunner().invoke(app, [*command, "--explain"])
    assert "applying: by id and sequence" in said.stdout
    said = CliRunner().invoke(app, [*command, "--json"])
    assert json.loads(said.stdout)["applied"] == EXPECTED
    said = CliRunner().invoke(app, command)
    assert "updated" in said.stdout
    shown = CliRunner().invoke(app, ["commit", "list", graph.uri, "--json"])
    assert shown.stdout.count('"cascaded": 3') == 1


def test_a_client_and_a_server_apply_changes(graph: og.Graph, tmp_path: Path) -> None:
    with running_server([graph.uri]) as server, og.connect(server.url, "graph") as client:
        result = client.load(write_lines(tmp_path, LINES), "apply", sequence=["ts"], delete="op=d")
        assert counts_of(result) == EXPECTED
        assert result.commit is not None
        assert client.commits.show(result.commit.graph_commit_id).applied == result.applied
        with pytest.raises(og.UsageError, match="expected `sequence`"):
            client.load({"Person": [{"name": "a"}]}, "apply")


# --- writers that die ---

_APPLY = """
import json, sys
import omnigraph as og
og.open(sys.argv[1]).load(sys.argv[2], "apply", sequence="ts", delete="op=d")
"""
_STEPS = [
    *(f"{Writer.LOAD}.{step}" for step in WriteStep),
    *(f"{Writer.LOAD}.{step}@{n}" for step in (WriteStep.TABLE_STAGED, WriteStep.TABLE_COMMITTED) for n in (2, 3)),
    *(f"{point}@{n}" for point in (Point.PUBLISH_BEFORE_SWAP, Point.PUBLISH_AFTER_SWAP) for n in (1, 2)),
]


@pytest.mark.parametrize("step", _STEPS)
def test_changes_of_a_killed_writer_are_all_there_or_none(graph: og.Graph, tmp_path: Path, step: str) -> None:
    before = entities_of(graph)
    file = write_lines(tmp_path, LINES)
    name, _, time = step.partition("@")
    armed = f"{name}=crash@{time}" if time else f"{name}=crash"
    code, _ = nursery.ended(_APPLY, graph.uri, str(file), environment={"OMNIGRAPH_FAILPOINTS": armed})
    assert code == -signal.SIGKILL
    found = og.open(graph.uri)
    found.mutate('query other { insert Place { name: "z" } }')  # recovers
    other = ("Place", "z")
    now = {key: entity for key, entity in entities_of(found).items() if key != other}
    if now != before:
        (applied,) = [each.applied for each in found.commits.list() if each.applied and each.applied.deleted]
        assert applied.as_json() == EXPECTED
        assert ("Person", "a") not in now
        assert len(now) == len(before) + 2 - 4
    assert found.verify().whole
    repeated = found.load(file, "apply", sequence="ts", delete="op=d")
    assert counts_of(repeated) == (
        EXPECTED
        if now == before
        else {**EXPECTED, "inserted": 0, "updated": 2, "deleted": 0, "cascaded": 0, "ignored": 1}
    )
