"""The rows of a run by name: sources and views, in DuckDB or in Spark, which read the same SQL.

What a run does with rows is written here once, as SQL. An engine only reads sources, defines relations and answers
statements.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from omnigraph.api.graph import GraphApi
from omnigraph.catalog import derived_ids
from omnigraph.dataclass_later import dataclass
from omnigraph.pipelines.definition import RowSource, TypeMapping
from omnigraph.pipelines.sql import (
    all_hold,
    holds,
    parse_expression,
    parse_select,
    select_from,
    with_relations,
    write_sql,
)
from omnigraph.storage.inputs import InputFile

RULE, RUN, VIEW = "__rule", "__run", "__view"
"""The columns that say of a row in the quarantine which rules it violated, in which run, and of which view it is."""
ID_COLUMN = "id"


CSV_OPTIONS = ("sep", "delimiter", "quote", "escape", "header", "nullValue", "encoding", "comment")
"""The options of CSV files that both engines have, as Spark calls them."""
TEXT_OPTIONS = ("lineSep", "wholetext")
"""The options of text files, as Spark calls them."""
_CSV_DEFAULTS = {"sep": ",", "quote": '"', "escape": '"', "header": "true", "nullValue": ""}


class RelationFault(Exception):
    """A source that cannot be read, or SQL that an engine does not accept; the text is the engine's."""

    def __init__(self, message: str, *, is_of_data: bool = False) -> None:
        super().__init__(message)
        self.is_of_data = is_of_data
        """Whether a value is the reason, such as a text that is not the number that it is cast to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRows:
    """The rows of a source that a run reads."""

    source: RowSource
    files: tuple[InputFile, ...] = ()
    is_empty: bool = False
    """Whether only the columns of the files are read."""
    after: str | None = None
    """What the batches before have read: the greatest value of a column, or a position."""
    upto: str | None = None
    """The position that the rows are read up to; None where there is none, or where only the columns matter."""
    place: str | None = None
    """Of a graph: where it is."""


def csv_options(rows: SourceRows) -> dict[str, str]:
    """How CSV files are read: the given options and the defaults, in Spark's words, the same for both engines."""
    given = {("sep" if key == "delimiter" else key): value for key, value in rows.source.options.items()}
    by_name = {"sep": "\t"} if all(".tsv" in file.name for file in rows.files) else {}
    header = given.get("header", "true").lower()
    return {**_CSV_DEFAULTS, **by_name, **given, "header": header}


def spelled_ids(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The ids of nodes whose keys are in these columns; rows without a whole key have none."""
    batch = rows.select(columns).drop_null().combine_chunks()
    values = [batch[each].combine_chunks() if len(batch) else pa.nulls(0, pa.string()) for each in columns]
    return pa.table({ID_COLUMN: derived_ids(values).cast(pa.string()) if len(batch) else pa.nulls(0, pa.string())})


class QuarantineTable(ABC):
    """A table of Spark with rejected rows: their rules, the source or view, the run, and the row as JSON."""

    @abstractmethod
    def append(self, name: str) -> None:
        """Appends the rows of a relation of rejected rows."""

    @abstractmethod
    def define_rejected(self, physical: str, name: str, runs: Sequence[str]) -> None:
        """Gives a name to the rows of a relation that some runs rejected, with the columns of the relation."""


class PipelineRows(ABC):
    """Named rows in one engine."""

    dialect: str
    """How it writes SQL."""
    prefix = "r"
    """How the names of relations in the engine begin."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._defined = 0

    # --- what an engine does ---

    def newest(self, rows: SourceRows) -> str | None:
        """The newest position of a source that is read up to one; None if it has none."""
        raise RelationFault(f"positions of {rows.source.name.text} are read by Spark")

    @abstractmethod
    def _define_source(self, name: str, rows: SourceRows) -> None:
        """Gives a name to the rows of a source; they need not be read."""

    @abstractmethod
    def _define(self, name: str, sql: str, *, kept: bool) -> None:
        """Gives a name to the rows of a statement; those that are kept are computed once."""

    @abstractmethod
    def _define_graph_ids(self, name: str, graph: GraphApi, branch: str, type: str, wanted: tuple[str, str]) -> None:
        """Gives a name to ids of nodes in a graph."""

    @abstractmethod
    def _schema(self, name: str) -> pa.Schema:
        """The columns of a relation; no row is read for it."""

    @abstractmethod
    def _answer(self, sql: str) -> pa.Table:
        """The few rows of a statement."""

    @abstractmethod
    def rows(self, name: str) -> Any:
        """The rows of a relation as a load takes them."""

    @abstractmethod
    def write_parquet(self, name: str, folder: str) -> None:
        """Writes the rows of a relation to files in a new folder."""

    @abstractmethod
    def _define_parquet(self, name: str, folders: Sequence[str]) -> None:
        """Gives a name to the rows that `write_parquet` wrote."""

    @abstractmethod
    def _define_spelled_ids(self, name: str, relation: str, columns: Sequence[str]) -> None:
        """Gives a name to the ids of nodes whose keys are in columns of a relation, spelled as a load does."""

    def open_quarantine(self, table: str) -> "QuarantineTable":
        """A table of Spark that takes rejected rows."""
        raise RelationFault(f"the table `{table}` is one of Spark")

    @abstractmethod
    def close(self) -> None:
        """Ends everything that was defined."""

    def _meant(self, tree: exp.Query | exp.Expr) -> Any:
        """A tree of a definition, written so that this engine computes what Spark does.

        Raises `SqlFault` if it does not.
        """
        return tree

    # --- what a run does ---

    def add_source(self, rows: SourceRows) -> None:
        """Defines a source. Columns that the definition declares are cast to their types."""
        name = rows.source.name.text
        raw = self._new_name(name)
        self._define_source(raw, rows)
        columns: Sequence[exp.Expr] = [exp.Star()]
        declared = rows.source.columns
        if declared is not None and rows.source.format in ("csv", "parquet"):
            columns = [
                exp.alias_(self._meant(exp.cast(_column(each), written.text, dialect="spark")), each, quoted=True)
                for each, written in declared.items()
            ]
        where: exp.Expr | None = exp.false() if rows.is_empty else None
        if rows.after is not None and rows.source.column is not None and not rows.is_empty:
            kind = self._type_of(raw, rows.source.column.text)
            bound = exp.cast(exp.Literal.string(rows.after), kind)
            where = exp.GT(this=_column(rows.source.column.text), expression=bound)
        self._add(name, select_from(raw, columns, where))

    def add_view(self, name: str, sql: str) -> None:
        """Defines a view. Raises `SqlFault` for names that are unknown, and `RelationFault` for other mistakes."""
        self._add(name, with_relations(self._meant(parse_select(sql)), self._names))

    def add_mapping(self, name: str, mapping: TypeMapping, columns: Mapping[str, str]) -> None:
        """Defines the table that is loaded: columns by their expressions over the view."""
        selected = [exp.alias_(self._parse(text), each, quoted=True) for each, text in columns.items()]
        self._add(name, select_from(self._names[mapping.view.text.lower()], selected))

    def has(self, name: str) -> bool:
        """Whether a source or view has this name."""
        return name.lower() in self._names

    @property
    def names(self) -> list[str]:
        """The sources and views that are defined."""
        return [*self._names]

    def schema(self, name: str) -> pa.Schema:
        """The columns of a relation."""
        return self._schema(self._names[name.lower()])

    def check(self, name: str, expression: str) -> pa.DataType:
        """The type of an expression over a relation; no row is read."""
        checked = self._new_name("checked")
        column = exp.alias_(self._parse(expression), "value")
        self._define(checked, self._write(select_from(self._names[name.lower()], [column])), kept=False)
        return self._schema(checked).field("value").type

    def keep(self, name: str) -> None:
        """Computes the rows of a relation once, for all that read it from now on."""
        before = self._names[name.lower()]
        self._add(name, select_from(before, [exp.Star()]), kept=True)

    def count(self, name: str, conditions: Sequence[str] = ()) -> tuple[int, list[int]]:
        """How many rows a relation has, and in how many each condition is not true."""
        one, none = exp.Literal.number(1), exp.Literal.number(0)
        counts: list[exp.Expr] = [exp.Count(this=exp.Star())]
        for each in conditions:
            case = exp.Case(ifs=[exp.If(this=holds(self._parse(each)), true=none.copy())], default=one.copy())
            counts.append(exp.Coalesce(this=exp.Sum(this=case), expressions=[none.copy()]))
        named = [exp.alias_(each, f"c{index}") for index, each in enumerate(counts)]
        (row,) = self._answer(self._write(select_from(self._names[name.lower()], named))).to_pylist()
        total, *found = (int(value) for value in row.values())
        return total, found

    def reject(self, name: str, rules: Mapping[str, str], run: str) -> str:
        """Takes the rows out of a relation that violate rules; returns the relation of these, each with its rules."""
        return self._reject(name, {rule: self._parse(text) for rule, text in rules.items()}, run)

    def reject_unknown(self, name: str, known: Mapping[str, str], run: str, *, unless: str | None = None) -> str:
        """Takes the rows out whose values of columns are not in the relations of ids that are named for them.

        Rows stay for which the column `unless` is true.
        """
        rules: dict[str, exp.Expr] = {}
        for column, ids in known.items():
            value = exp.cast(_column(column), "string", dialect="spark")
            listed = select_from(self._names[ids.lower()], [_column(ID_COLUMN)])
            found: exp.Expr = exp.In(this=value, query=exp.Subquery(this=listed))
            if unless is not None:
                found = exp.or_(_column(unless), found)
            rules[f"the node of `{column}` is missing"] = found
        return self._reject(name, rules, run)

    def _reject(self, name: str, rules: Mapping[str, exp.Expr], run: str) -> str:
        before = self._names[name.lower()]
        kept = all_hold(rules.values())
        violated = [
            exp.Case(ifs=[exp.If(this=exp.Not(this=holds(condition)), true=exp.Literal.string(rule))])
            for rule, condition in rules.items()
        ]
        first = (
            violated[0]
            if len(violated) == 1
            else exp.func("concat_ws", exp.Literal.string(", "), *violated, dialect="spark")
        )
        marks = {RULE: first, RUN: exp.Literal.string(run), VIEW: exp.Literal.string(name)}
        columns = [exp.Star(), *(exp.alias_(value, mark, quoted=True) for mark, value in marks.items())]
        query = select_from(before, columns, exp.Not(this=exp.Paren(this=kept.copy())))
        rejected = f"{name}-rejected"
        self._add(rejected, query, kept=True)
        self._add(name, select_from(before, [exp.Star()], kept), kept=True)
        return rejected

    def largest(self, name: str, column: str) -> str | None:
        """The greatest value of a column, as text; None if there is none."""
        value = exp.cast(exp.Max(this=_column(column)), "string", dialect="spark")
        query = select_from(self._names[name.lower()], [exp.alias_(value, "value")])
        found: str | None = self._answer(self._write(query))["value"][0].as_py()
        return found

    def distinct_texts(self, name: str, column: str) -> list[str]:
        """The distinct values of a column that are not null, as texts."""
        value = exp.alias_(exp.cast(_column(column), "string", dialect="spark"), "value")
        known = exp.Not(this=exp.Is(this=_column(column), expression=exp.null()))
        query = select_from(self._names[name.lower()], [value], known)
        found: list[str] = self._answer(self._write(query.distinct()))["value"].to_pylist()
        return found

    def add_graph_ids(self, name: str, graph: GraphApi, branch: str, type: str, wanted: tuple[str, str]) -> None:
        """Defines a relation with the ids of nodes of a graph, at least of those that a column of a relation names."""
        physical = self._new_name(name)
        self._define_graph_ids(physical, graph, branch, type, wanted)
        self._names[name.lower()] = physical

    def add_spelled_ids(self, name: str, relation: str, columns: Sequence[str]) -> str:
        """Defines the ids of nodes with keys of several columns. Returns their name."""
        physical = self._new_name(name)
        self._define_spelled_ids(physical, relation, columns)
        self._names[name.lower()] = physical
        return name

    def add_union_of_ids(self, name: str, columns: Iterable[tuple[str, str]]) -> str:
        """Defines a relation of ids: the texts of columns of relations. Returns its name."""
        parts: list[exp.Query] = []
        for relation, column in columns:
            value = exp.alias_(exp.cast(_column(column), "string", dialect="spark"), ID_COLUMN)
            known = exp.Not(this=exp.Is(this=_column(column), expression=exp.null()))
            parts.append(select_from(self._names[relation.lower()], [value], known))
        query = parts[0]
        for each in parts[1:]:
            query = exp.union(query, each, distinct=False)
        self._add(name, query, kept=True)
        return name

    def add_rejected(self, name: str, folders: Sequence[str]) -> None:
        """Adds to a relation the rows of it that earlier runs put into folders."""
        raw = self._new_name(name)
        self._define_parquet(raw, folders)
        self._add_again(name, raw)

    def add_rejected_of_table(self, name: str, table: str, runs: Sequence[str]) -> None:
        """Adds to a relation the rows of it that earlier runs put into a table."""
        raw = self._new_name(name)
        self.open_quarantine(table).define_rejected(raw, name, runs)
        self._add_again(name, raw)

    def _add_again(self, name: str, raw: str) -> None:
        columns = [_column(each) for each in self.schema(name).names]
        rejected = select_from(raw, columns)
        now = select_from(self._names[name.lower()], [each.copy() for each in columns])
        self._add(name, exp.union(now, rejected, distinct=False))

    def forget(self) -> None:
        """Frees the names of sources and views, to define them again."""
        self._names.clear()

    def _add(self, name: str, query: exp.Query, *, kept: bool = False) -> None:
        """Gives the name to the rows of a query, which may read what had the name before."""
        physical = self._new_name(name)
        self._define(physical, self._write(query), kept=kept)
        self._names[name.lower()] = physical

    def _new_name(self, name: str) -> str:
        """A name that nothing in the engine has."""
        self._defined += 1
        return f"{self.prefix}{self._defined}_{name}"

    def _type_of(self, physical: str, column: str) -> exp.DataType:
        kind = self._schema(physical).field(column).type
        return exp.DataType.build(_sql_type(kind), dialect="spark")

    def _parse(self, text: str) -> exp.Expr:
        found: exp.Expr = self._meant(parse_expression(text))
        return found

    def _write(self, tree: exp.Expr) -> str:
        return write_sql(tree, self.dialect)


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _sql_type(kind: pa.DataType) -> str:
    """The type of SQL in which a watermark is compared."""
    types = pa.types
    if types.is_integer(kind):
        return "bigint"
    if types.is_floating(kind) or types.is_decimal(kind):
        return "double" if types.is_floating(kind) else f"decimal({kind.precision},{kind.scale})"
    if types.is_date(kind):
        return "date"
    if types.is_timestamp(kind):
        return "timestamp"
    return "string"
