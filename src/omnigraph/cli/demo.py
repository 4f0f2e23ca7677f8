"""`omnigraph demo`: builds the sample graph, asks it, changes it, and looks back."""

import tempfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from omnigraph.api.data import QueryResult
from omnigraph.api.values import answer_to_json
from omnigraph.catalog import Catalog, EntityType
from omnigraph.cli.output import print_json
from omnigraph.errors import UsageError
from omnigraph.graph.graph import Graph
from omnigraph.graph.opening import init

SCHEMA_FILE, QUERY_FILE, DATA_FILE, GRAPH = "library.pg", "library.gq", "library.jsonl", "library.omni"
AUTHOR, EMPLOYER = "Ines Keller", "Oslo Polytechnic"
QUESTIONS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("What did Ines Keller write?", "papers_of", {"author": AUTHOR}),
    ("With whom does she write most?", "coauthors", {"author": AUTHOR, "limit": 3}),
    ("Which abstracts speak of paths in graphs?", "search_papers", {"words": "traversal path community"}),
    ("Where does she work?", "works_at", {"author": AUTHOR}),
)
CHANGE = {"author": AUTHOR, "institution": EMPLOYER, "since": "2026-11-01"}


def run(directory: Path | None, *, as_json: bool) -> int:
    """Runs the whole demo, in a folder that stays or in one that goes."""
    if directory is not None:
        _demo(directory, as_json=as_json)
        if not as_json:
            _print_next_steps(directory)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        _demo(Path(folder), as_json=as_json)
    if not as_json:
        typer.echo("\nTo keep the graph and play with it: omnigraph demo FOLDER")
    return 0


def _demo(folder: Path, *, as_json: bool) -> None:
    queries = _write_files(folder)
    graph = init(folder / GRAPH, folder / SCHEMA_FILE)
    loaded = graph.load(folder / DATA_FILE, actor="demo")
    answers = [(title, graph.query(queries, name, given)) for title, name, given in QUESTIONS]
    before = graph.snapshot()
    changed = graph.mutate(queries, "hire", CHANGE, actor="demo")
    after = graph.query(queries, "works_at", {"author": AUTHOR})
    past = graph.query(queries, "works_at", {"author": AUTHOR}, snapshot=before)
    if as_json:
        print_json(
            {
                "loaded": loaded.as_json(),
                "answers": {title: answer.as_json() for title, answer in answers},
                "changed": changed.as_json(),
                "after": after.as_json(),
                "before": past.as_json(),
                "commits": [commit.as_json() for commit in graph.commits.list()],
            }
        )
        return
    print_catalog(graph.schema.catalog)
    typer.echo(f"Loaded {loaded.total:,} records in one commit.\n")
    for title, answer in answers:
        print_rows(title, answer)
    print_rows(f"She moves to {EMPLOYER}; where does she work now?", after)
    print_rows("And at the commit before?", past)
    _print_history(graph)


def print_catalog(catalog: Catalog) -> None:
    """The types of a schema as two tables."""
    nodes = Table("node", "interfaces", "key", "properties", title="Node types", title_justify="left")
    for node in catalog.nodes.values():
        nodes.add_row(node.name, ", ".join(node.interfaces), ", ".join(node.key), _properties(node))
    edges = Table("edge", "from", "to", "per source", "properties", title="Edge types", title_justify="left")
    for edge in catalog.edges.values():
        edges.add_row(edge.name, edge.source, edge.destination, str(edge.cardinality), _properties(edge))
    _console().print(nodes, edges, sep="\n")


def print_rows(title: str, result: QueryResult) -> None:
    """The rows of an answer as a table."""
    table = Table(*result.columns, title=title, title_justify="left")
    for row in result.rows():
        table.add_row(*("" if value is None else str(answer_to_json(value)) for value in row.values()))
    _console().print(table)


def _console() -> Console:
    return Console(markup=False, highlight=False)


def _properties(entity: EntityType) -> str:
    lines = []
    for declared in entity.properties.values():
        marks = [f"{declared.name}: {declared.type}{'?' if declared.nullable else ''}"]
        if declared.name in entity.indexed:
            marks.append("indexed")
        if declared.embedding is not None:
            marks.append(f"embeds {declared.embedding.source}")
        lines.append(", ".join(marks))
    return "\n".join(lines)


def _print_history(graph: Graph) -> None:
    table = Table("commit", "actor", "message", title="History", title_justify="left")
    for commit in graph.commits.list():
        table.add_row(commit.graph_commit_id, commit.actor or "", commit.message or "")
    _console().print(table)


def _print_next_steps(folder: Path) -> None:
    typer.echo(f"\nThe graph is {folder / GRAPH}. Try:")
    typer.echo(
        f"  omnigraph query anything_named --query {folder / QUERY_FILE} --param start=U --store {folder / GRAPH}"
    )
    typer.echo(f"  omnigraph commit list {folder / GRAPH}")


def _write_files(folder: Path) -> str:
    """Writes the sample's files and returns its queries."""
    names = (SCHEMA_FILE, QUERY_FILE, DATA_FILE)
    taken = [name for name in (*names, GRAPH) if (folder / name).exists()]
    if taken:
        raise UsageError(f"{folder / taken[0]} is there already; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    texts = {name: (resources.files("omnigraph.samples") / name).read_text("utf-8") for name in names}
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    return texts[QUERY_FILE]
