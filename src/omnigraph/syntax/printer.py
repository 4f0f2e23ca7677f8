"""Prints literals, types and expressions as canonical text, which parses back to an equal tree."""

import json
from collections.abc import Sequence

from omnigraph.syntax import nodes
from omnigraph.syntax import query_ast as ast


def print_literal(literal: nodes.Literal) -> str:
    """One literal as both languages write it."""
    match literal:
        case nodes.TextLiteral(value):
            return json.dumps(value, ensure_ascii=False)
        case nodes.IntLiteral(number):
            return str(number)
        case nodes.FloatLiteral(real):
            return repr(real)
        case nodes.BoolLiteral(truth):
            return "true" if truth else "false"
        case nodes.NullLiteral():
            return "null"
        case nodes.DateLiteral(day):
            return f'date("{day.isoformat()}")'
        case nodes.DateTimeLiteral(instant):
            precision = "milliseconds" if instant.microsecond else "seconds"
            return f'datetime("{instant.isoformat(timespec=precision).replace("+00:00", "Z")}")'
        case nodes.ListLiteral(items):
            return f"[{', '.join(print_literal(item) for item in items)}]"


def print_annotation_value(value: nodes.AnnotationValue) -> str:
    """One argument of an annotation, without its keyword."""
    match value:
        case nodes.NameArgument(name):
            return name
        case nodes.RangeArgument(low, high):
            return "..".join("" if end is None else print_literal(end) for end in (low, high))
        case literal:
            return print_literal(literal)


def print_type(type: nodes.TypeExpression) -> str:
    """One type expression."""
    mark = "?" if type.nullable else ""
    match type:
        case nodes.NamedType(name):
            return name + mark
        case nodes.VectorType(dimension):
            return f"Vector({dimension}){mark}"
        case nodes.EnumType(values):
            return f"enum({', '.join(values)}){mark}"
        case nodes.ListType(element):
            return f"[{print_type(element)}]{mark}"


_LEVELS: dict[type, int] = {
    ast.Disjunction: 1,
    ast.Conjunction: 2,
    ast.Inversion: 3,
    ast.ComparisonExpression: 4,
    ast.Membership: 4,
    ast.NullTest: 4,
    ast.Negative: 7,
}
"""How closely the parts of an expression belong together: what is looser than its surroundings stands in brackets."""

_SUM, _PRODUCT, _FACTOR = 5, 6, 7
_SUMS = frozenset({ast.ArithmeticOperator.PLUS, ast.ArithmeticOperator.MINUS})


def print_expression(expression: ast.Expression, *, sigil: str = "$") -> str:
    """One expression; with an empty `sigil` it reads as the name of a result column."""
    return _Printer(sigil).text(expression)


def print_clause(clause: ast.Clause, *, sigil: str = "$") -> str:
    """One clause of a pattern, in one line."""
    return _Printer(sigil).clause(clause)


class _Printer:
    def __init__(self, sigil: str) -> None:
        self._sigil = sigil

    def text(self, expression: ast.Expression, within: int = 0) -> str:
        """An expression, in brackets if it is looser than what it stands within."""
        level = _LEVELS.get(expression.__class__)
        if isinstance(expression, ast.Arithmetic):
            level = _SUM if expression.operator in _SUMS else _PRODUCT
        text = self._plain(expression)
        return f"({text})" if level is not None and level < within else text

    def _plain(self, expression: ast.Expression) -> str:  # noqa: PLR0912 - a branch for each kind of expression
        match expression:
            case ast.Variable(name):
                return self._sigil + name
            case ast.PropertyAccess(variable, name):
                return f"{self._sigil}{variable.name}.{name}"
            case ast.BareName(name):
                return name
            case ast.ListExpression(items):
                return f"[{', '.join(map(self.text, items))}]"
            case ast.FunctionCall(function, arguments, keywords, distinct):
                given = [*map(self.text, arguments)]
                given += [f"{keyword.name}={self.text(keyword.value)}" for keyword in keywords]
                return f"{function}({'distinct ' if distinct else ''}{', '.join(given)})"
            case ast.Disjunction(conditions):
                return " or ".join(self.text(each, 2) for each in conditions)
            case ast.Conjunction(conditions):
                return " and ".join(self.text(each, 3) for each in conditions)
            case ast.Inversion(condition):
                return f"not {self.text(condition, 3)}"
            case ast.ComparisonExpression(left, operator, right):
                return f"{self.text(left, _SUM)} {operator.value} {self.text(right, _SUM)}"
            case ast.Membership(value, choices, negated):
                word = "not in" if negated else "in"
                return f"{self.text(value, _SUM)} {word} {self.text(choices, _SUM)}"
            case ast.NullTest(value, negated):
                return f"{self.text(value, _SUM)} is {'not ' if negated else ''}null"
            case ast.Arithmetic(left, sign, right):
                level = _SUM if sign in _SUMS else _PRODUCT
                return f"{self.text(left, level)} {sign.value} {self.text(right, level + 1)}"
            case ast.Negative(value):
                return f"-{self.text(value, _FACTOR)}"
            case ast.Cast(value, type):
                return f"cast({self.text(value)} as {print_type(type)})"
            case ast.Case(branches, otherwise):
                words = [f"when {self.text(each.condition)} then {self.text(each.value)}" for each in branches]
                words += [] if otherwise is None else [f"else {self.text(otherwise)}"]
                return f"case {' '.join(words)} end"
            case ast.SubPatternExpression(kind, clauses):
                return f"{kind.value} {self._block(clauses)}"
            case literal:
                return print_literal(literal)

    def clause(self, clause: ast.Clause) -> str:
        match clause:
            case ast.Binding(variable, type, properties):
                listed = ", ".join(f"{each.property}: {self.text(each.value, _SUM)}" for each in properties)
                return f"{self._sigil}{variable.name}: {type}" + (f" {{ {listed} }}" if properties else "")
            case ast.TraversalClause(source, edge, destination, hops, undirected, binding):
                step = f"<{edge}>" if undirected else edge
                bound = f"{self._sigil}{binding.name}:" if binding is not None else ""
                maximum = "" if hops is None or hops.maximum is None else hops.maximum
                bounds = "" if hops is None else f"{{{hops.minimum},{maximum}}}"
                return f"{self._sigil}{source.name} {bound}{step}{bounds} {self._sigil}{destination.name}"
            case ast.PathClause():
                return self._path(clause)
            case ast.PathStepClause(source, path, destination, binding):
                bound = f"{self._sigil}{binding.name}:" if binding is not None else ""
                return f"{self._sigil}{source.name} {bound}{self._sigil}{path.name} {self._sigil}{destination.name}"
            case ast.Filter(condition):
                return self.text(condition)
            case ast.Negation(clauses):
                return f"not {self._block(clauses)}"
            case ast.OptionalClause(clauses):
                return f"optional {self._block(clauses)}"

    def _path(self, clause: ast.PathClause) -> str:
        edges = "|".join(each.name for each in clause.edges)
        edges = f"<{edges}>" if clause.undirected else edges
        bounds = f"{{{clause.hops.minimum},{'' if clause.hops.maximum is None else clause.hops.maximum}}}"
        kind = "all shortest" if clause.every else "shortest"
        by = "" if clause.weight is None else f" by {clause.weight.name}"
        ends = f"{self._sigil}{clause.source.name} {edges}{bounds} {self._sigil}{clause.destination.name}"
        return f"{self._sigil}{clause.variable.name}: {kind} {ends}{by}"

    def _block(self, clauses: Sequence[ast.Clause]) -> str:
        return f"{{ {'  '.join(map(self.clause, clauses))} }}"
