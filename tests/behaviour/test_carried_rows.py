"""Rows of small writes that the manifest carries: whatever is asked, the answer is that after a fold."""

import json
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.failpoints import WriteStep
from omnigraph.query import searching
from tests import nursery
from tests.behaviour import test_search as searches
from tests.behaviour.people import ages, carried, fold, other_handle, set_age, small_world, write
from tests.conftest import carry_rows
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear

OPTIMIZE = "import sys, omnigraph as og; og.open(sys.argv[1]).optimize()"
READS = {
    "names": "match { $p: Person } return { $p.name, $p.age } order { $p.name }",
    "old": "match { $p: Person  $p.age > 40 } return { $p.name } order { $p.name }",
    "youngest": "match { $p: Person } return { $p.name } order { $p.age, $p.name } limit 5",
    "few": 'match { $p: Person  $p.name = "p07" } return { $p.age }',
    "sums": "match { $p: Person } return { count($p) as people, sum($p.age) as years }",
    "friends": "match { $p: Person  $p knows $q } return { $p.name, $q.name } order { $p.name, $q.name }",
    "theirs": 'match { $p: Person  $p.name = "p03"  $p knows{1,3} $q } return { $q.name } order { $q.name }',
    "alone": "match { $p: Person  not { $p knows $q } } return { $p.name } order { $p.name }",
    "since": "match { $p: Person  $p $k:knows $q  $k.since > 3 } return { $k.id } order { $k.id }",
}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Loaded rows with indexes, and on top of them rows that are new, that replace others, and ids that are gone."""
    graph = small_world(tmp_path)
    people = [{"name": f"p{number:02}", "age": number * 3} for number in range(30)]
    links = [{"id": f"k{n:02}", "src": f"p{n:02}", "dst": f"p{(n * 7) % 30:02}", "since": n % 9} for n in range(30)]
    graph.load({"Person": people, "Knows": links}, mode="append")
    graph.ensure_indices()
    small_writes(graph)
    assert carried(graph) > 10
    return graph


def small_writes(graph: og.Graph, branch: str = "main") -> None:
    write(graph, 'insert Person { name: "new", age: 41 } insert Knows { id: "kn", from: "new", to: "p03" }', branch)
    write(graph, "update Person set { age: 99 } where age < 9", branch)
    write(graph, 'update Knows set { since: 8 } where id = "k05"', branch)
    write(graph, 'delete Person where name = "p04"', branch)
    write(graph, 'delete Knows where id = "k06"', branch)
    write(graph, 'delete Person where name = "p10" insert Person { name: "p10", age: 1 }', branch)
    write(graph, 'insert Knows { id: "k06", from: "p06", to: "p10" }', branch)


def answers(graph: og.Graph, branch: str = "main") -> dict[str, Any]:
    """What a graph says when it is asked in every way."""
    found: dict[str, Any] = {
        name: graph.query(f"query q {{ {text} }}", branch=branch).rows() for name, text in READS.items()
    }
    lines = graph.export(branch=branch)
    assert not isinstance(lines, int)
    found["export"] = sorted(lines)
    found["entity"] = [graph.entity("Person", name, at=branch) for name in ("p00", "p04", "p10", "new", "nobody")]
    for name in ("degrees", "components", "pagerank"):
        rows = graph.analyze(name, branch=branch).rows()
        found[name] = sorted(str({key: _short(value) for key, value in row.items()}) for row in rows)
    for version in (2, 3, 6):
        changes = graph.diff(version, branch)
        found[f"since {version}"] = sorted((each.type, each.kind, each.id, each.changed_properties) for each in changes)
        back = graph.diff(branch, version)
        found[f"back to {version}"] = sorted((each.type, each.kind, each.id) for each in back)
    found["commits"] = [commit.graph_commit_id for commit in graph.commits.list(branch)]
    return found


def _short(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def past(graph: og.Graph) -> list[dict[str, int | None]]:
    """The people at every commit."""
    versions = [commit.manifest_version for commit in reversed(graph.commits.list())]
    text = "query q { match { $p: Person } return { $p.name as name, $p.age as age } }"
    rows = [graph.query(text, snapshot=graph.snapshot_at(version=version)).rows() for version in versions]
    return [{row["name"]: row["age"] for row in each} for each in rows]


# --- reading ---


def test_every_read_is_the_same_before_and_after_a_fold(graph: og.Graph) -> None:
    before, history = answers(graph), past(graph)
    assert answers(other_handle(graph)) == before
    fold(graph)
    assert carried(graph) == 0
    assert answers(graph) == before
    assert answers(other_handle(graph)) == before
    assert past(graph) == history
    assert graph.verify(data=True).whole


def test_the_feed_has_each_commit_once_and_no_fold(graph: og.Graph) -> None:
    def feed() -> list[tuple[str, list[str]]]:
        blocks = graph.changes()
        return [(block.commit.graph_commit_id, sorted(f"{c.kind} {c.id}" for c in block.changes())) for block in blocks]

    before = feed()
    fold(graph)
    assert feed() == before
    set_age(graph, 5)
    fold(graph)
    assert [changes for _, changes in feed()] == [*(changes for _, changes in before), ["update Ada"]]


def test_a_fold_is_no_commit_for_those_who_name_one(graph: og.Graph) -> None:
    head = graph.snapshot().commit
    fold(graph)
    assert graph.snapshot().commit == head
    assert graph.snapshot().manifest.version > head.manifest_version
    graph.tags.create("folded")
    graph.branches.create("b")
    graph.mutate('query q { insert City { name: "Oslo" } }', if_commit=head.graph_commit_id)
    assert graph.snapshot_at(commit="folded").commit == head
    assert graph.snapshot_at(commit=head.graph_commit_id).commit == head
    assert graph.snapshot("b").commit == head
    assert graph.snapshot_at(version=head.manifest_version).commit == head


@pytest.mark.parametrize("are_many", [False, True])
def test_searches_find_carried_rows_as_reading_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, are_many: bool
) -> None:
    """Texts by their words and vectors by their direction, through indexes that know nothing of what is carried."""
    monkeypatch.setattr(searching, "EXACT_TEXTS", 0)
    if are_many:
        monkeypatch.setattr(searching, "EXACT_VECTORS", 100)
    graph = og.init(tmp_path / "graph.omni", searches.SCHEMA.replace(", scan: Blob?", ""), durability="fast")
    lines = [
        {**record, "data": {name: value for name, value in record["data"].items() if name != "scan"}}
        for kind in ("Read", "Indexed")
        for record in searches.records(kind, range(300))
        if "type" in record
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    graph.load(tmp_path / "rows.jsonl")
    graph.ensure_indices()
    for record in searches.records("Indexed", [*range(300, 315), *range(0, 60, 4)], seed=2):
        if "type" not in record:
            continue
        data = {name: value for name, value in record["data"].items() if name != "scan" and value is not None}
        values = ", ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in data.items())
        for kind in ("Read", "Indexed"):
            graph.mutate(f"query q {{ insert {kind} {{ {values} }} }}")
    for kind in ("Read", "Indexed"):
        write(graph, f'delete {kind} where year = 1953 and title < "t0100"')
        write(graph, f'update {kind} set {{ text: null }} where title = "t0100"')
    assert graph.snapshot().table("node:Indexed").deltas
    scores = scores_of(graph)
    for _ in range(2):
        searches.assert_same_filters(graph)
        searches.assert_same_neighbours(graph)
        fold(graph)
    assert scores_of(graph) == pytest.approx(scores, rel=1e-5)


def scores_of(graph: og.Graph) -> dict[str, float]:
    """How well each text fits some searches."""
    found: dict[str, float] = {}
    for clause, words in searches.RANKED:
        score = f'bm25($x.text, "{words}")'
        text = f"match {{ $x: Indexed  {clause} }} return {{ $x.title as title, {score} as score }}"
        rows = graph.query(f"query q {{ {text} order {{ score desc }} limit 1000 }}").rows()
        found |= {f"{clause} {words} {row['title']}": row["score"] for row in rows if row["score"] is not None}
    return found


# --- branches and merges ---


def test_a_branch_carries_what_it_begins_with_and_forks_a_table_at_its_first_fold(graph: og.Graph) -> None:
    before = answers(graph)
    graph.branches.create("b")
    assert answers(graph, "b") | {"commits": 0} == before | {"commits": 0}
    fold(graph)
    assert carried(graph, "b") > carried(graph) == 0
    set_age(graph, 7, "b", "p01")
    assert not any("/tree/" in pin.path for pin in graph.snapshot("b").manifest.pins.values())
    fold(graph, "b")
    assert carried(graph, "b") == 0
    forked = {key for key, pin in graph.snapshot("b").manifest.pins.items() if "/tree/" in pin.path}
    assert forked == {"node:Person", "edge:Knows"}
    assert ages(graph, "b") == {**ages(graph), "p01": 7}
    assert [(each.kind, each.id) for each in graph.diff("main", "b")] == [("update", "p01")]


@pytest.mark.parametrize("folded", ["", "main", "b", "main b"])
def test_a_merge_is_the_same_whatever_is_folded(graph: og.Graph, folded: str) -> None:
    graph.branches.create("b")
    set_age(graph, 7, "b", "p01")
    write(graph, 'insert Person { name: "late", age: 3 } insert Knows { from: "late", to: "new" }', "b")
    write(graph, 'delete Person where name = "p20"', "b")
    set_age(graph, 8, "main", "p02")
    write(graph, 'delete Knows where id = "k01"')
    for branch in folded.split():
        fold(graph, branch)
    expected = {**ages(graph), "p01": 7, "late": 3}
    del expected["p20"]
    graph.merge("b")
    assert ages(graph) == expected
    assert graph.entity("Knows", "k01") is None
    assert graph.entity("Knows", "k20") is None
    assert_history_is_linear(graph)
    fold(graph)
    assert ages(graph) == expected
    set_age(graph, 9, "b", "p02")
    with pytest.raises(og.MergeConflicts):
        graph.merge("b")


# --- upkeep ---


def test_cleanup_and_verify_know_what_is_carried(graph: og.Graph) -> None:
    expected = ages(graph)
    assert graph.verify(data=True).whole
    assert graph.cleanup(keep=1, grace="0s", confirm=True).failed == ()
    assert ages(other_handle(graph)) == expected
    set_age(graph, 50)
    fold(graph)
    assert graph.cleanup(keep=1, grace="0s", confirm=True).failed == ()
    head = graph.snapshot().commit
    for at in (graph.snapshot(), graph.snapshot_at(commit=head.graph_commit_id)):
        assert at.table("node:Person").count() == len(expected)
    assert ages(other_handle(graph)) == {**expected, "Ada": 50}
    assert graph.verify(data=True).whole
    graph.optimize()
    assert graph.cleanup(keep=1, grace="0s", confirm=True).failed == ()
    assert ages(other_handle(graph)) == {**expected, "Ada": 50}


def test_a_schema_changes_what_is_carried_too(graph: og.Graph) -> None:
    before = ages(graph)
    text = graph.schema.text.replace("age: I32?", "age: I64?, rank: I32 @default(3)")
    graph.schema.apply(text)
    assert ages(graph) == before
    assert {row["r"] for row in graph.query("query q { match { $p: Person } return { $p.rank as r } }").rows()} == {3}
    write(graph, "update Person set { rank: 4 } where age = 99")
    assert graph.diff("main", 5) is not None
    assert sorted(past(graph)[-1]) == sorted(before)


@pytest.mark.parametrize("step", [*WriteStep, "publish.before_swap", "publish.after_swap", "table_committed@2"])
def test_a_fold_that_dies_leaves_everything_as_it_was(graph: og.Graph, step: str) -> None:
    before = {name: value for name, value in answers(graph).items() if name != "commits"}
    name = step if step.startswith("publish") else f"fold.{step}"
    name, _, number = name.partition("@")
    armed = f"{name}=crash{f'@{number}' if number else ''}"
    code, errors = nursery.ended(OPTIMIZE, graph.uri, environment={failpoints.VARIABLE: armed})
    assert code == -signal.SIGKILL, errors
    for handle in (og.open(graph.uri, "r"), og.open(graph.uri, durability="fast")):
        assert {name: value for name, value in answers(handle).items() if name != "commits"} == before
    assert handle.recoveries.pending() == []
    set_age(handle, 11)
    fold(handle)
    assert carried(handle) == 0
    assert ages(handle) == {**ages(graph), "Ada": 11}
    assert handle.verify(data=True).whole
    assert_heads_are_pinned(handle)
    assert_history_is_linear(handle)


@pytest.mark.parametrize("step", [WriteStep.BEFORE_PHASE_A, WriteStep.AFTER_PHASE_C])
def test_a_write_that_dies_is_there_or_not(graph: og.Graph, step: str) -> None:
    before = ages(graph)
    text = 'query q { update Person set { age: 5 } where name = "Ada" insert City { name: "Rome" } }'
    program = f"import sys, omnigraph as og; og.open(sys.argv[1]).mutate({text!r})"
    code, errors = nursery.ended(program, graph.uri, environment={failpoints.VARIABLE: f"mutate.{step}=crash"})
    assert code == -signal.SIGKILL, errors
    is_there = step == WriteStep.AFTER_PHASE_C
    assert ages(other_handle(graph)) == ({**before, "Ada": 5} if is_there else before)
    assert (graph.entity("City", "Rome") is not None) == is_there
    assert graph.recoveries.pending() == []


# --- many writers ---


@pytest.mark.parametrize("most", [3, 512])
def test_no_write_is_lost_among_folds_and_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    carry_rows(monkeypatch, most)
    graph = small_world(tmp_path)
    written: list[str] = []
    failed: list[BaseException] = []

    def work(number: int) -> None:
        handle = og.open(graph.uri, durability="fast")
        try:
            for turn in range(8):
                name = f"w{number}-{turn}"
                if number == 3:
                    handle.load({"Person": [{"name": name, "age": turn}]}, mode="append")
                elif number == 2 and turn % 4 == 3:
                    handle.optimize()
                    continue
                else:
                    _persist(handle, name)
                written.append(name)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(ages(other_handle(graph))) == sorted(["Ada", "Bob", *written])
    fold(graph)
    assert sorted(ages(graph)) == sorted(["Ada", "Bob", *written])
    assert graph.verify(data=True).whole
    assert_history_is_linear(graph)


def _persist(graph: og.Graph, name: str) -> None:
    """A write that is tried again when another was faster."""
    while True:
        try:
            write(graph, f'insert Person {{ name: "{name}", age: 1 }}')
        except og.Conflict:
            continue
        return


def test_the_bounds_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carry_rows(monkeypatch, 5)
    graph = small_world(tmp_path)
    most = 0
    for number in range(20):
        write(graph, f'insert Person {{ name: "p{number}" }} insert City {{ name: "c{number}" }}')
        pins = graph.snapshot().manifest.pins.values()
        most = max(most, *(sum(each.count for each in pin.carried) for pin in pins))
    assert most == 5
    rows = " ".join(f'insert Person {{ name: "many{number}" }}' for number in range(6))
    write(graph, rows)
    assert graph.snapshot().manifest.pins["node:Person"].carried == ()
    assert len(ages(graph)) == 28


def test_bytes_are_bounded_for_all_tables_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.write.carried.CARRIED_BYTES", 20_000)
    graph = og.init(tmp_path / "graph.omni", "node A { name: String @key }\nnode B { name: String @key }")
    sizes = []
    for number in range(40):
        graph.mutate(f'query q {{ insert {"AB"[number % 2]} {{ name: "{"x" * 2_000}{number}" }} }}')
        pins = graph.snapshot().manifest.pins.values()
        sizes.append(sum(each.size for pin in pins for each in pin.carried))
    assert 10_000 < max(sizes) <= 20_000
    assert graph.snapshot().table("node:A").count() == 20


def test_rows_with_blobs_go_to_their_table(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", "node P { name: String @key, photo: Blob?, age: I32? }")
    add = "query q($name: String, $photo: Blob?) { insert P { name: $name, photo: $photo } }"
    graph.mutate(add, params={"name": "a", "photo": b"one"})
    graph.mutate(add, params={"name": "b"})
    graph.mutate('query q { update P set { age: 5 } where name = "a" }')
    assert carried(graph) == 0
    found = graph.entity("P", "a")
    assert found is not None
    assert (found["photo"], found["age"]) == (b"one", 5)


def test_a_graph_is_moved_with_what_it_carries(graph: og.Graph, tmp_path: Path) -> None:
    expected = answers(graph)
    moved = tmp_path / "elsewhere.omni"
    shutil.copytree(graph.uri, moved)
    assert answers(og.open(moved, "r")) == expected
