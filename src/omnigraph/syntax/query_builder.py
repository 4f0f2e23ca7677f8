"""Builds the syntax tree of one query."""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

from omnigraph.codes import Code
from omnigraph.diagnostics import Span, any_of, did_you_mean, quoted
from omnigraph.syntax import nodes
from omnigraph.syntax import query_ast as ast
from omnigraph.syntax.builder import LARGEST_INTEGER, SMALLEST_INTEGER, Builder, present
from omnigraph.syntax.habits import hint_of_word
from omnigraph.syntax.language import MAX_NESTING, SourceFault
from omnigraph.syntax.tables import Token

_NEVER_CONDITIONS = (
    ast.BareName
    | ast.Variable
    | ast.Arithmetic
    | ast.Negative
    | ast.ListExpression
    | nodes.ListLiteral
    | nodes.TextLiteral
    | nodes.IntLiteral
    | nodes.FloatLiteral
    | nodes.DateLiteral
    | nodes.DateTimeLiteral
)
_HOLDS_EXPRESSIONS = (
    ast.Nested
    | ast.Branch
    | ast.KeywordArgument
    | ast.ShapeClause
    | ast.Projection
    | ast.OrderKey
    | ast.ReturningClause
)


_STEP_HINT = "an edge stands between two variables: `$a knows $b`; what is negated has braces: `not { $a knows $b }`"


class QueryBuilder(Builder):
    """One method a grammar rule."""

    def query(
        self,
        name: Token,
        parameters: tuple[ast.ParameterDeclaration, ...] | None,
        *rest: nodes.Annotation | ast.Body,
    ) -> ast.Query:
        *annotations, body = rest
        assert isinstance(body, ast.ReadBody | ast.UnionBody | ast.MutationBody)
        body = _resolve_body(body, {parameter.name for parameter in parameters or ()})
        kept = tuple(annotation for annotation in annotations if isinstance(annotation, nodes.Annotation))
        return ast.Query(str(name), parameters or (), kept, body, span=self.at(name))

    def headless(self, body: ast.Body) -> ast.Query:
        return ast.Query("", (), (), _resolve_body(body, set()), span=Span(self._base, self._base + 1))

    def parameters(self, *parameters: ast.ParameterDeclaration | None) -> tuple[ast.ParameterDeclaration, ...]:
        return present(parameters)

    def parameter(self, variable: Token, type: nodes.TypeExpression) -> ast.ParameterDeclaration:
        return ast.ParameterDeclaration(str(variable)[1:], type, span=self.at(variable))

    # --- reads ---

    def read(self, match: tuple[ast.Clause, ...], *parts: Any) -> ast.ReadBody:
        *written, shape = parts
        stages = []
        for stage, following in written:
            stages.append(replace(stage, match=match))
            match = following
        if len(stages) > MAX_NESTING:
            message = f"a query has at most {MAX_NESTING} stages"
            raise SourceFault(self._language.code("NESTING"), message, stages[MAX_NESTING].span)
        return ast.ReadBody(match, shape, tuple(stages))

    def stage(
        self, keyword: Token, shape: ast.ShapeClause, following: tuple[ast.Clause, ...] | None
    ) -> tuple[ast.ReadBody, tuple[ast.Clause, ...]]:
        """A stage that lacks its pattern, and the pattern after it."""
        return ast.ReadBody((), shape, span=self.at(keyword)), following or ()

    def union(self, *given: Any) -> ast.UnionBody:
        """Reads, with two words between them, of which the second is None or `all`."""
        parts, words, every = given[::3], given[1::3], given[2::3]
        if len(parts) > MAX_NESTING:
            message = f"a union has at most {MAX_NESTING} parts"
            raise SourceFault(self._language.code("NESTING"), message, self.at(words[MAX_NESTING - 1]))
        mixed = next((at for at, each in enumerate(every) if (each is None) is not (every[0] is None)), None)
        if mixed is not None:
            hint = "write the same between all parts: `union` has equal rows once, and `union all` has each"
            span = self.at(words[mixed], *(() if every[mixed] is None else (every[mixed],)))
            raise SourceFault(
                self._language.code("SYNTAX"), "`union` and `union all` cannot be mixed in one query", span, hint
            )
        for part in parts[:-1]:
            self._refuse_page(part.shape)
        *first, last = (
            part if word is None else replace(part, span=self.at(word))
            for part, word in zip(parts, (None, *words), strict=True)
        )
        return ast.UnionBody(
            parts=(*first, replace(last, shape=replace(last.shape, order=(), limit=None, offset=None))),
            every=every[0] is not None,
            order=last.shape.order,
            limit=last.shape.limit,
            offset=last.shape.offset,
        )

    def _refuse_page(self, shape: ast.ShapeClause) -> None:
        """What orders or cuts the rows stands after the last part of a union, not after this one."""
        found = [("order", shape.order[0].span)] if shape.order else []
        found += [(word, each.span) for word in ("limit", "offset") if (each := getattr(shape, word)) is not None]
        if found:
            word, span = found[0]
            message = f"`{word}` stands after the last part of a union, and is about the rows of all parts"
            hint = "to order or cut one part, do it in a stage: `with { … } order { … } limit 10 return { … }`"
            raise SourceFault(self._language.code("SYNTAX"), message, span, hint)

    def shape(
        self,
        returns: tuple[Any, ...],
        having: tuple[ast.Expression, ...] | None,
        order: tuple[ast.OrderKey, ...] | None,
        page: tuple[ast.Expression | None, ast.Expression | None] | None,
    ) -> ast.ShapeClause:
        distinct, *projections = returns
        limit, offset = page or (None, None)
        return ast.ShapeClause(
            returns=tuple(projections),
            distinct=distinct is not None,
            having=having or (),
            order=order or (),
            limit=limit,
            offset=offset,
        )

    def having(self, *conditions: ast.Expression) -> tuple[ast.Expression, ...]:
        return self._values(conditions)

    def page(
        self, limit: ast.Expression, offset: ast.Expression | None
    ) -> tuple[ast.Expression | None, ast.Expression | None]:
        return limit, offset

    def turned_page(
        self, offset: ast.Expression, limit: ast.Expression | None
    ) -> tuple[ast.Expression | None, ast.Expression | None]:
        return limit, offset

    def _children(self, *children: Any) -> tuple[Any, ...]:
        return children

    match = columns = order = _children

    def projection(self, expression: ast.Expression, _as: Token | None, alias: Token | None) -> ast.Projection:
        return ast.Projection(self._value(expression), str(alias) if alias else None, span=expression.span)

    def all_properties(self, variable: Token, star: Token, as_: Token | None, alias: Token | None) -> ast.AllProperties:
        if as_ is not None and alias is not None:
            message = f"{quoted(variable + '.*')} is several columns, which have no common name"
            hint = f"return a single property: `{variable}.property as {alias}`"
            raise SourceFault(self._language.code("SYNTAX"), message, self.at(as_, alias), hint)
        return ast.AllProperties(self.variable(variable), span=self.at(variable, star))

    def order_key(self, expression: ast.Expression, direction: Token | None) -> ast.OrderKey:
        descending = direction.type == "DESC" if direction else None
        return ast.OrderKey(self._value(expression), descending, span=expression.span)

    # --- clauses ---

    def binding(self, variable: Token, type: Token, *properties: ast.Assignment | None) -> ast.Binding:
        return ast.Binding(self.variable(variable), str(type), present(properties), span=self.at(type))

    def step(self, source: Token, edge: Token, hops: ast.Hops | None, destination: Token) -> ast.TraversalClause:
        return ast.TraversalClause(
            self.variable(source), str(edge), self.variable(destination), hops, span=self.at(edge)
        )

    def undirected_step(
        self, source: Token, either_way: Token, hops: ast.Hops | None, destination: Token
    ) -> ast.TraversalClause:
        edge = either_way[1:-1].strip()
        start = self.at(either_way).start + either_way.index(edge)
        ends = self.variable(source), self.variable(destination)
        return ast.TraversalClause(ends[0], edge, ends[1], hops, undirected=True, span=Span(start, start + len(edge)))

    def bound_step(self, source: Token, binding: Token, *rest: Any) -> ast.TraversalClause:
        return replace(self.step(source, *rest), binding=self.variable(binding))

    def bound_undirected_step(self, source: Token, binding: Token, *rest: Any) -> ast.TraversalClause:
        return replace(self.undirected_step(source, *rest), binding=self.variable(binding))

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

    def path(self, variable: Token, words: Token, source: Token, edges: Any, *rest: Any) -> ast.PathClause:
        hops, destination, _by, weight = rest
        if hops is None:
            names = "|".join(each.name for each in edges[0])
            raise SourceFault(
                Code.HOP_BOUNDS,
                "a shortest path needs hop bounds",
                edges[0][0].span,
                f"write `{names}{{1,6}}`, or `{names}{{1,}}` without a maximum",
            )
        return ast.PathClause(
            variable=self.variable(variable),
            source=self.variable(source),
            edges=edges[0],
            destination=self.variable(destination),
            hops=hops,
            every=words.type == "ALL_SHORTEST",
            undirected=edges[1],
            weight=None if weight is None else ast.BareName(str(weight), span=self.at(weight)),
            span=self.at(words),
        )

    def path_edges(self, *names: Token) -> tuple[tuple[ast.BareName, ...], bool]:
        """The edges of a path, and whether they are followed either way."""
        if names[0].type != "EITHER_WAY_OF_SEVERAL":
            return tuple(ast.BareName(str(each), span=self.at(each)) for each in names), False
        start, found, at = self.at(names[0]).start, [], 1
        for part in names[0][1:-1].split("|"):
            name = part.strip()
            begin = start + at + part.index(name)
            found.append(ast.BareName(name, span=Span(begin, begin + len(name))))
            at += len(part) + 1
        return tuple(found), True

    def path_step(self, source: Token, path: Token, destination: Token) -> ast.PathStepClause:
        ends = self.variable(source), self.variable(destination)
        return ast.PathStepClause(ends[0], self.variable(path), ends[1], span=self.at(path))

    def bound_path_step(self, source: Token, binding: Token, *rest: Token) -> ast.PathStepClause:
        return replace(self.path_step(source, *rest), binding=self.variable(binding))

    def filter(self, condition: ast.Expression | ast.TraversalClause) -> ast.Filter | ast.TraversalClause:
        if isinstance(condition, ast.TraversalClause):
            return condition
        if isinstance(condition, _NEVER_CONDITIONS):
            message, hint = "expected a condition, found a value", None
            if isinstance(condition, ast.BareName):
                message = f"expected a clause, found {quoted(condition.name)}"
                hint = hint_of_word(condition.name) or _STEP_HINT
            raise SourceFault(self._language.code("SYNTAX"), message, condition.span, hint)
        return ast.Filter(condition, span=condition.span)

    def word_step(self, left: ast.Expression, edge: Token, hops: ast.Hops, destination: Token) -> ast.TraversalClause:
        """A step over an edge whose name is an operator too. Only as a whole clause it is one."""
        if isinstance(left, ast.Variable):
            return ast.TraversalClause(left, str(edge), self.variable(destination), hops, span=self.at(edge))
        raise SourceFault(
            self._language.code("SYNTAX"), f"expected a value after {quoted(edge)}, found hop bounds", hops.span
        )

    def negation(self, keyword: Token, *clauses: ast.Clause) -> ast.Negation:
        return ast.Negation(clauses, span=self.at(keyword))

    def optional(self, begin: Token, *clauses: ast.Clause) -> ast.OptionalClause:
        start = self.at(begin).start
        return ast.OptionalClause(clauses, span=Span(start, start + len("optional")))

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
        self, name: Token, distinct: Token | None, *arguments: ast.Expression | ast.KeywordArgument | None
    ) -> ast.FunctionCall | nodes.DateLiteral | nodes.DateTimeLiteral:
        given: tuple[ast.Expression | ast.KeywordArgument, ...] = present(arguments)
        if name in ("date", "datetime") and distinct is None:
            return self._dated_call(name, given)
        positional = tuple(argument for argument in given if not isinstance(argument, ast.KeywordArgument))
        keywords = tuple(argument for argument in given if isinstance(argument, ast.KeywordArgument))
        self._values((*positional, *(each.value for each in keywords)))
        is_distinct, depth = distinct is not None, self._depth(*given)
        return ast.FunctionCall(str(name), positional, keywords, is_distinct, depth=depth, span=self.at(name))

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
            f"a value is converted by `cast($x.p as {type_name})`, and a parameter has the type: `$x: {type_name}`",
        )

    def call_keyword(self, name: Token, value: ast.Expression) -> ast.KeywordArgument:
        return ast.KeywordArgument(str(name), value, span=self.at(name))

    # --- conditions and computed values ---

    def group(self, expression: ast.Expression) -> ast.Expression:
        return self._value(expression)

    def either(self, *parts: Any) -> ast.Disjunction:
        conditions = self._values(parts[::2])
        return ast.Disjunction(conditions, depth=self._depth(*conditions), span=_around(conditions))

    def both(self, *parts: Any) -> ast.Conjunction:
        conditions = self._values(parts[::2])
        return ast.Conjunction(conditions, depth=self._depth(*conditions), span=_around(conditions))

    def inversion(self, keyword: Token, condition: ast.Expression) -> ast.Inversion:
        self._value(condition)
        span = Span(self.at(keyword).start, condition.span.end)
        return ast.Inversion(condition, depth=self._depth(condition), span=span)

    def comparison(self, left: ast.Expression, operator: Token, right: ast.Expression) -> ast.ComparisonExpression:
        sides = self._values((left, right))
        if isinstance(right, ast.BareName) and right.name == "shortest":
            hint = "a path is bound by a colon: `$path: shortest $a knows{1,6} $b`"
            raise SourceFault(self._language.code("SYNTAX"), "expected a value, found `shortest`", right.span, hint)
        return ast.ComparisonExpression(
            left, ast.Operator(operator), right, depth=self._depth(*sides), span=_around(sides)
        )

    def membership(self, value: ast.Expression, operator: Token, choices: ast.Expression) -> ast.Membership:
        sides = self._values((value, choices))
        negated = operator.type == "NOT_IN"
        return ast.Membership(value, choices, negated, depth=self._depth(*sides), span=_around(sides))

    def null_test(self, value: ast.Expression, operator: Token) -> ast.NullTest:
        self._value(value)
        span = Span(value.span.start, self.at(operator).end)
        return ast.NullTest(value, operator.type == "IS_NOT_NULL", depth=self._depth(value), span=span)

    def arithmetic(self, left: ast.Expression, operator: Token, right: ast.Expression) -> ast.Arithmetic:
        sides = self._values((left, right))
        kind = ast.ArithmeticOperator(operator)
        return ast.Arithmetic(left, kind, right, depth=self._depth(*sides), span=_around(sides))

    def negative(self, minus: Token, value: ast.Expression) -> ast.Expression:
        """A number below zero, or what is computed of another value."""
        span = Span(self.at(minus).start, value.span.end)
        match value:
            case nodes.IntLiteral(number):
                if not SMALLEST_INTEGER <= -number <= LARGEST_INTEGER:
                    message = f"{quoted(str(-number))} does not fit 64 bits"
                    raise SourceFault(self._language.code("NUMBER"), message, span)
                return nodes.IntLiteral(-number, span=span)
            case nodes.FloatLiteral(real):
                return nodes.FloatLiteral(-real, span=span)
        return ast.Negative(value, depth=self._depth(value), span=span)

    def cast(self, name: Token, value: ast.Expression, keyword: Token, type: nodes.TypeExpression) -> ast.Cast:
        self._value(value)
        if name != "cast":
            message = f"only `cast` takes a type, not {quoted(name)}"
            raise SourceFault(self._language.code("SYNTAX"), message, self.at(keyword), "write `cast(… as I64)`")
        return ast.Cast(value, type, depth=self._depth(value), span=self.at(name))

    def branch(self, condition: ast.Expression, _then: Token, value: ast.Expression) -> ast.Branch:
        return ast.Branch(*self._values((condition, value)), span=condition.span)

    def case(self, keyword: Token, *parts: Any) -> ast.Case:
        branches = tuple(each for each in parts if isinstance(each, ast.Branch))
        otherwise, end = parts[-2:]
        inner = [each for branch in branches for each in (branch.condition, branch.value)]
        inner += () if otherwise is None else self._values((otherwise,))
        return ast.Case(branches, otherwise, depth=self._depth(*inner), span=self.at(keyword, end))

    def sub_pattern(self, begin: Token, *clauses: ast.Clause) -> ast.SubPatternExpression:
        kind = ast.SubPatternKind.EXISTS if begin.startswith("exists") else ast.SubPatternKind.COUNT
        start = self.at(begin).start
        return ast.SubPatternExpression(kind, clauses, span=Span(start, start + len(kind)))

    def _value(self, expression: ast.Expression | ast.TraversalClause) -> ast.Expression:
        """An expression that stands within another one, where no step can."""
        if not isinstance(expression, ast.TraversalClause):
            return expression
        message = f"a step over {quoted(expression.edge)} is a clause of its own and not a value"
        raise SourceFault(self._language.code("SYNTAX"), message, expression.span)

    def _values(self, expressions: Iterable[ast.Expression]) -> tuple[ast.Expression, ...]:
        return tuple(self._value(each) for each in expressions)

    def _depth(self, *parts: ast.Expression | ast.KeywordArgument) -> int:
        """How deep an expression is that has these parts; more than can be followed is a fault."""
        deepest = max(parts, key=_depth_of, default=None)
        depth = 1 if deepest is None else _depth_of(deepest) + 1
        if depth > MAX_NESTING and deepest is not None:
            message = f"this expression has more than {MAX_NESTING} levels"
            hint = "levels are those of brackets, `not` and operators that follow each other"
            raise SourceFault(self._language.code("NESTING"), message, deepest.span, hint)
        return depth

    # --- mutations ---

    def mutation(self, match: tuple[ast.Clause, ...] | None, *statements: ast.Statement) -> ast.MutationBody:
        return ast.MutationBody(statements, match)

    def assignment(self, name: Token, value: ast.Expression) -> ast.Assignment:
        return ast.Assignment(str(name), value, span=self.at(name))

    def insert(self, type: Token, *rest: Any) -> ast.InsertStatement:
        *assignments, _on_conflict, word, returning = rest
        policy = self._conflict_word(word)
        return ast.InsertStatement(str(type), present(assignments), policy, returning=returning, span=self.at(type))

    def _conflict_word(self, word: Token | None) -> ast.OnConflict | None:
        if word is None:
            return None
        known = {each.value: each for each in ast.OnConflict}
        if str(word) in known:
            return known[str(word)]
        message = f"expected {any_of(ast.OnConflict)} after `on conflict`, found {quoted(word)}"
        raise SourceFault(self._language.code("SYNTAX"), message, self.at(word), did_you_mean(word, ast.OnConflict))

    def update(self, type: Token, *rest: Any) -> ast.UpdateStatement:
        *assignments, where, returning = rest
        return ast.UpdateStatement(str(type), present(assignments), where, returning=returning, span=self.at(type))

    def update_matched(self, variable: Token, *rest: Any) -> ast.UpdateVariable:
        *assignments, returning = rest
        target = self.variable(variable)
        return ast.UpdateVariable(target, present(assignments), returning=returning, span=self.at(variable))

    def delete_matched(self, variable: Token, returning: ast.ReturningClause | None) -> ast.DeleteVariable:
        return ast.DeleteVariable(self.variable(variable), returning=returning, span=self.at(variable))

    def delete(self, type: Token, where: ast.Expression, returning: ast.ReturningClause | None) -> ast.DeleteStatement:
        return ast.DeleteStatement(str(type), where, returning=returning, span=self.at(type))

    def own_properties(self, star: Token) -> ast.OwnProperties:
        return ast.OwnProperties(span=self.at(star))

    def returning(
        self, begin: Token, *columns: ast.Projection | ast.AllProperties | ast.OwnProperties
    ) -> ast.ReturningClause:
        start = self.at(begin).start
        return ast.ReturningClause(columns, span=Span(start, start + len("returning")))

    def where(self, condition: ast.Expression | ast.TraversalClause) -> ast.Expression:
        return self._value(condition)


def _around(parts: Sequence[ast.Expression]) -> Span:
    return Span(parts[0].span.start, parts[-1].span.end)


def _depth_of(part: ast.Expression | ast.KeywordArgument) -> int:
    if isinstance(part, ast.KeywordArgument):
        part = part.value
    return part.depth if isinstance(part, ast.Nested) else 0


# --- edges that are called as operators ---


def _resolve_body(body: ast.Body, names: set[str]) -> ast.Body:
    if isinstance(body, ast.ReadBody):
        return _resolve_read(body, names)
    if isinstance(body, ast.UnionBody):
        order = _resolve_within(body.order, names)
        return replace(body, parts=tuple(_resolve_read(each, names) for each in body.parts), order=order)
    statements = tuple(_resolve_assignments(each, names) for each in body.statements)
    match = None if body.match is None else _resolve_clauses(body.match, names)
    return replace(body, statements=statements, match=match)


def _resolve_read(read: ast.ReadBody, values: set[str]) -> ast.ReadBody:
    """A read and its stages; `values` are the names that stand for values, as those of parameters do."""
    stages = []
    for stage in read.stages:
        stages.append(_resolve_read(stage, values))
        values = values | {name for each in stage.shape.returns if (name := _value_name(each, values)) is not None}
    match, shape = _resolve_clauses(read.match, values), _resolve_within(read.shape, values)
    return replace(read, match=match, shape=shape, stages=tuple(stages))


def _value_name(column: ast.Projection | ast.AllProperties, values: set[str]) -> str | None:
    """The variable that a column of a stage becomes, unless it is an entity."""
    if isinstance(column, ast.AllProperties):
        return None
    if isinstance(column.expression, ast.Variable):
        name = column.expression.name
        return (column.alias or name) if name in values else None
    return column.alias


def _resolve_clauses(clauses: Iterable[ast.Clause], values: set[str]) -> tuple[ast.Clause, ...]:
    """The clauses with `$a contains $b` read as a traversal unless one of the two is a value."""
    return tuple(_resolve_clause(clause, values) for clause in clauses)


def _resolve_clause(clause: ast.Clause, values: set[str]) -> ast.Clause:
    if isinstance(clause, ast.Negation | ast.OptionalClause):
        return replace(clause, clauses=_resolve_clauses(clause.clauses, values))
    if not isinstance(clause, ast.Filter):
        return clause
    step = _word_between(clause.condition)
    if step is not None and not values & {step[0].name, step[2].name}:
        return ast.TraversalClause(step[0], step[1], step[2], span=clause.span)
    return ast.Filter(_resolve_within(clause.condition, values), span=clause.span)


def _resolve_assignments(statement: ast.Statement, parameters: set[str]) -> ast.Statement:
    """The same for the patterns in values of a statement."""
    statement = replace(statement, returning=_resolve_within(statement.returning, parameters))
    if isinstance(statement, ast.DeleteStatement | ast.DeleteVariable):
        return statement
    assignments = tuple(replace(each, value=_resolve_within(each.value, parameters)) for each in statement.assignments)
    return replace(statement, assignments=assignments)


def _word_between(condition: ast.Expression) -> tuple[ast.Variable, str, ast.Variable] | None:
    """Two variables with a word between them that is an operator, and can be an edge."""
    match condition:
        case ast.ComparisonExpression(
            ast.Variable() as left, ast.Operator.CONTAINS | ast.Operator.STARTS_WITH as word, ast.Variable() as right
        ):
            return left, word.value, right
        case ast.Membership(ast.Variable() as left, ast.Variable() as right, False):
            return left, "in", right
        case ast.Disjunction((ast.Variable() as left, ast.Variable() as right)):
            return left, "or", right
        case ast.Conjunction((ast.Variable() as left, ast.Variable() as right)):
            return left, "and", right
    return None


def _resolve_within(part: Any, values: set[str]) -> Any:
    """The same, with the clauses of the patterns that are nested in it resolved."""
    if isinstance(part, ast.SubPatternExpression):
        return replace(part, clauses=_resolve_clauses(part.clauses, values))
    if isinstance(part, tuple):
        resolved = tuple(_resolve_within(each, values) for each in part)
        return part if all(one is other for one, other in zip(part, resolved, strict=True)) else resolved
    if isinstance(part, _HOLDS_EXPRESSIONS):
        inner = {each.name: getattr(part, each.name) for each in fields(part)}
        changed = {name: found for name, each in inner.items() if (found := _resolve_within(each, values)) is not each}
        return replace(part, **changed) if changed else part
    return part
