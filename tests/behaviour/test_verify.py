"""`verify` finds what is damaged, says which commits are whole, and changes nothing."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lance
import omnigraph as og
from omnigraph.cli.main import app
from omnigraph.storage.location import location_of
from omnigraph.versioning import Branches
from tests.file_damages import flip
from tests.manifest_files import manifest_file

SCHEMA = """
node Person { name: String @key, age: I32?, bio: String? @index }
edge Knows: Person -> Person
"""
ADD = "query add($name: String) { insert Person { name: $name } }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """A graph with a branch, a tag, indexes, deleted and changed rows."""
    graph = og.init(tmp_path / "graph", SCHEMA)
    people = [{"name": f"p{number}", "age": number, "bio": f"likes {number}"} for number in range(50)]
    graph.load({"Person": people, "Knows": [{"from": f"p{n}", "to": f"p{n + 1}"} for n in range(40)]})
    graph.tags.create("loaded")
    graph.ensure_indices()
    graph.branches.create("review")
    graph.mutate(ADD, params={"name": "Ada"}, branch="review")
    graph.mutate('query remove { delete Person where name = "p49" }')
    return graph


def tree(graph: og.Graph) -> dict[str, bytes]:
    root = Path(graph.uri)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def files_of_kind(graph: og.Graph, kind: str) -> list[Path]:
    """The files of tables of one kind; `rows`, `deletions`, `index` or `version`."""
    patterns = {
        "rows": "data/*.lance",
        "deletions": "_deletions/*",
        "index": "_indices/*/*",
        "version": "_versions/*.manifest",
    }
    found = sorted(path for path in Path(graph.uri, "nodes").rglob(patterns[kind]))
    # The version that a fork begins with is nobody's: no commit pins it.
    return [path for path in found if kind != "version" or "tree" not in path.parts]


@pytest.mark.parametrize("data", [False, True])
def test_a_healthy_graph_is_whole_and_every_file_has_a_checksum(graph: og.Graph, data: bool) -> None:
    before = tree(graph)
    result = og.open(graph.uri, "r").verify(data=data)
    assert result.whole
    assert result.damage == ()
    assert result.unverified == 0
    assert {(each.branch, each.manifest_version) for each in result.commits} == {
        *(("main", version) for version in range(1, 5)),
        *(("review", version) for version in range(3, 5)),
    }
    assert all(each.whole for each in result.commits)
    assert (result.rows > 0) == data
    assert tree(graph) == before


@pytest.mark.usefixtures("rows_in_tables")
@pytest.mark.parametrize("kind", ["rows", "deletions", "index", "version"])
def test_one_bit_in_any_file_of_a_table_is_found(graph: og.Graph, kind: str) -> None:
    for path in files_of_kind(graph, kind):
        whole = path.read_bytes()
        for place in (0, len(whole) // 2, len(whole) - 1):
            flip(path, place)
            result = og.open(graph.uri, "r").verify(data=True)
            found = [each for each in result.damage if each.path.endswith(path.name)]
            assert found, (path, place)
            assert found[0].commits == sum(not each.whole for each in result.commits)
            path.write_bytes(whole)
    assert og.open(graph.uri, "r").verify(data=True).whole


@pytest.mark.usefixtures("rows_in_tables")
@pytest.mark.parametrize("kind", ["rows", "deletions", "index", "version"])
def test_a_file_that_is_missing_or_cut_short_is_found_without_reading_data(graph: og.Graph, kind: str) -> None:
    path = files_of_kind(graph, kind)[-1]
    whole = path.read_bytes()
    for content in (None, whole[:-1], b""):
        path.unlink() if content is None else path.write_bytes(content)
        result = og.open(graph.uri, "r").verify()
        assert [each for each in result.damage if path.name.removesuffix(".lance") in each.path], (path, content)
    path.write_bytes(whole)


def test_what_was_made_before_the_damage_is_still_whole(graph: og.Graph) -> None:
    manifest_file(graph.uri, graph.snapshot().manifest.version).write_bytes(b"")
    result = og.open(graph.uri, "r").verify()
    assert [(each.manifest_version, each.whole) for each in result.commits if each.branch == "main"] == [
        (1, True),
        (2, True),
        (3, True),
        (4, False),
    ]
    assert all(each.whole for each in result.commits if each.branch == "review")


@pytest.mark.parametrize("folder", ["__heads", "__schemas", "__tags", "__checksums"])
def test_a_damaged_record_is_found(graph: og.Graph, folder: str) -> None:
    path = min(Path(graph.uri, folder).iterdir())
    whole = path.read_bytes()
    for content in (b"", whole[:-5], whole.replace(b'"', b"'", 1)):
        path.write_bytes(content)
        result = og.open(graph.uri, "r").verify()
        assert [each.path for each in result.damage if path.name in each.path], content


def test_a_graph_of_before_is_whole_and_unverified(graph: og.Graph) -> None:
    for path in Path(graph.uri, "__checksums").iterdir():
        path.unlink()
    result = og.open(graph.uri, "r").verify(data=True)
    assert result.whole
    assert result.unverified > 0


def test_an_edge_without_its_end_and_an_id_that_stands_twice_are_found(graph: og.Graph) -> None:
    head = Branches(location_of(graph.uri)).main.head()
    people = lance.dataset(f"{graph.uri}/{head.pins['node:Person'].path}")
    people.insert(people.to_table(filter="name = 'p5'"))
    people.delete("name = 'p3'")
    graph.repair(confirm=True, force=True)
    result = og.open(graph.uri, "r").verify(data=True)
    problems = " ".join(each.problem for each in result.damage)
    assert "distinct ids" in problems
    assert "p3" in problems


def test_cleanup_folds_the_checksums_of_what_is_left(graph: og.Graph) -> None:
    graph.optimize()
    assert len([*Path(graph.uri, "__checksums").iterdir()]) > 1
    graph.tags.delete("loaded")
    graph.branches.delete("review")
    graph.cleanup(keep=1, grace="0s", confirm=True)
    (folded,) = Path(graph.uri, "__checksums").iterdir()
    recorded = json.loads(folded.read_text())["tables"]
    for path, files in recorded.items():
        for name in files:
            assert Path(graph.uri, path, name).exists()
    result = og.open(graph.uri, "r").verify(data=True)
    assert result.whole
    assert result.unverified == 0


def test_the_command_ends_with_1_when_something_is_damaged(graph: og.Graph) -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["verify", graph.uri, "--data"]).exit_code == 0
    path = files_of_kind(graph, "rows")[0]
    flip(path, 40)
    found = runner.invoke(app, ["verify", graph.uri, "--data", "--json"])
    assert found.exit_code == 1
    assert json.loads(found.stdout)["damage"][0]["path"].endswith(path.name)
    assert runner.invoke(app, ["verify", graph.uri]).exit_code == 0


def test_an_index_that_cleanup_removes_at_this_moment_keeps_nobody_from_reading(graph: og.Graph) -> None:
    """A link that leads nowhere is what a folder looks like that was listed, and is gone when it is looked at."""
    for folder in Path(graph.uri, "nodes").glob("*/_indices"):
        (folder / "25d90939-5f39-4f2e-a310-aca176e27e6d").symlink_to("nowhere")
        (folder / "a file").write_text("of somebody else")
    again = og.open(graph.uri, mode="r")
    assert len(again.query("query q { match { $p: Person } return { $p.name } }")) == 49
