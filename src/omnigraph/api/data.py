"""The verbs about data: queries, mutations, loads, exports, analyses and vectors."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import KW_ONLY, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from omnigraph.api.base import MAIN, Bounds, Choices, Doc, ParameterScope, Request, WireName
from omnigraph.api.encoding import Result
from omnigraph.api.history import ChangeCounts, Commit
from omnigraph.api.progress import Choice, no_report
from omnigraph.api.values import answer_to_json
from omnigraph.api.words import (
    AUTO,
    Actor,
    Branch,
    Engine,
    From,
    IfCommit,
    Message,
    OnProgress,
    Params,
    QueryName,
    QuerySource,
    Snapshot,
    StorageOptions,
    Types,
)
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.query.cancelling import Cancellation
else:
    pa = Cancellation = Any

_SHOWN_ROWS = 20
_LONGEST_NAME = 200
MOST_DETAILS = 48 * 1024
"""How long the text may be that a batch keeps: the manifest repeats it for some commits, and an address may have it."""
TYPE, ID = "type", "id"
"""The columns of an analysis that say which node a row is about."""


class LoadMode(StrEnum):
    """How a load treats existing entities."""

    APPEND = "append"
    MERGE = "merge"
    APPLY = "apply"
    OVERWRITE = "overwrite"


class Format(StrEnum):
    """How an export writes rows."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


# --- what comes back ---


def no_frame(table: "pa.Table") -> Any:
    """For a result that nobody gave a way to Spark."""
    raise UsageError(f"these {table.num_rows} rows cannot become a data frame of Spark")


class ResultRows(Result):
    """A result with rows, which are an Arrow table."""

    __slots__ = ()
    to_frame: Callable[["pa.Table"], Any]

    def to_arrow(self) -> "pa.Table":
        """The rows as an Arrow table."""
        raise NotImplementedError

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        names: list[str] = self.to_arrow().column_names
        return names

    def rows(self) -> list[dict[str, Any]]:
        """The rows as dictionaries of Python values."""
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

    def to_pandas(self) -> Any:
        """The rows as a pandas frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The rows as a polars frame; polars must be installed."""
        import polars  # noqa: PLC0415 - an optional package

        return polars.from_arrow(self.to_arrow())

    def to_spark(self) -> Any:
        """The rows as a Spark data frame, with the names of the answer and the Spark types of its property types.

        `omnigraph.spark.types` has them all. The rows of a query that runs on Spark stay on Spark.
        """
        return self.to_frame(self.to_arrow())


@dataclass(frozen=True, slots=True)
class QueryResult(ResultRows):
    """The rows of a query, as Arrow, and the commit that they were read at."""

    table: "pa.Table"
    commit_id: str
    to_frame: Callable[["pa.Table"], Any] = field(default=no_frame, kw_only=True, repr=False, compare=False)
    """Gives rows to Spark."""

    def __len__(self) -> int:
        count: int = self.table.num_rows
        return count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def to_arrow(self) -> "pa.Table":
        """The rows as an Arrow table."""
        return self.table

    def as_json(self) -> dict[str, Any]:
        rows = [answer_to_json(row) for row in self.rows()]
        return {"columns": self.columns, "rows": rows, "commit_id": self.commit_id}

    def _repr_html_(self) -> str:
        """A table for notebooks, of the first rows."""
        import html  # noqa: PLC0415 - only notebooks need it

        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{html.escape(_cell(value))}</td>' for value in row.values())}</tr>"
            for row in self.table.slice(0, _SHOWN_ROWS).to_pylist()
        )
        more = f"<p>{len(self) - _SHOWN_ROWS} more rows</p>" if len(self) > _SHOWN_ROWS else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: Any) -> str:
    return "" if value is None else str(answer_to_json(value))


@dataclass(frozen=True, slots=True)
class Analysis(QueryResult):
    """What an analysis found: a row for each node with its type and id, and a summary of the whole graph."""

    algorithm: str = ""
    summary: Mapping[str, Any] = field(default_factory=dict)
    order: tuple[tuple[str, str], ...] = ()
    """What matters most: columns, each with ``ascending`` or ``descending``."""
    written: Commit | None = None
    """The commit that wrote the result back, if there is one; `commit_id` is the one that was analysed."""

    def top(self, count: int | None = None) -> "Analysis":
        """The rows that matter most, first; where several matter as much, in the order of types and ids."""
        order = pc.sort_indices(self.table, sort_keys=[*self.order, (TYPE, "ascending"), (ID, "ascending")])
        return replace(self, table=self.table.take(order.slice(0, count)))

    def as_json(self) -> dict[str, Any]:
        return {
            "algorithm": self.algorithm,
            "summary": dict(self.summary),
            **QueryResult.as_json(self),
            "written": self.written.as_json() if self.written else None,
        }


@dataclass(frozen=True, slots=True)
class MutationResult(ResultRows):
    """What a mutation did, and the rows of its `returning`."""

    commit: Annotated[Commit | None, Doc("The commit; none if nothing changed.")]
    affected: Annotated[Mapping[str, int], Doc("How many nodes and edges it inserted, changed or deleted.")]
    unchanged: Annotated[Mapping[str, int], Doc("How many nodes and edges it found and left as they were.")] = field(
        default_factory=lambda: {"nodes": 0, "edges": 0}
    )
    table: "pa.Table | None" = None
    """The rows that it returned; None without a `returning`."""
    to_frame: Callable[["pa.Table"], Any] = field(default=no_frame, kw_only=True, repr=False, compare=False)
    """Gives rows to Spark."""

    def to_arrow(self) -> "pa.Table":
        """The rows as an Arrow table; one without columns if the mutation has no `returning`."""
        if self.table is not None:
            return self.table
        import pyarrow  # noqa: PLC0415 - most mutations return no rows, and a client starts quickly

        return pyarrow.table({})

    def as_json(self) -> dict[str, Any]:
        rows = [] if self.table is None else [answer_to_json(row) for row in self.rows()]
        returned = {} if self.table is None else {"columns": self.columns, "rows": rows}
        return {
            "commit": None if self.commit is None else self.commit.as_json(),
            "affected": dict(self.affected),
            "unchanged": dict(self.unchanged),
            **returned,
        }


@dataclass(frozen=True, slots=True)
class LoadResult(Result):
    """What a load did, and where it ran."""

    commit: Annotated[Commit | None, Doc("The commit; none if the input was empty.")]
    nodes: Annotated[Mapping[str, int], Doc("How many records of each node type were loaded.")]
    edges: Annotated[Mapping[str, int], Doc("How many records of each edge type were loaded.")]
    engine: Annotated[str, Doc("Where it ran: `local` or `spark`.")]
    why: Annotated[str, Doc("Why it ran there.")]
    total: Annotated[int, Doc("How many records were loaded.")] = field(init=False, default=0)
    repeated: Annotated[
        bool, Doc("Whether this batch of the application was loaded before, by `commit`, so that nothing was done.")
    ] = False
    applied: Annotated[ChangeCounts | None, Doc("In mode `apply`, what the changes did.")] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", sum(self.nodes.values()) + sum(self.edges.values()))

    @property
    def choice(self) -> Choice:
        """The engine, and why it was chosen."""
        return Choice(self.engine, self.why)


@dataclass(frozen=True, slots=True)
class EmbedResult(Result):
    """Which vectors were filled, and where the work ran."""

    commits: Annotated[tuple[Commit, ...], Doc("The commits, one for each batch.")]
    filled: Annotated[Mapping[str, int], Doc("How many vectors of each property were filled.")]
    engine: Annotated[str, Doc("Where it ran: `local` or `spark`.")]
    why: Annotated[str, Doc("Why it ran there.")]
    total: Annotated[int, Doc("How many vectors were filled.")] = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", sum(self.filled.values()))

    @property
    def choice(self) -> Choice:
        """The engine, and why it was chosen."""
        return Choice(self.engine, self.why)


# --- what can be asked ---

LoadData: TypeAlias = Annotated[
    Any, Doc("Paths of NDJSON files, or a mapping from types to paths, tables or frames."), ParameterScope.PROCESS
]
Mode: TypeAlias = Annotated[str, Doc("How to treat existing entities."), Choices(tuple(LoadMode))]
Ordered: TypeAlias = Annotated[bool, Doc("Order the rows of each type by id.")]


class QueryRequest(Request[QueryResult]):
    """Run a read query. It reads one commit from beginning to end.

    Raises:
        QueryError: The query does not parse, or does not fit the schema.
        QueryTimedOut: It took longer than `timeout`.
        QueryCancelled: Another thread cancelled it.

    Example:
        >>> g.query("query adults { match { $p: Person  $p.age >= 18 } return { $p.name } }").rows()
        [{'p.name': 'Ada'}]
    """

    verb = "query"

    source: QuerySource
    name: QueryName = None
    params: Params = None
    _: KW_ONLY
    branch: Branch = MAIN
    snapshot: Snapshot = None
    engine: Engine = AUTO
    timeout: Annotated[float | None, Doc("Stop the query after this many seconds.")] = None
    cancellation: Annotated[
        "Cancellation | None", Doc("Cancels the query from another thread."), ParameterScope.PROCESS
    ] = None


class ExplainRequest(Request[str]):
    """Explain how a query would be answered: where, what is scanned with which filters, traversed and joined.

    Returns:
        The plan, as text.

    Example:
        >>> print(g.explain("query all { match { $p: Person } return { $p.name } }"))
        engine: local, because the tables to read are small
        query all
          r0: scan nodes $p
            node:Person [id, name]
          sort by id
          return p.name
        executor: memory
          scan $p in node:Person
    """

    verb = "explain"

    source: QuerySource
    name: QueryName = None
    params: Params = None
    _: KW_ONLY
    branch: Branch = MAIN
    engine: Engine = AUTO


class EntityRequest(Request[dict[str, Any] | None]):
    """Get one entity with its properties; None if it does not exist.

    Returns:
        Its properties by name, or None.

    Example:
        >>> g.entity("Person", "Ada")
        {'id': 'Ada', 'name': 'Ada', 'age': 36}
    """

    verb = "entity"

    type: Annotated[str, Doc("The node or edge type.")]
    id: Annotated[str, Doc("The id of the entity."), WireName("entity")]
    at: Snapshot = None

    def problem(self) -> str | None:
        return None if isinstance(self.id, str) else f"invalid id {self.id!r}: expected a string"


class MutateRequest(Request[MutationResult]):
    """Run a mutation as one commit, or not at all. The result has the rows of `returning`.

    Raises:
        ValidationError: The result would break a rule of the schema.
        PreconditionFailed: The branch is no longer at `if_commit`.

    Example:
        >>> grow = "query grow($name: String, $age: I32) { update Person set { age: $age } where name = $name }"
        >>> g.mutate(grow, params={"name": "Bob", "age": 13}, message="a birthday").affected
        {'nodes': 1, 'edges': 0}
        >>> g.mutate('update Person set { age: age + 1 } where name = "Bob" returning { name, age }').rows()
        [{'name': 'Bob', 'age': 14}]
    """

    verb = "mutate"
    writes = True

    source: QuerySource
    name: QueryName = None
    params: Params = None
    _: KW_ONLY
    branch: Branch = MAIN
    actor: Actor = None
    message: Message = None
    if_commit: IfCommit = None


class LoadRequest(Request[LoadResult]):
    """Load any number of records as one commit, or none of them.

    Raises:
        ValidationError: Records break a rule of the schema. It has the first of them, with file and line.

    Example:
        >>> g.load("people.jsonl", mode="merge").nodes
        {'Person': 1}
    """

    verb = "load"
    writes = True

    data: LoadData
    mode: Mode = LoadMode.APPEND
    _: KW_ONLY
    branch: Branch = MAIN
    from_: From = None
    actor: Actor = None
    message: Message = None
    application: Annotated[
        str | None,
        Doc("The name of the program that loads. Together with `batch` it is a key, under which rows are loaded once."),
    ] = None
    batch: Annotated[
        int | None,
        Doc("The number of the batch of `application`. The same batch again is not loaded again."),
        Bounds(least=0, most=2**63 - 1),
    ] = None
    details: Annotated[
        str | None, Doc("A text that the commit keeps with the key, such as the offsets that were read.")
    ] = None
    edge_id: Annotated[
        Collection[str] | None,
        Doc(
            "Columns that form the id of an edge that has none: `from,to`, or for one type `Type=from,to`. "
            "By default the id is made up."
        ),
    ] = None
    sequence: Annotated[
        Collection[str] | None,
        Doc(
            "In mode `apply`, the column that orders the changes of an entity: `COLUMN`, `COLUMN: Type` if its values "
            "are not whole numbers, or for one type `Type=COLUMN`."
        ),
    ] = None
    delete: Annotated[
        str | None,
        Doc("In mode `apply`, the column that marks deletions: `COLUMN` if it is true, or `COLUMN=VALUE,VALUE`."),
    ] = None
    engine: Engine = AUTO
    storage_options: StorageOptions = None
    report: OnProgress = no_report

    def problem(self) -> str | None:
        if (self.application is None) != (self.batch is None):
            return "the key of a load is an `application` and a `batch`: expected both or neither"
        if self.application is not None and not (
            0 < len(self.application) <= _LONGEST_NAME and self.application.isprintable()
        ):
            return f"invalid application {self.application!r}: expected up to {_LONGEST_NAME} printable characters"
        if self.details is not None and self.application is None:
            return "`details` are kept with the key of a load: expected an `application` and a `batch` too"
        if self.details is not None and len(self.details.encode(errors="replace")) > MOST_DETAILS:
            return f"the details of a batch are longer than {MOST_DETAILS:,} bytes"
        if self.mode == LoadMode.APPLY and not self.sequence:
            return "mode `apply` orders changes by a column: expected `sequence`"
        if self.mode != LoadMode.APPLY and (self.sequence or self.delete is not None):
            name = "sequence" if self.sequence else "delete"
            return f"`{name}` is for mode `apply`, found mode `{self.mode}`"
        return None


class ExplainLoadRequest(Request[str]):
    """Explain how a load would be done, and where. Only names and sizes of the input are read.

    Returns:
        The plan, as text.

    Example:
        >>> print(g.explain_load("people.jsonl").splitlines()[0])
        engine: local, because the work is small
    """

    verb = "explain_load"

    data: LoadData
    mode: Mode = LoadMode.APPEND
    _: KW_ONLY
    engine: Engine = AUTO
    storage_options: StorageOptions = None


class ExportRequest(Request[Iterator[str] | int]):
    """Export a branch or a snapshot.

    Without a path the result is an iterator over lines of NDJSON. With one, NDJSON is written to a file, or to a folder
    if the path ends in a slash or is a folder; CSV and Parquet are folders of files by type. The result is then the
    number of records.

    Returns:
        An iterator over lines, or with a path the number of records.

    Example:
        >>> list(g.export(types=["Knows"]))
        ['{"edge": "Knows", "from": "Ada", "to": "Bob", "data": {"id": "k1"}}']
    """

    verb = "export"

    path: Annotated[str | Path | None, Doc("Where to write, on this machine."), ParameterScope.PROCESS] = None
    branch: Branch = MAIN
    types: Types = None
    format: Annotated[str, Doc("How rows are written."), Choices(tuple(Format))] = Format.JSONL
    _: KW_ONLY
    snapshot: Snapshot = None
    ordered: Ordered = False
    engine: Engine = AUTO
    report: OnProgress = no_report

    def problem(self) -> str | None:
        needs_path = self.path is None and self.format != Format.JSONL
        return f"an export as {self.format} requires a path: it is a folder of files" if needs_path else None


class ExplainExportRequest(Request[str]):
    """Explain how an export to files would be done, and where.

    Returns:
        The plan, as text.

    Example:
        >>> print(g.explain_export(types=["Knows"]))
        engine: local, because the work is small
        Knows: 1 rows in 1 part
    """

    verb = "explain_export"

    branch: Branch = MAIN
    types: Types = None
    _: KW_ONLY
    snapshot: Snapshot = None
    ordered: Ordered = False
    engine: Engine = AUTO


NodeIds: TypeAlias = Collection[str] | None


class AnalyzeRequest(Request[Analysis]):
    """Analyze the graph as a whole; with `write`, columns of the result become properties, as one commit.

    Example:
        >>> g.analyze("degrees", edges=["Knows"]).rows()[0]
        {'type': 'Person', 'id': 'Ada', 'in_degree': 0, 'out_degree': 1, 'degree': 1}
    """

    verb = "analyze"

    algorithm: Annotated[
        str,
        Doc(
            "`pagerank`, `components`, `label-propagation`, `degrees`, `triangles`, `communities` or `shortest-paths`."
        ),
    ]
    _: KW_ONLY
    edges: Annotated[Collection[str] | None, Doc("Only edges of these types.")] = None
    nodes: Annotated[Collection[str] | None, Doc("Only nodes of these types.")] = None
    branch: Branch = MAIN
    snapshot: Snapshot = None
    write: Annotated[Mapping[str, str] | None, Doc("Columns of the result, and the properties to write them to.")] = (
        None
    )
    from_: From = None
    actor: Actor = None
    message: Message = None
    engine: Engine = AUTO
    weight: Annotated[str | None, Doc("The property of edges that is their weight.")] = None
    directed: Annotated[bool | None, Doc("Whether edges lead one way.")] = None
    sources: Annotated[NodeIds, Doc("The ids of the nodes where walks and paths begin.")] = None
    targets: Annotated[NodeIds, Doc("The ids of the nodes to find paths to.")] = None
    max_hops: Annotated[int | None, Doc("Of shortest paths: the most edges that a path may have.")] = None
    kind: Annotated[str | None, Doc("Of components: `weak` or `strong`."), Choices(("weak", "strong"))] = None
    damping: Annotated[float | None, Doc("Of pagerank: the probability of following an edge.")] = None
    iterations: Annotated[
        int | None, Doc("Of pagerank and label-propagation: the most iterations."), Bounds(most=10_000)
    ] = None
    tolerance: Annotated[float | None, Doc("Of pagerank: the change at which it ends.")] = None
    resolution: Annotated[float | None, Doc("Of communities: a larger value gives more of them.")] = None
    seed: Annotated[int | None, Doc("Of communities: where the random numbers begin.")] = None
    report: OnProgress = no_report

    @property
    def is_write(self) -> bool:
        return bool(self.write)


_PARAMETERS = [each.name for each in fields(AnalyzeRequest)]
PARAMETERS_OF_ALGORITHMS = tuple(_PARAMETERS[_PARAMETERS.index("weight") : _PARAMETERS.index("report")])


class EmbedRequest(Request[EmbedResult]):
    """Fill the vectors of a type that are missing. After an interruption, the same call continues.

    Example:
        >>> g.embed("Note", all=True).filled
        {'meaning': 1}
    """

    verb = "embed"
    writes = True

    type: Annotated[str, Doc("The node or edge type.")]
    property: Annotated[str | None, Doc("Only this vector of the type.")] = None
    _: KW_ONLY
    all: Annotated[bool, Doc("Also replace vectors that exist.")] = False
    branch: Branch = MAIN
    actor: Actor = None
    message: Message = None
    batch: Annotated[int | None, Doc("How many rows one commit has."), Bounds(least=1)] = None
    engine: Engine = AUTO
    report: OnProgress = no_report
