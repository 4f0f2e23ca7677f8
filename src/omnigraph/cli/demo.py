"""`omnigraph demo`: builds the sample graph, queries it, changes it, and reads its history."""

import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from importlib import resources
from pathlib import Path
from typing import Any

import typer

from omnigraph.api.values import answer_to_json
from omnigraph.catalog import Catalog, EntityType
from omnigraph.cli.output import print_json, print_table
from omnigraph.errors import UsageError
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


def run_demo(folder: Path | None, *, as_json: bool) -> None:
    """Runs the whole demo, in a folder that is kept or in a temporary one."""
    with nullcontext(folder) if folder is not None else tempfile.TemporaryDirectory() as place:
        _demo(Path(place), as_json=as_json)
    if as_json:
        return
    if folder is None:
        typer.echo("\nTo keep the graph: omnigraph demo FOLDER")
    else:
        graph, queries = folder / GRAPH, folder / QUERY_FILE
        typer.echo(f"\nThe graph is {graph}. Try:")
        typer.echo(f"  omnigraph query anything_named --query {queries} --param start=U {graph}")
        typer.echo(f"  omnigraph commit list {graph}")


def _demo(folder: Path, *, as_json: bool) -> None:
    queries = _write_files(folder)
    graph = init(folder / GRAPH, folder / SCHEMA_FILE)
    loaded = graph.load(folder / DATA_FILE, actor="demo")
    answers = [(title, graph.query(queries, name, params)) for title, name, params in QUESTIONS]
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
    _print_catalog(graph.schema.catalog)
    typer.echo(f"Loaded {loaded.total:,} records in one commit.\n")
    moved = (f"She moves to {EMPLOYER}; where does she work now?", after)
    for title, answer in (*answers, moved, ("And at the commit before?", past)):
        rows = ([_text(value) for value in row.values()] for row in answer.rows())
        print_table(answer.columns, rows, title=title)
    commits = ((each.graph_commit_id, each.actor or "", each.message or "") for each in graph.commits.list())
    print_table(("commit", "actor", "message"), commits, title="History")


def _text(value: Any) -> str:
    return "" if value is None else str(answer_to_json(value))


def _print_catalog(catalog: Catalog) -> None:
    """The types of a schema as two tables."""
    nodes = (
        (node.name, ", ".join(node.interfaces), ", ".join(node.key), _properties(node))
        for node in catalog.nodes.values()
    )
    print_table(("node", "interfaces", "key", "properties"), nodes, title="Node types")
    edges = (
        (edge.name, edge.source, edge.destination, str(edge.cardinality), _properties(edge))
        for edge in catalog.edges.values()
    )
    print_table(("edge", "from", "to", "per source", "properties"), edges, title="Edge types")


def _properties(entity: EntityType) -> str:
    lines = []
    for declared in entity.properties.values():
        marks = [f"{declared.name}: {declared.type}{'?' if declared.nullable else ''}"]
        if declared.name in entity.indexed_properties:
            marks.append("indexed")
        if declared.embedding is not None:
            marks.append(f"embeds {declared.embedding.source}")
        lines.append(", ".join(marks))
    return "\n".join(lines)


def _write_files(folder: Path) -> str:
    """Writes the sample's files and returns its queries."""
    names = (SCHEMA_FILE, QUERY_FILE, DATA_FILE)
    existing = [name for name in (*names, GRAPH) if (folder / name).exists()]
    if existing:
        raise UsageError(f"{folder / existing[0]} is there already; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    texts = {name: (resources.files("omnigraph.samples") / name).read_text("utf-8") for name in names}
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    return texts[QUERY_FILE]
