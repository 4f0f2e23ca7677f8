"""The text of a statement, however deep queries are nested in it."""

from typing import Any

from sqlglot import exp

_NESTED = (exp.Exists, exp.Coalesce)
_FEW_NESTED = 8


def is_deep(statement: exp.Expr) -> bool:
    """Whether a statement has more nested conditions than every stack has room for."""
    return sum(1 for _ in statement.find_all(*_NESTED)) > _FEW_NESTED


def sql_text(statement: exp.Expr, dialect: Any, *, pretty: bool = False) -> str:
    """A statement as a dialect, given by its class, writes it.

    sqlglot writes by recursion, some fifteen calls for each query inside another, and Python has a limit of calls. So
    where there are more than a few, nested conditions are written innermost first, each as text within the next.
    """
    if not is_deep(statement):
        return statement.sql(dialect, pretty=pretty)
    copy = statement.copy()
    for condition in reversed([*copy.find_all(*_NESTED, bfs=True)]):
        condition.replace(exp.Var(this=condition.sql(dialect, pretty=pretty)))
    return copy.sql(dialect, pretty=pretty)
