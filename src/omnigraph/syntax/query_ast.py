"""The syntax tree of a `.gq` query file."""

from dataclasses import field
from enum import StrEnum
from typing import TypeAlias

from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Span
from omnigraph.syntax.nodes import Annotation, Literal, Node, ScalarLiteral, TypeExpression

THROWAWAY = "_"


class Operator(StrEnum):
    """How two values are compared."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    CONTAINS = "contains"
    STARTS_WITH = "starts_with"


@dataclass(frozen=True, slots=True)
class Variable(Node):
    """``$x``: a parameter, or an entity that the pattern binds."""

    name: str


@dataclass(frozen=True, slots=True)
class PropertyAccess(Node):
    """``$x.property``"""

    variable: Variable
    name: str

    @property
    def name_span(self) -> Span:
        """Where the property's name stands."""
        return Span(self.span.end - len(self.name), self.span.end)


@dataclass(frozen=True, slots=True)
class BareName(Node):
    """A name without a dollar: an alias in `order`, or a property of the entity that a statement changes."""

    name: str


@dataclass(frozen=True, slots=True)
class KeywordArgument(Node):
    """``k=60`` in a call."""

    name: str
    value: "Expression"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested(Node):
    """What holds other expressions. `depth` is how many of them lie within each other; the builder bounds it."""

    depth: int = field(default=1, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FunctionCall(Nested):
    """``name(arguments)`` or ``name(distinct argument)``; which names are functions is the typechecker's to say."""

    function: str
    arguments: tuple["Expression", ...] = ()
    keywords: tuple[KeywordArgument, ...] = ()
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class ListExpression(Node):
    """``[$a, 3]``: a list with a parameter in it."""

    items: tuple[ScalarLiteral | Variable, ...]


# --- conditions and computed values ---


@dataclass(frozen=True, slots=True)
class ComparisonExpression(Nested):
    """``left operator right``"""

    left: "Expression"
    operator: Operator
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Membership(Nested):
    """``value in choices``, or ``not in``."""

    value: "Expression"
    choices: "Expression"
    negated: bool = False


@dataclass(frozen=True, slots=True)
class NullTest(Nested):
    """``value is null``, or ``is not null``."""

    value: "Expression"
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Disjunction(Nested):
    """``a or b or c``"""

    conditions: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Conjunction(Nested):
    """``a and b and c``"""

    conditions: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Inversion(Nested):
    """``not condition``"""

    condition: "Expression"


class ArithmeticOperator(StrEnum):
    """What is computed of two numbers."""

    PLUS = "+"
    MINUS = "-"
    TIMES = "*"
    DIVIDED_BY = "/"
    MODULO = "%"


@dataclass(frozen=True, slots=True)
class Arithmetic(Nested):
    """``left operator right``"""

    left: "Expression"
    operator: ArithmeticOperator
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Negative(Nested):
    """``-value``, where the value is not a number itself."""

    value: "Expression"


@dataclass(frozen=True, slots=True)
class Cast(Nested):
    """``cast(value as type)``"""

    value: "Expression"
    type: TypeExpression


@dataclass(frozen=True, slots=True)
class Branch(Node):
    """``when condition then value``"""

    condition: "Expression"
    value: "Expression"


@dataclass(frozen=True, slots=True)
class Case(Nested):
    """``case when condition then value … end``, with `else` or without"""

    branches: tuple[Branch, ...]
    otherwise: "Expression | None" = None


class SubPatternKind(StrEnum):
    """What is asked of a nested pattern."""

    EXISTS = "exists"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class SubPatternExpression(Node):
    """``exists { clauses }`` or ``count { clauses }``"""

    kind: SubPatternKind
    clauses: tuple["Clause", ...]


Computed: TypeAlias = (
    ComparisonExpression
    | Membership
    | NullTest
    | Disjunction
    | Conjunction
    | Inversion
    | Arithmetic
    | Negative
    | Cast
    | Case
    | SubPatternExpression
)
Expression: TypeAlias = Literal | ListExpression | Variable | PropertyAccess | BareName | FunctionCall | Computed


# --- clauses ---


@dataclass(frozen=True, slots=True)
class Assignment(Node):
    """``property: value``, with the span of the property's name."""

    property: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Binding(Node):
    """``$x: Type { property: value }``, with the span of the type's name."""

    variable: Variable
    type: str
    properties: tuple[Assignment, ...] = ()


@dataclass(frozen=True, slots=True)
class Hops(Node):
    """``{minimum,maximum}``; no maximum means as far as it goes."""

    minimum: int
    maximum: int | None


@dataclass(frozen=True, slots=True)
class TraversalClause(Node):
    """``$a edge{1,2} $b``, ``$a <edge> $b``, ``$a $w:edge $b`` or ``$a $w:<edge> $b``; its span is the edge's name."""

    source: Variable
    edge: str
    destination: Variable
    hops: Hops | None = None
    undirected: bool = False
    binding: Variable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PathClause(Node):
    """``$path: shortest $a edge|other{1,6} $b by weight``, with `every` ``all shortest``, where its span is."""

    variable: Variable
    source: Variable
    edges: tuple[BareName, ...]
    destination: Variable
    hops: Hops
    every: bool = False
    undirected: bool = False
    weight: BareName | None = None


@dataclass(frozen=True, slots=True)
class PathStepClause(Node):
    """``$x $path $y`` or ``$x $w:$path $y``: nodes that follow each other on a path; its span is that of the path."""

    source: Variable
    path: Variable
    destination: Variable
    binding: Variable | None = None


@dataclass(frozen=True, slots=True)
class Filter(Node):
    """A condition that stands as a clause of its own."""

    condition: Expression


@dataclass(frozen=True, slots=True)
class Negation(Node):
    """``not { clauses }``"""

    clauses: tuple["Clause", ...]


@dataclass(frozen=True, slots=True)
class OptionalClause(Node):
    """``optional { clauses }``"""

    clauses: tuple["Clause", ...]


Clause: TypeAlias = Binding | TraversalClause | PathClause | PathStepClause | Filter | Negation | OptionalClause


@dataclass(frozen=True, slots=True)
class Projection(Node):
    """``expression as alias``"""

    expression: Expression
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class AllProperties(Node):
    """``$x.*``: a column for each property"""

    variable: Variable


@dataclass(frozen=True, slots=True)
class OwnProperties(Node):
    """``*`` in `returning`: a column for each property of what the statement writes or deletes."""


@dataclass(frozen=True, slots=True)
class OrderKey(Node):
    """``expression desc``; without a direction, a ranking is sorted best first and any other value ascending."""

    expression: Expression
    descending: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeClause(Node):
    """``return { … } having { … } order { … } limit n offset m``: what is made of the rows of a pattern."""

    returns: tuple[Projection | AllProperties, ...]
    distinct: bool = False
    having: tuple[Expression, ...] = ()
    order: tuple[OrderKey, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None


@dataclass(frozen=True, slots=True)
class ReadBody(Node):
    """``match { … }`` and what is made of the rows that match.

    The `stages` before it say ``with`` in place of ``return``; each continues from the rows of the one before, and the
    read from those of the last. The span of a stage is its ``with``.
    """

    match: tuple[Clause, ...]
    shape: ShapeClause
    stages: tuple["ReadBody", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionBody(Node):
    """``… union …``, or with `every` ``… union all …``: the rows of several reads.

    What orders and cuts all rows is written after the last part. The span of a part is the ``union`` before it.
    """

    parts: tuple[ReadBody, ...]
    every: bool = False
    order: tuple[OrderKey, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None


class OnConflict(StrEnum):
    """What an insert does with an entity that is there already."""

    UPDATE = "update"
    REPLACE = "replace"
    REFUSE = "refuse"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class ReturningClause(Node):
    """``returning { … }``: the values of each entity that a statement wrote or deleted; the span is the word."""

    columns: tuple["Projection | AllProperties | OwnProperties", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _MayReturn(Node):
    """A statement, which may say what it returns."""

    returning: ReturningClause | None = None


@dataclass(frozen=True, slots=True)
class InsertStatement(_MayReturn):
    """``insert Type { … } on conflict update``; spans of statements are those of their type names."""

    type: str
    assignments: tuple[Assignment, ...]
    on_conflict: OnConflict | None = None


@dataclass(frozen=True, slots=True)
class UpdateStatement(_MayReturn):
    """``update Type set { … } where condition``"""

    type: str
    assignments: tuple[Assignment, ...]
    where: Expression


@dataclass(frozen=True, slots=True)
class DeleteStatement(_MayReturn):
    """``delete Type where condition``"""

    type: str
    where: Expression


@dataclass(frozen=True, slots=True)
class UpdateVariable(_MayReturn):
    """``update $x set { … }``"""

    variable: Variable
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class DeleteVariable(_MayReturn):
    """``delete $x``"""

    variable: Variable


Statement: TypeAlias = InsertStatement | UpdateStatement | DeleteStatement | UpdateVariable | DeleteVariable


@dataclass(frozen=True, slots=True)
class MutationBody(Node):
    """One or more statements, which become one commit; `match` gives the rows that they run for, if it is there."""

    statements: tuple[Statement, ...]
    match: tuple[Clause, ...] | None = None


Body: TypeAlias = ReadBody | UnionBody | MutationBody


@dataclass(frozen=True, slots=True)
class ParameterDeclaration(Node):
    """``$x: Type``, with the span of the variable."""

    name: str
    type: TypeExpression


@dataclass(frozen=True, slots=True)
class Query(Node):
    """``query name($x: Type) { … }``, with the span of the name.

    Without a header it is only what stands in the braces. The name is empty then, and the span is the first character.
    """

    name: str
    parameters: tuple[ParameterDeclaration, ...]
    annotations: tuple[Annotation, ...]
    body: Body


@dataclass(frozen=True, slots=True)
class QueryFile(Node):
    """All queries of one file, in source order."""

    queries: tuple[Query, ...]
