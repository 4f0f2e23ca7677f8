"""Typechecks and lowers what is computed: conditions, arithmetic, functions, choices, casts and nested patterns.

What an operation means stands in `omnigraph.operations`. Here its overload is chosen, and arguments are converted.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from omnigraph.catalog import List, PropertyType, Scalar, Vector
from omnigraph.catalog.model import ID
from omnigraph.catalog.types import PARAMETER_TYPE_CODES, resolve_type
from omnigraph.codes import Code
from omnigraph.compiler import ir
from omnigraph.compiler.functions import Comparisons, Functions, refuse_distinct
from omnigraph.compiler.paths import LENGTH
from omnigraph.compiler.scope import PathVariable, VariableScope
from omnigraph.compiler.values import AGGREGATES, COMPUTED_NAMES, RANKINGS, SEARCHES, Values, kind_of, type_of
from omnigraph.diagnostics import Findings, Span, any_of, did_you_mean, quoted
from omnigraph.operations import (
    ARITHMETIC,
    DATE_UNITS,
    UNFINITE,
    Duration,
    Nulls,
    Overload,
    Unit,
    cast_operations,
    common_type,
    operations,
    parse_duration,
)
from omnigraph.operations import FUNCTIONS as COMPUTED
from omnigraph.syntax import nodes
from omnigraph.syntax import query_ast as ast
from omnigraph.syntax.printer import print_type

_MOST_DIGITS = 15
_NEGATIVE = {Scalar.I64: 0, Scalar.F64: 0.0}

LowerPattern = Callable[[Sequence[ast.Clause], VariableScope], ir.Pattern]
"""Lowers the clauses of a pattern that is nested in one with this scope."""


class Expressions(Values):
    """Reads expressions of a read against one scope.

    Values of groups and rankings have a meaning only where `in_result` says so: in `return`, `having` and `order`. In
    the last two, names are those of the `columns` of the result.
    """

    def __init__(
        self,
        scope: VariableScope,
        parameters: Mapping[str, ir.ParameterValue | None],
        findings: Findings,
        nested: LowerPattern,
        *,
        in_result: bool = False,
        columns: Mapping[str, ir.Expression] | None = None,
    ) -> None:
        super().__init__(scope, parameters, findings)
        self._findings = findings
        self._nested = nested
        self._in_result = in_result
        self._columns = columns
        self.columns = columns or {}

    def value(self, expression: ast.Expression) -> ir.Expression | None:  # noqa: PLR0912 - a branch for each kind
        """The typed form of an expression; a literal has the type that it has on its own."""
        match expression:
            case ast.FunctionCall():
                return self._call(expression)
            case ast.BareName() if self._columns is not None:
                return self._column_named(expression, self._columns)
            case ast.ComparisonExpression(left, operator, right):
                return Comparisons(self).comparison(left, operator, right, expression.span)
            case ast.Membership():
                return self._membership(expression)
            case ast.NullTest():
                return self._null_test(expression)
            case ast.Disjunction(conditions):
                return self._join("or", conditions)
            case ast.Conjunction(conditions):
                return self._join("and", conditions)
            case ast.Inversion(inner):
                condition = self.condition(inner)
                return None if condition is None else call("not", condition)
            case ast.Arithmetic():
                return self._arithmetic(expression)
            case ast.Negative(inner):
                return self._negative(inner, expression.span)
            case ast.Cast():
                return self._cast(expression)
            case ast.Case():
                return self._case(expression)
            case ast.SubPatternExpression(kind, clauses):
                pattern = self._nested(clauses, self.scope)
                return ir.SubPattern(kind, pattern)
        return super().value(expression)

    def _column_named(self, name: ast.BareName, columns: Mapping[str, ir.Expression]) -> ir.Expression | None:
        """What a column of the result is."""
        if name.name not in columns:
            message = f"no column is called {quoted(name.name)}"
            hint = did_you_mean(name.name, [f"${each}" if "." in each else each for each in columns])
            self.report(Code.BARE_NAME, message, name.span, hint)
        return columns.get(name.name)

    # --- conditions ---

    def conditions(self, expression: ast.Expression) -> Iterator[ir.Condition]:
        """The conditions that must all hold for an expression to hold."""
        if isinstance(expression, ast.Conjunction):
            for each in expression.conditions:
                yield from self.conditions(each)
        else:
            condition = self.condition(expression)
            if condition is not None:
                yield condition

    def condition(self, expression: ast.Expression) -> ir.Condition | None:
        """An expression that must be a truth value."""
        found = self.value(expression)
        if found is None:
            return None
        if type_of(found) is Scalar.BOOL:
            return found  # type: ignore[return-value]  # whatever is a truth value can be a condition
        hint = "compare it with something" if not isinstance(found, ir.Constant) else None
        self.report(Code.NOT_A_CONDITION, f"expected a condition, found {kind_of(found)}", expression.span, hint)
        return None

    def _join(self, operation: str, conditions: Iterable[ast.Expression]) -> ir.Call | None:
        lowered = [self.condition(each) for each in conditions]
        found = [each for each in lowered if each is not None]
        return call(operation, *found) if len(found) == len(lowered) else None

    def _membership(self, expression: ast.Membership) -> ir.Expression | None:
        span = expression.span
        if not isinstance(expression.choices, nodes.ListLiteral | ast.ListExpression):
            choices = self.value(expression.choices)
            if choices is None:
                return None
            if not isinstance(type_of(choices), List):
                message = f"`in` expects a list on its right, found {kind_of(choices)}"
                self.report(Code.OPERATOR_NOT_DEFINED, message, expression.choices.span)
                return None
        contained = Comparisons(self).comparison(expression.choices, ast.Operator.CONTAINS, expression.value, span)
        return call("not", contained) if expression.negated and contained is not None else contained

    def _null_test(self, expression: ast.NullTest) -> ir.Expression | None:
        value = self.value(expression.value)
        if value is None:
            return None
        if isinstance(value, ir.Entity):
            is_path = isinstance(self.scope.lookup(value.variable), PathVariable)
            name, type = (LENGTH, Scalar.I64) if is_path else (ID, Scalar.STRING)
            value = ir.Column(value.variable, name, type, value.nullable)
        found = call("is null", value)
        return call("not", found) if expression.negated else found

    # --- arithmetic ---

    def _arithmetic(self, expression: ast.Arithmetic) -> ir.Expression | None:
        sign = expression.operator.value
        if _is_call(expression.right, "duration") and sign in "+-":
            assert isinstance(expression.right, ast.FunctionCall)
            return self._shift_moment(expression.left, expression.right, sign)
        if _is_call(expression.left, "duration") and sign == "+":
            assert isinstance(expression.left, ast.FunctionCall)
            return self._shift_moment(expression.right, expression.left, sign)
        sides = self._values((expression.left, expression.right))
        if sides is None:
            return None
        found = self._choose_overload(ARITHMETIC[sign], sides)
        if found is None:
            kinds = " and ".join(map(kind_of, sides))
            hint = None
            if any(type_of(side) in (Scalar.DATE, Scalar.DATETIME) for side in sides):
                hint = 'write `date_diff("day", $a, $b)`, or add `duration("P1D")`'
            elif sign == "+" and any(type_of(side) is Scalar.STRING for side in sides):
                hint = "texts are joined by `concat`"
            self.report(Code.OPERATOR_NOT_DEFINED, f"{quoted(sign)} is not defined for {kinds}", expression.span, hint)
        return found

    def _negative(self, inner: ast.Expression, span: Span) -> ir.Expression | None:
        value = self.value(inner)
        if value is None:
            return None
        type = Scalar.F64 if type_of(value) in (Scalar.F32, Scalar.F64) else Scalar.I64
        found = self._choose_overload(ARITHMETIC["-"], [ir.Constant(_NEGATIVE[type], type), value])
        if found is None:
            self.report(Code.OPERATOR_NOT_DEFINED, f"`-` is not defined for {kind_of(value)}", span)
        return found

    def _shift_moment(self, moment: ast.Expression, duration: ast.FunctionCall, sign: str) -> ir.Expression | None:
        """A day or an instant, later or earlier by a span of time."""
        value, span = self.value(moment), self._duration(duration)
        if value is None or span is None:
            return None
        if sign == "-":
            span = -span
        type = type_of(value)
        if type is Scalar.DATE and span.milliseconds:
            message = "a Date has no time of day, so only whole days can be added to it"
            self.report(Code.OPERATOR_NOT_DEFINED, message, duration.span, "cast it: `cast($x.date as DateTime)`")
            return None
        if type not in (Scalar.DATE, Scalar.DATETIME):
            message = f"{quoted(sign)} with a duration is not defined for {kind_of(value)}"
            self.report(Code.OPERATOR_NOT_DEFINED, message, moment.span)
            return None
        return _shift(value, span)

    def _duration(self, duration: ast.FunctionCall) -> Duration | None:
        given = duration.arguments[0] if len(duration.arguments) == 1 and not duration.keywords else None
        found = parse_duration(given.value) if isinstance(given, nodes.TextLiteral) else None
        if found is None:
            message = "`duration` takes one text such as `P1Y2M10DT2H30M`"
            self.report(
                Code.WRONG_ARGUMENTS, message, duration.span, "at most 10,000 years, and milliseconds: `PT0.5S`"
            )
        return found

    # --- functions ---

    def _call(self, expression: ast.FunctionCall) -> ir.Expression | None:
        name = expression.function
        if expression.distinct and name in COMPUTED_NAMES:
            refuse_distinct(expression, self.report)
            return None
        if name in SEARCHES and not self._in_result:
            return Functions(self).text_match(expression)
        if name in AGGREGATES | RANKINGS and self._in_result:
            plain = Expressions(self.scope, self.parameters, self._findings, self._nested)
            return Functions(plain).of_rows(expression)
        if name == "coalesce":
            return self._coalesce(expression)
        if name in ("date_diff", "date_trunc"):
            return self._by_unit(expression)
        if name == "duration":
            message = "a duration is not a value by itself"
            self.report(Code.FUNCTION_NOT_ALLOWED, message, expression.span, 'add it: `$x.date + duration("P1D")`')
            return None
        if name == "cast":
            self.report(Code.WRONG_ARGUMENTS, "`cast` needs a type", expression.span, "write `cast($x.text as I64)`")
            return None
        if name not in COMPUTED:
            return super().value(expression)
        if expression.keywords:
            message = f"{quoted(name)} has no argument {quoted(expression.keywords[0].name)}"
            self.report(Code.WRONG_ARGUMENTS, message, expression.keywords[0].span, COMPUTED[name].usage)
            return None
        if name == "round" and len(expression.arguments) == 2:
            return self._round_to(expression)
        arguments = self._values(expression.arguments)
        if arguments is None:
            return None
        found = self._choose_overload(COMPUTED[name].overloads, arguments)
        if found is None:
            given = " and ".join(map(kind_of, arguments)) if arguments else "nothing"
            message = f"{quoted(name)} cannot be computed of {given}"
            hint = self._hint_of_length(name, arguments) or f"write `{COMPUTED[name].usage}`"
            self.report(Code.WRONG_ARGUMENTS, message, expression.span, hint)
        return found

    def _hint_of_length(self, name: str, arguments: Sequence[ir.Expression]) -> str | None:
        """What gives the length of a value, where texts, lists and paths each have their own."""
        if name not in ("length", "size") or len(arguments) != 1:
            return None
        (value,) = arguments
        if isinstance(value, ir.Entity) and isinstance(self.scope.lookup(value.variable), PathVariable):
            return f"the length of a path is `${value.variable}.{LENGTH}`"
        if isinstance(type_of(value), List):
            return "the number of elements of a list is `size($x.list)`"
        return "the number of characters of a text is `length($x.text)`" if name == "size" else None

    def _round_to(self, expression: ast.FunctionCall) -> ir.Expression | None:
        """A number rounded to some digits: it is made larger, rounded, and made smaller again."""
        value, digits = self.value(expression.arguments[0]), expression.arguments[1]
        if value is None:
            return None
        if not isinstance(digits, nodes.IntLiteral) or not 0 <= digits.value <= _MOST_DIGITS:
            message = f"the digits of `round` are a number from 0 to {_MOST_DIGITS}"
            self.report(Code.WRONG_ARGUMENTS, message, digits.span)
            return None
        number = self._choose_overload((Overload((Scalar.F64,), "finite"),), [value])
        if number is None:
            message = f"`round` cannot be computed of {kind_of(value)}"
            self.report(Code.WRONG_ARGUMENTS, message, expression.span)
            return None
        factor = ir.Constant(10.0**digits.value, Scalar.F64)
        return call(
            "finite", call("divided F64", call("round F64", call("finite", call("times F64", number, factor))), factor)
        )

    def _by_unit(self, expression: ast.FunctionCall) -> ir.Expression | None:
        name = expression.function
        count = 3 if name == "date_diff" else 2
        usage = f'write `{name}("day", {"$a, $b" if count == 3 else "$x.date"})`'
        if len(expression.arguments) != count or expression.keywords:
            message = (
                f"{quoted(name)} takes a unit and {'two days or instants' if count == 3 else 'a day or an instant'}"
            )
            self.report(Code.WRONG_ARGUMENTS, message, expression.span, usage)
            return None
        written = expression.arguments[0]
        if not isinstance(written, nodes.TextLiteral) or written.value not in tuple(Unit):
            found = written.value if isinstance(written, nodes.TextLiteral) else "this"
            message = f"{quoted(found)} is not a unit of time; the units are {any_of(Unit)}"
            self.report(Code.WRONG_ARGUMENTS, message, written.span, did_you_mean(found, Unit))
            return None
        unit = Unit(written.value)
        moments = self._values(expression.arguments[1:])
        if moments is None:
            return None
        for moment, given in zip(moments, expression.arguments[1:], strict=True):
            if type_of(moment) not in (Scalar.DATE, Scalar.DATETIME):
                message = f"{quoted(name)} expects a Date or DateTime, found {kind_of(moment)}"
                self.report(Code.WRONG_ARGUMENTS, message, given.span, usage)
                return None
        if name == "date_diff":
            earlier, later = (_number_of(unit, each) for each in moments)
            return call("minus I64", later, earlier)
        (moment,) = moments
        if type_of(moment) is Scalar.DATE:
            return call(f"cut to {unit}", moment) if unit in DATE_UNITS else moment
        if unit in DATE_UNITS:
            return call("datetime of", call(f"cut to {unit}", call("date of", moment)))
        return call(f"cut to {unit}", moment)

    def _coalesce(self, expression: ast.FunctionCall) -> ir.Expression | None:
        values = self._values(expression.arguments)
        if values is None or not self._have_common_type(values, expression.span):
            return None
        if len(values) < 2 or expression.keywords:
            self.report(Code.WRONG_ARGUMENTS, "`coalesce` takes two or more values", expression.span)
            return None
        return _choice("coalesce", values, nullable=all(map(_may_be_null, values)))

    # --- choices ---

    def _case(self, expression: ast.Case) -> ir.Expression | None:
        conditions = [self.condition(branch.condition) for branch in expression.branches]
        written = [branch.value for branch in expression.branches]
        otherwise = expression.otherwise
        values = self._values([*written, *(() if otherwise is None else (otherwise,))])
        if values is None or None in conditions or not self._have_common_type(values, expression.span):
            return None
        if otherwise is None:
            values = [*values, ir.Constant(None, None)]
        type = common_type(type for each in values if (type := type_of(each)) is not None)
        assert type is not None
        parts: list[ir.Expression] = []
        for condition, value in zip(conditions, values, strict=False):
            assert condition is not None
            parts += [condition, convert_to(value, type)]
        parts.append(convert_to(values[-1], type))
        return ir.Call("case", tuple(parts), type, nullable=any(map(_may_be_null, values)))

    def _have_common_type(self, values: Sequence[ir.Expression], span: Span) -> bool:
        types = [type for each in values if (type := type_of(each)) is not None]
        entities = [each for each in values if isinstance(each, ir.Entity)]
        common = None if entities else common_type(types)
        if common is not None and common is not Scalar.BLOB and not isinstance(common, Vector):
            return True
        kinds = any_of([kind_of(each) for each in values]).replace(" or ", " and ")
        self.report(Code.INCOMPARABLE, f"the values to choose from have no common type: {kinds}", span)
        return False

    def _cast(self, expression: ast.Cast) -> ir.Expression | None:
        value, type = self.value(expression.value), resolve_type(expression.type, self._findings, PARAMETER_TYPE_CODES)
        if value is None or type is None:
            return None
        given = type_of(value)
        steps = None if given is None else cast_operations(given, type)
        if steps is None or expression.type.nullable:
            message = f"{kind_of(value)} cannot be cast to {print_type(expression.type)}"
            hint = "a cast that fails gives null; write the type without `?`" if expression.type.nullable else None
            if given in (Scalar.F32, Scalar.F64) and type is Scalar.STRING:
                hint = "a number with a fraction has several spellings; cast it to I64 first"
            self.report(Code.CAST_NOT_POSSIBLE, message, expression.span, hint)
            return None
        for step in steps:
            value = call(step, value)
        return value

    # --- shared ---

    def _values(self, expressions: Iterable[ast.Expression]) -> list[ir.Expression] | None:
        """All of them lowered, each checked; None if one of them is wrong."""
        lowered = [self.value(each) for each in expressions]
        found = [each for each in lowered if each is not None]
        return found if len(found) == len(lowered) else None

    def _choose_overload(
        self, overloads: Iterable[Overload], arguments: Sequence[ir.Expression]
    ) -> ir.Expression | None:
        """The first operation that takes these arguments, with these converted."""
        types = [None if isinstance(each, ir.Entity) else type_of(each) for each in arguments]
        for overload in overloads:
            conversions = overload.conversions(types)
            if conversions is not None:
                given = [
                    each if conversion is None else call(conversion, each)
                    for each, conversion in zip(arguments, conversions, strict=True)
                ]
                found = call(overload.operation, *given)
                return call("finite", found) if overload.operation in UNFINITE else found
        return None


def call(operation: str, *arguments: ir.Expression) -> ir.Call:
    """An operation whose type does not follow from its arguments."""
    known = operations()[operation]
    assert known.gives is not None
    nullable = known.nulls is Nulls.PARTIAL or any(map(_may_be_null, arguments))
    return ir.Call(operation, arguments, known.gives, nullable=nullable and operation != "is null")


def convert_to(value: ir.Expression, type: PropertyType) -> ir.Expression:
    """A value as one of the common type of several."""
    given = type_of(value)
    if given is None:
        return ir.Constant(None, type)
    if given == type or type not in (Scalar.I64, Scalar.F64):
        return value
    return call(f"convert to {type}", value)


def _choice(operation: str, values: Sequence[ir.Expression], *, nullable: bool) -> ir.Call:
    type = common_type(type for each in values if (type := type_of(each)) is not None)
    assert type is not None
    return ir.Call(operation, tuple(convert_to(each, type) for each in values), type, nullable=nullable)


def _shift(value: ir.Expression, span: Duration) -> ir.Expression:
    is_day = type_of(value) is Scalar.DATE
    known, kind = ("known day", "day") if is_day else ("known instant", "instant")
    if span.months:
        value = call(known, call(f"{kind} plus months", value, ir.Constant(span.months, Scalar.I64)))
    if span.days and is_day:
        value = call(known, call("day plus days", value, ir.Constant(span.days, Scalar.I64)))
    rest = span.milliseconds + (0 if is_day else span.days * 86_400_000)
    if rest:
        value = call(known, call("instant plus milliseconds", value, ir.Constant(rest, Scalar.I64)))
    return value


def _number_of(unit: Unit, moment: ir.Expression) -> ir.Expression:
    """How many units have begun since 1970."""
    is_day = type_of(moment) is Scalar.DATE
    if unit in DATE_UNITS:
        return call(f"number of {unit}", moment if is_day else call("date of", moment))
    return call(f"number of {unit}", call("datetime of", moment) if is_day else moment)


def _may_be_null(expression: ir.Expression) -> bool:
    return expression.nullable


def _is_call(expression: ast.Expression, function: str) -> bool:
    return isinstance(expression, ast.FunctionCall) and expression.function == function
