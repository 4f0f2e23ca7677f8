"""Prints whole files as canonical text: what is printed parses back to an equal tree."""

from collections.abc import Iterable

from omnigraph.syntax import nodes
from omnigraph.syntax import query_ast as ast
from omnigraph.syntax.printer import print_annotation_value, print_clause, print_expression, print_type
from omnigraph.syntax.schema_ast import Declaration, EdgeDeclaration, InterfaceDeclaration, SchemaFile

_INDENT = "    "


def print_schema(schema: SchemaFile, *, notes_first: bool = False) -> str:
    """A whole schema, a blank line between declarations; annotations of a type stand after its interfaces or before."""
    printed = (_declaration(declaration, notes_first=notes_first) for declaration in schema.declarations)
    return "\n\n".join(printed) + "\n"


def print_queries(queries: ast.QueryFile) -> str:
    """A whole query file, a blank line between queries."""
    return "\n\n".join(_query(query) for query in queries.queries) + "\n"


# --- schema ---


def _declaration(declaration: Declaration, *, notes_first: bool) -> str:
    head = _head(declaration, list(map(_annotation, declaration.annotations)), notes_first=notes_first)
    members = [
        " ".join([f"{member.name}: {print_type(member.type)}", *map(_annotation, member.annotations)])
        for member in declaration.properties
    ]
    members += map(_annotation, declaration.constraints)
    if not members:
        return head if isinstance(declaration, EdgeDeclaration) else f"{head} {{\n}}"
    return "\n".join([f"{head} {{", *(_INDENT + member for member in members), "}"])


def _head(declaration: Declaration, notes: list[str], *, notes_first: bool) -> str:
    if isinstance(declaration, EdgeDeclaration):
        ends = f"{declaration.source.name} -> {declaration.destination.name}"
        return " ".join([f"edge {declaration.name}: {ends}", *notes])
    keyword = "interface" if isinstance(declaration, InterfaceDeclaration) else "node"
    names = ", ".join(name.name for name in declaration.implements)
    interfaces = [f"implements {names}"] if names else []
    parts = [*notes, *interfaces] if notes_first else [*interfaces, *notes]
    return " ".join([f"{keyword} {declaration.name}", *parts])


def _annotation(annotation: nodes.Annotation) -> str:
    if not annotation.arguments:
        return f"@{annotation.name}"
    return f"@{annotation.name}({', '.join(map(_argument, annotation.arguments))})"


def _argument(argument: nodes.Argument) -> str:
    keyword = f"{argument.keyword}=" if argument.keyword is not None else ""
    return keyword + print_annotation_value(argument.value)


# --- queries ---


def _query(query: ast.Query) -> str:
    body = _body(query.body)
    if not query.name:
        return "\n".join(body)
    parameters = ", ".join(f"${parameter.name}: {print_type(parameter.type)}" for parameter in query.parameters)
    head = " ".join([f"query {query.name}({parameters})", *map(_annotation, query.annotations)])
    return "\n".join([f"{head} {{", *(_INDENT + line for line in body), "}"])


def _body(body: ast.Body) -> Iterable[str]:
    match body:
        case ast.ReadBody():
            return _read(body)
        case ast.UnionBody():
            return _union(body)
        case ast.MutationBody():
            return _mutation(body)


def _union(union: ast.UnionBody) -> Iterable[str]:
    first, *others = union.parts
    yield from _read(first)
    for part in others:
        yield "union all" if union.every else "union"
        yield from _read(part)
    yield from _page(union)


def _read(read: ast.ReadBody) -> Iterable[str]:
    for stage in read.stages:
        yield from _match(stage.match)
        yield from _shape("with", stage.shape)
    yield from _match(read.match)
    yield from _shape("return", read.shape)


def _mutation(mutation: ast.MutationBody) -> Iterable[str]:
    if mutation.match is not None:
        yield from _match(mutation.match)
    yield from map(_statement, mutation.statements)


def _match(clauses: Iterable[ast.Clause]) -> Iterable[str]:
    yield "match {"
    for line in _clauses(clauses):
        yield _INDENT + line
    yield "}"


def _shape(keyword: str, shape: ast.ShapeClause) -> Iterable[str]:
    yield f"{keyword} {'distinct ' if shape.distinct else ''}{{ {_columns(shape.returns)} }}"
    if shape.having:
        yield f"having {{ {'  '.join(map(print_expression, shape.having))} }}"
    yield from _page(shape)


def _page(shape: ast.ShapeClause | ast.UnionBody) -> Iterable[str]:
    if shape.order:
        directions = {None: "", True: " desc", False: " asc"}
        keys = (print_expression(key.expression) + directions[key.descending] for key in shape.order)
        yield f"order {{ {', '.join(keys)} }}"
    if shape.limit is not None:
        yield f"limit {print_expression(shape.limit)}"
    if shape.offset is not None:
        yield f"offset {print_expression(shape.offset)}"


def _columns(columns: Iterable[ast.Projection | ast.AllProperties | ast.OwnProperties]) -> str:
    return ", ".join(map(_column, columns))


def _column(column: ast.Projection | ast.AllProperties | ast.OwnProperties) -> str:
    if isinstance(column, ast.OwnProperties):
        return "*"
    if isinstance(column, ast.AllProperties):
        return f"{print_expression(column.variable)}.*"
    return print_expression(column.expression) + (f" as {column.alias}" if column.alias is not None else "")


def _clauses(clauses: Iterable[ast.Clause]) -> Iterable[str]:
    for clause in clauses:
        if isinstance(clause, ast.Negation | ast.OptionalClause):
            yield "not {" if isinstance(clause, ast.Negation) else "optional {"
            for line in _clauses(clause.clauses):
                yield _INDENT + line
            yield "}"
        else:
            yield print_clause(clause)


def _statement(statement: ast.Statement) -> str:
    match statement:
        case ast.InsertStatement(type, assignments, on_conflict):
            words = ["insert", type, _assignments(assignments)]
            words += [] if on_conflict is None else ["on conflict", on_conflict.value]
        case ast.DeleteStatement(type, where):
            words = ["delete", type, "where", print_expression(where)]
        case ast.DeleteVariable(variable):
            words = ["delete", print_expression(variable)]
        case ast.UpdateVariable(variable, assignments):
            words = ["update", print_expression(variable), "set", _assignments(assignments)]
        case ast.UpdateStatement(type, assignments, where):
            words = ["update", type, "set", _assignments(assignments), "where", print_expression(where)]
    if statement.returning is not None:
        words += ["returning {", _columns(statement.returning.columns), "}"]
    return " ".join(words)


def _assignments(assignments: Iterable[ast.Assignment]) -> str:
    listed = ", ".join(f"{item.property}: {_assigned(item.value)}" for item in assignments)
    return f"{{ {listed} }}" if listed else "{}"


_CONDITIONS = (
    ast.ComparisonExpression | ast.Membership | ast.NullTest | ast.Disjunction | ast.Conjunction | ast.Inversion
)


def _assigned(value: ast.Expression) -> str:
    """A value that is assigned; a condition stands in brackets there."""
    text = print_expression(value)
    return f"({text})" if isinstance(value, _CONDITIONS) else text
