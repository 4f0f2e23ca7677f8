"""Builds the syntax tree of one query."""

from collections.abc import Iterable
from typing import Any

from lark import Token

from omnigraph.codes import Code
from omnigraph.diagnostics import Span
from omnigraph.syntax.builder import Builder, present
from omnigraph.syntax.faults import SourceFault
from omnigraph.syntax.nodes import (
    Annotation,
    BoolLiteral,
    DateLiteral,
    DateTimeLiteral,
    ListLiteral,
    NullLiteral,
    TextLiteral,
    TypeExpression,
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
    Hops,
    Insert,
    KeywordArgument,
    ListExpression,
    Mutation,
    Negation,
    Operator,
    OrderKey,
    Parameter,
    Predicate,
    Projection,
    PropertyAccess,
    Query,
    Read,
    SearchFilter,
    Statement,
    Traversal,
    Update,
    Variable,
)


class QueryBuilder(Builder):
    """One method a grammar rule."""

    def query(
        self, name: Token, parameters: tuple[Parameter, ...] | None, *rest: Annotation | Read | Mutation
    ) -> Query:
        *annotations, body = rest
        assert isinstance(body, Read | Mutation)
        if isinstance(body, Read):
            names = {parameter.name for parameter in parameters or ()}
            body = Read(_resolved(body.match, names), body.returns, body.order, body.limit, span=body.span)
        kept = tuple(annotation for annotation in annotations if isinstance(annotation, Annotation))
        return Query(str(name), parameters or (), kept, body, span=self.at(name))

    def parameters(self, *parameters: Parameter | None) -> tuple[Parameter, ...]:
        return present(parameters)

    def parameter(self, variable: Token, type: TypeExpression) -> Parameter:
        return Parameter(str(variable)[1:], type, span=self.at(variable))

    # --- reads ---

    def read(
        self,
        match: tuple[Clause, ...],
        returns: tuple[Projection, ...],
        order: tuple[OrderKey, ...] | None,
        limit: Expression | None,
    ) -> Read:
        return Read(match, returns, order or (), limit)

    def match(self, *clauses: Clause) -> tuple[Clause, ...]:
        return clauses

    def returns(self, *projections: Projection) -> tuple[Projection, ...]:
        return projections

    def projection(self, expression: Expression, alias: Token | None) -> Projection:
        return Projection(expression, str(alias) if alias else None, span=expression.span)

    def order(self, *keys: OrderKey) -> tuple[OrderKey, ...]:
        return keys

    def order_key(self, expression: Expression, direction: Token | None) -> OrderKey:
        descending = direction.type == "DESC" if direction else None
        return OrderKey(expression, descending, span=expression.span)

    def limit(self, value: Expression) -> Expression:
        return value

    # --- clauses ---

    def binding(self, variable: Token, type: Token, *properties: Assignment | None) -> Binding:
        return Binding(self.variable(variable), str(type), present(properties), span=self.at(type))

    def step(self, source: Token, edge: Token, hops: Hops | None, destination: Token) -> Traversal:
        return Traversal(self.variable(source), str(edge), self.variable(destination), hops, span=self.at(edge))

    def undirected_step(self, source: Token, edge: Token, hops: Hops | None, destination: Token) -> Traversal:
        ends = self.variable(source), self.variable(destination)
        return Traversal(ends[0], str(edge), ends[1], hops, undirected=True, span=self.at(edge))

    def bound_step(
        self, source: Token, binding: Token, edge: Token, hops: Hops | None, destination: Token
    ) -> Traversal:
        ends = self.variable(source), self.variable(destination)
        return Traversal(ends[0], str(edge), ends[1], hops, binding=self.variable(binding), span=self.at(edge))

    def hops(self, start: Token, minimum: Token, maximum: Token | None, end: Token) -> Hops:
        span = self.at(start, end)
        low = self.whole_number(minimum, "a hop bound", Code.HOP_BOUNDS)
        high = self.whole_number(maximum, "a hop bound", Code.HOP_BOUNDS) if maximum else None
        if high is not None and high < max(low, 1):
            raise SourceFault(Code.HOP_BOUNDS, f"no path has {low} to {high} hops", span)
        return Hops(low, high, span=span)

    def exact_hops(self, start: Token, count: Token, end: Token) -> Hops:
        raise SourceFault(
            Code.HOP_BOUNDS,
            "hop bounds are a minimum and a maximum",
            self.at(start, end),
            f"write `{{{count},{count}}}` for exactly that many, or `{{{count},}}` for at least that many",
        )

    def variable_filter(self, variable: Token, operator: Token, right: Expression) -> Filter:
        return self.filter(self.variable(variable), operator, right)

    def filter(self, left: Expression, operator: Token, right: Expression) -> Filter:
        return Filter(left, Operator(operator), right, span=Span(left.span.start, right.span.end))

    def search_filter(self, call: Expression) -> SearchFilter:
        if not isinstance(call, Call):
            raise SourceFault(self._language.syntax, "a literal is not a condition", call.span)
        return SearchFilter(call, span=call.span)

    def negation(self, keyword: Token, *clauses: Clause) -> Negation:
        return Negation(clauses, span=self.at(keyword))

    # --- expressions ---

    def variable(self, token: Token) -> Variable:
        return Variable(str(token)[1:], span=self.at(token))

    def property_access(self, variable: Token, name: Token) -> PropertyAccess:
        return PropertyAccess(self.variable(variable), str(name), span=self.at(variable, name))

    def word(self, name: Token) -> BoolLiteral | NullLiteral | BareName:
        return self.word_literal(name) or BareName(str(name), span=self.at(name))

    def list(self, start: Token, *parts: Any) -> ListLiteral | ListExpression:
        *given, end = parts
        if not any(isinstance(item, Variable) for item in given):
            return self.annotation_list(start, *parts)
        items = (item if isinstance(item, Variable) else self.list_item(item) for item in present(given))
        return ListExpression(tuple(items), span=self.at(start, end))

    def call(
        self, name: Token, *arguments: Expression | KeywordArgument | None
    ) -> Call | DateLiteral | DateTimeLiteral:
        given: tuple[Expression | KeywordArgument, ...] = present(arguments)
        if name in ("date", "datetime"):
            return self._dated_call(name, given)
        positional = tuple(argument for argument in given if not isinstance(argument, KeywordArgument))
        keywords = tuple(argument for argument in given if isinstance(argument, KeywordArgument))
        return Call(str(name), positional, keywords, span=self.at(name))

    def _dated_call(
        self, name: Token, arguments: tuple[Expression | KeywordArgument, ...]
    ) -> DateLiteral | DateTimeLiteral:
        if len(arguments) == 1 and isinstance(arguments[0], TextLiteral):
            return self.dated_literal(str(name), arguments[0])
        type_name = "Date" if name == "date" else "DateTime"
        raise SourceFault(
            self._language.date,
            f"`{name}` takes one text",
            self.at(name),
            f"a parameter becomes one by its type: `$x: {type_name}`",
        )

    def call_keyword(self, name: Token, value: Expression) -> KeywordArgument:
        return KeywordArgument(str(name), value, span=self.at(name))

    # --- mutations ---

    def mutation(self, *statements: Statement) -> Mutation:
        return Mutation(statements)

    def assignment(self, name: Token, value: Expression) -> Assignment:
        return Assignment(str(name), value, span=self.at(name))

    def insert(self, type: Token, *assignments: Assignment | None) -> Insert:
        return Insert(str(type), present(assignments), span=self.at(type))

    def update(self, type: Token, *rest: Any) -> Update:
        *assignments, where = rest
        return Update(str(type), present(assignments), where, span=self.at(type))

    def delete(self, type: Token, where: tuple[Predicate, ...]) -> Delete:
        return Delete(str(type), where, span=self.at(type))

    def where(self, *predicates: Predicate) -> tuple[Predicate, ...]:
        return predicates

    def predicate(self, name: Token, operator: Token, value: Expression) -> Predicate:
        return Predicate(str(name), Operator(operator), value, span=self.at(name))


def _resolved(clauses: Iterable[Clause], parameters: set[str]) -> tuple[Clause, ...]:
    """The clauses with `$a contains $b` read as a traversal unless one of them is a parameter."""
    return tuple(_resolved_clause(clause, parameters) for clause in clauses)


def _resolved_clause(clause: Clause, parameters: set[str]) -> Clause:
    if isinstance(clause, Negation):
        return Negation(_resolved(clause.clauses, parameters), span=clause.span)
    if (
        isinstance(clause, Filter)
        and clause.operator in (Operator.CONTAINS, Operator.STARTS_WITH)
        and isinstance(clause.left, Variable)
        and isinstance(clause.right, Variable)
        and not parameters & {clause.left.name, clause.right.name}
    ):
        return Traversal(clause.left, clause.operator.value, clause.right, span=clause.span)
    return clause
