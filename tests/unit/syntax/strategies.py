"""Random syntax trees, as hypothesis strategies."""

import re
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TypeVar

from hypothesis import strategies as st

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
from omnigraph.syntax.printer import print_clause, print_expression
from omnigraph.syntax.query_ast import (
    AllProperties,
    Arithmetic,
    ArithmeticOperator,
    Assignment,
    BareName,
    Binding,
    Body,
    Branch,
    Case,
    Cast,
    Clause,
    ComparisonExpression,
    Conjunction,
    DeleteStatement,
    DeleteVariable,
    Disjunction,
    Expression,
    Filter,
    FunctionCall,
    Hops,
    InsertStatement,
    Inversion,
    KeywordArgument,
    ListExpression,
    Membership,
    MutationBody,
    Negation,
    Negative,
    NullTest,
    OnConflict,
    Operator,
    OptionalClause,
    OrderKey,
    OwnProperties,
    ParameterDeclaration,
    PathClause,
    PathStepClause,
    Projection,
    PropertyAccess,
    Query,
    QueryFile,
    ReadBody,
    ReturningClause,
    ShapeClause,
    SubPatternExpression,
    SubPatternKind,
    TraversalClause,
    UnionBody,
    UpdateStatement,
    UpdateVariable,
    Variable,
)
from omnigraph.syntax.schema_ast import (
    EdgeDeclaration,
    InterfaceDeclaration,
    NodeDeclaration,
    PropertyDeclaration,
    SchemaFile,
)
from omnigraph.syntax.schema_builder import is_constraint

T = TypeVar("T")

# Keywords are names too, wherever they are not keywords.
_WORDS = (
    "query match with return having order limit offset distinct not as asc desc insert update delete set where and"
    " contains starts_with or in is case when then else end shortest all by optional returning union"
)
_KEYWORDS = frozenset(_WORDS.split())
names = st.one_of(
    st.from_regex(r"[a-z_][A-Za-z0-9_]{0,6}", fullmatch=True),
    st.from_regex(r"[A-Z][A-Za-z0-9_]{0,6}", fullmatch=True),
    st.sampled_from(sorted(_KEYWORDS)),
).filter(lambda name: name not in ("true", "false", "null", "enum", "date", "datetime"))
system_names = st.sampled_from(["@id", "@src", "@dst", "@type"])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def tuples_of(strategy: st.SearchStrategy[T], *, least: int = 0, most: int = 3) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(strategy, min_size=least, max_size=most).map(tuple)


numbers = st.one_of(
    st.integers(-(2**63), 2**64 - 1).map(IntLiteral),
    st.floats(allow_nan=False, allow_infinity=False).map(FloatLiteral),
)
instants = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)).map(  # noqa: DTZ001
    lambda instant: instant.replace(microsecond=instant.microsecond // 1000 * 1000)
)
scalars = st.one_of(
    texts.map(TextLiteral),
    numbers,
    st.booleans().map(BoolLiteral),
    st.just(NullLiteral()),
    st.dates(date(1, 1, 1)).map(DateLiteral),
    instants.map(DateTimeLiteral),
)
literals: st.SearchStrategy[Literal] = st.one_of(scalars, tuples_of(scalars).map(ListLiteral))

enum_values = st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True)
simple_types = st.one_of(
    st.builds(NamedType, names, st.booleans()),
    st.builds(VectorType, st.integers(0, 10**9 - 1), st.booleans()),
    st.builds(EnumType, tuples_of(enum_values, least=1), st.booleans()),
)
types: st.SearchStrategy[TypeExpression] = st.recursive(
    simple_types, lambda inner: st.builds(ListType, inner, st.booleans()), max_leaves=3
)

annotation_values: st.SearchStrategy[AnnotationValue] = st.one_of(
    literals,
    (names | system_names).map(NameArgument),
    st.builds(RangeArgument, st.none() | numbers, st.none() | numbers),
)
arguments = st.builds(Argument, annotation_values, st.none() | names)
annotations = st.builds(
    Annotation, st.sampled_from(["key", "unique", "range", "embed", "card"]) | names, tuples_of(arguments)
)
constraints = annotations.filter(is_constraint)
notes = annotations.filter(lambda annotation: not is_constraint(annotation))
properties = st.builds(PropertyDeclaration, names, types, tuples_of(notes, most=2))
name_arguments = st.from_regex(r"[A-Z][A-Za-z0-9_]{0,6}", fullmatch=True).map(NameArgument)

notes_and_members = (tuples_of(annotations, most=2), tuples_of(properties), tuples_of(constraints, most=2))
declarations = st.one_of(
    st.builds(InterfaceDeclaration, names, tuples_of(name_arguments, most=2), *notes_and_members),
    st.builds(NodeDeclaration, names, tuples_of(name_arguments, most=2), *notes_and_members),
    st.builds(EdgeDeclaration, names, name_arguments, name_arguments, *notes_and_members),
)
schemas = st.builds(SchemaFile, tuples_of(declarations, most=3))

# --- queries ---

variables = (names | st.just("_")).map(Variable)
lists = st.builds(lambda first, rest: ListExpression((first, *rest)), variables, tuples_of(scalars | variables))
# Words that are keywords where a value begins, or together with the word before or after it.
values_names = names.filter(lambda name: name not in ("not", "in", "is", "case", "when", "then", "else", "end"))
simple_expressions: st.SearchStrategy[Expression] = st.one_of(
    literals, lists, variables, st.builds(PropertyAccess, variables, names | system_names), values_names.map(BareName)
)


def _calls(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    # `k = 3` in a call is an argument by name, and `distinct` after its bracket is no name.
    given = inner.filter(lambda each: re.match(r"\w+ = |distinct\b", print_expression(each)) is None)
    keywords = st.builds(KeywordArgument, values_names.filter(lambda name: name != "distinct"), inner)
    plain = st.builds(FunctionCall, values_names, tuples_of(given), tuples_of(keywords, most=2))
    # `date(distinct $x)` is no call of a literal.
    return plain | st.builds(FunctionCall, values_names, tuples_of(given, least=1), st.just(()), st.just(True))


def _sums(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    # A minus before a number is part of the number.
    negated = inner.filter(lambda each: not isinstance(each, IntLiteral | FloatLiteral))
    return st.one_of(
        _calls(inner),
        st.builds(Arithmetic, inner, st.sampled_from(ArithmeticOperator), inner),
        st.builds(Negative, negated),
        # `distinct` after the bracket of a call is no name.
        st.builds(Cast, inner.filter(lambda each: re.match(r"distinct\b", print_expression(each)) is None), types),
        st.builds(Case, tuples_of(st.builds(Branch, inner, inner), least=1, most=2), st.none() | inner),
    )


def _conditions(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.one_of(
        _sums(inner),
        st.builds(ComparisonExpression, inner, st.sampled_from(Operator), inner),
        st.builds(Membership, inner, inner, st.booleans()),
        st.builds(NullTest, inner, st.booleans()),
        st.builds(Disjunction, tuples_of(inner, least=2)),
        st.builds(Conjunction, tuples_of(inner, least=2)),
        st.builds(Inversion, inner),
    )


sums: st.SearchStrategy[Expression] = st.recursive(simple_expressions, _sums, max_leaves=4)
flat_expressions: st.SearchStrategy[Expression] = st.recursive(simple_expressions, _conditions, max_leaves=6)
assignments = tuples_of(st.builds(Assignment, names, sums))
hops = st.integers(0, 5).flatmap(lambda low: st.builds(Hops, st.just(low), st.none() | st.integers(max(low, 1), 9)))


_NO_CONDITIONS = Literal | ListExpression | Variable | BareName | Arithmetic | Negative


def _may_follow_a_value(clause: Clause) -> bool:
    """Clauses follow each other without a comma, so one cannot start with what could continue the last."""
    text = print_clause(clause)
    first = re.match(r"\w+", text)
    if isinstance(clause, Filter) and isinstance(clause.condition, Inversion):
        return True
    return not text.startswith(("-", "(")) and (first is None or first[0] not in _KEYWORDS)


def _expressions(parameters: frozenset[str]) -> st.SearchStrategy[Expression]:
    """Expressions of a query with these parameters."""
    nested = st.builds(SubPatternExpression, st.sampled_from(SubPatternKind), tuples_of(_clauses(parameters), most=2))
    return flat_expressions | nested | st.builds(ComparisonExpression, nested, st.just(Operator.GREATER), sums)


def _clauses(parameters: frozenset[str]) -> st.SearchStrategy[Clause]:
    """Clauses of a query with these parameters, which decide how `$a contains $b` reads."""
    words = ("contains", "starts_with", "in", "or", "and")

    def reads_as_filter(clause: Filter) -> bool:
        if isinstance(clause.condition, _NO_CONDITIONS):
            return False
        match = re.fullmatch(rf"\$(\w+) (?:{'|'.join(words)}) \$(\w+)", print_clause(clause))
        return match is None or bool(parameters & {match[1], match[2]})

    def reads_as_traversal(clause: TraversalClause) -> bool:
        ambiguous = clause.edge in words and clause.hops is None and not clause.undirected and clause.binding is None
        return not ambiguous or not parameters & {clause.source.name, clause.destination.name}

    edges = names | st.sampled_from(words)
    flat = st.one_of(
        st.builds(Binding, variables, names.filter(lambda name: name not in ("shortest", "all")), assignments),
        st.builds(
            PathClause,
            variable=variables,
            source=variables,
            edges=tuples_of(st.builds(BareName, edges), least=1),
            destination=variables,
            hops=hops,
            every=st.booleans(),
            undirected=st.booleans(),
            weight=st.none() | st.builds(BareName, names),
        ),
        st.builds(PathStepClause, variables, variables, variables, st.none() | variables),
        st.builds(TraversalClause, variables, edges, variables, st.none() | hops, st.booleans()).filter(
            reads_as_traversal
        ),
        st.builds(TraversalClause, variables, edges, variables, st.none() | hops, st.booleans(), variables),
        st.builds(Filter, flat_expressions).filter(reads_as_filter).filter(_may_follow_a_value),
    )
    return st.recursive(
        flat,
        lambda inner: st.one_of(
            st.builds(Negation, tuples_of(inner)),
            st.builds(OptionalClause, tuples_of(inner)),
            st.builds(Filter, st.builds(SubPatternExpression, st.sampled_from(SubPatternKind), tuples_of(inner))),
        ),
        max_leaves=4,
    )


# Values of stages decide how a clause is read, so they have names that no variable of a clause has.
_carried_names = st.none() | st.sampled_from(["carried_value", "another_value"])
_column_names = st.none() | names


def _shapes(
    parameters: frozenset[str], column_names: st.SearchStrategy[str | None] = _column_names
) -> st.SearchStrategy[ShapeClause]:
    counts = st.none() | st.integers(0, 100).map(IntLiteral) | variables
    return st.builds(
        ShapeClause,
        returns=tuples_of(
            st.builds(Projection, _expressions(parameters), column_names) | st.builds(AllProperties, variables)
        ),
        distinct=st.booleans(),
        having=tuples_of(_expressions(parameters).filter(lambda each: _may_follow_a_value(Filter(each))), most=2),
        order=tuples_of(st.builds(OrderKey, _expressions(parameters), st.none() | st.booleans()), most=2),
        limit=counts,
        offset=counts,
    )


def _reads(parameters: frozenset[str]) -> st.SearchStrategy[ReadBody]:
    matches = tuples_of(_clauses(parameters))
    stages = st.builds(ReadBody, matches, _shapes(parameters, _carried_names))
    return st.builds(ReadBody, matches, _shapes(parameters), tuples_of(stages, most=2))


def _unions(parameters: frozenset[str]) -> st.SearchStrategy[UnionBody]:
    """The order and the limit of the last part are those of all."""
    plain = _reads(parameters).map(
        lambda read: replace(read, shape=replace(read.shape, order=(), limit=None, offset=None))
    )
    shapes = _shapes(parameters)
    return st.builds(
        lambda parts, every, page: UnionBody(
            parts=parts, every=every, order=page.order, limit=page.limit, offset=page.offset
        ),
        tuples_of(plain, least=2, most=2),
        st.booleans(),
        shapes,
    )


def _bodies(parameters: frozenset[str]) -> st.SearchStrategy[Body]:
    return _reads(parameters) | _unions(parameters) | _mutations(parameters)


own_names = (values_names.filter(lambda name: name not in ("true", "false", "null")) | system_names).map(BareName)
predicates = flat_expressions | st.builds(ComparisonExpression, own_names, st.sampled_from(Operator), sums)
returned = st.one_of(
    st.builds(Projection, flat_expressions, _column_names),
    st.builds(AllProperties, variables),
    st.just(OwnProperties()),
)
returning = st.none() | st.builds(ReturningClause, tuples_of(returned))
statements = st.one_of(
    st.builds(InsertStatement, names, assignments, st.none() | st.sampled_from(OnConflict), returning=returning),
    st.builds(UpdateStatement, names, assignments, predicates, returning=returning),
    st.builds(DeleteStatement, names, predicates, returning=returning),
    st.builds(UpdateVariable, variables, assignments, returning=returning),
    st.builds(DeleteVariable, variables, returning=returning),
)


def _mutations(parameters: frozenset[str]) -> st.SearchStrategy[MutationBody]:
    return st.builds(MutationBody, tuples_of(statements, least=1), st.none() | tuples_of(_clauses(parameters)))


def _queries(parameters: tuple[ParameterDeclaration, ...]) -> st.SearchStrategy[Query]:
    declared = frozenset(parameter.name for parameter in parameters)
    return st.builds(Query, names, st.just(parameters), tuples_of(annotations, most=2), _bodies(declared))


_headless = st.builds(Query, st.just(""), st.just(()), st.just(()), _bodies(frozenset()))
query_files = st.builds(
    QueryFile, tuples_of(tuples_of(st.builds(ParameterDeclaration, names, types)).flatmap(_queries), most=2)
) | _headless.map(lambda query: QueryFile((query,)))
