"""The relational rest of a read as Spark SQL.

The statement is the one that DuckDB runs. All differences between Spark and DuckDB are handled here: sums of whole
numbers, values that are computed of nested queries, and conditions that refer to relations more than one query further
out.
"""

from datetime import date
from decimal import Decimal
from typing import Any

from sqlglot import exp
from sqlglot.dialects.spark import Spark

from omnigraph.catalog import Value
from omnigraph.catalog.types import INTEGER_BOUNDS, Scalar
from omnigraph.operations import SPARK, repeats_arguments
from omnigraph.query.sql_text import Computation, sql_text

_WIDEST = exp.DataType(
    this=exp.DataType.Type.DECIMAL, expressions=[exp.DataTypeParam(this=exp.Literal.number(each)) for each in (38, 0)]
)


def spark_sql(statement: exp.Select) -> str:
    """The text of a statement. A relation is named in braces, as `SparkSession.sql` takes data frames: ``{r0}``."""
    copy = statement.copy()
    for total in copy.find_all(exp.Sum):
        added = total.this.expressions[0] if isinstance(total.this, exp.Distinct) else total.this
        if isinstance(added, exp.Column):
            # Only sums of whole numbers have no cast. Spark would compute them in 64 bits, and fail beyond.
            added.replace(exp.Cast(this=added.copy(), to=_WIDEST.copy()))
    for select in [*copy.find_all(exp.Select)]:
        if not (_is_nested(select) or select.args.get("group") or select.args.get("order")):
            _answer_queries_first(select)
    _nest_directly(copy)
    named = {query.alias for query in copy.find_all(exp.CTE)}
    for table in copy.find_all(exp.Table):
        if table.name not in named:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.alias or table.name)))
            table.set("this", exp.Identifier(this=f"{{{table.name}}}"))
    return sql_text(copy, Spark)  # its class, as DuckDB's in `Relational.duckdb_sql`


def spark_arguments(parameters: dict[str, Value]) -> dict[str, Any]:
    """Parameters as `SparkSession.sql` takes them, which are cast to their type where they are used."""
    return {name: _spark_argument(value) for name, value in parameters.items()}


def _spark_argument(value: Value) -> Any:
    """A whole number beyond 64 bits as a decimal, and a day or an instant as a text.

    PySpark would make a `java.sql.Date` or `Timestamp` of these. It fails for years before 1000, and they count the
    days before 1582-10-15 by another calendar than ours.
    """
    low, high = INTEGER_BOUNDS[Scalar.I64]
    if type(value) is int and not low <= value <= high:
        return Decimal(value)
    return value.isoformat() if isinstance(value, date) else value


# --- values that are computed of nested queries ---


def _answer_queries_first(select: exp.Select) -> None:
    """Rewrites a query that computes values of nested queries: one inside it answers these, and it computes the rest.

    What is used several times in a computation is bound to a name there by a function of higher order, and Spark takes
    no query as an argument of one.
    """
    where = select.args.get("where")
    conditions = [*where.this.flatten()] if where is not None and isinstance(where.this, exp.And) else []
    if where is not None and not conditions:
        conditions = [where.this]
    late = [each for each in conditions if _computes_of_queries(each)]
    if not late and not any(map(_computes_of_queries, select.expressions)):
        return
    columns: dict[exp.Expr, str] = {}
    outer = [_read_row(each, columns) for each in select.expressions]
    seen = [_read_row(each, columns) for each in late]
    inner = exp.Select(
        expressions=[exp.Alias(this=each, alias=exp.to_identifier(name)) for each, name in columns.items()]
    )
    for part in ("from_", "joins"):
        inner.set(part, select.args.get(part))
        select.set(part, None)
    for each in conditions:
        if not any(each is other for other in late):
            inner.where(each.copy(), copy=False)
    select.set("expressions", outer)
    select.set("where", None)
    select.from_(inner.subquery(_ROW), copy=False)
    for each in seen:
        select.where(each, copy=False)


_ROW = "of_row"
"""The name of the query that answers nested ones, and of its columns with a number after it."""


def _read_row(expression: exp.Expr, columns: dict[exp.Expr, str]) -> exp.Expr:
    """An expression over the columns of the inner query; those that it needs are added to `columns`."""

    def read(each: exp.Expr) -> exp.Expr:
        if not isinstance(each, exp.Column | exp.Exists | exp.Subquery):
            return each
        return exp.column(columns.setdefault(each, f"{_ROW}{len(columns)}"), table=_ROW)

    return expression.copy().transform(read)


def _computes_of_queries(expression: exp.Expr) -> bool:
    return any(
        repeats_arguments(each.name, len(each.expressions), SPARK) and each.find(exp.Exists, exp.Subquery) is not None
        for each in expression.find_all(Computation)
    )


def _is_nested(select: exp.Select) -> bool:
    """Whether a query is a value of another one, or part of one."""
    at: exp.Expr | None = select
    while at is not None:
        if isinstance(at, exp.Exists) or (isinstance(at, exp.Subquery) and not at.alias):
            return True
        at = at.parent
    return False


# --- nested queries ---


def _nest_directly(statement: exp.Select) -> None:
    """Rewrites nested queries so that each names only its own relations and those of the query right around it.

    If a query refers to a relation further out, the query in between gets a copy of the relation, joined to the outer
    row by the columns that are used. The result depends only on their values, so a copy of the row is equivalent.
    """
    for select in _nested_queries(statement):
        own = _relations(select)
        inside = {name for inner in select.find_all(exp.Select) for name in _relations(inner)}
        far = {
            column.table
            for inner in _nested_queries(select)
            for column in inner.find_all(exp.Column)
            if column.table not in inside
        }
        for name in sorted(far - own):
            _join_copy(select, name)


def _nested_queries(statement: exp.Expr) -> list[exp.Select]:
    """The queries that are nested as values, outermost first."""
    found = []
    for each in statement.find_all(exp.Exists, exp.Subquery, bfs=True):
        if isinstance(each.this, exp.Select) and each is not statement and not each.alias:
            found.append(each.this)
    return found


def _relations(select: exp.Select) -> set[str]:
    """The names of the relations in the `FROM` of a query."""
    sources = [select.args["from_"], *select.args.get("joins", ())]
    return {source.this.alias or source.this.name for source in sources}


def _join_copy(select: exp.Select, name: str) -> None:
    nearer = f"{name}_"
    used = [column for column in select.find_all(exp.Column) if column.table == name]
    for column in used:
        column.set("table", exp.to_identifier(nearer))
    original = name.rstrip("_")
    fields = sorted({column.name for column in used})
    # Rows are counted, so there is one for the values that are used.
    rows = exp.Select(expressions=[exp.column(field) for field in fields]).from_(exp.to_table(original)).distinct()
    select.join(rows.subquery(nearer), join_type="cross", copy=False)
    for field in fields:
        tie = exp.NullSafeEQ(this=exp.column(field, table=nearer), expression=exp.column(field, table=name))
        select.where(tie, copy=False)
