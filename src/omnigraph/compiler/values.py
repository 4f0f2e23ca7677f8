"""Typechecks and lowers values: variables, properties, literals, `now()`.

A method returns None after it has reported why there is no typed form, and callers pass that on in silence: one mistake
is one finding.
"""

from collections.abc import Iterable, Mapping, Sequence

from omnigraph.catalog import (
    Enum,
    List,
    OutOfRange,
    PropertyType,
    Scalar,
    Vector,
    WrongType,
    literal_hint,
    literal_value,
    value_from_json,
)
from omnigraph.catalog.types import FLOATS, INTEGERS, NUMBERS
from omnigraph.codes import Code
from omnigraph.compiler import ir
from omnigraph.compiler.scope import (
    Bound,
    EdgeVariable,
    PathVariable,
    ResolvedProperty,
    Unresolved,
    ValueVariable,
    VariableScope,
)
from omnigraph.diagnostics import Findings, Span, did_you_mean, nearest_name, quoted
from omnigraph.operations import FUNCTIONS as COMPUTED
from omnigraph.syntax import nodes
from omnigraph.syntax import query_ast as ast
from omnigraph.syntax.habits import hint_of_case, hint_of_function

AGGREGATES = frozenset(ir.AggregateFunction)
RANKINGS = frozenset({"nearest", "bm25", "rrf"})
SEARCHES = frozenset(ir.TextMatchKind)
_LITERAL_TYPES: dict[type, PropertyType] = {
    nodes.TextLiteral: Scalar.STRING,
    nodes.BoolLiteral: Scalar.BOOL,
    nodes.FloatLiteral: Scalar.F64,
    nodes.DateLiteral: Scalar.DATE,
    nodes.DateTimeLiteral: Scalar.DATETIME,
}
COMPUTED_NAMES = COMPUTED.keys() | {"coalesce", "cast", "date_diff", "date_trunc", "duration"}
FUNCTIONS = AGGREGATES | RANKINGS | SEARCHES | COMPUTED_NAMES | {"now", "date", "datetime"}

Known = ir.ParameterValue | ir.Now | ir.Constant | ir.ListOf | ir.Call
"""What has a value before anything is read, if all that it is computed from has."""


_NOT_CONSTANT = "expected a literal, a parameter or `now()`"


def header_hint(name: str) -> str:
    """What to write where a query without a header has a parameter."""
    return f"a parameter needs a header: `query NAME(${name}: Type) {{ … }}`"


def hint_of_unknown(name: str, known: Iterable[str], findings: Findings) -> str | None:
    """What may have been meant by a variable or parameter that is not known."""
    if findings.subject is not None:
        return did_you_mean(f"${name}", known)
    nearest = nearest_name(f"${name}", known)
    return f"{header_hint(name)}, or did you mean {quoted(nearest)}?" if nearest is not None else header_hint(name)


class Values:
    """Reads values against one scope. `parameters` has None for one whose type was not understood."""

    def __init__(
        self, scope: VariableScope, parameters: Mapping[str, ir.ParameterValue | None], findings: Findings
    ) -> None:
        self.scope = scope
        self.parameters = parameters
        self.report = findings.report
        self.columns: Mapping[str, ir.Expression] = {}
        self._findings = findings

    def value(self, expression: ast.Expression) -> ir.Expression | None:
        """The typed form of a value; a literal has the type that it has on its own."""
        match expression:
            case ast.Variable():
                return self._variable(expression)
            case ast.PropertyAccess():
                resolved = self.column(expression)
                return resolved[0] if resolved is not None else None
            case ast.FunctionCall():
                return self._now(expression)
            case ast.Nested() | ast.SubPatternExpression():
                self.report(Code.VALUE_NOT_CONSTANT, _NOT_CONSTANT, expression.span)
                return None
            case ast.BareName(name):
                hint = "a property is written `$x.name`, a text in double quotes"
                if name.lower() in ("true", "false", "null"):
                    hint = f"write {quoted(name.lower())}"
                elif name.lower() == "distinct":
                    hint = "it stands before the braces: `return distinct { … }`"
                else:
                    hint = hint_of_case(name) or hint
                self.report(Code.BARE_NAME, f"unexpected name {quoted(name)}", expression.span, hint)
                return None
            case ast.ListExpression():
                return self._list_of(expression)
            case nodes.NullLiteral():
                return ir.Constant(None, None)
            case literal:
                return self.constant(literal, _own_type(literal))

    def _list_of(self, expression: ast.ListExpression) -> ir.ListOf | None:
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
            value = self._parameter(item) if isinstance(item, ast.Variable) else self.constant(item, types[0])
            if value is None:
                return None
            items.append(value)
        return ir.ListOf(tuple(items), List(types[0]))

    def _parameter(self, item: ast.Expression) -> ir.ParameterValue | None:
        value = self.known_value(item) if isinstance(item, ast.Variable) else None
        return value if isinstance(value, ir.ParameterValue) else None

    def _now(self, call: ast.FunctionCall) -> ir.Now | None:
        """The only function that has a value before any row is read."""
        name = call.function
        if name == "now":
            if not call.arguments and not call.keywords and not call.distinct:
                return ir.Now()
            self.report(Code.WRONG_ARGUMENTS, "`now` takes no arguments", call.span)
        elif name in SEARCHES:
            hint = "write it as a clause of `match`"
            self.report(Code.FUNCTION_NOT_ALLOWED, f"{quoted(name)} is a condition, not a value", call.span, hint)
        elif name in COMPUTED_NAMES:
            self.report(Code.FUNCTION_NOT_ALLOWED, f"{quoted(name)} cannot be used here", call.span)
        elif name in FUNCTIONS:
            message = f"{quoted(name)} is computed from the rows that match"
            hint = "use it in `return` or `order`"
            if name in AGGREGATES:
                hint += "; of the aggregates of groups, after a stage: `with { $x, count($y) as n } return { max($n) }`"
            self.report(Code.FUNCTION_NOT_ALLOWED, message, call.span, hint)
        else:
            message = f"unknown function {quoted(name)}"
            self.report(
                Code.UNKNOWN_FUNCTION, message, call.span, hint_of_function(name) or did_you_mean(name, FUNCTIONS)
            )
        return None

    def _variable(self, variable: ast.Variable) -> ir.Expression | None:
        if variable.name in self.parameters:
            return self.parameters[variable.name]
        meaning = self._meaning(variable)
        if isinstance(meaning, ValueVariable):
            return meaning.value
        return None if meaning is None else ir.Entity(meaning.name, meaning.is_optional)

    def is_carried(self, expression: ast.Expression) -> bool:
        """Whether an expression is a value of the stage before."""
        return isinstance(expression, ast.Variable) and isinstance(self.scope.lookup(expression.name), ValueVariable)

    def _meaning(self, variable: ast.Variable) -> Bound | ValueVariable | None:
        """What a variable that is not a parameter stands for."""
        meaning = None if variable.name == ast.THROWAWAY else self.scope.lookup(variable.name)
        if isinstance(meaning, Unresolved):
            return None
        if meaning is None:
            hint = hint_of_unknown(variable.name, self.scope.visible_names(), self._findings)
            if variable.name == ast.THROWAWAY:
                hint = "`$_` is a placeholder; give the end a name to use it"
            elif variable.name in self.columns:
                hint = f"a column of the result has no dollar: {quoted(variable.name)}"
            elif self.scope.is_dropped(variable.name):
                hint = f"only what `with` lists is known after it; add {quoted('$' + variable.name)} to it"
            self.report(Code.UNKNOWN_VARIABLE, f"unknown variable {quoted('$' + variable.name)}", variable.span, hint)
        return meaning

    def column(self, access: ast.PropertyAccess) -> tuple[ir.Column, ResolvedProperty] | None:
        """The column behind `$x.name`, with what the catalog knows of it."""
        meaning = self._owner(access.variable, access.span)
        if meaning is None:
            return None
        resolved = self.scope.property_of(meaning, access.name)
        if resolved is None:
            what = self._describe_meaning(meaning)
            hint = did_you_mean(access.name, self.scope.property_names(meaning))
            message = f"{what} has no property {quoted(access.name)}"
            self.report(Code.UNKNOWN_PROPERTY, message, access.name_span, hint)
            return None
        name = self.scope.column_of(meaning, access.name)
        return ir.Column(meaning.name, name, resolved.type, resolved.nullable or meaning.is_optional), resolved

    def properties_of(self, written: ast.AllProperties) -> list[ast.PropertyAccess]:
        """The properties behind `$x.*`; none after reporting that there are none."""
        meaning = self._owner(written.variable, written.span)
        if meaning is None:
            return []
        names = self.scope.plain_properties(meaning)
        if not names:
            variable = "$" + written.variable.name
            message = f"{self._describe_meaning(meaning)} has no properties for {quoted(variable + '.*')}"
            hint = f"{quoted(variable)} and {quoted(variable + '.id')} can be returned, and blobs and vectors by name"
            self.report(Code.EMPTY_QUERY, message, written.span, hint)
        return [ast.PropertyAccess(written.variable, name, span=written.span) for name in names]

    def _owner(self, variable: ast.Variable, span: Span) -> Bound | None:
        """What a variable stands for whose properties are asked for."""
        if isinstance(self.scope.lookup(variable.name), Unresolved):
            return None
        if variable.name in self.parameters:
            message = f"{quoted('$' + variable.name)} is a parameter and has no properties"
            self.report(Code.UNKNOWN_PROPERTY, message, span)
            return None
        meaning = self._meaning(variable)
        if isinstance(meaning, ValueVariable):
            message = f"{quoted('$' + variable.name)} is a value and has no properties"
            self.report(Code.UNKNOWN_PROPERTY, message, span)
            return None
        return meaning

    def _describe_meaning(self, meaning: Bound) -> str:
        if isinstance(meaning, EdgeVariable):
            return quoted(meaning.edge.name)
        if isinstance(meaning, PathVariable):
            return "a path"
        return quoted(meaning.types[0] if len(meaning.types) == 1 else meaning.interface or "this")

    def constant(
        self, literal: nodes.Literal, type: PropertyType | None, *, name: str | None = None
    ) -> ir.Constant | None:
        """A literal as a value of `type`, or of the property `name`; None after reporting that it is not one."""
        if type is None:
            self.report(Code.WRONG_ARGUMENTS, "the elements of this list have no common type", literal.span)
            return None
        where = "" if name is None else f"{quoted(name)}: "
        try:
            if type is Scalar.BLOB and isinstance(literal, nodes.TextLiteral):
                return ir.Constant(value_from_json(literal.value, type), type)
            return ir.Constant(literal_value(literal, type), type)
        except OutOfRange as error:
            self.report(Code.VALUE_OUT_OF_RANGE, f"{where}{error}", literal.span)
        except WrongType as error:
            code = Code.INCOMPARABLE if name is None else Code.NOT_ASSIGNABLE
            self.report(code, f"{where}{error}", literal.span, literal_hint(literal, type))
        return None

    def known_value(self, expression: ast.Expression, hint: str | None = None) -> Known | None:
        """A value that is known before anything is read: literals, parameters and `now()`, and what follows of them."""
        value = self.value(expression) if not isinstance(expression, ast.PropertyAccess) else None
        if isinstance(value, Known) and is_known(value):
            return value
        if value is not None or isinstance(expression, ast.PropertyAccess):
            self.report(Code.VALUE_NOT_CONSTANT, _NOT_CONSTANT, expression.span, hint)
        return None


def _own_type(literal: nodes.Literal) -> PropertyType | None:
    """The type of a literal that nothing around it decides; None for a list whose elements differ."""
    match literal:
        case nodes.IntLiteral(value):
            return Scalar.I64 if value < 2**63 else Scalar.U64
        case nodes.ListLiteral(items):
            return _list_type([_own_type(item) for item in items])
        case _:
            return _LITERAL_TYPES.get(literal.__class__)


def _list_type(elements: Sequence[PropertyType | None]) -> List | None:
    kinds = set(elements) or {Scalar.STRING}
    if len(kinds) > 1 and kinds <= NUMBERS:
        kinds = {Scalar.F64}
    kind = kinds.pop()
    return List(kind) if not kinds and isinstance(kind, Scalar) else None


def is_known(expression: ir.Expression) -> bool:
    """Whether an expression has a value before anything is read."""
    unknown = ir.Column | ir.Entity | ir.SubPattern | ir.Aggregate | ir.TextMatch | ir.SameEntity
    return not any(isinstance(each, unknown) for each in ir.expressions_in(expression))


def type_of(expression: ir.Expression | None) -> PropertyType | None:
    """The type of a value; an entity and null have none."""
    return None if expression is None or isinstance(expression, ir.Entity) else expression.type


def expression_text(expression: ast.Expression) -> str:
    """An expression as a message names it."""
    match expression:
        case ast.PropertyAccess(ast.Variable(ir.TARGET), name):
            return quoted(name)
        case ast.PropertyAccess(variable, name):
            return quoted(f"${variable.name}.{name}")
        case ast.Variable(name):
            return quoted(f"${name}")
        case _:
            return "this"


def kind_of(expression: ir.Expression) -> str:
    """What a value is, as a message names it."""
    type = type_of(expression)
    return "a whole entity" if isinstance(expression, ir.Entity) else "null" if type is None else str(type)


# --- which types go together ---

_EQUALITY = frozenset({ast.Operator.EQUAL, ast.Operator.NOT_EQUAL})
_ORDERABLE = NUMBERS | {Scalar.STRING, Scalar.DATE, Scalar.DATETIME}
_WIDER = {
    Scalar.I32: {Scalar.I64, Scalar.F64},
    Scalar.U32: {Scalar.I64, Scalar.U64, Scalar.F64},
    Scalar.F32: {Scalar.F64},
}


def is_orderable(type: PropertyType) -> bool:
    """Whether values of this type come before and after each other. An enum's do not."""
    return type in _ORDERABLE


def are_comparable(left: PropertyType, right: PropertyType) -> bool:
    """Whether one value of each type can be equal: the same type, any two numbers, or an enum and a text."""
    if left in NUMBERS and right in NUMBERS:
        return True
    texts = (Enum, Scalar)
    if isinstance(left, Enum) or isinstance(right, Enum):
        if isinstance(left, Enum) and isinstance(right, Enum):
            return bool(set(left.values) & set(right.values))
        return isinstance(left, texts) and isinstance(right, texts) and Scalar.STRING in (left, right)
    return left == right


def operator_problem(operator: ast.Operator, left: PropertyType) -> str | None:
    """Why an operator has no meaning with this type on its left, or None when it has one."""
    if operator is ast.Operator.CONTAINS:
        if isinstance(left, List) or left is Scalar.STRING:
            return None
        return "`contains` asks whether a list has an element or a String a part"
    if operator is ast.Operator.STARTS_WITH:
        return None if left is Scalar.STRING else "`starts_with` asks how a String begins"
    if isinstance(left, List):
        return "lists are searched with `contains`"
    if left is Scalar.BLOB or isinstance(left, Vector):
        return f"a {left} cannot be compared"
    if operator in _EQUALITY or is_orderable(left):
        return None
    return f"values of {left} have no order; they can only be `=` or `!=`"


def right_type(operator: ast.Operator, left: PropertyType) -> PropertyType:
    """What stands to the right of an operator when this stands to its left."""
    return left.element if operator is ast.Operator.CONTAINS and isinstance(left, List) else left


def is_assignable(given: PropertyType, to: PropertyType) -> bool:
    """Whether every value of one type is a value of the other; a write checks a text for an enum or a Blob."""
    if given == to:
        return True
    if isinstance(given, List) and isinstance(to, List):
        return is_assignable(given.element, to.element)
    if to is Scalar.BLOB:
        return given is Scalar.STRING
    if isinstance(to, Enum):
        return given is Scalar.STRING or (isinstance(given, Enum) and set(given.values) <= set(to.values))
    if isinstance(given, Enum):
        return to is Scalar.STRING
    return isinstance(given, Scalar) and to in _WIDER.get(given, ())


def sum_type(type: PropertyType) -> PropertyType:
    """The type of a sum of values of this type."""
    if type in FLOATS:
        return Scalar.F64
    return Scalar.U64 if type in INTEGERS and str(type).startswith("U") else Scalar.I64
