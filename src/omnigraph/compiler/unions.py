"""Typechecks and lowers a union of reads: parts with the same columns, and what orders and cuts the rows of all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeAlias

from omnigraph.catalog import Catalog, List, PropertyType, Scalar, Vector
from omnigraph.catalog.model import ID
from omnigraph.codes import Code
from omnigraph.compiler import ir
from omnigraph.compiler.expressions import convert_to
from omnigraph.compiler.reads import ReadCompiler, name_of, order_problem, projections_of
from omnigraph.compiler.scope import EdgeVariable, NodeVariable, VariableScope
from omnigraph.compiler.values import AGGREGATES, RANKINGS, is_known, kind_of, type_of
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Findings, Span, quoted
from omnigraph.operations import common_type
from omnigraph.syntax import query_ast as ast
from omnigraph.syntax.nodes import Node
from omnigraph.syntax.printer import print_expression

_SortColumns: TypeAlias = tuple[ir.SortKey, ...]


@dataclass(frozen=True, slots=True)
class _Part:
    """A part whose pattern and columns were lowered; `written` are its columns as they stand in the source."""

    read: ir.Read
    scope: VariableScope
    written: tuple[ast.Projection, ...]
    span: Span

    @property
    def columns(self) -> tuple[ir.OutputColumn, ...]:
        return self.read.shape.columns

    @property
    def names(self) -> list[str]:
        return [name_of(each) for each in self.written]

    def with_columns(self, columns: Sequence[ir.OutputColumn]) -> "_Part":
        """The same with other columns."""
        read = replace(self.read, shape=replace(self.read.shape, columns=tuple(columns)))
        return _Part(read, self.scope, self.written, self.span)


class UnionCompiler:
    """Lowers one union; what cannot be lowered is reported and left out, so that the rest is still checked."""

    def __init__(
        self, catalog: Catalog, parameters: Mapping[str, ir.ParameterValue | None], findings: Findings
    ) -> None:
        self._parameters = parameters
        self._findings = findings
        self._reads = ReadCompiler(catalog, parameters, findings)

    def lower(self, union: ast.UnionBody, name: Span) -> ir.Union:
        """The typed form of the union called at `name`; meaningful only when no error was reported."""
        parts = [
            self._lower_part(union, read, read.span if number else name) for number, read in enumerate(union.parts)
        ]
        order = [key for key in union.order if self._is_of_rows(key, union)]
        if self._have_same_names(parts) and not self._findings.has_errors:
            parts = self._convert_columns(parts)
        # All parts have the limit of the union, and in the order of a union stand no columns but those of the first.
        shape = replace(parts[0].read.shape, order=(), having=(), grouped=not union.every)
        keys: list[ir.UnionKey] = []
        if not self._findings.has_errors:
            parts, keys = self._add_keys(parts, order)
        reads = tuple(_order_part(part, keys) for part in parts)
        return ir.Union(parts=reads, every=union.every, shape=shape, keys=tuple(keys))

    def _lower_part(self, union: ast.UnionBody, read: ast.ReadBody, span: Span) -> _Part:
        distinct = read.shape.distinct or not union.every
        shape = replace(read.shape, distinct=distinct, limit=union.limit, offset=union.offset)
        lowered, scope = self._reads.lower_in_scope(replace(read, shape=shape), span)
        written = projections_of(read.shape.returns, self._reads.result_values(scope, ()))
        part = _Part(lowered, scope, tuple(written), span)
        for column, projection in zip(part.columns, written, strict=False):
            if any(isinstance(each, ir.Ranking) for each in ir.expressions_in(column.expression)):
                message = "a ranking compares the rows of one pattern, and cannot be a column of a union"
                hint = "rank in a stage, and return its other columns: `with { … } order { … } limit 10 return { … }`"
                self._findings.report(Code.FUNCTION_NOT_ALLOWED, message, projection.span, hint)
        return part

    # --- the columns ---

    def _have_same_names(self, parts: Sequence[_Part]) -> bool:
        """Whether all parts have the columns of the first, in its order."""
        expected = parts[0].names
        fitting = [part for part in parts[1:] if self._has_names(part, expected)]
        return len(fitting) == len(parts) - 1

    def _has_names(self, part: _Part, expected: Sequence[str]) -> bool:
        found = part.names
        if found == expected:
            return True
        if len(found) != len(expected) or sorted(found) == sorted(expected):
            how = "has its columns in another order" if len(found) == len(expected) else "has other columns"
            message = (
                f"this part of the union {how}: expected {{ {', '.join(expected)} }}, found {{ {', '.join(found)} }}"
            )
            hint = "return the columns of the first part; for one that has no value here, `null as name`"
            self._findings.report(
                Code.UNION_PARTS_DIFFER, message, part.span, hint if len(found) < len(expected) else None
            )
            return False
        for projection, name in zip(part.written, expected, strict=True):
            if name_of(projection) != name:
                message = f"expected the column {quoted(name)}, as in the first part of the union, found {{}}"
                text = print_expression(projection.expression)
                hint = f"name it: `{text} as {name}`" if name.isidentifier() else "name both: `… as name`"
                message = message.format(quoted(name_of(projection)))
                self._findings.report(Code.UNION_PARTS_DIFFER, message, projection.span, hint)
        return False

    def _convert_columns(self, parts: Sequence[_Part]) -> list[_Part]:
        """The parts with columns of common types."""
        types = [self._common_type_of(parts, at) for at in range(len(parts[0].columns))]
        return [
            part.with_columns(
                [
                    column if type is None else replace(column, expression=convert_to(column.expression, type))
                    for column, type in zip(part.columns, types, strict=True)
                ]
            )
            for part in parts
        ]

    def _common_type_of(self, parts: Sequence[_Part], at: int) -> PropertyType | None:
        """The type of a column of all parts; None for entities, nulls, and where one is reported."""
        first, name = parts[0], quoted(parts[0].names[at])
        known: PropertyType | None = None
        for part in parts:
            expression, span = part.columns[at].expression, part.written[at].span
            type = type_of(expression)
            problem = _column_problem(expression, type, part.scope)
            if problem is not None:
                message, hint = problem
                self._findings.report(Code.UNION_PARTS_DIFFER, f"the column {name} {message}", span, hint)
                return None
            kinds = [_kind_in(each.columns[at].expression, each.scope) for each in (part, first)]
            is_entity = [isinstance(each.columns[at].expression, ir.Entity) for each in (part, first)]
            common = known if type is None else type if known is None else common_type((known, type))
            if (any(is_entity) and kinds[0] != kinds[1]) or (common is None and type is not None):
                kind = kinds[1] if any(is_entity) else str(known)
                message = f"the column {name} is {kinds[0]} here, and {kind} in the parts before"
                hint = "cast one of them: `cast($x.p as String)`" if not any(is_entity) else None
                self._findings.report(Code.UNION_PARTS_DIFFER, message, span, hint)
                return None
            known = common
        return known

    # --- the order ---

    def _is_of_rows(self, key: ast.OrderKey, union: ast.UnionBody) -> bool:
        """Whether the key of an order is computed of columns; what is not is reported."""
        foreign = next(self._foreign_in(key.expression), None)
        if foreign is None:
            return True
        message = "the rows of a union are ordered by its columns, or by what is computed of them"
        named = {
            projection.expression: projection.alias
            for part in union.parts
            for projection in part.shape.returns
            if isinstance(projection, ast.Projection) and projection.alias is not None
        }
        name = named.get(key.expression) or named.get(foreign)
        hint = "return the value as a column of each part" if name is None else f"write the name: {quoted(name)}"
        self._findings.report(Code.ORDER_NOT_GROUPED, message, foreign.span, hint)
        return False

    def _foreign_in(self, node: Any) -> Iterator[ast.Expression]:
        """What in an expression is about the rows of a single part."""
        match node:
            case ast.PropertyAccess() | ast.SubPatternExpression():
                yield node
            case ast.Variable(name):
                if name not in self._parameters:
                    yield node
            case ast.FunctionCall(name) if name in AGGREGATES | RANKINGS:
                yield node
            case tuple():
                for each in node:
                    yield from self._foreign_in(each)
            case Node():
                for field in fields(node):
                    yield from self._foreign_in(getattr(node, field.name))

    def _add_keys(self, parts: Sequence[_Part], order: Sequence[ast.OrderKey]) -> tuple[list[_Part], list[ir.UnionKey]]:
        """The parts with a column for each key of the order that is none, and where each key is."""
        columns = [[*part.columns] for part in parts]
        readers = [self._reads.result_values(part.scope, part.columns) for part in parts]
        keys = []
        for number, key in enumerate(order):
            values = [reader.value(key.expression) for reader in readers]
            found = [each for each in values if each is not None]
            if len(found) < len(parts):
                continue
            problem = next((problem for each in found if (problem := order_problem(each)) is not None), None)
            if problem is not None:
                self._findings.report(Code.OPERATOR_NOT_DEFINED, problem, key.span)
                continue
            descending = bool(key.descending)
            if isinstance(key.expression, ast.BareName):
                index = [each.name for each in columns[0]].index(key.expression.name)
            else:
                index = len(columns[0])
                for mine, value in zip(columns, found, strict=True):
                    mine.append(ir.OutputColumn(f"order:{number}", value))
            keys.append(ir.UnionKey(index, descending))
        return [part.with_columns(mine) for part, mine in zip(parts, columns, strict=True)], keys


def _column_problem(
    expression: ir.Expression, type: PropertyType | None, scope: VariableScope
) -> tuple[str, str | None] | None:
    """Why a value cannot be in a union, and what to write."""
    if type is Scalar.BLOB or isinstance(type, Vector):
        return f"is a {type}, which rows of a union cannot have", "return the id, and read it by another query"
    if isinstance(expression, ir.Entity) and not isinstance(
        scope.lookup(expression.variable), NodeVariable | EdgeVariable
    ):
        return "is a path, which rows of a union cannot have", "return its nodes: `$path.nodes`"
    return None


def _kind_in(expression: ir.Expression, scope: VariableScope) -> str:
    """What a column is; entities of one kind have the same properties."""
    if not isinstance(expression, ir.Entity):
        return kind_of(expression)
    match scope.lookup(expression.variable):
        case NodeVariable(_, types, interface):
            return f"a whole {quoted(interface if interface is not None else types[0])}"
        case EdgeVariable(_, edge):
            return f"a whole {quoted(edge.name)}"
    return kind_of(expression)


def _order_part(part: _Part, keys: Sequence[ir.UnionKey]) -> ir.Read:
    """A part in the order of the union, so that those of its rows that come after the limit need not be read.

    Without a limit, and where that order is none for an engine, all rows are read in any order.
    """
    shape = part.read.shape
    every = _sort_columns(part)
    if shape.limit is None or every is None:
        return replace(part.read, shape=replace(shape, order=(), limit=None, offset=None, is_part=True))
    first = [ir.SortKey(shape.columns[key.index].expression, key.descending) for key in keys]
    order: dict[ir.Expression, ir.SortKey] = {}
    for key in (*first, *every):
        # What sorts rows a second time changes nothing.
        if not is_known(key.expression):
            order.setdefault(key.expression, key)
    return replace(part.read, shape=replace(shape, order=tuple(order.values()), is_part=True))


def _sort_columns(part: _Part) -> _SortColumns | None:
    """What orders rows by all of their columns, from left to right; None if there is a column without an order."""
    keys = []
    for column in part.columns:
        value = column.expression
        if isinstance(value, ir.Entity):
            meaning = part.scope.lookup(value.variable)
            if isinstance(meaning, NodeVariable) and meaning.interface is not None:
                return None
            value = ir.Column(value.variable, ID, Scalar.STRING, value.nullable)
        elif isinstance(type_of(value), List):
            return None
        keys.append(ir.SortKey(value, descending=False))
    return tuple(keys)
