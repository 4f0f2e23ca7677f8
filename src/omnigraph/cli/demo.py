"""`omnigraph demo`: shows what OmniGraph makes of the sample that ships with it."""

from importlib import resources
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from omnigraph.catalog import Catalog, EdgeType, EntityType, NodeType, catalog_to_json, compile_schema
from omnigraph.cli.lint import print_queries, query_report
from omnigraph.cli.output import print_json
from omnigraph.compiler import compile_queries
from omnigraph.errors import UsageError

SCHEMA_FILE, QUERY_FILE = "library.pg", "library.gq"


def run(directory: Path | None, *, as_json: bool) -> int:
    """Compiles the sample, shows it, and writes its files where asked."""
    texts = {
        name: (resources.files("omnigraph.samples") / name).read_text("utf-8") for name in (SCHEMA_FILE, QUERY_FILE)
    }
    catalog = compile_schema(texts[SCHEMA_FILE], name=SCHEMA_FILE)
    queries = compile_queries(texts[QUERY_FILE], catalog, name=QUERY_FILE)
    if directory is not None:
        _write(directory, texts)
    if as_json:
        print_json({"catalog": catalog_to_json(catalog), "queries": [query_report(query) for query in queries]})
        return 0
    print_catalog(catalog)
    typer.echo("Queries")
    print_queries(queries)
    if directory is not None:
        here = f"{directory / QUERY_FILE} --schema {directory / SCHEMA_FILE}"
        typer.echo(f"\nThe files are in {directory}. Change them and run: omnigraph lint {here}")
    return 0


def print_catalog(catalog: Catalog) -> None:
    """The types of a schema as two tables."""
    console = Console(markup=False, highlight=False)
    nodes = Table("node", "interfaces", "key", "properties", title="Node types", title_justify="left")
    for node in catalog.nodes.values():
        nodes.add_row(node.name, ", ".join(node.interfaces), ", ".join(node.key), _properties(node))
    edges = Table("edge", "from", "to", "per source", "properties", title="Edge types", title_justify="left")
    for edge in catalog.edges.values():
        edges.add_row(edge.name, edge.source, edge.destination, str(edge.cardinality), _properties(edge))
    console.print(nodes, edges, sep="\n")


def _properties(entity: EntityType) -> str:
    lines = []
    for declared in entity.properties.values():
        marks = [f"{declared.name}: {declared.type}{'?' if declared.nullable else ''}"]
        if isinstance(entity, NodeType | EdgeType) and declared.name in entity.indexed:
            marks.append("indexed")
        if declared.embedding is not None:
            marks.append(f"embeds {declared.embedding.source}")
        lines.append(", ".join(marks))
    return "\n".join(lines)


def _write(directory: Path, texts: dict[str, str]) -> None:
    taken = [name for name in texts if (directory / name).exists()]
    if taken:
        raise UsageError(f"{directory / taken[0]} is there already; choose another folder")
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (directory / name).write_text(text, "utf-8")
