"""The rows of a run in DuckDB, in this process."""

from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from sqlglot import exp

from omnigraph.api.graph import GraphApi
from omnigraph.parts.duck import connection
from omnigraph.pipelines.rows import PipelineRows, RelationFault, SourceRows, csv_options
from omnigraph.pipelines.sql import DUCKDB

_IDS_AT_ONCE = 5_000
_CSV_OPTIONS = {
    "sep": "delim",
    "delimiter": "delim",
    "quote": "quote",
    "escape": "escape",
    "header": "header",
    "nullValue": "nullstr",
    "encoding": "encoding",
    "comment": "comment",
}
"""What Spark calls the options of CSV files, and what DuckDB calls them."""


class DuckRows(PipelineRows):
    """Named rows in a database of this process, whose rows go to temporary files if they do not fit into memory."""

    dialect = DUCKDB

    def __init__(self) -> None:
        super().__init__()
        self._opened = connection()
        self._duck = self._opened.__enter__()
        self._duck.execute("SET TimeZone = 'UTC'")

    def _define_source(self, name: str, rows: SourceRows) -> None:
        files = [str(file.location.path) for file in rows.files]
        if not files:
            raise RelationFault("no files")
        match rows.source.format:
            case "parquet":
                call = f"read_parquet({_list(files)}, union_by_name = true)"
            case "csv":
                call = f"read_csv({_list(files)}, {self._csv(rows)})"
            case _:
                assert rows.source.columns is not None, "rows of JSON have declared columns"
                types = {key: _duck_type(value.text) for key, value in rows.source.columns.items()}
                columns = ", ".join(f"{_text(key)}: {_text(kind)}" for key, kind in types.items())
                call = f"read_json({_list(files)}, format = 'newline_delimited', columns = {{{columns}}})"
        self._run(f"CREATE TEMP VIEW {_name(name)} AS FROM {call}")

    def _csv(self, rows: SourceRows) -> str:
        given = csv_options(rows)
        settings = [f"{_CSV_OPTIONS[key]} = {_text(value)}" for key, value in given.items() if key != "header"]
        settings += [f"header = {given['header']}", "all_varchar = true", "allow_quoted_nulls = false"]
        if given["header"] == "false" and rows.source.columns is not None:
            settings.append(f"names = {_list([*rows.source.columns])}")
        return ", ".join(settings)

    def _define(self, name: str, sql: str, *, kept: bool) -> None:
        self._run(f"CREATE TEMP {'TABLE' if kept else 'VIEW'} {_name(name)} AS {sql}")

    def _define_graph_ids(self, name: str, graph: GraphApi, branch: str, type: str, wanted: tuple[str, str]) -> None:
        ids = self.distinct_texts(*wanted)
        source = f"query found($ids: [String]) {{ match {{ $n: {type}  $n.@id in $ids }} return {{ $n.@id as id }} }}"
        found = [
            graph.query(source, params={"ids": ids[start : start + _IDS_AT_ONCE]}, branch=branch).table["id"]
            for start in range(0, len(ids), _IDS_AT_ONCE)
        ]
        rows = pa.table({"id": pa.chunked_array([chunk for each in found for chunk in each.chunks], pa.string())})
        self._duck.register("given", rows)
        try:
            self._run(f"CREATE TEMP TABLE {_name(name)} AS FROM given")
        finally:
            self._duck.unregister("given")

    def _schema(self, name: str) -> pa.Schema:
        return self._fetch(f"FROM {_name(name)} LIMIT 0").schema

    def _answer(self, sql: str) -> pa.Table:
        return self._fetch(sql)

    def rows(self, name: str) -> pa.Table:
        """The rows of a relation."""
        return self._fetch(f"FROM {_name(self._names[name.lower()])}")

    def write_parquet(self, name: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        pq.write_table(self.rows(name), folder / "part-00000.parquet")

    def _define_parquet(self, name: str, folders: Sequence[Path]) -> None:
        files = [str(file) for folder in folders for file in sorted(folder.glob("*.parquet"))]
        self._run(f"CREATE TEMP VIEW {_name(name)} AS FROM read_parquet({_list(files)}, union_by_name = true)")

    def close(self) -> None:
        self._opened.__exit__(None, None, None)

    def _run(self, sql: str) -> None:
        try:
            self._duck.execute(sql)
        except duckdb.Error as error:
            raise RelationFault(_first_line(error)) from error

    def _fetch(self, sql: str) -> pa.Table:
        try:
            return self._duck.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            raise RelationFault(_first_line(error)) from error


def _first_line(error: duckdb.Error) -> str:
    return str(error).partition("\n")[0]


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _list(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"


def _duck_type(text: str) -> str:
    return exp.DataType.build(text, dialect="spark").sql(DUCKDB)
