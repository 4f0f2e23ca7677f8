"""`omnigraph lint`: checks schemas and queries, and lists what queries read and write."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from omnigraph.catalog import Catalog, check_schema
from omnigraph.catalog.serial import type_to_json
from omnigraph.cli.grammar import graph_words, named_graph_if_any
from omnigraph.cli.opening import open_graph
from omnigraph.cli.output import FAILED, print_diagnostic, print_json, print_summary
from omnigraph.codes import Code
from omnigraph.compiler import CompiledQuery, check_queries, ir
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Diagnostic, Source, Span
from omnigraph.embedding import current_settings, model_findings, unusable_models, with_models
from omnigraph.errors import UsageError
from omnigraph.syntax import QUERY, SCHEMA, Language, decode_source, parse_queries


@dataclass(frozen=True, slots=True)
class FileFindings:
    """The findings in one file, and its queries."""

    file: str
    diagnostics: tuple[Diagnostic, ...]
    queries: tuple[CompiledQuery, ...] = ()
    count: int = 0
    """How many queries have no error, as far as they were checked."""


def run_lint(files: Sequence[Path], schema: Path | None, *, as_json: bool) -> int:
    """Checks all files and returns the exit code."""
    words = graph_words()
    store = named_graph_if_any() if words.uri is not None or {"store", "server"} & words.given else None
    if not files and schema is None:
        raise UsageError("name at least one file, or a --schema")
    if schema is not None and store is not None:
        raise UsageError("queries are checked against a --schema or a graph, not both")
    schemas, queries = _files_by_language(files)
    if schema is None and store is None and len(schemas) > 1 and queries:
        raise UsageError(f"{len(schemas)} schemas were named; choose one for the queries with --schema")
    catalog = None
    if store is not None:
        with open_graph(store, "r") as graph:
            catalog = graph.schema.catalog
    found = []
    for path in dict.fromkeys([*([schema] if schema is not None else []), *schemas]):
        result, compiled = _check_schema(path)
        found.append(result)
        if path == schema or (schema is None and store is None and len(schemas) == 1):
            catalog = compiled
    found += [_check_queries(path, catalog) for path in queries]
    findings = [finding for each in found for finding in each.diagnostics]
    errors = sum(finding.is_error for finding in findings)
    if as_json:
        print_json(
            {
                "ok": errors == 0,
                "errors": errors,
                "warnings": len(findings) - errors,
                "schema_checked": catalog is not None,
                "findings": [finding.as_json() for finding in findings],
                "files": [{"file": each.file, "queries": [*map(_query_json, each.queries)]} for each in found],
            }
        )
    else:
        _print_findings(found)
        counts = {
            "file": len(found),
            "query": sum(each.count for each in found),
            "error": errors,
            "warning": len(findings) - errors,
        }
        print_summary(counts, failed=errors > 0)
    if catalog is None and not as_json and queries:
        typer.secho("names and types were not checked: give a --schema without errors", err=True, dim=True)
    return FAILED if errors else 0


def _files_by_language(files: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """Schemas and query files; a folder stands for all of them below it, but for those in hidden folders."""
    found: dict[Path, None] = {}
    for path in files:
        inside = _sources_below(path) if path.is_dir() else [path]
        found.update(dict.fromkeys(sorted(inside)))
    schemas = [path for path in found if path.suffix == ".pg"]
    return schemas, [path for path in found if path.suffix != ".pg"]


def _sources_below(folder: Path) -> Iterable[Path]:
    for path in folder.rglob("*"):
        # A graph keeps a copy of its schema under a name that starts with an underscore.
        hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
        if path.suffix in (".gq", ".pg") and path.is_file() and not hidden:
            yield path


def _check_schema(path: Path) -> tuple[FileFindings, Catalog | None]:
    source, problem = _source(path, SCHEMA)
    if problem is not None:
        return FileFindings(str(path), (problem,)), None
    compiled = check_schema(source)
    if compiled.catalog is None:
        return FileFindings(str(path), compiled.diagnostics), None
    return FileFindings(str(path), (*compiled.diagnostics, *_check_models(source, compiled.catalog))), compiled.catalog


def _check_models(source: Source, catalog: Catalog) -> Iterator[Diagnostic]:
    """An error for each `@embed` whose model cannot fill the vector, a warning if only the configured one cannot."""
    unusable = [*unusable_models(catalog)]
    yield from model_findings(source, unusable, Code.INVALID_EMBED)
    # Without a whole configuration it is not known which model it would be.
    with suppress(UsageError):
        unfilled = () if unusable else with_models(catalog, current_settings()).unfilled
        yield from model_findings(source, unfilled, Code.UNFILLED_VECTOR)


def _check_queries(path: Path, catalog: Catalog | None) -> FileFindings:
    source, problem = _source(path, QUERY)
    if problem is not None:
        return FileFindings(str(path), (problem,))
    if catalog is None:
        parsed = parse_queries(source)
        return FileFindings(str(path), parsed.diagnostics, count=len(parsed.tree.queries))
    compiled = check_queries(source, catalog)
    return FileFindings(str(path), compiled.diagnostics, compiled.queries, count=len(compiled.queries))


def _source(path: Path, language: Language) -> tuple[Source, Diagnostic | None]:
    """A file's text; a file that cannot be read is a finding, so that the other files are still checked."""
    try:
        data = path.read_bytes()
    except OSError as error:
        source = Source(str(path), "")
        message = f"cannot read this file: {error.strerror or error}"
        return source, source.diagnostic(language.code("UNREADABLE"), message, Span(0, 0))
    return decode_source(str(path), data, language)


# --- output ---


def _query_json(query: CompiledQuery) -> dict[str, Any]:
    """What a query takes, returns, reads and writes, as JSON values."""
    columns = None if isinstance(query.body, ir.Mutation) else [column.name for column in query.body.columns]
    return {
        "name": query.name or None,
        "kind": "mutation" if query.is_mutation else "read",
        "parameters": [
            {"name": each.name, "type": type_to_json(each.type), "nullable": each.nullable} for each in query.parameters
        ],
        "columns": columns,
        "reads": {table: list(names) for table, names in query.access.reads.items()},
        "writes": list(query.access.writes),
    }


def _print_findings(found: Sequence[FileFindings]) -> None:
    for each in found:
        for finding in each.diagnostics:
            print_diagnostic(finding)
    for each in found:
        if each.queries:
            typer.echo(each.file)
            for query in each.queries:
                _print_query(query)
            typer.echo()


def _print_query(query: CompiledQuery) -> None:
    typer.echo(f"  {query.name or '(without a name)'}")
    for table, columns in query.access.reads.items():
        typer.echo(f"    reads   {table} ({', '.join(columns)})")
    for table in query.access.writes:
        typer.echo(f"    writes  {table}")
