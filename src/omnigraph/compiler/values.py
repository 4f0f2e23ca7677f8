"""Typechecks and lowers values: variables, properties, literals, `now()`.

A method returns None after it has reported why there is no typed form, and callers pass that on in silence: one mistake
is one finding.
"""

from collections.abc import Mapping, Sequence

from omnigraph.catalog import Enum, OutOfRange, PropertyType, Scalar, WrongType, literal_hint, literal_value
from omnigraph.catalog import List as ListType
from omnigraph.catalog.types import NUMBERS
from omnigraph.codes import Code
from omnigraph.compiler import ir
from omnigraph.compiler.comparing import are_comparable, is_assignable
from omnigraph.compiler.scope import EdgeVariable, NodeVariable, ResolvedProperty, Scope, Unresolved
from omnigraph.diagnostics import Findings, Span, did_you_mean, quoted
from omnigraph.syntax import nodes
from omnigraph.syntax.query_ast import THROWAWAY, BareName, Call, Expression, ListExpression, PropertyAccess, Variable

AGGREGATES = frozenset(ir.AggregateFunction)
RANKINGS = frozenset({"nearest", "bm25", "rrf"})
SEARCHES = frozenset(ir.TextMatchKind)
FUNCTIONS = AGGREGATES | RANKINGS | SEARCHES | {"now"}

Known = ir.ParameterValue | ir.Now | ir.Constant | ir.ListOf


class Values:
    """Reads values against one scope. `parameters` has None for one whose type was not understood."""

    def __init__(self, scope: Scope, parameters: Mapping[str, ir.ParameterValue | None], findings: Findings) -> None:
        self.scope = scope
        self.parameters = parameters
        self._findings = findings

    def value(self, expression: Expression) -> ir.Expression | None:
        """The typed form of a value; a literal has the type that it has on its own."""
        match expression:
            case Variable():
                return self._variable(expression)
            case PropertyAccess():
                resolved = self.column(expression)
                return resolved[0] if resolved is not None else None
            case Call():
                return self._now(expression)
            case BareName(name):
                hint = "a property is written `$x.name`, a text in double quotes"
                if name.lower() in ("true", "false", "null"):
                    hint = f"write {quoted(name.lower())}"
                self.report(Code.BARE_NAME, f"{quoted(name)} has no meaning here", expression.span, hint)
                return None
            case ListExpression():
                return self._list_of(expression)
            case nodes.NullLiteral():
                return ir.Constant(None, None)
            case literal:
                return self.constant(literal, _own_type(literal))

    def _list_of(self, expression: ListExpression) -> ir.ListOf | None:
        """A list with parameters in it, whose first one decides what the literals are."""
        items: list[ir.Constant | ir.ParameterValue] = []
        given = [self._parameter(item) for item in expression.items]
        types = [parameter.type for parameter in given if parameter is not None]
        if not types:
            return None
        if not isinstance(types[0], Scalar | Enum) or not all(are_comparable(types[0], each) for each in types):
            self.report(Code.INCOMPARABLE, "the elements of this list have no common type", expression.span)
            return None
        for item in expression.items:
            value: ir.Constant | ir.ParameterValue | None
            value = self._parameter(item) if isinstance(item, Variable) else self.constant(item, types[0])
            if value is None:
                return None
            items.append(value)
        return ir.ListOf(tuple(items), ListType(types[0]))

    def _parameter(self, item: Expression) -> ir.ParameterValue | None:
        value = self.known_value(item) if isinstance(item, Variable) else None
        return value if isinstance(value, ir.ParameterValue) else None

    def _now(self, call: Call) -> ir.Now | None:
        """The only function that has a value before any row is read."""
        name = call.function
        if name == "now":
            if not call.arguments and not call.keywords:
                return ir.Now()
            self.report(Code.WRONG_ARGUMENTS, "`now` takes no arguments", call.span)
        elif name in SEARCHES:
            hint = "write it as a clause of `match`"
            self.report(Code.FUNCTION_NOT_ALLOWED, f"{quoted(name)} is a condition, not a value", call.span, hint)
        elif name in FUNCTIONS:
            message = f"{quoted(name)} is computed from the rows that match"
            self.report(Code.FUNCTION_NOT_ALLOWED, message, call.span, "use it in `return` or `order`")
        else:
            self.unknown_function(call)
        return None

    def unknown_function(self, call: Call) -> None:
        """Reports a function that does not exist."""
        hint = did_you_mean(call.function, FUNCTIONS)
        self.report(Code.UNKNOWN_FUNCTION, f"unknown function {quoted(call.function)}", call.span, hint)

    def _variable(self, variable: Variable) -> ir.Expression | None:
        if variable.name in self.parameters:
            return self.parameters[variable.name]
        meaning = self._meaning(variable)
        return None if meaning is None else ir.Entity(meaning.name)

    def _meaning(self, variable: Variable) -> NodeVariable | EdgeVariable | None:
        """What a variable that is not a parameter stands for."""
        meaning = None if variable.name == THROWAWAY else self.scope.lookup(variable.name)
        if isinstance(meaning, Unresolved):
            return None
        if meaning is None:
            hint = did_you_mean(f"${variable.name}", self.scope.visible_names())
            if variable.name == THROWAWAY:
                hint = "`$_` is thrown away; give the end a name to use it"
            self.report(Code.UNKNOWN_VARIABLE, f"nothing binds {quoted('$' + variable.name)}", variable.span, hint)
        return meaning

    def column(self, access: PropertyAccess) -> tuple[ir.Column, ResolvedProperty] | None:
        """The column behind `$x.name`, with what the catalog knows of it."""
        variable = access.variable
        if isinstance(self.scope.lookup(variable.name), Unresolved):
            return None
        if variable.name in self.parameters:
            message = f"{quoted('$' + variable.name)} is a parameter and has no properties"
            self.report(Code.UNKNOWN_PROPERTY, message, access.span)
            return None
        meaning = self._meaning(variable)
        if meaning is None:
            return None
        resolved = self.scope.property_of(meaning, access.name)
        if resolved is None:
            what = self._described(meaning)
            hint = did_you_mean(access.name, self.scope.property_names(meaning))
            message = f"{what} has no property {quoted(access.name)}"
            self.report(Code.UNKNOWN_PROPERTY, message, access.name_span, hint)
            return None
        return ir.Column(meaning.name, access.name, resolved.type, resolved.nullable), resolved

    def _described(self, meaning: NodeVariable | EdgeVariable) -> str:
        if isinstance(meaning, EdgeVariable):
            return quoted(meaning.edge.name)
        return quoted(meaning.types[0] if len(meaning.types) == 1 else meaning.interface or "this")

    def constant(self, literal: nodes.Literal, type: PropertyType | None) -> ir.Constant | None:
        """A literal as a value of `type`; None after reporting that it is not one."""
        if type is None:
            self.report(Code.WRONG_ARGUMENTS, "the elements of this list have no common type", literal.span)
            return None
        try:
            return ir.Constant(literal_value(literal, type), type)
        except OutOfRange as error:
            self.report(Code.VALUE_OUT_OF_RANGE, str(error), literal.span)
        except WrongType as error:
            self.report(Code.INCOMPARABLE, str(error), literal.span, literal_hint(literal, type))
        return None

    def assigned(
        self, expression: Expression, type: PropertyType, *, nullable: bool, name: str
    ) -> ir.Expression | None:
        """The value given to the property `name`, which must hold it."""
        if isinstance(expression, nodes.NullLiteral):
            if not nullable:
                self.report(Code.NULL_NOT_ALLOWED, f"{quoted(name)} cannot be null", expression.span)
            return ir.Constant(None, type)
        if isinstance(expression, nodes.Literal):
            return self._assigned_literal(expression, type, name)
        value = self.known_value(expression)
        if value is None or isinstance(value, ir.Constant) or value.type is None:
            return value
        if not is_assignable(value.type, type):
            message = f"{quoted(name)} is {type} and cannot hold every {value.type}"
            self.report(Code.NOT_ASSIGNABLE, message, expression.span)
            return None
        if value.nullable and not nullable:
            message = f"{quoted(name)} cannot be null, but {written(expression)} may be"
            self.report(Code.NULL_NOT_ALLOWED, message, expression.span, "remove the `?` of the parameter's type")
            return None
        return value

    def _assigned_literal(self, literal: nodes.Literal, type: PropertyType, name: str) -> ir.Constant | None:
        try:
            return ir.Constant(literal_value(literal, type), type)
        except OutOfRange as error:
            self.report(Code.VALUE_OUT_OF_RANGE, f"{quoted(name)}: {error}", literal.span)
        except WrongType as error:
            hint = literal_hint(literal, type)
            self.report(Code.NOT_ASSIGNABLE, f"{quoted(name)}: {error}", literal.span, hint)
        return None

    def known_value(self, expression: Expression, hint: str | None = None) -> Known | None:
        """A value that is known before anything is read: a literal, a parameter or `now()`."""
        value = self.value(expression) if not isinstance(expression, PropertyAccess) else None
        if isinstance(value, Known):
            return value
        if value is not None or isinstance(expression, PropertyAccess):
            message = "a value here is a literal, a parameter or `now()`"
            self.report(Code.VALUE_NOT_CONSTANT, message, expression.span, hint)
        return None

    def report(self, code: Code, message: str, span: Span, hint: str | None = None) -> None:
        """Adds a finding."""
        self._findings.report(code, message, span, hint)


def _own_type(literal: nodes.Literal) -> PropertyType | None:
    """The type of a literal that nothing around it decides; None for a list whose elements differ."""
    match literal:
        case nodes.TextLiteral():
            return Scalar.STRING
        case nodes.BoolLiteral():
            return Scalar.BOOL
        case nodes.IntLiteral(value):
            return Scalar.I64 if value < 2**63 else Scalar.U64
        case nodes.FloatLiteral():
            return Scalar.F64
        case nodes.DateLiteral():
            return Scalar.DATE
        case nodes.DateTimeLiteral():
            return Scalar.DATETIME
        case nodes.ListLiteral(items):
            return _list_type([_own_type(item) for item in items])
        case _:
            return None


def _list_type(elements: Sequence[PropertyType | None]) -> ListType | None:
    kinds = set(elements) or {Scalar.STRING}
    if len(kinds) > 1 and kinds <= NUMBERS:
        kinds = {Scalar.F64}
    kind = kinds.pop()
    return ListType(kind) if not kinds and isinstance(kind, Scalar) else None


def type_of(expression: ir.Expression | None) -> PropertyType | None:
    """The type of a value; an entity and null have none."""
    return None if expression is None or isinstance(expression, ir.Entity) else expression.type


def written(expression: Expression) -> str:
    """An expression as a message names it."""
    match expression:
        case PropertyAccess(variable, name):
            return quoted(f"${variable.name}.{name}")
        case Variable(name):
            return quoted(f"${name}")
        case _:
            return "this"


def kind_of(expression: ir.Expression) -> str:
    """What a value is, as a message names it."""
    type = type_of(expression)
    return "a whole entity" if isinstance(expression, ir.Entity) else "null" if type is None else str(type)
