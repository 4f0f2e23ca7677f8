"""The commands about data: init, load, query, mutate, export, analyze and embed."""
# ruff: noqa: PLC0415 - a command against a server that cannot be reached needs no Arrow

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from omnigraph.api.base import Request
from omnigraph.api.data import (
    Analysis,
    AnalyzeRequest,
    EmbedRequest,
    EmbedResult,
    ExplainExportRequest,
    ExplainLoadRequest,
    ExplainRequest,
    ExportRequest,
    LoadRequest,
    LoadResult,
    MutateRequest,
    QueryRequest,
    ResultRows,
)
from omnigraph.api.history import CHANGE_COUNTS
from omnigraph.api.queries import CallRequest, QueryKind
from omnigraph.api.values import answer_to_json
from omnigraph.api.words import LOCAL
from omnigraph.cli.commands import Values, request_from
from omnigraph.cli.grammar import named_graph
from omnigraph.cli.opening import AnyGraph, open_graph
from omnigraph.cli.output import chosen_format, plural, print_commit, print_json, print_table, show_progress
from omnigraph.diagnostics import any_of, quoted
from omnigraph.errors import NotFound, StorageError, UsageError
from omnigraph.strict_json import read_json

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog

_ROWS_OF_A_TABLE = 20
_ROWS_AT_ONCE = 10_000
_SUFFIXES = (".parquet", ".csv", ".jsonl")


class RowFormat(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    KV = "kv"
    ARROW = "arrow"


def run_init(uri: str, schema: Path, *, durability: str | None, as_json: bool) -> None:
    """Creates a graph."""
    from omnigraph.graph.opening import init

    graph = init(uri, schema, durability=durability)
    catalog = graph.schema.catalog
    if as_json:
        print_json({"uri": graph.uri, "commit": graph.snapshot().commit.as_json()})
    else:
        sizes = f"{plural(len(catalog.nodes), 'node type')}, {plural(len(catalog.edges), 'edge type')}"
        typer.echo(f"created {graph.uri} ({sizes})")


# --- loads and vectors ---


def run_load(values: Values) -> None:
    """Loads, or with `--explain` only explains how."""
    paths, nodes, edges = (values.pop(name) or [] for name in ("data", "nodes", "edges"))
    if not (paths or nodes or edges):
        raise UsageError("name at least one file with --data, --nodes or --edges")
    explain = values["explain"]
    request: LoadRequest = request_from(LoadRequest, values, data=None)
    with open_graph(named_graph(), "r" if explain else "rw", durability=values["durability"]) as graph:
        types = graph.schema.catalog if nodes or edges else None
        data = [*paths, *_files_of_types(types, nodes, "node"), *_files_of_types(types, edges, "edge")]
        if explain:
            typer.echo(graph._run(request_from(ExplainLoadRequest, values, data=data)))
            return
        with show_progress(quiet=values["as_json"]) as report:
            result = graph._run(replace(request, data=data, report=report))
    if values["as_json"]:
        print_json(result.as_json())
        return
    _print_engine(result)
    if result.repeated:
        typer.echo(f"batch {request.batch} of `{request.application}` was loaded before; nothing was done")
        print_commit(result.commit)
        return
    counts = {**result.nodes, **result.edges}
    print_table(("type", "records"), ((name, f"{count:,}") for name, count in counts.items()))
    if result.applied is not None:
        print_table(("change", "records"), ((name, f"{getattr(result.applied, name):,}") for name in CHANGE_COUNTS))
    print_commit(result.commit)


def _files_of_types(
    catalog: "Catalog | None", pairs: Sequence[str], kind: Literal["node", "edge"]
) -> list[dict[str, Any]]:
    """The files of ``TYPE=PATH`` words, each as the mapping that a load takes."""
    found = []
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not equals:
            raise UsageError(f"invalid --{kind}s {pair!r}: expected TYPE=PATH")
        if catalog is None:
            raise NotFound(f"{kind} type", name)
        entity = catalog.nodes.get(name) if kind == "node" else catalog.edge(name)
        if entity is None:
            raise NotFound(f"{kind} type", name)
        found.append({entity.name: path})
    return found


def _print_engine(result: LoadResult | EmbedResult) -> None:
    if result.engine == LOCAL:  # Spark was announced before it was started
        typer.echo(str(result.choice), err=True)


def show_embed(result: EmbedResult, request: EmbedRequest) -> None:  # noqa: ARG001 - the result says it all
    """Prints how many vectors were filled."""
    _print_engine(result)
    print_table(("property", "vectors"), ((name, f"{count:,}") for name, count in result.filled.items()))
    if len(result.commits) > 1:
        typer.echo(f"{plural(len(result.commits), 'commit')}, the last:")
    print_commit(result.commits[-1] if result.commits else None)


# --- queries and mutations ---


def run_query(values: Values) -> None:
    """Runs a query, or with `--explain` only explains how."""
    format = chosen_format(RowFormat, values)
    explain = values["explain"]
    request = _query_request(ExplainRequest if explain else QueryRequest, values)
    if explain and isinstance(request, CallRequest):
        raise UsageError("--explain takes a query with --query FILE or with -e GQ")
    with open_graph(named_graph(), "r") as graph:
        _check_kind(graph, request, QueryKind.READ)
        result = graph._run(request)
    if explain:
        typer.echo(result)
    else:
        print_rows(result, format)


def run_mutate(values: Values) -> None:
    """Runs a mutation."""
    request = _query_request(MutateRequest, values)
    with open_graph(named_graph(), durability=values["durability"]) as graph:
        _check_kind(graph, request, QueryKind.MUTATION)
        result = graph._run(request)
    if values["as_json"]:
        print_json(result.as_json())
    else:
        if result.table is not None:
            print_rows(result, RowFormat.TABLE)
        typer.echo(f"{plural(result.affected['nodes'], 'node')}, {plural(result.affected['edges'], 'edge')}")
        print_commit(result.commit)


def _check_kind(graph: AnyGraph, request: Request[Any], kind: QueryKind) -> None:
    """Refuses to read by a stored query that writes, and the other way round, before it runs."""
    if isinstance(request, CallRequest):
        found = graph.queries.show(request.name, at=request.snapshot or request.branch)
        if found.kind not in (None, kind):
            does, command = ("writes", "mutate") if found.kind is QueryKind.MUTATION else ("reads", "query")
            raise UsageError(f"{quoted(request.name)} {does}; run it with {command}")


def _query_request(kind: type[Request[Any]], values: Values) -> Any:
    """The request of a query that is in a file or on the command line, or of a stored one."""
    file, inline = values["file"], values["inline"]
    params = parameter_values(values["params"], values["param"] or [])
    if file is None and inline is None and values["name"] is not None:
        return request_from(CallRequest, values, params=params)
    if (file is None) == (inline is None):
        raise UsageError("give the query with --query FILE or with -e GQ, or the NAME of a stored query")
    return request_from(kind, values, source=inline if file is None else file, params=params)


def parameter_values(document: str | None, pairs: Iterable[str]) -> dict[str, Any]:
    """The parameters of a query: a JSON object, and single ones as ``name=value`` (JSON, otherwise a text)."""
    values: dict[str, Any] = {}
    if document is not None:
        try:
            values = read_json(document)
        except ValueError as error:
            raise UsageError(f"--params is not JSON: {error}") from error
        if not isinstance(values, dict):
            raise UsageError("--params is not a JSON object")
    given: set[str] = set()
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"invalid --param {pair!r}: expected NAME=VALUE")
        if name in given:
            raise UsageError(f"--param gives {quoted(name)} twice")
        given.add(name)
        try:
            values[name] = read_json(text)
        except ValueError:
            values[name] = text
    return values


def print_rows(result: ResultRows, format: RowFormat) -> None:
    """The rows of an answer."""
    match format:
        case RowFormat.TABLE:
            print_table(result.columns, ([_text(value) for value in row.values()] for row in result.rows()))
            typer.echo(plural(result.to_arrow().num_rows, "row"), err=True)
        case RowFormat.JSON:
            print_json(result.as_json())
        case RowFormat.JSONL:
            for row in result.rows():
                sys.stdout.write(json.dumps(answer_to_json(row), ensure_ascii=False) + "\n")
        case RowFormat.CSV:
            writer = csv.writer(sys.stdout)
            writer.writerow(result.columns)
            writer.writerows([_text(value) for value in row.values()] for row in result.rows())
        case RowFormat.KV:
            _print_pairs(result)
        case RowFormat.ARROW:
            import pyarrow as pa

            table = result.to_arrow()
            with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as stream:
                stream.write_table(table)


def _print_pairs(result: ResultRows) -> None:
    widest = max(map(len, result.columns), default=0)
    for number, row in enumerate(result.rows()):
        if number:
            typer.echo()
        for name, value in row.items():
            typer.echo(f"{name:{widest}}  {_text(value)}")


def _text(value: Any) -> str:
    plain = answer_to_json(value)
    if plain is None:
        return ""
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


# --- exports ---


def run_export(values: Values) -> None:
    """Writes the graph to a file or a folder, or as NDJSON to standard output; with `--explain` only explains how."""
    if values["snapshot"] is not None and values["branch"] != "main":
        raise UsageError("--branch and --snapshot do not go together: a snapshot is of its own branch")
    out, as_json, explain = values["out"], values["as_json"], values["explain"]
    request: Any = (
        request_from(ExplainExportRequest, values) if explain else request_from(ExportRequest, values, path=out)
    )
    quiet = explain or out is None or as_json
    with open_graph(named_graph(), "r") as graph, show_progress(quiet=quiet) as report:
        result = graph._run(request if explain else replace(request, report=report))
    if explain:
        typer.echo(result)
    elif not isinstance(result, int):
        for line in result:
            sys.stdout.write(line + "\n")
    elif as_json:
        print_json({"out": out, "records": result})
    else:
        typer.echo(f"{plural(result, 'record')} to {out}", err=True)


# --- analyses ---


def run_analyze(values: Values) -> None:
    """Runs an analysis. The rows that matter most are printed first."""
    format, limit, out = chosen_format(RowFormat, values), values["limit"], values["out"]
    request: AnalyzeRequest = request_from(AnalyzeRequest, values)
    if out is not None and out.suffix not in _SUFFIXES:
        raise UsageError(f"invalid --out {out.name}: expected a file that ends in {any_of(_SUFFIXES)}")
    if out is not None and not out.parent.is_dir():
        raise NotFound("folder", str(out.parent))
    mode: Literal["r", "rw"] = "rw" if request.is_write else "r"
    with open_graph(named_graph(), mode, durability=values["durability"]) as graph, show_progress() as report:
        found = graph._run(replace(request, report=report))
    if out is not None:
        _write_file(found.top(limit), out)
    if format is RowFormat.TABLE:
        if out is None:
            print_rows(found.top(_ROWS_OF_A_TABLE if limit is None else limit), format)
        else:
            typer.echo(f"{plural(len(found), 'row')} to {out}", err=True)
        typer.echo(", ".join(f"{name} {_number(value)}" for name, value in found.summary.items()), err=True)
        if request.is_write:
            nothing = "nothing changed, so there is no commit"
            typer.echo(nothing if found.written is None else f"commit {found.written.graph_commit_id}", err=True)
    elif out is None:
        print_rows(found.top(limit), format)
    elif format is RowFormat.JSON:
        print_rows(replace(found, table=found.table.slice(0, 0)), format)


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _write_file(found: Analysis, file: Path) -> None:
    """Writes the rows to a file, in the format that its name ends with. It appears when it is complete."""
    import pyarrow.csv
    import pyarrow.parquet

    draft = file.with_name(f".{file.name}.part")
    try:
        match file.suffix:
            case ".parquet":
                pyarrow.parquet.write_table(found.table, draft)
            case ".csv":
                pyarrow.csv.write_csv(_without_lists(found.table), draft)
            case _:
                with draft.open("w", encoding="utf-8") as lines:
                    for batch in found.table.to_batches(_ROWS_AT_ONCE):
                        lines.writelines(
                            json.dumps(answer_to_json(row), ensure_ascii=False) + "\n" for row in batch.to_pylist()
                        )
        draft.replace(file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise StorageError(str(file), f"cannot be written: {error}") from error


def _without_lists(table: Any) -> Any:
    """The table with paths as JSON, since CSV has no lists."""
    if "path" in table.column_names:
        texts = [None if path is None else json.dumps(path, ensure_ascii=False) for path in table["path"].to_pylist()]
        table = table.set_column(table.column_names.index("path"), "path", [texts])
    return table
