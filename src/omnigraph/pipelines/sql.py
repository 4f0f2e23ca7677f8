"""The SQL of a pipeline: read as Spark writes it, checked for names, and written for the engine that runs it."""

from collections.abc import Iterable, Iterator, Mapping

from sqlglot import exp, parse_one
from sqlglot.errors import ErrorLevel, SqlglotError, UnsupportedError

from omnigraph.dataclass_later import dataclass

SPARK, DUCKDB = "spark", "duckdb"


@dataclass(frozen=True, slots=True)
class SqlFault(Exception):
    """A text that is not the SQL that is expected. `name` is an unknown relation, if it is that."""

    message: str
    name: str | None = None


def parse_select(text: str) -> exp.Query:
    """A query as a tree. Raises `SqlFault` for a text that is not one query."""
    tree = _parse(text)
    if not isinstance(tree, exp.Query):
        raise SqlFault("expected a query that begins with `select` or `with`")
    return tree


def parse_expression(text: str) -> exp.Expr:
    """An expression over columns as a tree. Raises `SqlFault` for a text that is not one."""
    tree = _parse(text)
    if isinstance(tree, exp.Query | exp.Command | exp.Alias) or tree.find(exp.Query) is not None:
        raise SqlFault("expected an expression over the columns of one view, without `as` and without a query")
    return tree


def _parse(text: str) -> exp.Expr:
    try:
        tree = parse_one(text, read=SPARK)
    except SqlglotError as error:
        reason = next((each["description"] for each in getattr(error, "errors", ()) if each.get("description")), None)
        raise SqlFault(f"this is not SQL: {reason or str(error).partition(chr(10))[0]}") from error
    assert isinstance(tree, exp.Expr)
    return tree.transform(_as_spark_means)


def _as_spark_means(node: exp.Expr) -> exp.Expr:
    """A cast of Spark fails where a value does not fit, which the parser takes for one that gives null."""
    if isinstance(node, exp.TryCast) and not node.args.get("safe"):
        return exp.Cast(this=node.this, to=node.args["to"])
    return node


def relations_in(query: exp.Query) -> Iterator[exp.Table]:
    """The sources and views that a query reads, without those that it defines itself."""
    own = {each.alias_or_name.lower() for each in query.find_all(exp.CTE)}
    for table in query.find_all(exp.Table):
        if table.name.lower() not in own or table.args.get("db") is not None:
            yield table


def with_relations(query: exp.Query, known: Mapping[str, str]) -> exp.Query:
    """A query over other names of relations: `known` has them by the names that the query uses, in lower case.

    Raises `SqlFault` for a name that is unknown.
    """
    renamed = query.copy()
    for table in [*relations_in(renamed)]:
        if table.args.get("db") is not None or not isinstance(table.this, exp.Identifier):
            raise SqlFault(f"a view reads sources and views of the pipeline, not {table.sql(SPARK)}")
        name = known.get(table.name.lower())
        if name is None:
            raise SqlFault(f"unknown source or view `{table.name}`", table.name)
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name, quoted=True))
        table.set("this", exp.to_identifier(name, quoted=True))
        table.set("alias", alias)
    return renamed


def write_sql(tree: exp.Expr, dialect: str) -> str:
    """The text of a tree for an engine. Raises `SqlFault` for what the engine does not have."""
    try:
        return tree.sql(dialect, unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError as error:
        raise SqlFault(str(error).partition("\n")[0]) from error


def select_from(relation: str, columns: Iterable[exp.Expr], where: exp.Expr | None = None) -> exp.Select:
    """Columns of one relation, of all its rows or of some."""
    query = exp.select(*columns).from_(exp.to_table(exp.to_identifier(relation, quoted=True).sql(SPARK), dialect=SPARK))
    return query if where is None else query.where(where)


def all_hold(conditions: Iterable[exp.Expr]) -> exp.Expr:
    """Whether all conditions are true; never null."""
    return exp.and_(*(holds(each) for each in conditions))


def holds(condition: exp.Expr) -> exp.Expr:
    """Whether a condition is true; never null."""
    return exp.Coalesce(this=exp.Paren(this=condition.copy()), expressions=[exp.false()])
