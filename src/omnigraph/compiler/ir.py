"""The typed intermediate form of a query: what both engines plan from.

Every node is frozen. Searching, ranking and fusing ranks are nodes like any other, so a planner sees them instead of
remembering flags. Conditions and traversals of a pattern carry no order: deciding it is the planner's work.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import TypeAlias

from omnigraph.catalog import PropertyType, Scalar, Value
from omnigraph.dataclass_later import dataclass
from omnigraph.syntax.query_ast import OnConflict, Operator, SubPatternKind

TARGET = "self:"
"""The variable under which an update or delete sees the entity that it decides on; no query can say it."""
STAGE = "stage:"
"""The variable whose columns are the values of the stage before; no query can say it."""
MATCHED = "match:"
"""The variable under which a statement sees the rows that `match` gives it."""


# --- expressions ---


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal that was read as a value of `type`; null has no type."""

    value: Value | None
    type: PropertyType | None

    @property
    def nullable(self) -> bool:
        return self.value is None


@dataclass(frozen=True, slots=True)
class ParameterValue:
    """The value given for a parameter."""

    name: str
    type: PropertyType
    nullable: bool


@dataclass(frozen=True, slots=True)
class Now:
    """The instant at which the query began: one for the whole query."""

    type: PropertyType = Scalar.DATETIME
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A property, or `id`, `src` or `dst`, of the entity that a variable is bound to."""

    variable: str
    name: str
    type: PropertyType
    nullable: bool


@dataclass(frozen=True, slots=True)
class Entity:
    """The whole entity that a variable is bound to; null where it is one of an optional pattern that does not fit."""

    variable: str
    nullable: bool = False


class AggregateFunction(StrEnum):
    """What an aggregate computes of the rows of a group."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    COLLECT = "collect"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One value for a group of rows; a count is that of the rows in which its argument is not null.

    When `distinct`, equal values count once, and a count of an entity counts different ones. `collect` gives a list of
    the values that are not null, in ascending order.
    """

    function: AggregateFunction
    argument: "Expression"
    type: PropertyType
    nullable: bool
    distinct: bool = False

    @property
    def counts_rows(self) -> bool:
        """Whether it needs no value of a row."""
        return isinstance(self.argument, Entity) and not self.argument.nullable and not self.distinct


@dataclass(frozen=True, slots=True)
class EmbeddedText:
    """A text turned into a vector by the model of the searched property, or by the configured one if it has none."""

    text: "Expression"
    model: str | None
    dimension: int


@dataclass(frozen=True, slots=True)
class VectorDistance:
    """``nearest``: the cosine distance of a vector property to a query vector; small is good."""

    column: Column
    query: "Expression | EmbeddedText"
    type: PropertyType = Scalar.F32
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class TextScore:
    """``bm25``: how well the words of a text property match a query text; large is good."""

    column: Column
    query: "Expression"
    type: PropertyType = Scalar.F32
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class RankFusion:
    """``rrf``: the sum of ``1 / (k + rank)`` over several rankings of the same entity; large is good."""

    rankings: tuple[VectorDistance | TextScore, ...]
    k: int
    type: PropertyType = Scalar.F64
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list some of whose elements are parameters."""

    items: tuple[Constant | ParameterValue, ...]
    type: PropertyType
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class BlobOfText:
    """The bytes that a text parameter stands for as ``"base64:…"``, where a Blob is written."""

    text: ParameterValue
    type: PropertyType = Scalar.BLOB

    @property
    def nullable(self) -> bool:
        return self.text.nullable


@dataclass(frozen=True, slots=True)
class Call:
    """A value that one of `omnigraph.operations.operations` computes of others, which have the types that it takes."""

    operation: str
    arguments: tuple["Expression", ...]
    type: PropertyType
    nullable: bool


@dataclass(frozen=True, slots=True)
class SubPattern:
    """Whether a nested pattern is found, or how often; it sees the variables around it."""

    kind: SubPatternKind
    pattern: "Pattern"
    nullable: bool = False

    @property
    def type(self) -> PropertyType:
        return Scalar.BOOL if self.kind is SubPatternKind.EXISTS else Scalar.I64


# --- conditions ---


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of two values; it is null where either is."""

    left: "Expression"
    operator: Operator
    right: "Expression"
    type: PropertyType = Scalar.BOOL

    @property
    def nullable(self) -> bool:
        return self.left.nullable or self.right.nullable


@dataclass(frozen=True, slots=True)
class SameEntity:
    """Whether two variables are bound to the same entity, or are not; null where one of them is bound to none."""

    left: str
    right: str
    negated: bool
    type: PropertyType = Scalar.BOOL
    nullable: bool = False


class TextMatchKind(StrEnum):
    """How the words of a query text must be found in a property."""

    SEARCH = "search"
    FUZZY = "fuzzy"
    MATCH_TEXT = "match_text"


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A full-text condition, never null; `edits` is how many letters a fuzzy match may differ by."""

    kind: TextMatchKind
    column: Column
    query: "Expression"
    edits: "Expression | None" = None
    type: PropertyType = Scalar.BOOL
    nullable: bool = False


Ranking: TypeAlias = VectorDistance | TextScore | RankFusion
Condition: TypeAlias = Comparison | SameEntity | TextMatch | Call | SubPattern | Column | ParameterValue | Constant
"""An expression that is a truth value. It holds where it is true."""

Expression: TypeAlias = (
    Constant
    | ParameterValue
    | ListOf
    | Now
    | Column
    | Entity
    | Aggregate
    | BlobOfText
    | Ranking
    | Call
    | SubPattern
    | Comparison
    | SameEntity
    | TextMatch
)


def parts_of(expression: Expression) -> tuple[Expression, ...]:
    """The expressions that one is computed from. Patterns that are nested in it are not looked into."""
    match expression:
        case Call(_, arguments):
            return arguments
        case Comparison(left, _, right):
            return left, right
        case Aggregate(_, argument):
            return (argument,)
        case SameEntity(left, right):
            return Entity(left), Entity(right)
        case TextMatch(_, column):
            return (column,)
        case VectorDistance(column) | TextScore(column):
            return (column,)
        case RankFusion(rankings):
            return rankings
    return ()


def expressions_in(expression: Expression) -> Iterator[Expression]:
    """An expression and all that it is computed from."""
    yield expression
    for part in parts_of(expression):
        yield from expressions_in(part)


def has_aggregate(expression: Expression) -> bool:
    """Whether a value is one of a group of rows, and not of a single row."""
    return any(isinstance(each, Aggregate) for each in expressions_in(expression))


def is_row_count(expression: Expression) -> bool:
    """Whether a value is the number of rows of a group."""
    if not isinstance(expression, Aggregate) or expression.function is not AggregateFunction.COUNT:
        return False
    argument = expression.argument
    is_always_there = isinstance(argument, Column) and not argument.nullable and not expression.distinct
    return expression.counts_rows or is_always_there


# --- patterns ---


class Direction(StrEnum):
    """Which way a traversal follows its edges, seen from its left end."""

    FORWARD = "forward"
    BACKWARD = "backward"
    EITHER = "either"


@dataclass(frozen=True, slots=True)
class NodeBinding:
    """A variable ranges over the nodes of these types; `interface` is the name they were asked for by."""

    variable: str
    types: tuple[str, ...]
    interface: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Path:
    source: str
    edge: str
    destination: str
    direction: Direction

    @property
    def ends_with_ids(self) -> tuple[str, ...]:
        """The ends whose ids the edges themselves hold; a path of no edge holds none."""
        is_empty = isinstance(self, Traversal) and self.minimum == 0
        return () if is_empty else (self.source, self.destination)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traversal(_Path):
    """Each pair of ends that is connected by a path of `minimum` to `maximum` edges, once."""

    minimum: int = 1
    maximum: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeBinding(_Path):
    """One row for each edge between the two ends, with the edge itself bound to `variable`."""

    variable: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSearch:
    """The shortest path between each pair of ends that one connects, or with `every` each of the shortest.

    A path has at least one edge, unless `minimum` is 0, where the path from a node to itself has none. The shortest
    paths are those of the fewest edges, or with `weight` those with the least sum of this property of their edges, of
    all that have at most `maximum` edges. A pair whose shortest path has fewer than `minimum` edges has none.
    """

    variable: str
    source: str
    destination: str
    edges: tuple[str, ...]
    ends: tuple[str, str]
    """The types of the first and of the last node."""
    direction: Direction
    minimum: int
    maximum: int | None
    every: bool = False
    weight: str | None = None

    @property
    def ends_with_ids(self) -> tuple[str, ...]:
        """The ends whose ids the edges themselves hold; a path of no edge holds none."""
        return () if self.minimum == 0 else (self.source, self.destination)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    """One row for each edge of a path: the node before it, the node after it, and the edge itself as `variable`."""

    path: str
    source: str
    destination: str
    edges: tuple[str, ...]
    """The types of the edges of the path; only one if the edge is bound."""
    ends: tuple[str, str]
    """The types of the two nodes; an edge between nodes of other types makes no row."""
    direction: Direction
    variable: str | None = None

    @property
    def ends_with_ids(self) -> tuple[str, ...]:
        """The ends whose ids the path holds."""
        return self.source, self.destination


Connection: TypeAlias = Traversal | EdgeBinding | PathSearch | PathStep
"""What connects two nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """What must be there, and in `absent` what must not; a nested pattern sees the variables around it.

    All conditions must hold: one that consists of several joined by `and` is split. Each of `optional` is found for the
    rows that nodes, traversals and those before it give: a row for each way in which it fits, or one in which its
    variables are null. What is in `conditions` and `absent` comes after them, and sees their variables.
    """

    nodes: tuple[NodeBinding, ...] = ()
    traversals: tuple[Traversal | EdgeBinding, ...] = ()
    paths: tuple[PathSearch, ...] = ()
    path_steps: tuple[PathStep, ...] = ()
    conditions: tuple[Condition, ...] = ()
    absent: tuple["Pattern", ...] = ()
    optional: tuple["Pattern", ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that it binds, in the order in which their ids settle the order of rows."""
        nodes = (node.variable for node in self.nodes)
        edges = (variable for variable, _ in self.bound_edges)
        return (*nodes, *edges, *(path.variable for path in self.paths), *self.optional_variables)

    @property
    def optional_variables(self) -> tuple[str, ...]:
        """Those that may be null."""
        return tuple(name for each in self.optional for name in each.variables)

    @property
    def connections(self) -> tuple[Connection, ...]:
        """Everything that connects two nodes."""
        return (*self.traversals, *self.paths, *self.path_steps)

    @property
    def bound_edges(self) -> Iterator[tuple[str, str]]:
        """The variables that are bound to edges, each with the type of the edge."""
        for each in self.traversals:
            if isinstance(each, EdgeBinding):
                yield each.variable, each.edge
        for step in self.path_steps:
            if step.variable is not None:
                yield step.variable, step.edges[0]


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column of the result."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of the order.

    After all keys, ties are broken by the order of the stage before, then by the ids of the entities bound since.
    """

    expression: Expression
    descending: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is made of the rows of a pattern: their columns, their order, and which of them are wanted.

    When `grouped`, there is a row for each group, and columns without an aggregate are the group's key; so distinct
    rows are groups without aggregates. Groups that do not meet all conditions of `having` are left out. The first
    `offset` rows in the order are left out; of those after them, `limit` are wanted. The rows of a part of a union are
    ordered with those of the others, so none is left out before.
    """

    columns: tuple[OutputColumn, ...]
    having: tuple[Condition, ...] = ()
    order: tuple[SortKey, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None
    grouped: bool = False
    is_part: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether only some of the rows are wanted."""
        return self.limit is not None or self.offset is not None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All that is computed of the rows, or of groups of them."""
        columns = (column.expression for column in self.columns)
        return (*columns, *self.having, *(key.expression for key in self.order))

    @property
    def keys(self) -> tuple[Expression, ...]:
        """The columns that no aggregate is in. Of groups, these are the key."""
        return tuple(column.expression for column in self.columns if not has_aggregate(column.expression))

    @property
    def entities(self) -> tuple[tuple[str, str], ...]:
        """The columns that are whole entities: the name of each, and its variable."""
        columns = ((column.name, column.expression) for column in self.columns)
        return tuple((name, value.variable) for name, value in columns if isinstance(value, Entity))


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A query that reads.

    With `stages`, each row of the pattern continues one row of the last stage, and each stage those of the one before.
    What a stage returns is all that is visible afterwards: an entity as the variable that its column is named after,
    and a value as a column of `STAGE`.
    """

    pattern: Pattern
    shape: Shape
    stages: tuple["Read", ...] = ()

    @property
    def columns(self) -> tuple[OutputColumn, ...]:
        """The columns of the answer."""
        return self.shape.columns


@dataclass(frozen=True, slots=True)
class UnionKey:
    """One key of the order of a union: a column of its parts, by its position."""

    index: int
    descending: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Union:
    """The rows of several reads, those that are equal in all columns once, or with `every` as often as they are found.

    The parts have the columns of `shape`, which have the same types in all of them, and after these what the rows are
    ordered by, where that is not one of them. Rows that are equal in all `keys` are ordered by their columns, from left
    to right: by the value, an entity by its id and then its type, a list by its elements. A part has a limit where its
    own order is this one: rows after as many others of the part are not wanted.
    """

    parts: tuple[Read, ...]
    every: bool
    shape: Shape
    keys: tuple[UnionKey, ...] = ()

    @property
    def columns(self) -> tuple[OutputColumn, ...]:
        """The columns of the answer, as the first part has them."""
        return self.shape.columns


# --- mutations ---


@dataclass(frozen=True, slots=True)
class NodeReference:
    """The end of a new edge: a node by its id, or by its key of one or more values."""

    type: str
    id: Expression | None = None
    key: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Returns:
    """A statement. The columns of `returning` are computed of each entity that it has written or deleted."""

    returning: tuple[OutputColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class InsertNode(_Returns):
    """A new node, or new values of the node that has its key or its id."""

    type: str
    values: tuple[tuple[str, Expression], ...]
    on_conflict: OnConflict = OnConflict.REFUSE
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class InsertEdge(_Returns):
    """A new edge between two nodes, or new values of the edge that has its id."""

    type: str
    source: NodeReference
    destination: NodeReference
    values: tuple[tuple[str, Expression], ...]
    on_conflict: OnConflict = OnConflict.REFUSE
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Update(_Returns):
    """New values for the properties of every entity that meets all conditions; they may be computed of old ones."""

    type: str
    values: tuple[tuple[str, Expression], ...]
    conditions: tuple[Condition, ...]
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Delete(_Returns):
    """The end of every entity that meets all conditions, and of the edges that touch it."""

    type: str
    conditions: tuple[Condition, ...]
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class UpdateMatched(_Returns):
    """New values for the entities whose ids `match` gives."""

    type: str
    id: Column
    values: tuple[tuple[str, Expression], ...]
    rows: int


@dataclass(frozen=True, slots=True)
class DeleteMatched(_Returns):
    """The end of the entities whose ids `match` gives, and of the edges that touch them."""

    type: str
    id: Column
    rows: int


Statement: TypeAlias = InsertNode | InsertEdge | Update | Delete | UpdateMatched | DeleteMatched


@dataclass(frozen=True, slots=True)
class Mutation:
    """Statements that become one commit; later ones see what earlier ones did.

    With `match`, each statement runs for the rows of one of the `reads`, which its `rows` numbers: the distinct rows of
    what it uses. Their columns are those of the variable `MATCHED`. At most one statement returns values.
    """

    statements: tuple[Statement, ...]
    match: Pattern | None = None
    reads: tuple[Read, ...] = ()


Body: TypeAlias = Read | Union | Mutation
