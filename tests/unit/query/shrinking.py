"""A smaller query that still has a property, such as that two executors disagree about it."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args

from omnigraph.catalog import Catalog
from omnigraph.compiler import check_queries
from omnigraph.diagnostics import Source
from omnigraph.syntax import parse_queries
from omnigraph.syntax import query_ast as ast
from tests.unit.syntax.printing import print_queries


def shrink(text: str, catalog: Catalog, keeps: Callable[[str], bool], *, attempts: int = 300) -> str:
    """The smallest query that is found by leaving out one part after the other, as long as `keeps` holds."""
    tried = set[str]()
    while True:
        for tree in _smaller(parse_queries(Source("random.gq", text)).tree):
            shorter = print_queries(tree)
            if shorter in tried or len(shorter) >= len(print_queries(parse_queries(Source("random.gq", text)).tree)):
                continue
            tried.add(shorter)
            if len(tried) > attempts:
                return text
            if any(each.is_error for each in check_queries(Source("random.gq", shorter), catalog).diagnostics):
                continue
            if keeps(shorter):
                text = shorter
                break
        else:
            return text


def _smaller(tree: Any) -> Iterator[Any]:
    """The tree without one of its parts, the largest first; or with a part of an expression in place of it."""
    for field in fields(tree):
        value = getattr(tree, field.name)
        if field.name == "span":
            continue
        if isinstance(value, tuple):
            for at, each in enumerate(value):
                yield replace(tree, **{field.name: value[:at] + value[at + 1 :]})
                if is_dataclass(each):
                    for smaller in (*_parts(each), *_smaller(each)):
                        yield replace(tree, **{field.name: (*value[:at], smaller, *value[at + 1 :])})
        elif is_dataclass(value):
            if field.name in _OMITTED:
                yield replace(tree, **{field.name: None})
            for smaller in (*_parts(value), *_smaller(value)):
                yield replace(tree, **{field.name: smaller})
        elif value is True:
            yield replace(tree, **{field.name: False})


_OMITTED = ("limit", "offset", "hops", "binding", "weight", "otherwise")
_EXPRESSIONS = get_args(ast.Expression)


def _parts(expression: Any) -> Iterator[Any]:
    """The expressions that stand right inside another one."""
    for field in fields(expression) if isinstance(expression, _EXPRESSIONS) else ():
        value = getattr(expression, field.name)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, _EXPRESSIONS):
                yield each
