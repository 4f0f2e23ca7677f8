"""Writes and runs statements in which queries are nested deeply.

sqlglot writes nested queries by recursion in Python. DuckDB binds and plans them by recursion in C++, about 7 KiB of
stack for each. Where the stack ends, the process does too: there is no error to catch. Threads may have as little as
128 KiB, depending on the platform and on what started them.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from sqlglot import exp

from omnigraph.operations import write_operation

_NESTED = (exp.Exists, exp.Coalesce, exp.Subquery)
_FEW_NESTED = 8


class Computation(exp.Expression):
    """An operation of `omnigraph.operations`, which each dialect writes in its own way."""

    arg_types = {"this": True, "expressions": True}  # noqa: RUF012 - as sqlglot declares it


def operation_of(name: str, arguments: list[exp.Expr]) -> exp.Expr:
    """An operation of these arguments."""
    return Computation(this=name, expressions=arguments)


def is_deep(statement: exp.Expr) -> bool:
    """Whether a statement has more nested conditions than every stack has room for."""
    return sum(1 for _ in statement.find_all(*_NESTED)) > _FEW_NESTED


def sql_text(statement: exp.Expr, dialect: Any, *, pretty: bool = False) -> str:
    """A statement as a dialect, given by its class, writes it.

    sqlglot writes by recursion, some fifteen calls for each query inside another, and Python has a limit of calls. So
    where there are more than a few, nested conditions are written innermost first, each as text within the next.
    Computed values always are.
    """
    kinds = (Computation, *(_NESTED if is_deep(statement) else ()))
    nested = [*statement.find_all(*kinds)]
    if not nested:
        return statement.sql(dialect, pretty=pretty)
    copy = statement.copy()
    for each in reversed([*copy.find_all(*kinds, bfs=True)]):
        if isinstance(each, Computation):
            arguments = [argument.sql(dialect) for argument in each.expressions]
            text = write_operation(each.name, arguments, dialect.__name__.lower())
        else:
            text = each.sql(dialect, pretty=pretty)
        each.replace(exp.Var(this=text))
    return copy.sql(dialect, pretty=pretty)


ResultT = TypeVar("ResultT")

STACK_BYTES = 16 * 1024 * 1024
_starting = threading.Lock()


def run_with_room(function: Callable[[], ResultT]) -> ResultT:
    """What a function returns or raises, called in a thread with a large stack."""
    results: list[ResultT] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="omnigraph-deep-query", daemon=True)
    # The size is a setting of the process: others that start a thread meanwhile get more stack than they need.
    with _starting:
        before = threading.stack_size(STACK_BYTES)
        try:
            thread.start()
        finally:
            threading.stack_size(before)
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
