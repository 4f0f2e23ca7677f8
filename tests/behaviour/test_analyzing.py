"""Analyses of a whole graph: what they are about, what they find, and how it is written back."""

import json
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest

import omnigraph as og
from omnigraph.analytics import analysis as analyses
from omnigraph.api.progress import Progress
from tests.behaviour.test_cli import omnigraph_cli

SCHEMA = """
node Person {
    name: String @key, photo: Blob?, tags: [String]?, rank: F64?, coarse: F32?,
    group: String?, size: I32?, tiny: I32?, sure: F64 @default(0)
    @range(tiny, 0..1)
}
node Note { text: String, size: U64? }
node Company { name: String @key, rank: F64? }
edge Knows: Person -> Person { strength: F64?, since: Date? }
edge WorksAt: Person -> Company { strength: I32? }
edge About: Note -> Person
"""
PEOPLE = ("Ada", "Bob", "Cleo", "Dan", "Eve")
KNOWS = [("Ada", "Bob", 5), ("Bob", "Cleo", 1), ("Cleo", "Ada", 1), ("Dan", "Ada", 2), ("Ada", "Cleo", 9)]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """A graph that is only read: four people who know each other, one who knows nobody, and the company of two."""
    return _filled(tmp_path_factory.mktemp("analyzing"))


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """The same, to be written to."""
    return _filled(tmp_path)


def _filled(folder: Path) -> og.Graph:
    graph = og.init(folder / "graph.omni", SCHEMA, durability="fast")
    records: list[dict[str, Any]] = [
        {"type": "Person", "data": {"name": name, "photo": "base64:aGk=", "tags": ["a", name]}} for name in PEOPLE
    ]
    records += [{"type": "Company", "data": {"name": name}} for name in ("Ada", "Zen")]
    records += [{"type": "Note", "data": {"id": "n1", "text": "hello"}}]
    records += [{"edge": "Knows", "from": a, "to": b, "data": {"strength": s}} for a, b, s in KNOWS]
    records += [{"edge": "WorksAt", "from": name, "to": "Zen", "data": {"strength": 1}} for name in ("Ada", "Eve")]
    records += [{"edge": "About", "from": "n1", "to": "Dan"}]
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, records)), "utf-8")
    graph.load(folder / "data.jsonl")
    return graph


def column(analysis: Any, name: str) -> dict[str, Any]:
    """A column by id."""
    return {row["id"]: row[name] for row in analysis.rows()}


def people(graph: og.Graph, *columns: str, branch: str = "main") -> dict[str, Any]:
    rows = graph.snapshot(branch).scan("node:Person", columns=["id", *columns]).to_pylist()
    return {row["id"]: tuple(row[name] for name in columns) for row in rows}


# --- what an analysis is about ---


def test_an_analysis_has_a_row_for_every_node_of_the_chosen_types(original: og.Graph) -> None:
    found = original.analyze("degrees", edges="Knows")
    assert found.table.to_pylist() == [
        {"type": "Person", "id": "Ada", "in_degree": 2, "out_degree": 2, "degree": 4},
        {"type": "Person", "id": "Bob", "in_degree": 1, "out_degree": 1, "degree": 2},
        {"type": "Person", "id": "Cleo", "in_degree": 2, "out_degree": 1, "degree": 3},
        {"type": "Person", "id": "Dan", "in_degree": 0, "out_degree": 1, "degree": 1},
        {"type": "Person", "id": "Eve", "in_degree": 0, "out_degree": 0, "degree": 0},
    ]
    assert found.summary == {"nodes": 5, "edges": 5, "greatest": 4, "isolated": 1}
    assert found.commit_id == original.snapshot().commit_id
    assert found.top(2).to_arrow()["id"].to_pylist() == ["Ada", "Cleo"]


@pytest.mark.parametrize(
    ("chosen", "nodes", "edges"),
    [
        ({}, 8, 8),
        ({"edges": ["knows", "WorksAt"]}, 7, 7),
        ({"nodes": ["Person", "Note"]}, 6, 6),
        ({"nodes": ["Person", "Company"], "edges": ["Knows"]}, 7, 5),
        ({"nodes": "Company"}, 2, 0),
    ],
)
def test_types_that_are_not_named_follow_from_those_that_are(
    original: og.Graph, chosen: dict[str, Any], nodes: int, edges: int
) -> None:
    summary = original.analyze("degrees", **chosen).summary
    assert (summary["nodes"], summary["edges"]) == (nodes, edges)


def test_nodes_of_two_types_may_have_the_same_id(original: og.Graph) -> None:
    found = original.analyze("components", edges=["Knows", "WorksAt"])
    named = {(row["type"], row["id"]): (row["component"], row["size"]) for row in found.rows()}
    assert named["Company", "Ada"] == ("Company:Ada", 1)
    assert named["Person", "Ada"] == named["Person", "Eve"] == ("Company:Zen", 6)
    with pytest.raises(og.UsageError, match="several nodes"):
        original.analyze("shortest-paths", edges=["Knows", "WorksAt"], sources="Ada")
    far = original.analyze("shortest-paths", edges=["Knows", "WorksAt"], sources="Person:Ada", targets=["Zen"])
    assert far.rows() == [
        {
            "type": "Company",
            "id": "Zen",
            "distance": 1,
            "predecessor": "Person:Ada",
            "path": ["Person:Ada", "Company:Zen"],
        }
    ]


def test_an_analysis_of_a_commit_does_not_see_what_came_later(graph: og.Graph) -> None:
    before = graph.snapshot().commit_id
    graph.mutate('query q { insert Knows { from: "Eve", to: "Dan" } }')
    assert column(graph.analyze("degrees", edges="Knows"), "degree")["Eve"] == 1
    earlier = graph.analyze("degrees", edges="Knows", snapshot=before)
    assert column(earlier, "degree")["Eve"] == 0
    assert earlier.commit_id == before


def test_a_graph_without_rows_can_be_analysed(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "empty.omni", SCHEMA, durability="fast")
    for name in ("pagerank", "components", "degrees", "triangles", "communities"):
        assert graph.analyze(name).rows() == []
    with pytest.raises(og.NotFound, match="no node `Ada`"):
        graph.analyze("shortest-paths", sources=["Ada"])


def test_a_graph_that_does_not_fit_into_memory_is_analysed_in_blocks(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: tuple[tuple[str, dict[str, Any]], ...] = (
        ("pagerank", {"iterations": 200}),
        ("components", {}),
        ("label-propagation", {}),
    )
    graph.mutate('query q { insert Knows { from: "Eve", to: "Dan" } }')
    graph.mutate('query q { delete Knows where from = "Bob" }')
    monkeypatch.setenv("OMNIGRAPH_SPARK", "off")
    in_memory = [graph.analyze(name, edges="Knows", **parameters) for name, parameters in asked]

    def stages_of(name: str, parameters: dict[str, Any], expected: Any) -> list[str]:
        seen: list[str] = []
        found = graph.analyze(name, edges="Knows", report=lambda progress: seen.append(progress.stage), **parameters)
        assert found.summary.keys() == expected.summary.keys()
        for row, other in zip(found.rows(), expected.rows(), strict=True):
            assert row == {**other, **({"rank": pytest.approx(other["rank"], abs=1e-12)} if "rank" in other else {})}
        return list(dict.fromkeys(seen))

    monkeypatch.setattr(analyses, "ANALYSIS_BYTES", 5 * 60 + 5 * 100)  # of components
    assert stages_of("components", {}, in_memory[1]) == ["reading Person", "reading Knows", "components"]
    monkeypatch.setattr(analyses, "ANALYSIS_BYTES", 5 * 60 + 5 * 100 - 1)
    for (name, parameters), expected in zip(asked, in_memory, strict=True):
        stages = ["reading Person", "reading Knows", "dividing edges", name]
        assert stages_of(name, parameters, expected) == stages
    assert graph.analyze("components", edges="Knows", write={"component": "group"}).written is not None
    assert graph.analyze("degrees", edges="Knows").summary["nodes"] == 5
    with pytest.raises(og.UsageError, match="has no value in 1 edges"):
        graph.analyze("pagerank", edges="Knows", weight="strength")
    scratch = Path(graph.uri) / "__bulk"
    assert [each.name for each in scratch.iterdir() if not each.name.startswith("__")] == []


# --- what it finds ---


def test_ranks_follow_edges_and_their_weights(original: og.Graph) -> None:
    plain, weighted = (
        column(original.analyze("pagerank", edges="Knows", weight=weight), "rank") for weight in (None, "strength")
    )
    assert sum(plain.values()) == pytest.approx(1)
    assert plain["Ada"] > plain["Cleo"] > plain["Bob"] > plain["Dan"] == plain["Eve"]
    assert weighted["Bob"] < plain["Bob"]
    from_dan = column(original.analyze("pagerank", edges="Knows", sources=["Dan"]), "rank")
    assert from_dan["Eve"] == 0


def test_strong_components_ask_for_a_way_back(original: og.Graph) -> None:
    weak, strong = (
        column(original.analyze("components", edges="Knows", kind=kind), "component") for kind in ("weak", "strong")
    )
    assert weak == {"Ada": "Ada", "Bob": "Ada", "Cleo": "Ada", "Dan": "Ada", "Eve": "Eve"}
    assert strong == {"Ada": "Ada", "Bob": "Ada", "Cleo": "Ada", "Dan": "Dan", "Eve": "Eve"}


def test_triangles_and_communities_know_no_direction(original: og.Graph) -> None:
    triangles = original.analyze("triangles", edges="Knows")
    assert column(triangles, "triangles") == {"Ada": 1, "Bob": 1, "Cleo": 1, "Dan": 0, "Eve": 0}
    assert column(triangles, "clustering")["Ada"] == pytest.approx(1 / 3)
    assert triangles.summary["triangles"] == 1
    communities = original.analyze("communities", edges="Knows", weight="strength", seed=3)
    assert column(communities, "size")["Eve"] == 1
    assert communities.summary["modularity"] >= 0


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, {"Ada": 1, "Bob": 2, "Cleo": 2, "Dan": 0, "Eve": None}),
        ({"weight": "strength"}, {"Ada": 2.0, "Bob": 7.0, "Cleo": 8.0, "Dan": 0.0, "Eve": None}),
        ({"max_hops": 1}, {"Ada": 1, "Bob": None, "Cleo": None, "Dan": 0, "Eve": None}),
        ({"sources": ["Bob", "Eve"]}, {"Ada": 2, "Bob": 0, "Cleo": 1, "Dan": None, "Eve": 0}),
        ({"sources": ["Bob"], "directed": False}, {"Ada": 1, "Bob": 0, "Cleo": 1, "Dan": 2, "Eve": None}),
    ],
)
def test_shortest_paths(original: og.Graph, parameters: dict[str, Any], expected: dict[str, Any]) -> None:
    found = original.analyze("shortest-paths", edges="Knows", **{"sources": "Dan", **parameters})
    assert column(found, "distance") == expected


def test_progress_is_told_by_stage(original: og.Graph) -> None:
    told: list[Progress] = []
    original.analyze("pagerank", edges="Knows", iterations=3, report=told.append)
    assert Progress("reading Knows", 5, 5, 5) in told
    assert [each.done for each in told if each.stage == "pagerank"] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("pagerang", {}, "unknown analysis `pagerang`: expected `pagerank`"),
        ("degrees", {"damping": 0.5}, "does not take `damping`"),
        ("pagerank", {"damping": 1}, "invalid damping 1.0: expected a number from 0 to below 1"),
        ("pagerank", {"iterations": 2.5}, "invalid `iterations` of pagerank: 2.5"),
        ("pagerank", {"weight": "since", "edges": "Knows"}, "a weight must be a number: `Knows.since` is Date"),
        ("pagerank", {"weight": "strength"}, "edge `About` has no property `strength`"),
        ("components", {"kind": "round"}, "`weak` or `strong`"),
        ("shortest-paths", {}, "need a source"),
        ("degrees", {"engine": "spark"}, "degrees runs in the process only: expected the engine `auto` or `local`"),
        ("degrees", {"nodes": ["Company"], "edges": ["WorksAt"]}, "leads to `Person`, which is not among"),
        ("degrees", {"from_": "main"}, "they apply to a result that is written back"),
        ("degrees", {"edges": "Knows", "write": {"rank": "rank"}}, "degrees has no column `rank`"),
        ("pagerank", {"edges": "Knows", "write": {"rank": "score"}}, "declare `score: F64\\?` to write"),
        (
            "pagerank",
            {"edges": "Knows", "write": {"rank": "group"}},
            "does not fit `Person.group`: expected .*, found String",
        ),
        ("components", {"edges": "Knows", "write": {"component": "name"}}, "part of the key"),
        ("components", {"edges": "WorksAt", "write": {"size": "size"}}, "`Company.size` is not in the schema"),
    ],
)
def test_what_does_not_go_together_is_refused(
    original: og.Graph, name: str, arguments: dict[str, Any], problem: str
) -> None:
    with pytest.raises(og.UsageError, match=problem):
        original.analyze(name, **arguments)


def test_types_that_are_not_there_are_reported_with_those_that_may_be_meant(original: og.Graph) -> None:
    with pytest.raises(og.NotFound, match="no edge type `Know`: did you mean `Knows`"):
        original.analyze("degrees", edges="Know")
    with pytest.raises(og.NotFound, match="no node type `Persn`"):
        original.analyze("degrees", nodes=["Persn"])


def test_a_weight_that_is_missing_or_below_zero_is_refused(graph: og.Graph) -> None:
    graph.mutate('query q { insert Knows { from: "Eve", to: "Dan" } }')
    with pytest.raises(og.UsageError, match=r"`Knows.strength` has no value in 1 edges"):
        graph.analyze("pagerank", edges="Knows", weight="strength")
    graph.mutate("query q { update Knows set { strength: -1 } where strength = 5 }")
    graph.mutate('query q { delete Knows where src = "Eve" }')
    with pytest.raises(og.UsageError, match="must not be below zero"):
        graph.analyze("shortest-paths", edges="Knows", weight="strength", sources="Ada")


# --- writing back ---


def test_a_result_is_written_to_a_branch_as_one_commit(graph: og.Graph) -> None:
    head = graph.snapshot().commit_id
    found = graph.analyze("pagerank", edges="Knows", write={"rank": "rank"}, branch="scores", from_="main", actor="ada")
    assert found.written is not None
    assert (found.written.branch, found.written.actor, found.written.message) == ("scores", "ada", "analyze pagerank")
    assert (found.written.parent_commit_id, found.commit_id) == (head, head)
    written = people(graph, "rank", "tags", "photo", branch="scores")
    assert written["Ada"] == (column(found, "rank")["Ada"], ["a", "Ada"], b"hi")
    assert {rank for (rank,) in people(graph, "rank").values()} == {None}
    assert graph.merge("scores").kind is not None
    assert people(graph, "rank")["Ada"] == (column(found, "rank")["Ada"],)


def test_several_columns_and_types_are_written_at_once(graph: og.Graph) -> None:
    graph.analyze("pagerank", edges="WorksAt", write={"rank": "rank"})
    company = graph.entity("Company", "Zen")
    assert company is not None
    assert company["rank"] > 0
    found = graph.analyze("components", edges="Knows", write={"component": "group", "size": "size"})
    assert people(graph, "group", "size")["Cleo"] == ("Ada", 4)
    assert graph.commits.list()[0] == found.written


def test_only_nodes_with_another_value_are_written(graph: og.Graph) -> None:
    graph.analyze("components", edges="Knows", write={"component": "group"})
    assert graph.analyze("components", edges="Knows", write={"component": "group"}).written is None
    graph.mutate('query q { update Person set { group: "?" } where name = "Eve" }')
    again = graph.analyze("components", edges="Knows", write={"component": "group"}).written
    assert again is not None
    changes = [*graph.commits.changes(again.graph_commit_id)]
    assert [(change.id, change.changed_properties) for change in changes] == [("Eve", ("group",))]


def test_a_result_of_an_earlier_commit_leaves_newer_nodes_alone(graph: og.Graph) -> None:
    before = graph.snapshot().commit_id
    graph.mutate('query q { delete Person where name = "Eve" }')
    graph.mutate('query q { insert Person { name: "Fay", group: "mine" } }')
    graph.analyze("components", edges="Knows", snapshot=before, write={"component": "group"})
    assert people(graph, "group") == {**dict.fromkeys(PEOPLE[:4], ("Ada",)), "Fay": ("mine",)}


def test_nodes_without_a_key_are_found_by_their_id(graph: og.Graph) -> None:
    graph.analyze("degrees", nodes="Note", write={"degree": "size"})
    note = graph.entity("Note", "n1")
    assert note is not None
    assert (note["text"], note["size"]) == ("hello", 0)


def test_what_the_schema_does_not_allow_is_not_written(graph: og.Graph) -> None:
    head = graph.snapshot().commit_id
    with pytest.raises(og.ValidationError, match=r"4 is outside 0\.\.1"):
        graph.analyze("degrees", edges="Knows", write={"degree": "tiny"})
    with pytest.raises(og.ValidationError, match="a value is required"):
        graph.analyze("shortest-paths", edges="Knows", sources="Ada", weight="strength", write={"distance": "sure"})
    reader = og.open(graph.uri, mode="r")
    with pytest.raises(og.UsageError, match="opened for reading"):
        reader.analyze("degrees", edges="Knows", write={"degree": "size"})
    assert graph.snapshot().commit_id == head


# --- the command line ---


def test_the_command_prints_what_matters_most(original: og.Graph) -> None:
    result = omnigraph_cli("analyze", "degrees", original.uri, "--edge", "Knows", "--limit", "2")
    assert result.returncode == 0, result.stderr
    shown = [line.split("│")[1:4] for line in result.stdout.splitlines() if "Person" in line]
    assert [[cell.strip() for cell in row] for row in shown] == [["Person", "Ada", "2"], ["Person", "Cleo", "2"]]
    assert "greatest 4" in result.stderr


def test_the_command_speaks_json(original: og.Graph) -> None:
    words = ("--edge", "Knows", "--source", "Dan", "--target", "Cleo", "--weight", "strength", "--json")
    result = omnigraph_cli("analyze", "shortest-paths", original.uri, *words)
    assert json.loads(result.stdout) == {
        "algorithm": "shortest-paths",
        "summary": {"nodes": 5, "edges": 5, "reached": 4, "farthest": 8.0},
        "columns": ["type", "id", "distance", "predecessor", "path"],
        "rows": [
            {
                "type": "Person",
                "id": "Cleo",
                "distance": 8.0,
                "predecessor": "Bob",
                "path": ["Dan", "Ada", "Bob", "Cleo"],
            }
        ],
        "commit_id": original.snapshot().commit_id,
        "written": None,
    }


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_the_command_writes_a_file(original: og.Graph, tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"ranks.{ending}"
    result = omnigraph_cli("analyze", "pagerank", original.uri, "--edge", "Knows", "--out", file)
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    match ending:
        case "parquet":
            rows = pyarrow.parquet.read_table(file).to_pylist()
        case "csv":
            rows = pyarrow.csv.read_csv(file).to_pylist()
        case _:
            rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert [row["id"] for row in rows] == ["Ada", "Cleo", "Bob", "Dan", "Eve"]
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_the_command_writes_back(graph: og.Graph) -> None:
    words = ("--edge", "Knows", "--write", "rank=rank", "--branch", "scores", "--from", "main", "--as", "ada", "--json")
    result = omnigraph_cli("analyze", "pagerank", graph.uri, *words)
    assert result.returncode == 0, result.stderr
    written = json.loads(result.stdout)["written"]
    assert (written["branch"], written["actor"]) == ("scores", "ada")
    assert people(graph, "rank", branch="scores")["Ada"][0] > 0


@pytest.mark.parametrize(
    "words",
    [
        ("pagerang",),
        ("pagerank", "--write", "rank"),
        ("pagerank", "--format", "xml"),
        ("pagerank", "--out", "ranks.xlsx"),
        ("degrees", "--kind", "weak"),
    ],
)
def test_the_command_refuses_words_that_do_not_go_together(original: og.Graph, words: tuple[str, ...]) -> None:
    assert omnigraph_cli("analyze", words[0], original.uri, *words[1:]).returncode == 2


def test_nothing_is_written_back_when_the_file_has_no_place(graph: og.Graph, tmp_path: Path) -> None:
    head = graph.snapshot().commit_id
    words = ("--edge", "Knows", "--write", "rank=rank", "--out", tmp_path / "nowhere" / "ranks.csv")
    assert omnigraph_cli("analyze", "pagerank", graph.uri, *words).returncode == 1
    assert graph.snapshot().commit_id == head


def test_a_branch_that_others_write_to_meanwhile_keeps_what_they_wrote(graph: og.Graph) -> None:
    def interrupt(progress: Progress) -> None:
        if progress == Progress("components", 1, 1):
            graph.mutate('query q { update Person set { tags: ["new"] } where name = "Ada" }')

    graph.analyze("components", edges="Knows", write={"component": "group"}, report=interrupt)
    assert people(graph, "group", "tags")["Ada"] == ("Ada", ["new"])
