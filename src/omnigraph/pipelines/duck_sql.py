"""SQL of Spark for DuckDB: what both compute in the same way, written so that they do.

A function counts as the same only if the tests compare it in both engines. Everything else is refused, and runs on
Spark: many functions are in both under one name and differ in some values, such as `round`, `hash` and `dayofweek`.
"""

from collections.abc import Callable, Mapping

from sqlglot import exp

from omnigraph.pipelines.sql import DUCKDB, SPARK, SqlFault

WHOLE, WHOLE_OR_NULL, TEXT = "omnigraph_whole", "omnigraph_whole_or_null", "omnigraph_text"
DIVISOR, ITEM = "omnigraph_divisor", "omnigraph_item"
_NUMBERS = "(x) AS x, (x DOUBLE) AS trunc(x), (x DECIMAL(38, 10)) AS trunc(x), (x HUGEINT) AS x"
_IS_WHOLE = "(x VARCHAR) AS CASE WHEN regexp_full_match(trim(x), '[+-]?[0-9]+') THEN x"
MACROS = f"""
CREATE OR REPLACE TEMP MACRO {WHOLE}{_NUMBERS},
  {_IS_WHOLE} ELSE error('the value ''' || x || ''' is not a whole number') END;
CREATE OR REPLACE TEMP MACRO {WHOLE_OR_NULL}{_NUMBERS}, {_IS_WHOLE} END;
CREATE OR REPLACE TEMP MACRO {TEXT}(x VARCHAR) AS x, (x BIGINT) AS CAST(x AS VARCHAR),
  (x HUGEINT) AS CAST(x AS VARCHAR), (x BOOLEAN) AS CAST(x AS VARCHAR), (x DATE) AS CAST(x AS VARCHAR);
CREATE OR REPLACE TEMP MACRO {DIVISOR}(x) AS CASE WHEN x = 0 THEN error('division by zero') ELSE x END;
CREATE OR REPLACE TEMP MACRO {ITEM}(x, i) AS CASE WHEN x IS NULL OR i IS NULL THEN NULL
  WHEN i >= 0 AND i < len(x) THEN x[i + 1] ELSE error('there is no element at the place ' || i) END;
"""
"""Where DuckDB rounds, gives null, or spells values in another way, and Spark cuts, fails, or spells them as it does.

Texts of fractions and times are spelled differently, so `omnigraph_text` does not take them.
"""

_SAME = (
    *(exp.And, exp.Or, exp.Xor, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Nvl2, exp.Exists),
    *(exp.Cast, exp.TryCast, exp.Abs, exp.Sign, exp.Sqrt, exp.Pow, exp.Greatest, exp.Least, exp.Floor, exp.Ceil),
    *(exp.Length, exp.Upper, exp.Lower, exp.Trim, exp.Concat, exp.ConcatWs, exp.Substring, exp.Replace, exp.Reverse),
    *(exp.Left, exp.Right, exp.Repeat, exp.Pad, exp.MD5, exp.StrPosition, exp.StartsWith, exp.EndsWith, exp.Contains),
    *(exp.RegexpExtract, exp.RegexpReplace, exp.RegexpLike, exp.RegexpSplit),
    *(exp.Array, exp.ArraySize, exp.ArrayContains, exp.ArraySort, exp.Explode, exp.Posexplode, exp.Struct),
    *(exp.Year, exp.Month, exp.Day, exp.Quarter, exp.Hour, exp.Minute, exp.Second, exp.DateDiff, exp.LastDay),
    *(exp.DayOfMonth, exp.TsOrDsToDate),
    *(exp.TsOrDsAdd, exp.TimeToStr, exp.TimestampTrunc, exp.TimeStrToTime),
    *(exp.Sum, exp.Count, exp.CountIf, exp.Min, exp.Max, exp.Avg, exp.ArrayAgg, exp.ArrayUniqueAgg),
    *(exp.ArgMax, exp.ArgMin, exp.LogicalAnd, exp.LogicalOr),
    *(exp.RowNumber, exp.Rank, exp.DenseRank, exp.Lag, exp.Lead, exp.FirstValue),
)
_PARTS, _STRICT = "YmdHMS", "strict"
"""The parts of a format that mean the same in both, and the mark of the parser for parts of a fixed length."""
_LIKE_ESCAPE = "\\"


def for_duckdb(tree: exp.Expr) -> exp.Expr:
    """A tree that means in DuckDB what it means in Spark. Raises `SqlFault` for what may differ."""
    for each in tree.walk():
        _check(each)
    return _rewrite(tree.copy())


def _rewrite(node: exp.Expr) -> exp.Expr:
    """Innermost first, so that what was rewritten is not looked at again."""
    for child in [*node.iter_expressions()]:
        written = _rewrite(child)
        if written is not child:
            child.replace(written)
    return next((write(node) for kinds, write in _WRITTEN.items() if isinstance(node, kinds)), node)


def _check(node: exp.Expr) -> None:
    if isinstance(node, exp.Func) and not isinstance(node, _SAME):
        raise SqlFault(f"`{_name_of(node)}` may give other values in {DUCKDB} than in Spark")
    if isinstance(node, exp.RegexpSplit) and node.args.get("limit") is not None:
        raise SqlFault("`split` with a limit may give other values in DuckDB than in Spark")
    if isinstance(node, exp.TsOrDsToDate) and node.args.get("format") is not None:
        raise SqlFault("`to_date` with a format may give other values in DuckDB than in Spark")
    if isinstance(node, exp.TimeToStr) and not _is_known_format(node.args.get("format")):
        raise SqlFault("a format of a date or time that has other parts than yyyy, MM, dd, HH, mm and ss")
    if isinstance(node, exp.Like | exp.ILike) and _LIKE_ESCAPE in node.expression.name:
        raise SqlFault("a pattern of `like` with a backslash may match other texts in DuckDB than in Spark")


def _name_of(node: exp.Func) -> str:
    return node.name if isinstance(node, exp.Anonymous) else node.sql_name().lower()


def _is_known_format(format: exp.Expr | None) -> bool:
    if not isinstance(format, exp.Literal):
        return False
    first, *parts = format.name.replace(_STRICT, "").split("%")
    outside = first + "".join(part[1:] for part in parts)
    return all(part[:1] in _PARTS for part in parts) and not any(each.isalpha() for each in outside)


def _cast(node: exp.Expr) -> exp.Expr:
    to = node.args["to"]
    if to.this in exp.DataType.INTEGER_TYPES:
        is_safe = isinstance(node, exp.TryCast)
        node.set("this", exp.func(WHOLE_OR_NULL if is_safe else WHOLE, node.this))
    elif to.this in exp.DataType.TEXT_TYPES:
        return exp.func(TEXT, node.this)
    elif to.this is exp.DataType.Type.TIMESTAMP:
        node.set("to", exp.DataType.build("timestamp", dialect=SPARK))
    return node


def _texts(node: exp.Expr) -> exp.Expr:
    """Parts of a text are spelled as Spark spells them."""
    node.set("expressions", [each if each.is_string else exp.func(TEXT, each) for each in node.expressions])
    return node


def _both_texts(node: exp.Expr) -> exp.Expr:
    for name in ("this", "expression"):
        each = node.args[name]
        if not each.is_string and not isinstance(each, exp.DPipe):
            node.set(name, exp.func(TEXT, each))
    return node


def _divide(node: exp.Expr) -> exp.Expr:
    if node.expression.is_number and float(node.expression.name) != 0:
        return _without_safety(node)
    node.set("expression", exp.func(DIVISOR, node.expression))
    return _without_safety(node)


def _without_safety(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Div):
        node.set("safe", False)
    return node


def _item(node: exp.Expr) -> exp.Expr:
    """An element of a list: a place that is not there is an error."""
    places = node.expressions
    if len(places) != 1 or isinstance(places[0], exp.Slice):
        raise SqlFault("expected the place of one element")
    offset = node.args.get("offset") or 0
    place = places[0] if not offset else exp.Sub(this=exp.Paren(this=places[0]), expression=exp.Literal.number(offset))
    return exp.func(ITEM, node.this, place)


_WRITTEN: Mapping[tuple[type[exp.Expr], ...], Callable[[exp.Expr], exp.Expr]] = {
    (exp.Cast,): _cast,
    (exp.Concat, exp.ConcatWs): _texts,
    (exp.DPipe,): _both_texts,
    (exp.Div, exp.IntDiv, exp.Mod): _divide,
    (exp.Bracket,): _item,
    (exp.Floor, exp.Ceil): lambda node: exp.Cast(this=node.copy(), to=exp.DataType.build("bigint")),
    (exp.TsOrDsToDate,): lambda node: exp.Cast(this=node.this, to=exp.DataType.build("date")),
    (exp.TsOrDsAdd,): lambda node: exp.Cast(this=node.copy(), to=exp.DataType.build("date")),
}
