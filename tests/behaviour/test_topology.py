"""An index of topology never changes an answer: not when it covers little, is damaged, missing, or somebody else's."""

import logging
import random
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.api.upkeep import IndexStatus
from omnigraph.catalog import IndexIntent, IndexKind
from omnigraph.failpoints import Writer
from omnigraph.session.writes import WriteOrder
from omnigraph.storage.indexes import stage_indexes, write_index
from omnigraph.storage.predicates import among
from omnigraph.storage.tables import Table
from omnigraph.storage.topology import (
    TOPOLOGY_EDGES,
    _reported,
    number_ends,
    read_late_ends,
    scan_ends,
    uses_topology,
)
from omnigraph.write import StagedTable, write_staged
from tests import nursery
from tests.file_damages import DAMAGES, Damage, flip, replace_by_older

SCHEMA = """
node Person { name: String @key }
node Town { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> Town
"""
PEOPLE, TOWNS, EDGES = 60, 5, 300
HOP = "query q($n: String) { match { $p: Person { name: $n } $p knows $q } return { $q.name } }"
BACK = "query q($n: String) { match { $p: Person { name: $n } $q knows $p } return { $q.name } }"
FAR = "query q($n: String) { match { $p: Person { name: $n } $p knows{1,3} $q } return { $q.name } }"
TOWN = "query q($n: String) { match { $p: Person { name: $n } $p livesIn $t } return { $t.name } }"
ALL = "query q { match { $p: Person $p knows $q } return { $p.name, $q.name } }"
COUNTS = "query q { match { $p: Person $p knows $q } return { $p.name, count($q) as n } }"
QUERIES = (HOP, BACK, FAR, TOWN, ALL, COUNTS)
EDGE_TABLES = ("edge:Knows", "edge:LivesIn")
_BUILDER = "import sys, omnigraph as og; og.open(sys.argv[1]).ensure_indices(engine='local')"
_KILLED = """
import os, signal, sys
import omnigraph as og
from omnigraph.api.upkeep import IndexStatus
from omnigraph.storage.objects import LocalObjects
created = LocalObjects.create
def die(self, name, content):
    if name.startswith("_topology/"):
        self._draft(self._root / name, content[: len(content) // 2], durable=False)
        os.kill(os.getpid(), signal.SIGKILL)
    return created(self, name, content)
LocalObjects.create = die
og.open(sys.argv[1]).ensure_indices(engine="local")
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return _graph_at(tmp_path / "graph")


# --- histories ---


@pytest.mark.parametrize("seed", range(4))
def test_every_version_of_a_random_history_has_the_same_edges_with_and_without_it(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    graph = _graph_at(tmp_path / "graph")
    graph.ensure_indices(engine="local")
    graph.branches.create("side")
    used = 0
    for step in range(14):
        branch = chance.choice(["main", "main", "side"])
        _change(graph, chance, branch, step)
        for name in ("main", "side"):
            for key in EDGE_TABLES:
                used += _compare_tables(graph.snapshot(name).table(key), chance)
    assert used
    commits = graph.commits.list()
    for commit in chance.sample(commits, min(8, len(commits))):
        snapshot = graph.snapshot_at(commit=commit.graph_commit_id)
        for key in EDGE_TABLES:
            _compare_tables(snapshot.table(key), chance)


@pytest.mark.parametrize("seed", range(3))
def test_queries_and_analyses_give_the_same_rows_with_and_without_it(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)  # noqa: S311
    graph = _graph_at(tmp_path / "graph")
    graph.ensure_indices(engine="local")
    for step in range(4):
        _change(graph, chance, "main", step)
        monkeypatch.setenv(TOPOLOGY_EDGES, "1")
        answered = _answers(tmp_path / "graph")
        monkeypatch.setenv(TOPOLOGY_EDGES, "999999999")
        assert _answers(tmp_path / "graph") == answered
        monkeypatch.setenv(TOPOLOGY_EDGES, "1")


def _change(graph: og.Graph, chance: random.Random, branch: str, step: int) -> None:
    who = f"p{chance.randrange(PEOPLE)}"
    match chance.randrange(9):
        case 0 | 1:
            _load_edges(graph, chance, chance.choice([1, 5, 40]), branch)
        case 2:
            _write(graph, f'delete Person where name = "{who}"', branch)
            _write(graph, f'insert Person {{ name: "{who}" }}', branch)
        case 3:
            _write(graph, f"delete Knows where since = {chance.randrange(20)}", branch)
        case 4:
            _write(graph, f"update Knows set {{ since: {step} }} where since = {chance.randrange(20)}", branch)
        case 5:
            graph.optimize(branch=branch, engine="local")
        case 6:
            graph.ensure_indices(branch=branch, engine="local")
        case 7:
            name = f"new {branch} {step}"
            text = f'insert Person {{ name: "{name}" }} insert Knows {{ from: "{name}", to: "{name}" }}'
            _write(graph, text, branch)
        case 8:
            graph.branches.delete("side")
            graph.branches.create("side")


def _compare_tables(table: Table, chance: random.Random) -> bool:
    """Compares the ends of all rows, and the rows at some ids, with a scan; returns whether the index was used."""
    read = table.scan(["src", "dst", "_rowaddr"])
    addresses = table.row_addresses()
    assert sorted(addresses.tolist()) == sorted(read["_rowaddr"].to_pylist())
    rows = {row["_rowaddr"]: (row["src"], row["dst"]) for row in read.to_pylist()}
    found = number_ends(table, addresses)
    assert (found is not None) == uses_topology(table)
    if found is not None:
        ids = [*found.ids.to_pylist(), None]
        ends = [[ids[number] for number in side] for side in (found.begins, found.ends)]
        late = read_late_ends(table, addresses, found)
        assert sorted(late.rows.tolist()) == np.flatnonzero(found.begins < 0).tolist()
        for side, name in enumerate(("src", "dst")):
            for row, text in zip(late.rows.tolist(), late.ends[name].to_pylist(), strict=True):
                ends[side][row] = text
        assert {address: (src, dst) for address, src, dst in zip(addresses.tolist(), *ends, strict=True)} == rows
    wanted = [f"p{chance.randrange(PEOPLE)}" for _ in range(3)]
    for asked in ({"src": wanted}, {"dst": wanted}, {"src": wanted, "dst": wanted[:1]}):
        filter = " OR ".join(among(column, ids) for column, ids in asked.items())
        for columns in (["src", "dst"], ["dst"], ["id", "src"]):
            expected = _sorted_rows(table.scan(columns, filter))
            assert _sorted_rows(scan_ends(table, columns, asked)) == expected
    return found is not None


def _sorted_rows(table: pa.Table) -> list[str]:
    return sorted(str(row) for row in table.to_pylist())


def _answers(path: Path) -> list[Any]:
    """What a new handle answers: first from tables, then from memory."""
    graph = og.open(path, mode="r")
    found: list[Any] = []
    for query in QUERIES:
        for name in ("p1", "p7", "p30"):
            for _ in range(2):
                params = {"n": name} if "$n" in query else {}
                found.append([tuple(row.values()) for row in graph.query(query, params=params).rows()])
    for algorithm in ("components", "pagerank"):
        found.append(graph.analyze(algorithm).rows())
    return found


# --- building ---


def test_both_verbs_build_it_and_the_list_of_indexes_has_it(graph: og.Graph) -> None:
    built = graph.ensure_indices(engine="local").built
    assert built["edge:Knows"] == ("id_btree", "topology")
    status = _status(graph)
    assert (status.column, status.kind, status.state) == ("src, dst", "TOPOLOGY", "complete")
    assert (status.covered_rows, status.rows) == (EDGES, EDGES)
    again = graph.ensure_indices(engine="local")
    assert again.commit is None
    assert again.present["edge:Knows"] == ("id_btree", "topology")
    _load_edges(graph, random.Random(1), 20)  # noqa: S311
    assert (_status(graph).state, _status(graph).covered_rows) == ("partial", EDGES)
    tables = {each.table_key: each for each in graph.optimize(engine="local").tables}
    assert "topology" in tables["edge:Knows"].indexes_built
    assert (_status(graph).state, _status(graph).covered_rows) == ("complete", EDGES + 20)
    assert graph.optimize(engine="local").commit is None
    assert not {"src_btree", "dst_btree"} & {each.name for each in graph.indexes()}


def test_few_edges_have_none_and_the_reason_says_so(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOPOLOGY_EDGES)
    reason = f"expected at least 65,536 edges, found {EDGES}; fewer are read without an index"
    assert graph.ensure_indices(engine="local").pending["edge:Knows"]["topology"] == reason
    assert (_status(graph).state, _status(graph).reason) == ("pending", reason)
    assert not _files(graph)
    monkeypatch.setenv(TOPOLOGY_EDGES, str(EDGES))
    assert _status(graph).state == "missing"


def test_a_branch_uses_the_file_of_its_parent(graph: og.Graph) -> None:
    graph.ensure_indices(engine="local")
    graph.branches.create("side")
    _load_edges(graph, random.Random(2), 10, "side")  # noqa: S311
    table = graph.snapshot("side").table("edge:Knows")
    assert "/tree/" in table.location.uri
    assert uses_topology(table)
    assert len(_files(graph)) == 1


def test_a_step_of_a_new_process_reads_no_edge(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.ensure_indices(engine="local")
    read: list[str] = []
    scanner = Table._scanner

    def look(table: Table, columns: Any, *others: Any) -> Any:
        if "/edges/" in table.location.uri:
            read.extend(columns)
        return scanner(table, columns, *others)

    monkeypatch.setattr(Table, "_scanner", look)
    new = og.open(graph.uri, mode="r")
    for query in (HOP, BACK, FAR, HOP):
        assert new.query(query, params={"n": "p7"}).rows()
    memory = new.status().memory
    assert memory is not None
    assert memory.answered
    assert read == []


def test_a_delete_of_a_node_takes_its_edges_along(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Path(f"{graph.uri} plain")
    shutil.copytree(graph.uri, plain)
    graph.ensure_indices(engine="local")
    other = og.open(plain)
    for each in (graph, other):
        _write(each, 'delete Person where name = "p7"')
    assert graph.query(ALL).rows() == other.query(ALL).rows()


def test_btrees_of_the_ends_that_a_graph_has_stay_and_are_listed(graph: og.Graph) -> None:
    before = graph.query(ALL).rows()
    order = WriteOrder(kind=Writer.ENSURE_INDICES, branch="main", actor=None, message="as before")
    with graph._session.writes.attempt(order) as attempt:
        table = attempt.base.table("edge:Knows")
        written = [write_index(table, IndexIntent(column, IndexKind.BTREE)) for column in ("src", "dst")]
        write_staged(attempt, {"edge:Knows": StagedTable(table, stage_indexes(table, written, attempt.operation_id))})
    assert graph.ensure_indices(engine="local").built["edge:Knows"] == ("id_btree", "topology")
    _load_edges(graph, random.Random(6), 1)  # noqa: S311
    graph.optimize(engine="local")
    states = {each.name: each.state for each in graph.indexes() if each.table_key == "edge:Knows"}
    assert states == {
        **dict.fromkeys(("id_btree", "topology"), "complete"),
        **dict.fromkeys(("src_btree", "dst_btree"), "undeclared"),
    }
    assert len(og.open(graph.uri).query(ALL).rows()) >= len(before)
    assert _compare_tables(graph.snapshot().table("edge:Knows"), random.Random(6))  # noqa: S311


# --- damage ---


@pytest.mark.parametrize("damage", [*DAMAGES, *(lambda path, at=at: flip(path, at) for at in (0, 10, 40, -400, -900))])
def test_a_damaged_file_is_ignored_reported_and_built_again(
    graph: og.Graph, damage: Damage, caplog: pytest.LogCaptureFixture
) -> None:
    graph.ensure_indices(engine="local")
    if damage is replace_by_older:
        _load_edges(graph, random.Random(3), 200)  # noqa: S311
        graph.optimize(engine="local")
    expected = _answers(Path(graph.uri))
    file = max(_files(graph), key=lambda each: each.stat().st_mtime_ns)
    damage(file)
    _reported.clear()
    with caplog.at_level(logging.WARNING):
        assert _answers(Path(graph.uri)) == expected
    if file.exists():
        assert "an index of topology is ignored" in caplog.text
        result = graph.verify(data=True)
        assert [(each.path, each.commits) for each in result.damage] == [(str(file.relative_to(graph.uri)), 0)]
        assert "build it again with `omnigraph indexes`" in result.damage[0].problem
        assert all(commit.whole for commit in result.commits)
    assert graph.ensure_indices(engine="local").built == {"edge:Knows": ("topology",)}
    assert graph.verify(data=True).whole
    assert uses_topology(graph.snapshot().table("edge:Knows"))


# --- cleanup ---


def test_cleanup_keeps_the_files_that_kept_versions_use_and_removes_the_others(graph: og.Graph) -> None:
    graph.ensure_indices(engine="local")
    graph.tags.create("before")
    before = graph.snapshot().commit_id
    first = {*_files(graph)}
    for number in range(2):
        _load_edges(graph, random.Random(number), 400)  # noqa: S311
        graph.optimize(engine="local")
    assert len(_files(graph)) == 3
    graph.cleanup(keep=1, grace="0s", confirm=True)
    newest = {*_files(graph)} - first
    assert first < {*_files(graph)}
    assert len(newest) == 1
    assert uses_topology(graph.snapshot_at(commit=before).table("edge:Knows"))
    graph.tags.delete("before")
    graph.cleanup(keep=1, grace="0s", confirm=True)
    assert {*_files(graph)} == newest
    assert uses_topology(graph.snapshot().table("edge:Knows"))
    assert graph.verify(data=True).whole


def test_cleanup_removes_the_file_of_a_deleted_branch(graph: og.Graph) -> None:
    graph.ensure_indices(engine="local")
    graph.branches.create("side")
    _load_edges(graph, random.Random(4), 400, "side")  # noqa: S311
    graph.optimize(branch="side", engine="local")
    assert len(_files(graph)) == 2
    graph.branches.delete("side")
    graph.cleanup(keep=1, grace="0s", confirm=True)
    assert len(_files(graph)) == 1


# --- other processes ---


def test_another_process_finds_what_one_has_built(graph: og.Graph) -> None:
    assert nursery.ended(_BUILDER, str(graph.uri))[0] == 0
    assert _status(graph).state == "complete"
    assert uses_topology(graph.snapshot().table("edge:Knows"))


def test_a_killed_builder_leaves_nothing_that_matters(graph: og.Graph) -> None:
    code, errors = nursery.ended(_KILLED, str(graph.uri))
    assert code == -9, errors
    graph = og.open(graph.uri)
    left = [*Path(graph.uri).glob("edges/*/_topology/.draft-*")]
    assert left
    assert _status(graph).state == "missing"
    assert graph.verify(data=True).whole
    assert "topology" in graph.ensure_indices(engine="local").built["edge:Knows"]
    assert graph.query(HOP, params={"n": "p7"}).rows()
    graph.cleanup(keep=1, grace="0s", confirm=True)
    assert not any(each.exists() for each in left)
    assert _status(graph).state == "complete"


def test_it_serves_a_graph_on_an_object_store(s3_store: dict[str, str], tmp_path: Path) -> None:
    graph = og.init(f"s3://bucket/{tmp_path.name}", SCHEMA, storage_options=s3_store)
    _fill(graph)
    assert "topology" in graph.ensure_indices(engine="local").built["edge:Knows"]
    graph = og.open(graph.uri, storage_options=s3_store)
    assert uses_topology(graph.snapshot().table("edge:Knows"))
    _load_edges(graph, random.Random(5), 10)  # noqa: S311
    for key in EDGE_TABLES:
        assert _compare_tables(graph.snapshot().table(key), random.Random(5))  # noqa: S311
    assert graph.query(HOP, params={"n": "p7"}).rows() == graph.query(HOP, params={"n": "p7"}).rows() != []
    assert graph.verify(data=True).whole
    graph.cleanup(keep=1, confirm=True)
    assert uses_topology(graph.snapshot().table("edge:Knows"))


# --- graphs ---


def _graph_at(path: Path) -> og.Graph:
    graph = og.init(path, SCHEMA)
    _fill(graph)
    return graph


def _fill(graph: og.Graph) -> None:
    people = pa.table({"name": [f"p{number}" for number in range(PEOPLE)]})
    towns = pa.table({"name": [f"p{number}" for number in range(TOWNS)]})  # the same ids as those of people
    chance = random.Random(0)  # noqa: S311
    lives = {"from": people["name"], "to": [f"p{chance.randrange(TOWNS)}" for _ in range(PEOPLE)]}
    graph.load({"Person": people, "Town": towns, "LivesIn": pa.table(lives)}, engine="local")
    _load_edges(graph, chance, EDGES)


def _load_edges(graph: og.Graph, chance: random.Random, count: int, branch: str = "main") -> None:
    ends = {side: [f"p{chance.randrange(PEOPLE)}" for _ in range(count)] for side in ("from", "to")}
    since = pa.array([chance.randrange(20) for _ in range(count)], pa.int32())
    graph.load({"Knows": pa.table({**ends, "since": since})}, branch=branch, engine="local")


def _write(graph: og.Graph, text: str, branch: str = "main") -> None:
    graph.mutate(f"query q {{ {text} }}", branch=branch)


def _status(graph: og.Graph) -> IndexStatus:
    return next(each for each in graph.indexes() if (each.table_key, each.name) == ("edge:Knows", "topology"))


def _files(graph: og.Graph) -> list[Path]:
    folder = graph.snapshot().table("edge:Knows").location.path
    assert folder is not None
    return sorted(folder.glob("_topology/*.topology"))


def test_it_is_built_while_other_indexes_are(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each index waits until the file is there, which would take forever if it was built after them."""
    waited: list[bool] = []

    def write(table: Table, intent: IndexIntent) -> Any:
        until = time.monotonic() + 60
        while not _files(graph) and time.monotonic() < until:
            time.sleep(0.01)
        waited.append(bool(_files(graph)))
        return write_index(table, intent)

    monkeypatch.setattr("omnigraph.maintenance.indexes.write_index", write)
    built = graph.ensure_indices(engine="local").built
    assert waited
    assert all(waited)
    assert "topology" in built["edge:Knows"]
    assert uses_topology(graph.snapshot().table("edge:Knows"))
