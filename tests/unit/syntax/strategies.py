"""Random syntax trees, as hypothesis strategies."""

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
from omnigraph.syntax.query_ast import (
    Assignment,
    BareName,
    Binding,
    Clause,
    DeleteStatement,
    Expression,
    Filter,
    FunctionCall,
    Hops,
    InsertStatement,
    KeywordArgument,
    ListExpression,
    MutationBody,
    Negation,
    Operator,
    OrderKey,
    ParameterDeclaration,
    Projection,
    PropertyAccess,
    Query,
    QueryFile,
    ReadBody,
    SearchFilter,
    TraversalClause,
    UpdateStatement,
    Variable,
    WhereCondition,
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
_WORDS = "query match return order limit not as asc desc insert update delete set where and contains starts_with"
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
simple_expressions: st.SearchStrategy[Expression] = st.one_of(
    literals, lists, variables, st.builds(PropertyAccess, variables, names | system_names), names.map(BareName)
)
expressions: st.SearchStrategy[Expression] = st.recursive(
    simple_expressions,
    lambda inner: st.builds(
        FunctionCall, names, tuples_of(inner), tuples_of(st.builds(KeywordArgument, names, inner), most=2)
    ),
    max_leaves=4,
)
calls = st.builds(FunctionCall, names.filter(lambda name: name not in _KEYWORDS), tuples_of(simple_expressions))
assignments = tuples_of(st.builds(Assignment, names, expressions))
hops = st.integers(0, 5).flatmap(lambda low: st.builds(Hops, st.just(low), st.none() | st.integers(max(low, 1), 9)))


def _starts_with_a_keyword(clause: Filter) -> bool:
    """Clauses follow each other without a comma, so one cannot start with a word that could continue the last."""
    first = clause.left
    return (isinstance(first, BareName) and first.name in _KEYWORDS) or (
        isinstance(first, FunctionCall) and first.function in _KEYWORDS
    )


def _clauses(parameters: frozenset[str]) -> st.SearchStrategy[Clause]:
    """Clauses of a query with these parameters, which decide how `$a contains $b` reads."""
    words = (Operator.CONTAINS, Operator.STARTS_WITH)

    def reads_as_filter(clause: Filter) -> bool:
        ends = [side.name for side in (clause.left, clause.right) if isinstance(side, Variable)]
        ambiguous = len(ends) == 2 and clause.operator in words
        return not ambiguous or bool(parameters & set(ends))

    def reads_as_traversal(clause: TraversalClause) -> bool:
        ambiguous = clause.edge in words and clause.hops is None and not clause.undirected and clause.binding is None
        return not ambiguous or not parameters & {clause.source.name, clause.destination.name}

    edges = names | st.sampled_from(words).map(str)
    flat = st.one_of(
        st.builds(Binding, variables, names, assignments),
        st.builds(TraversalClause, variables, edges, variables, st.none() | hops, st.booleans()).filter(
            reads_as_traversal
        ),
        st.builds(TraversalClause, variables, edges, variables, st.none() | hops, st.booleans(), variables),
        st.builds(Filter, expressions, st.sampled_from(Operator), expressions)
        .filter(reads_as_filter)
        .filter(lambda clause: not _starts_with_a_keyword(clause)),
        calls.map(SearchFilter),
    )
    return st.recursive(flat, lambda inner: st.builds(Negation, tuples_of(inner)), max_leaves=4)


def _reads(parameters: frozenset[str]) -> st.SearchStrategy[ReadBody]:
    return st.builds(
        ReadBody,
        tuples_of(_clauses(parameters)),
        tuples_of(st.builds(Projection, expressions, st.none() | names)),
        tuples_of(st.builds(OrderKey, expressions, st.none() | st.booleans()), most=2),
        st.none() | st.integers(0, 100).map(IntLiteral) | variables,
    )


predicates = tuples_of(st.builds(WhereCondition, names | system_names, st.sampled_from(Operator), expressions), least=1)
statements = st.one_of(
    st.builds(InsertStatement, names, assignments),
    st.builds(UpdateStatement, names, assignments, predicates),
    st.builds(DeleteStatement, names, predicates),
)
mutations = st.builds(MutationBody, tuples_of(statements, least=1))


def _queries(parameters: tuple[ParameterDeclaration, ...]) -> st.SearchStrategy[Query]:
    declared = frozenset(parameter.name for parameter in parameters)
    return st.builds(Query, names, st.just(parameters), tuples_of(annotations, most=2), _reads(declared) | mutations)


query_files = st.builds(
    QueryFile, tuples_of(tuples_of(st.builds(ParameterDeclaration, names, types)).flatmap(_queries), most=2)
)
