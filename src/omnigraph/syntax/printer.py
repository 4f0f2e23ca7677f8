"""Writes syntax trees as canonical text: what is printed parses back to an equal tree."""

import json
from collections.abc import Iterable

from omnigraph.syntax.nodes import (
    Annotation,
    AnnotationValue,
    Argument,
    BoolLiteral,
    DateLiteral,
    DateTimeLiteral,
    EnumType,
    FloatLiteral,
    IntLiteral,
    ListLiteral,
    ListType,
    Literal,
    NameArgument,
    NamedType,
    NullLiteral,
    RangeArgument,
    TextLiteral,
    TypeExpression,
    VectorType,
)
from omnigraph.syntax.query_ast import (
    Assignment,
    BareName,
    Binding,
    Call,
    Clause,
    Delete,
    Expression,
    Filter,
    Insert,
    ListExpression,
    Negation,
    Predicate,
    PropertyAccess,
    Query,
    QueryFile,
    Read,
    SearchFilter,
    Statement,
    Traversal,
    Update,
    Variable,
)
from omnigraph.syntax.schema_ast import Declaration, EdgeDeclaration, InterfaceDeclaration, SchemaFile

_INDENT = "    "


def print_schema(schema: SchemaFile) -> str:
    """A whole schema, a blank line between declarations."""
    return "\n\n".join(_declaration(declaration) for declaration in schema.declarations) + "\n"


def print_queries(queries: QueryFile) -> str:
    """A whole query file, a blank line between queries."""
    return "\n\n".join(_query(query) for query in queries.queries) + "\n"


def print_literal(literal: Literal) -> str:
    """One literal as both languages write it."""
    match literal:
        case TextLiteral(value):
            return json.dumps(value, ensure_ascii=False)
        case IntLiteral(number):
            return str(number)
        case FloatLiteral(real):
            return repr(real)
        case BoolLiteral(truth):
            return "true" if truth else "false"
        case NullLiteral():
            return "null"
        case DateLiteral(day):
            return f'date("{day.isoformat()}")'
        case DateTimeLiteral(instant):
            precision = "milliseconds" if instant.microsecond else "seconds"
            return f'datetime("{instant.isoformat(timespec=precision).replace("+00:00", "Z")}")'
        case ListLiteral(items):
            return f"[{', '.join(print_literal(item) for item in items)}]"


def print_annotation_value(value: AnnotationValue) -> str:
    """One argument of an annotation, without its keyword."""
    match value:
        case NameArgument(name):
            return name
        case RangeArgument(low, high):
            return "..".join("" if end is None else print_literal(end) for end in (low, high))
        case literal:
            return print_literal(literal)


def print_type(type: TypeExpression) -> str:
    """One type expression."""
    mark = "?" if type.nullable else ""
    match type:
        case NamedType(name):
            return name + mark
        case VectorType(dimension):
            return f"Vector({dimension}){mark}"
        case EnumType(values):
            return f"enum({', '.join(values)}){mark}"
        case ListType(element):
            return f"[{print_type(element)}]{mark}"


def print_expression(expression: Expression, *, sigil: str = "$") -> str:
    """One expression; with an empty `sigil` it reads as the name of a result column."""
    match expression:
        case Variable(name):
            return sigil + name
        case PropertyAccess(variable, name):
            return f"{sigil}{variable.name}.{name}"
        case BareName(name):
            return name
        case ListExpression(items):
            return f"[{', '.join(print_expression(item, sigil=sigil) for item in items)}]"
        case Call(function, arguments, keywords):
            given = [print_expression(argument, sigil=sigil) for argument in arguments]
            given += [f"{keyword.name}={print_expression(keyword.value, sigil=sigil)}" for keyword in keywords]
            return f"{function}({', '.join(given)})"
        case literal:
            return print_literal(literal)


# --- schema ---


def _declaration(declaration: Declaration) -> str:
    head = _head(declaration) + "".join(f" {_annotation(annotation)}" for annotation in declaration.annotations)
    members = [
        " ".join([f"{member.name}: {print_type(member.type)}", *map(_annotation, member.annotations)])
        for member in declaration.properties
    ]
    members += map(_annotation, declaration.constraints)
    if not members:
        return head if isinstance(declaration, EdgeDeclaration) else f"{head} {{\n}}"
    return "\n".join([f"{head} {{", *(_INDENT + member for member in members), "}"])


def _head(declaration: Declaration) -> str:
    if isinstance(declaration, EdgeDeclaration):
        return f"edge {declaration.name}: {declaration.source.name} -> {declaration.destination.name}"
    keyword = "interface" if isinstance(declaration, InterfaceDeclaration) else "node"
    names = ", ".join(name.name for name in declaration.implements)
    return f"{keyword} {declaration.name}" + (f" implements {names}" if names else "")


def _annotation(annotation: Annotation) -> str:
    if not annotation.arguments:
        return f"@{annotation.name}"
    return f"@{annotation.name}({', '.join(map(_argument, annotation.arguments))})"


def _argument(argument: Argument) -> str:
    keyword = f"{argument.keyword}=" if argument.keyword is not None else ""
    return keyword + print_annotation_value(argument.value)


# --- queries ---


def _query(query: Query) -> str:
    parameters = ", ".join(f"${parameter.name}: {print_type(parameter.type)}" for parameter in query.parameters)
    head = " ".join([f"query {query.name}({parameters})", *map(_annotation, query.annotations)])
    body = _read(query.body) if isinstance(query.body, Read) else map(_statement, query.body.statements)
    return "\n".join([f"{head} {{", *(_INDENT + line for line in body), "}"])


def _read(read: Read) -> Iterable[str]:
    yield "match {"
    for line in _clauses(read.match):
        yield _INDENT + line
    yield "}"
    columns = (
        print_expression(item.expression) + (f" as {item.alias}" if item.alias is not None else "")
        for item in read.returns
    )
    yield f"return {{ {', '.join(columns)} }}"
    if read.order:
        directions = {None: "", True: " desc", False: " asc"}
        keys = (print_expression(key.expression) + directions[key.descending] for key in read.order)
        yield f"order {{ {', '.join(keys)} }}"
    if read.limit is not None:
        yield f"limit {print_expression(read.limit)}"


def _clauses(clauses: Iterable[Clause]) -> Iterable[str]:
    for clause in clauses:
        if isinstance(clause, Negation):
            yield "not {"
            for line in _clauses(clause.clauses):
                yield _INDENT + line
            yield "}"
        else:
            yield _clause(clause)


def _clause(clause: Binding | Traversal | Filter | SearchFilter) -> str:
    match clause:
        case Binding(variable, type, properties):
            return f"${variable.name}: {type}" + (f" {_assignments(properties)}" if properties else "")
        case Traversal(source, edge, destination, hops, undirected, binding):
            step = f"<{edge}>" if undirected else edge
            bound = f"${binding.name}:" if binding is not None else ""
            maximum = "" if hops is None or hops.maximum is None else hops.maximum
            bounds = "" if hops is None else f"{{{hops.minimum},{maximum}}}"
            return f"${source.name} {bound}{step}{bounds} ${destination.name}"
        case Filter(left, operator, right):
            return f"{print_expression(left)} {operator.value} {print_expression(right)}"
        case SearchFilter(call):
            return print_expression(call)


def _statement(statement: Statement) -> str:
    match statement:
        case Insert(type, assignments):
            words = ["insert", type, _assignments(assignments)]
        case Delete(type, where):
            words = ["delete", type, "where", _where(where)]
        case Update(type, assignments, where):
            words = ["update", type, "set", _assignments(assignments), "where", _where(where)]
    return " ".join(words)


def _assignments(assignments: Iterable[Assignment]) -> str:
    listed = ", ".join(f"{item.property}: {print_expression(item.value)}" for item in assignments)
    return f"{{ {listed} }}" if listed else "{}"


def _where(predicates: Iterable[Predicate]) -> str:
    return " and ".join(f"{item.property} {item.operator.value} {print_expression(item.value)}" for item in predicates)
