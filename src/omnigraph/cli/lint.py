"""`omnigraph lint`: checks files and tells what their queries touch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from omnigraph.catalog import Catalog, check_schema
from omnigraph.catalog.serial import type_to_json
from omnigraph.cli.output import plural, print_diagnostic, print_json
from omnigraph.codes import Code
from omnigraph.compiler import CompiledQuery, check_queries, ir
from omnigraph.diagnostics import Diagnostic, Source, Span
from omnigraph.embedding import unusable_models
from omnigraph.errors import UsageError
from omnigraph.syntax import QUERY, SCHEMA, Language, decoded, parse_queries, parse_schema


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found in one file."""

    file: str
    diagnostics: tuple[Diagnostic, ...]
    queries: tuple[CompiledQuery, ...] = ()
    count: int = 0
    """How many queries are right, as far as they were checked."""


def run(files: Sequence[Path], schema: Path | None, store: str | None = None, *, as_json: bool) -> int:
    """Checks everything and returns the exit code."""
    schemas, queries = _sorted_by_language(files)
    if schema is None and store is None and len(schemas) > 1 and queries:
        raise UsageError(f"{len(schemas)} schemas were named; choose one for the queries with --schema")
    catalog = _stored_catalog(store) if store is not None else None
    checked = []
    for path in dict.fromkeys([*([schema] if schema is not None else []), *schemas]):
        result, compiled = _checked_schema(path)
        checked.append(result)
        if path == schema or (schema is None and store is None and len(schemas) == 1):
            catalog = compiled
    checked += [_checked_queries(path, catalog) for path in queries]
    if as_json:
        print_json(report(checked, names_checked=catalog is not None))
    else:
        _print(checked, names_checked=catalog is not None)
    return 1 if any(finding.is_error for each in checked for finding in each.diagnostics) else 0


def _stored_catalog(uri: str) -> Catalog:
    from omnigraph.cli.opening import opened  # noqa: PLC0415 - only a store needs storage

    with opened(uri, "r") as graph:
        return graph.schema.catalog


def _sorted_by_language(files: Iterable[Path]) -> tuple[list[Path], list[Path]]:
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


def _checked_schema(path: Path) -> tuple[Checked, Catalog | None]:
    source, problem = _source(path, SCHEMA)
    if problem is not None:
        return Checked(str(path), (problem,)), None
    compiled = check_schema(source)
    if compiled.catalog is None:
        return Checked(str(path), compiled.diagnostics), None
    return Checked(str(path), (*compiled.diagnostics, *_unusable_models(source, compiled.catalog))), compiled.catalog


def _unusable_models(source: Source, catalog: Catalog) -> Iterator[Diagnostic]:
    """A finding for each `@embed` that names a model which cannot fill the vector, where it is written."""
    found = {error.property: error for error in unusable_models(catalog)}
    for declaration in parse_schema(source).tree.declarations:
        for declared in declaration.properties:
            error = found.get(f"{declaration.name}.{declared.name}")
            if error is not None:
                yield source.diagnostic(Code.INVALID_EMBED, str(error), declared.span)


def _checked_queries(path: Path, catalog: Catalog | None) -> Checked:
    source, problem = _source(path, QUERY)
    if problem is not None:
        return Checked(str(path), (problem,))
    if catalog is None:
        parsed = parse_queries(source)
        return Checked(str(path), parsed.diagnostics, count=len(parsed.tree.queries))
    compiled = check_queries(source, catalog)
    return Checked(str(path), compiled.diagnostics, compiled.queries, count=len(compiled.queries))


def _source(path: Path, language: Language) -> tuple[Source, Diagnostic | None]:
    """A file's text; a file that cannot be read is a finding, so that the other files are still checked."""
    try:
        data = path.read_bytes()
    except OSError as error:
        source = Source(str(path), "")
        message = f"cannot read this file: {error.strerror or error}"
        return source, source.diagnostic(language.unreadable, message, Span(0, 0))
    return decoded(str(path), data, language)


# --- output ---


def report(checked: Sequence[Checked], *, names_checked: bool) -> dict[str, Any]:
    """Everything that was found, as JSON values."""
    findings = [finding for each in checked for finding in each.diagnostics]
    errors = sum(finding.is_error for finding in findings)
    return {
        "ok": errors == 0,
        "errors": errors,
        "warnings": len(findings) - errors,
        "schema_checked": names_checked,
        "findings": [finding.as_json() for finding in findings],
        "files": [{"file": each.file, "queries": [query_report(query) for query in each.queries]} for each in checked],
    }


def query_report(query: CompiledQuery) -> dict[str, Any]:
    """What a query takes, gives, reads and writes, as JSON values."""
    columns = [column.name for column in query.body.columns] if isinstance(query.body, ir.Read) else None
    return {
        "name": query.name,
        "kind": "mutation" if query.is_mutation else "read",
        "parameters": [
            {"name": each.name, "type": type_to_json(each.type), "nullable": each.nullable} for each in query.parameters
        ],
        "columns": columns,
        "reads": {table: list(names) for table, names in query.access.reads.items()},
        "writes": list(query.access.writes),
    }


def _print(checked: Sequence[Checked], *, names_checked: bool) -> None:
    for each in checked:
        for finding in each.diagnostics:
            print_diagnostic(finding)
    for each in checked:
        if each.queries:
            typer.echo(each.file)
            print_queries(each.queries)
            typer.echo()
    _print_summary(checked)
    if not names_checked and any(not each.file.endswith(".pg") for each in checked):
        typer.secho("names and types were not checked: give a --schema without errors", err=True, dim=True)


def print_queries(queries: Sequence[CompiledQuery]) -> None:
    """One block a query: its name, what it reads, what it writes."""
    for query in queries:
        typer.echo(f"  {query.name}")
        for line in _tables(query.access.reads):
            typer.echo(f"    reads   {line}")
        for table in query.access.writes:
            typer.echo(f"    writes  {table}")


def _tables(reads: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [f"{table} ({', '.join(columns)})" for table, columns in reads.items()]


def _print_summary(checked: Sequence[Checked]) -> None:
    findings = [finding for each in checked for finding in each.diagnostics]
    errors = sum(finding.is_error for finding in findings)
    counts = [
        plural(len(checked), "file"),
        plural(sum(each.count for each in checked), "query"),
        plural(errors, "error"),
        plural(len(findings) - errors, "warning"),
    ]
    typer.secho(", ".join(counts), fg=typer.colors.RED if errors else typer.colors.GREEN)
