"""What a pipeline is: sources of rows, views over them, how views become nodes and edges, and what must hold.

A definition is what its file says, with the place of everything that can be wrong later.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any

from omnigraph.api.data import LoadMode
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Source, Span

_DIGITS = 16


class Increment(StrEnum):
    """Which rows of a source a run reads."""

    WHOLE = "whole"
    """All rows, if anything in the source has changed."""
    FILES = "files"
    """The rows of files that are new or have changed."""
    COLUMN = "column"
    """The rows in which a column is greater than in any row before."""
    VERSION = "version"
    """All rows of a table at its newest version, if that is another one than before."""
    CHANGES = "changes"
    """The changes of a table since the version that was read before, as its change feed has them."""
    OFFSETS = "offsets"
    """The messages that came after the offsets that were read before."""
    POSITION = "position"
    """What a function gives that gets the position before, and returns the next one."""


class ViolationAction(StrEnum):
    """What is done with rows that do not meet an expectation."""

    FAIL = "fail"
    """The run ends, and writes nothing."""
    QUARANTINE = "quarantine"
    """The rows are put into the quarantine, and the others are used."""
    WARN = "warn"
    """The rows are used, and counted."""


class Review(StrEnum):
    """How a batch gets to the branch that it is published on."""

    NONE = "none"
    """It is written there directly."""
    MANUAL = "manual"
    """It is written on a branch of its own, which a person compares and merges."""
    AUTOMATIC = "automatic"
    """It is written on a branch of its own, which is merged if all expectations hold, and left to a person if not."""


@dataclass(frozen=True, slots=True)
class Written:
    """A text of the file, and where it stands."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSource:
    """Rows from outside. One of `files`, `spark`, `graph` and `function` says where they are."""

    name: Written
    files: tuple[Written, ...] = ()
    """Paths and patterns, relative to the folder of the definition."""
    spark: Written | None = None
    """A format of Spark, such as `jdbc` or `delta`."""
    function: Written | None = None
    """`module:function`, which takes a Spark session and returns a data frame."""
    callable: Callable[..., Any] | None = field(default=None, compare=False)
    """The function itself, if the definition was made in Python."""
    graph: Written | None = None
    """Another graph."""
    type: Written | None = None
    """Of a graph: the node or edge type whose rows are read."""
    format: str | None = None
    """Of files: `parquet`, `csv`, `jsonl` or `text`; None if their names say it."""
    columns: Mapping[str, Written] | None = None
    """The types of the columns, as Spark SQL writes them."""
    options: Mapping[str, str]
    """Options of the reader, as Spark calls them."""
    increment: Increment = Increment.WHOLE
    column: Written | None = None
    """Of the increment by a column: which one."""


@dataclass(frozen=True, slots=True)
class View:
    """A name for a query in Spark SQL over sources and earlier views."""

    name: Written
    sql: Written


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeMapping:
    """How rows of a view become nodes or edges of one type."""

    type: Written
    view: Written
    properties: Mapping[str, Written] | None
    """Expressions by property; None for the columns of the view that have the names of properties."""
    id: Written | None = None
    """The expression of the id; None if it follows from the key or from `id_columns`, or is made up."""
    id_columns: tuple[Written, ...] = ()
    """Of edges: `from`, `to` and properties, whose values form the id."""
    ends: tuple[Written, Written] | None = None
    """Of edges: the expressions of the ids or keys of both ends."""
    sequence: Written | None = None
    """Of change data: the expression that says which change of an entity came first."""
    delete: Written | None = None
    """Of change data: the condition of rows that delete."""

    @property
    def is_edge(self) -> bool:
        """Whether the rows become edges."""
        return self.ends is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExpectation:
    """What must hold for each row of a source or view; a condition that is null does not hold."""

    name: Written
    view: Written
    condition: Written
    action: ViolationAction = ViolationAction.FAIL
    allowed: float = 0.0
    """The share of rows that may violate it before the run fails; only of those that are not to fail at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingEnds:
    """What is done with edges whose ends are neither in the graph nor among the nodes of the run."""

    action: ViolationAction = ViolationAction.FAIL
    allowed: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPublication:
    """Where and how a batch is written."""

    mode: LoadMode = LoadMode.MERGE
    branch: str = "main"
    review: Review = Review.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """Where the rows go that were not used: to files below a folder, or to a table of Spark."""

    folder: Written | None = None
    table: Written | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineDefinition:
    """A whole file."""

    file: Source
    folder: Path
    """Relative paths start here."""
    name: Written
    """The name under which the graph keeps its batches."""
    sources: tuple[RowSource, ...]
    views: tuple[View, ...]
    mappings: tuple[TypeMapping, ...]
    expectations: tuple[RowExpectation, ...]
    missing_ends: MissingEnds
    publication: BatchPublication
    quarantine: Quarantine | None

    @property
    def digest(self) -> str:
        """What tells the text of this definition from any other."""
        return sha256(self.file.text.encode(errors="replace")).hexdigest()[:_DIGITS]
