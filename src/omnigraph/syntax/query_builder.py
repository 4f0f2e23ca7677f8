"""Builds the syntax tree of one query."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from omnigraph.codes import Code
from omnigraph.diagnostics import Span
from omnigraph.syntax import nodes
from omnigraph.syntax import query_ast as ast
from omnigraph.syntax.builder import Builder, present
from omnigraph.syntax.language import SourceFault
from omnigraph.syntax.tables import Token


class QueryBuilder(Builder):
    """One method a grammar rule."""

    def query(
        self,
        name: Token,
        parameters: tuple[ast.ParameterDeclaration, ...] | None,
        *rest: nodes.Annotation | ast.ReadBody | ast.MutationBody,
    ) -> ast.Query:
        *annotations, body = rest
        assert isinstance(body, ast.ReadBody | ast.MutationBody)
        if isinstance(body, ast.ReadBody):
            names = {parameter.name for parameter in parameters or ()}
            body = replace(body, match=_resolve_clauses(body.match, names))
        kept = tuple(annotation for annotation in annotations if isinstance(annotation, nodes.Annotation))
        return ast.Query(str(name), parameters or (), kept, body, span=self.at(name))

    def parameters(self, *parameters: ast.ParameterDeclaration | None) -> tuple[ast.ParameterDeclaration, ...]:
        return present(parameters)

    def parameter(self, variable: Token, type: nodes.TypeExpression) -> ast.ParameterDeclaration:
        return ast.ParameterDeclaration(str(variable)[1:], type, span=self.at(variable))

    # --- reads ---

    def read(
        self,
        match: tuple[ast.Clause, ...],
        returns: tuple[ast.Projection, ...],
        order: tuple[ast.OrderKey, ...] | None,
        limit: ast.Expression | None,
    ) -> ast.ReadBody:
        return ast.ReadBody(match, returns, order or (), limit)

    def _children(self, *children: Any) -> tuple[Any, ...]:
        return children

    match = returns = order = where = _children

    def projection(self, expression: ast.Expression, alias: Token | None) -> ast.Projection:
        return ast.Projection(expression, str(alias) if alias else None, span=expression.span)

    def order_key(self, expression: ast.Expression, direction: Token | None) -> ast.OrderKey:
        descending = direction.type == "DESC" if direction else None
        return ast.OrderKey(expression, descending, span=expression.span)

    # --- clauses ---

    def binding(self, variable: Token, type: Token, *properties: ast.Assignment | None) -> ast.Binding:
        return ast.Binding(self.variable(variable), str(type), present(properties), span=self.at(type))

    def step(self, source: Token, edge: Token, hops: ast.Hops | None, destination: Token) -> ast.TraversalClause:
        return ast.TraversalClause(
            self.variable(source), str(edge), self.variable(destination), hops, span=self.at(edge)
        )

    def undirected_step(self, *parts: Any) -> ast.TraversalClause:
        return replace(self.step(*parts), undirected=True)

    def bound_step(self, source: Token, binding: Token, *rest: Any) -> ast.TraversalClause:
        return replace(self.step(source, *rest), binding=self.variable(binding))

    def bound_undirected_step(self, *parts: Any) -> ast.TraversalClause:
        return replace(self.bound_step(*parts), undirected=True)

    def hops(self, start: Token, minimum: Token, maximum: Token | None, end: Token) -> ast.Hops:
        span = self.at(start, end)
        low = self.whole_number(minimum, "a hop bound", Code.HOP_BOUNDS)
        high = self.whole_number(maximum, "a hop bound", Code.HOP_BOUNDS) if maximum else None
        if high is not None and high < max(low, 1):
            message = f"invalid hop bounds {{{low},{high}}}: the maximum must be at least {max(low, 1)}"
            raise SourceFault(Code.HOP_BOUNDS, message, span)
        return ast.Hops(low, high, span=span)

    def exact_hops(self, start: Token, count: Token, end: Token) -> ast.Hops:
        raise SourceFault(
            Code.HOP_BOUNDS,
            "hop bounds are a minimum and a maximum",
            self.at(start, end),
            f"write `{{{count},{count}}}` for exactly that many, or `{{{count},}}` for at least that many",
        )

    def variable_filter(self, variable: Token, operator: Token, right: ast.Expression) -> ast.Filter:
        return self.filter(self.variable(variable), operator, right)

    def filter(self, left: ast.Expression, operator: Token, right: ast.Expression) -> ast.Filter:
        return ast.Filter(left, ast.Operator(operator), right, span=Span(left.span.start, right.span.end))

    def search_filter(self, call: ast.Expression) -> ast.SearchFilter:
        if not isinstance(call, ast.FunctionCall):
            raise SourceFault(self._language.code("SYNTAX"), "a literal is not a condition", call.span)
        return ast.SearchFilter(call, span=call.span)

    def negation(self, keyword: Token, *clauses: ast.Clause) -> ast.Negation:
        return ast.Negation(clauses, span=self.at(keyword))

    # --- expressions ---

    def variable(self, token: Token) -> ast.Variable:
        return ast.Variable(str(token)[1:], span=self.at(token))

    def property_access(self, variable: Token, name: Token) -> ast.PropertyAccess:
        return ast.PropertyAccess(self.variable(variable), str(name), span=self.at(variable, name))

    def word(self, name: Token) -> nodes.BoolLiteral | nodes.NullLiteral | ast.BareName:
        return self.word_literal(name) or ast.BareName(str(name), span=self.at(name))

    def list(self, start: Token, *parts: Any) -> nodes.ListLiteral | ast.ListExpression:
        *given, end = parts
        if not any(isinstance(item, ast.Variable) for item in given):
            return self.annotation_list(start, *parts)
        items = (item if isinstance(item, ast.Variable) else self.list_item(item) for item in present(given))
        return ast.ListExpression(tuple(items), span=self.at(start, end))

    def call(
        self, name: Token, *arguments: ast.Expression | ast.KeywordArgument | None
    ) -> ast.FunctionCall | nodes.DateLiteral | nodes.DateTimeLiteral:
        given: tuple[ast.Expression | ast.KeywordArgument, ...] = present(arguments)
        if name in ("date", "datetime"):
            return self._dated_call(name, given)
        positional = tuple(argument for argument in given if not isinstance(argument, ast.KeywordArgument))
        keywords = tuple(argument for argument in given if isinstance(argument, ast.KeywordArgument))
        return ast.FunctionCall(str(name), positional, keywords, span=self.at(name))

    def _dated_call(
        self, name: Token, arguments: tuple[ast.Expression | ast.KeywordArgument, ...]
    ) -> nodes.DateLiteral | nodes.DateTimeLiteral:
        if len(arguments) == 1 and isinstance(arguments[0], nodes.TextLiteral):
            return self.dated_literal(str(name), arguments[0])
        type_name = "Date" if name == "date" else "DateTime"
        raise SourceFault(
            self._language.code("DATE"),
            f"`{name}` takes one text",
            self.at(name),
            f"a parameter becomes one by its type: `$x: {type_name}`",
        )

    def call_keyword(self, name: Token, value: ast.Expression) -> ast.KeywordArgument:
        return ast.KeywordArgument(str(name), value, span=self.at(name))

    # --- mutations ---

    def mutation(self, *statements: ast.Statement) -> ast.MutationBody:
        return ast.MutationBody(statements)

    def assignment(self, name: Token, value: ast.Expression) -> ast.Assignment:
        return ast.Assignment(str(name), value, span=self.at(name))

    def insert(self, type: Token, *assignments: ast.Assignment | None) -> ast.InsertStatement:
        return ast.InsertStatement(str(type), present(assignments), span=self.at(type))

    def update(self, type: Token, *rest: Any) -> ast.UpdateStatement:
        *assignments, where = rest
        return ast.UpdateStatement(str(type), present(assignments), where, span=self.at(type))

    def delete(self, type: Token, where: tuple[ast.WhereCondition, ...]) -> ast.DeleteStatement:
        return ast.DeleteStatement(str(type), where, span=self.at(type))

    def predicate(self, name: Token, operator: Token, value: ast.Expression) -> ast.WhereCondition:
        return ast.WhereCondition(str(name), ast.Operator(operator), value, span=self.at(name))


def _resolve_clauses(clauses: Iterable[ast.Clause], parameters: set[str]) -> tuple[ast.Clause, ...]:
    """The clauses with `$a contains $b` read as a traversal unless one of them is a parameter."""
    return tuple(_resolve_clause(clause, parameters) for clause in clauses)


def _resolve_clause(clause: ast.Clause, parameters: set[str]) -> ast.Clause:
    if isinstance(clause, ast.Negation):
        return ast.Negation(_resolve_clauses(clause.clauses, parameters), span=clause.span)
    if (
        isinstance(clause, ast.Filter)
        and clause.operator in (ast.Operator.CONTAINS, ast.Operator.STARTS_WITH)
        and isinstance(clause.left, ast.Variable)
        and isinstance(clause.right, ast.Variable)
        and not parameters & {clause.left.name, clause.right.name}
    ):
        return ast.TraversalClause(clause.left, clause.operator.value, clause.right, span=clause.span)
    return clause
