"""`omnigraph analyze`: analyses a graph, and prints what it found, keeps it in a file, or writes it back."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow.csv
import pyarrow.parquet
import typer

from omnigraph.api.data import Analysis, AnalyzeRequest
from omnigraph.api.values import answer_to_json
from omnigraph.cli.opening import opened
from omnigraph.cli.output import plural
from omnigraph.cli.progress import shown_progress
from omnigraph.cli.queries import Format
from omnigraph.cli.queries import _print as print_rows
from omnigraph.errors import NotFound, StorageError, UsageError

_ROWS_OF_A_TABLE = 20
_ROWS_AT_ONCE = 10_000
_ENDINGS = (".parquet", ".csv", ".jsonl")


def run_analyze(
    uri: str,
    request: AnalyzeRequest,
    *,
    durability: str | None,
    limit: int | None,
    format: str,
    out: Path | None,
) -> None:
    """Runs an analysis. The rows that matter most are printed first."""
    if format not in list(Format):
        raise UsageError(f"--format is one of {', '.join(Format)}, not {format}")
    if out is not None and out.suffix not in _ENDINGS:
        raise UsageError(f"--out is a file that ends in {', '.join(_ENDINGS)}, not {out.name}")
    if out is not None and not out.parent.is_dir():
        raise NotFound("folder", str(out.parent))
    mode: Literal["r", "rw"] = "rw" if request.is_write else "r"
    with opened(uri, mode, durability=durability) as graph, shown_progress() as report:
        found = graph._run(replace(request, report=report))
    if out is not None:
        _keep(found.top(limit), out)
    _show(found, Format(format), limit, out)
    if request.is_write and format == Format.TABLE:
        changed = "nothing changed, so there is no commit"
        typer.echo(changed if found.written is None else f"commit {found.written.graph_commit_id}", err=True)


def _show(found: Analysis, format: Format, limit: int | None, out: Path | None) -> None:
    """Prints the rows, unless they are in a file; and for people what there is to say of the whole graph."""
    if format is Format.TABLE:
        if out is None:
            print_rows(found.top(_ROWS_OF_A_TABLE if limit is None else limit), format)
        else:
            typer.echo(f"{plural(len(found), 'row')} to {out}", err=True)
        typer.echo(", ".join(f"{name} {_shown(value)}" for name, value in found.summary.items()), err=True)
    elif out is None:
        print_rows(found.top(limit), format)
    elif format is Format.JSON:
        print_rows(replace(found, table=found.table.slice(0, 0)), format)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _keep(found: Analysis, file: Path) -> None:
    """Writes the rows to a file, in the format that its name ends with. It appears when it is whole."""
    draft = file.with_name(f".{file.name}.part")
    try:
        match file.suffix:
            case ".parquet":
                pyarrow.parquet.write_table(found.table, draft)
            case ".csv":
                pyarrow.csv.write_csv(_flat(found), draft)
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


def _flat(found: Analysis) -> Any:
    """The table with paths as JSON, as CSV has no lists."""
    table = found.table
    if "path" in table.column_names:
        texts = [None if path is None else json.dumps(path, ensure_ascii=False) for path in table["path"].to_pylist()]
        table = table.set_column(table.column_names.index("path"), "path", [texts])
    return table
