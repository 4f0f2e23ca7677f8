"""The plan of a read as data: what is read, what is walked, and what is left for a relational engine.

A step fills one relation. Steps run in order, and an earlier one narrows the later ones: once the ids of a variable
are known, only the rows that can still match are read. Narrowing never decides anything; the rows of the answer are
those that the relational rest keeps.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa

from omnigraph.catalog import PropertyType, Value
from omnigraph.catalog.model import ID
from omnigraph.compiler.ir import Direction, PathSearch, TextMatchKind
from omnigraph.compiler.paths import LENGTH
from omnigraph.dataclass_later import dataclass
from omnigraph.storage.tables import Table

if TYPE_CHECKING:
    from sqlglot import exp

# Fields of relations that are not columns of a table; a property cannot have such a name.
SOURCE_END, DESTINATION_END, TYPE, PATH, EDGE = "@source", "@destination", "@type", "@path", "@edge"


@dataclass(frozen=True, slots=True)
class Relation:
    """The rows that a step makes.

    In SQL the fields are called ``c0``, ``c1``, …, because SQL folds the case of names and a query does not: ``$a`` and
    ``$A`` are two variables.
    """

    name: str
    fields: tuple[str, ...]
    schema: pa.Schema

    def alias(self, field: str) -> str:
        """The SQL name of a field."""
        return f"c{self.fields.index(field)}"


@dataclass(frozen=True, slots=True)
class TableScan:
    """Some columns of one table, of the rows that pass the filter."""

    table_key: str
    type: str
    columns: tuple[str, ...]
    filter: str | None = None


# --- fields that are computed from a row ---


@dataclass(frozen=True, slots=True)
class TextMatching:
    """Whether the words are found in a text."""

    column: str
    kind: TextMatchKind
    words: tuple[str, ...]
    edits: int = 0


@dataclass(frozen=True, slots=True)
class TextToEmbed:
    """A text that a model must turn into a vector before the query can run."""

    text: str
    model: str | None
    dimension: int


@dataclass(frozen=True, slots=True)
class Distance:
    """The cosine distance of a vector to the query; of nothing when the query is null."""

    column: str
    query: tuple[float, ...] | TextToEmbed | None


@dataclass(frozen=True, slots=True)
class Relevance:
    """The BM25 score of a text. The texts of `corpus` decide how rare a word is, whatever the other conditions are."""

    column: str
    words: tuple[str, ...]
    corpus: tuple[TableScan, ...]


Computed: TypeAlias = TextMatching | Distance | Relevance


# --- steps ---


@dataclass(frozen=True, slots=True)
class End:
    """The node at one end of an edge: a variable, and the type that the edge leads to.

    An outer end belongs to a pattern around: what is absent does not narrow it.
    """

    variable: str
    type: str
    is_outer: bool = False


@dataclass(frozen=True, slots=True)
class Best:
    """What is asked of a ranking: the first `count` rows, and all that are as good as the last of them.

    When it is `settled`, nothing but the id decides between rows that are equally good.
    """

    field: str
    count: int
    settled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeScan:
    """The nodes that a variable may be bound to.

    `computed` are the last fields of the relation. Rows that are false in a field of `required` are dropped. With
    `best`, other rows than the best may be left out.
    """

    relation: Relation
    variable: str
    tables: tuple[TableScan, ...]
    computed: tuple[Computed, ...] = ()
    required: tuple[str, ...] = ()
    best: Best | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeScan:
    """A row for each edge, and for each of its orientations that fits."""

    relation: Relation
    variable: str
    table: TableScan
    source: End
    destination: End
    direction: Direction
    computed: tuple[Computed, ...] = ()
    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Each pair of ends that is `minimum` to `maximum` edges apart, once. It begins at `start`."""

    relation: Relation
    table_key: str
    direction: Direction
    minimum: int
    maximum: int | None
    source: End
    destination: End
    start: str


@dataclass(frozen=True, slots=True)
class PathTable:
    """A table of edges that a path may have, with the types of their ends."""

    table_key: str
    type: str
    source: str
    destination: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PathWalk:
    """The shortest paths between each pair of ends, numbered in their order.

    Without `is_traced`, it is not needed over which nodes and edges they lead.
    """

    relation: Relation
    variable: str
    search: PathSearch
    tables: tuple[PathTable, ...]
    node_types: tuple[str, ...]
    source: End
    destination: End
    is_traced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PathEdges:
    """A row for each edge of each path of a search, and for the nodes before and after it."""

    relation: Relation
    path: str
    """The variable of the path."""
    source: End
    destination: End


Step: TypeAlias = NodeScan | EdgeScan | Walk | PathWalk | PathEdges


# --- the answer ---


@dataclass(frozen=True, slots=True)
class ValueOutput:
    """A column of the answer, taken from a column of the rows."""

    name: str
    index: int
    type: PropertyType


@dataclass(frozen=True, slots=True)
class EntityOutput:
    """A whole entity or path, put together from columns of the rows; if it is optional, null where it has no key."""

    name: str
    fields: tuple[ValueOutput, ...]
    is_optional: bool = False

    @property
    def key(self) -> ValueOutput:
        """A field that every entity or every path has."""
        return next(field for field in self.fields if field.name in (ID, LENGTH))


@dataclass(frozen=True, slots=True)
class ConstantOutput:
    """The same value in each row; null has no type."""

    name: str
    value: Value | None
    type: PropertyType | None


Output: TypeAlias = ValueOutput | EntityOutput | ConstantOutput


@dataclass(frozen=True, slots=True)
class DirectSort:
    """A key of the order by which rows of a single relation are sorted."""

    alias: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Direct:
    """The rest of a read of one variable, where the scan has done everything but sorting and cutting.

    The rows never leave Arrow: starting a relational engine would cost more than such a query.
    """

    order: tuple[DirectSort, ...]


@dataclass(frozen=True, slots=True)
class Count:
    """The rest of a read that only counts rows of a pattern without circles, each variable bound on its own.

    The number is found by adding up along the walks, without making the rows.
    """


@dataclass(frozen=True, slots=True)
class Relational:
    """The rest of a read as SQL over the relations of the steps.

    Values never stand in the text: they are parameters.
    """

    statement: "exp.Select"
    parameters: Mapping[str, Value]

    def duckdb_sql(self, *, pretty: bool = False) -> str:
        """The statement as DuckDB reads it.

        By its name, sqlglot would also find a dialect that another thread has not finished loading, which writes
        parameters differently; so it is given by its class.
        """
        from sqlglot.dialects.duckdb import DuckDB  # noqa: PLC0415 - takes long, and many reads need no statement

        from omnigraph.query.sql_text import sql_text  # noqa: PLC0415

        return sql_text(self.statement, DuckDB, pretty=pretty)


Rest: TypeAlias = Direct | Count | Relational


class GraphReader(Protocol):
    """One consistent version of a graph. Tables are named by their key: ``node:Person``, ``edge:Knows``."""

    def scan(
        self,
        table_key: str,
        *,
        columns: Sequence[str],
        filter: str | None = None,
        check: Callable[[int], None] = ...,
    ) -> pa.Table:
        """Exactly these columns of the rows that pass `filter`, a predicate in Lance's SQL; in any order.

        `check` is called with the bytes of every batch, and ends the scan by raising an error.
        """
        ...

    def scan_ends(
        self,
        table_key: str,
        *,
        columns: Sequence[str],
        ends: Mapping[str, Collection[str]],
        check: Callable[[int], None] = ...,
    ) -> pa.Table:
        """The edges at some nodes: `ends` has ids by `src` and `dst`, and an edge at any of them counts."""
        ...

    def version(self, table_key: str) -> Hashable:
        """What identifies the exact content of a table: two equal versions hold the same rows."""
        ...

    def table(self, table_key: str) -> Table:
        """The table itself at this version, for searches through its indexes."""
        ...
