"""Typechecks and lowers the values of a mutation: what is assigned to properties, and conditions on the entity itself.

The entity that a statement decides on has no variable. Its properties are written as bare names, and mean the values
that it has before the statement.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from omnigraph.catalog import EdgeType, EntityType, PropertyType, Scalar, Vector
from omnigraph.catalog.types import FLOATS, INTEGERS, NUMBERS
from omnigraph.codes import Code
from omnigraph.compiler import ir
from omnigraph.compiler.expressions import Expressions, LowerPattern
from omnigraph.compiler.matched import can_be_distinct
from omnigraph.compiler.scope import (
    Bound,
    EdgeVariable,
    Meaning,
    NodeVariable,
    ResolvedProperty,
    ValueVariable,
    VariableScope,
)
from omnigraph.compiler.values import expression_text, is_assignable, is_known
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Findings, did_you_mean, quoted
from omnigraph.syntax import nodes
from omnigraph.syntax import query_ast as ast

_GIVEN = ir.ParameterValue | ir.Now | ir.Constant | ir.ListOf
"""Values whose type alone says whether they fit; what is computed is checked when it is written."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """Variables that are known around a value and cannot be used in it: where that is, and what to write instead."""

    scope: VariableScope
    where: str
    hint: str


class AssignedValues(Expressions):
    """Reads the values of one statement.

    With `has_own`, the scope has the entity that the statement decides on; otherwise bare names have no meaning.
    Patterns can be asked for where `nested` lowers them.
    """

    def __init__(
        self,
        scope: VariableScope,
        parameters: Mapping[str, ir.ParameterValue | None],
        findings: Findings,
        *,
        has_own: bool,
        nested: LowerPattern | None = None,
        unusable: Unusable | None = None,
    ) -> None:
        super().__init__(scope, parameters, findings, nested or _refuse_pattern)
        self._has_own = has_own
        self._takes_patterns = nested is not None
        self._unusable = unusable

    def _meaning(self, variable: ast.Variable) -> Bound | ValueVariable | None:
        other = self._unusable
        is_own = self.scope.lookup(variable.name) is not None
        if other is not None and not is_own and other.scope.lookup(variable.name) is not None:
            message = f"{quoted('$' + variable.name)} cannot be used in {other.where}"
            self.report(Code.UNKNOWN_VARIABLE, message, variable.span, other.hint)
            return None
        return super()._meaning(variable)

    def value(self, expression: ast.Expression) -> ir.Expression | None:
        """The typed form of an expression."""
        if isinstance(expression, ast.SubPatternExpression) and not self._takes_patterns:
            message = f"{quoted(expression.kind.value)} cannot be asked for here"
            hint = "ask for it in a `match` before the statements"
            self.report(Code.VALUE_NOT_CONSTANT, message, expression.span, hint)
            return None
        found = super().value(expression)
        if isinstance(found, ir.TextMatch):
            message = "texts cannot be searched here"
            self.report(Code.FUNCTION_NOT_ALLOWED, message, expression.span, "use `contains` or `starts_with`")
            return None
        return found

    def name_own(self, expression: ast.Expression) -> ast.Expression:
        """An expression whose bare names are properties of the entity, if there is one."""
        return _name_own(expression) if self._has_own else expression

    def column(self, access: ast.PropertyAccess) -> tuple[ir.Column, ResolvedProperty] | None:
        """The column behind a property."""
        if access.variable.name == ir.TARGET:
            own = self.scope.lookup(ir.TARGET)
            assert isinstance(own, NodeVariable | EdgeVariable)
            if self.scope.property_of(own, access.name) is None:
                hint = did_you_mean(access.name, self.scope.property_names(own))
                message = f"{self._describe_meaning(own)} has no property {quoted(access.name)}"
                self.report(Code.UNKNOWN_PROPERTY, message, access.span, hint or "a text is written in double quotes")
                return None
        return super().column(access)

    def assigned_value(
        self, expression: ast.Expression, type: PropertyType, *, nullable: bool, name: str
    ) -> ir.Expression | None:
        """The value that is assigned to the property `name`, which must hold it.

        What is given must be of a type whose values all fit. What is computed may be a value that does not fit, or
        null, and is checked when it is written.
        """
        expression = self.name_own(expression)
        if isinstance(expression, nodes.NullLiteral):
            if not nullable:
                self.report(Code.NULL_NOT_ALLOWED, f"{quoted(name)} cannot be null", expression.span)
            return ir.Constant(None, type)
        if isinstance(expression, nodes.Literal):
            return self.constant(expression, type, name=name)
        value = self.value(expression)
        if value is None:
            return None
        if isinstance(value, ir.Entity):
            message = f"{quoted(name)} is {type} and cannot hold a whole entity"
            self.report(Code.ENTITY_AS_VALUE, message, expression.span, "name one of its properties, such as `$x.id`")
            return None
        if (
            not is_known(value)
            and value.type is not None
            and not can_be_distinct(value.type)
            and not self._is_own(value)
        ):
            message = f"{quoted(name)} cannot be taken from a match, because it is {type}"
            self.report(Code.NOT_ASSIGNABLE, message, expression.span, "give it as a parameter")
            return None
        is_given = isinstance(value, _GIVEN)
        if value.type is None or (is_assignable if is_given else _may_fit)(value.type, type):
            return self._check_null(value, expression, type, nullable=nullable or not is_given, name=name)
        every = "every " if is_given else ""
        message = f"{quoted(name)} is {type} and cannot hold {every}{value.type}"
        self.report(Code.NOT_ASSIGNABLE, message, expression.span, None if is_given else _cast_hint(value.type, type))
        return None

    def _is_own(self, value: ir.Expression) -> bool:
        """Whether a value depends on the entity that the statement decides on."""
        return any(isinstance(each, ir.Column) and each.variable == ir.TARGET for each in ir.expressions_in(value))

    def _check_null(
        self, value: ir.Expression, expression: ast.Expression, type: PropertyType, *, nullable: bool, name: str
    ) -> ir.Expression | None:
        assert not isinstance(value, ir.Entity)
        if value.nullable and not nullable:
            message = f"{quoted(name)} cannot be null, but {expression_text(expression)} may be"
            self.report(Code.NULL_NOT_ALLOWED, message, expression.span, "remove the `?` of the parameter's type")
            return None
        if type is Scalar.BLOB and isinstance(value, ir.ParameterValue) and value.type is Scalar.STRING:
            return ir.BlobOfText(value)
        return value


def own_meaning(entity: EntityType) -> Meaning:
    """What the variable of the entity stands for that a statement decides on."""
    if isinstance(entity, EdgeType):
        return EdgeVariable(ir.TARGET, entity)
    return NodeVariable(ir.TARGET, (entity.name,))


def _refuse_pattern(_clauses: Sequence[ast.Clause], _scope: VariableScope) -> ir.Pattern:
    raise AssertionError("patterns are refused before they are lowered")


def names_in(expression: ast.Expression) -> Iterator[str]:
    """The bare names of an expression."""
    if isinstance(expression, ast.BareName):
        yield expression.name
    elif not isinstance(expression, ast.SubPatternExpression):
        for part in _parts_of(expression):
            yield from names_in(part)


def _parts_of(part: Any) -> Iterator[Any]:
    if isinstance(part, tuple):
        yield from part
    elif isinstance(part, ast.Nested | ast.Branch | ast.KeywordArgument):
        for each in fields(part):
            inner = getattr(part, each.name)
            if isinstance(inner, tuple):
                yield from inner
            elif isinstance(inner, nodes.Node):
                yield inner


def _name_own(part: Any) -> Any:
    """The same expression with each bare name as a property of the entity that is decided on."""
    if isinstance(part, ast.BareName):
        return ast.PropertyAccess(ast.Variable(ir.TARGET, span=part.span), part.name, span=part.span)
    if isinstance(part, tuple):
        return tuple(map(_name_own, part))
    if isinstance(part, ast.Nested | ast.Branch | ast.KeywordArgument):
        inner = {each.name: getattr(part, each.name) for each in fields(part)}
        return replace(part, **{name: _name_own(each) for name, each in inner.items() if name not in ("span", "depth")})
    return part


def _may_fit(given: PropertyType, to: PropertyType) -> bool:
    """Whether some values of one type are values of the other, as numbers may be."""
    if given in NUMBERS and to in NUMBERS:
        return given in INTEGERS or to in FLOATS
    if Scalar.BLOB in (given, to) or isinstance(given, Vector) or isinstance(to, Vector):
        return given == to
    return is_assignable(given, to)


def _cast_hint(given: PropertyType, to: PropertyType) -> str | None:
    if given in FLOATS and to in INTEGERS:
        return f"cast it: `cast(… as {to})`"
    if to is Scalar.STRING and isinstance(given, Scalar):
        return "cast it: `cast(… as String)`"
    return None
