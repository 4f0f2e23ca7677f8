"""Prints literals, types and expressions as canonical text, which parses back to an equal tree."""

import json

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


def print_expression(expression: ast.Expression, *, sigil: str = "$") -> str:
    """One expression; with an empty `sigil` it reads as the name of a result column."""
    match expression:
        case ast.Variable(name):
            return sigil + name
        case ast.PropertyAccess(variable, name):
            return f"{sigil}{variable.name}.{name}"
        case ast.BareName(name):
            return name
        case ast.ListExpression(items):
            return f"[{', '.join(print_expression(item, sigil=sigil) for item in items)}]"
        case ast.FunctionCall(function, arguments, keywords):
            given = [print_expression(argument, sigil=sigil) for argument in arguments]
            given += [f"{keyword.name}={print_expression(keyword.value, sigil=sigil)}" for keyword in keywords]
            return f"{function}({', '.join(given)})"
        case literal:
            return print_literal(literal)
