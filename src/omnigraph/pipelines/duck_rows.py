"""The rows of a run in DuckDB, in this process."""

from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from sqlglot import exp

from omnigraph.api.graph import GraphApi
from omnigraph.parts.duck import connection
from omnigraph.pipelines.duck_sql import MACROS, for_duckdb
from omnigraph.pipelines.graph_rows import newest_commit, rows_of_graph
from omnigraph.pipelines.rows import PipelineRows, RelationFault, SourceRows, csv_options, spelled_ids
from omnigraph.pipelines.sql import DUCKDB
from omnigraph.pipelines.text_files import read_text_files

_IDS_AT_ONCE = 5_000
_OF_DATA = (duckdb.DataError, duckdb.InvalidInputException)
_LINES_OF_FILES = 3
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
        self._duck.execute(MACROS)

    def _meant(self, tree: exp.Query | exp.Expr) -> exp.Expr:
        return for_duckdb(tree)

    def newest(self, rows: SourceRows) -> str | None:
        return newest_commit(rows) if rows.source.graph is not None else super().newest(rows)

    def _define_source(self, name: str, rows: SourceRows) -> None:
        if rows.source.graph is not None:
            self._define_arrow(name, rows_of_graph(rows))
            return
        if rows.source.format == "text":
            self._define_arrow(name, read_text_files(rows))
            return
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
        chunks = [chunk for each in found for chunk in each.chunks]
        self._define_arrow(name, pa.table({"id": pa.chunked_array(chunks, pa.string())}))

    def _define_spelled_ids(self, name: str, relation: str, columns: Sequence[str]) -> None:
        self._define_arrow(name, spelled_ids(self.rows(relation), columns))

    def _define_arrow(self, name: str, rows: pa.Table) -> None:
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

    def write_parquet(self, name: str, folder: str) -> None:
        Path(folder).mkdir(parents=True)
        pq.write_table(self.rows(name), Path(folder) / "part-00000.parquet")

    def _define_parquet(self, name: str, folders: Sequence[str]) -> None:
        files = [str(file) for folder in folders for file in sorted(Path(folder).glob("*.parquet"))]
        self._run(f"CREATE TEMP VIEW {_name(name)} AS FROM read_parquet({_list(files)}, union_by_name = true)")

    def close(self) -> None:
        self._opened.__exit__(None, None, None)

    def _run(self, sql: str) -> None:
        try:
            self._duck.execute(sql)
        except duckdb.Error as error:
            raise RelationFault(_first_lines(error), is_of_data=isinstance(error, _OF_DATA)) from error

    def _fetch(self, sql: str) -> pa.Table:
        try:
            return self._duck.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            raise RelationFault(_first_lines(error), is_of_data=isinstance(error, _OF_DATA)) from error


def _first_lines(error: duckdb.Error) -> str:
    """What is wrong; of a file, also with which row and value."""
    lines = [line for line in str(error).split("\n") if line.strip()]
    return "; ".join(lines[: _LINES_OF_FILES if "CSV Error" in lines[0] else 1])


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _list(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"


def _duck_type(text: str) -> str:
    return exp.DataType.build(text, dialect="spark").sql(DUCKDB)
