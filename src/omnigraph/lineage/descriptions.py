"""What is said about a run: which job it belongs to, how it stands, what it reads and what it writes."""

from dataclasses import field
from typing import Literal, TypeAlias
from uuid import UUID

from omnigraph.dataclass_later import dataclass

Kind: TypeAlias = Literal["LOAD", "PIPELINE"]
State: TypeAlias = Literal["START", "COMPLETE", "FAIL", "ABORT"]


@dataclass(frozen=True, slots=True)
class DatasetColumn:
    """A column of a dataset, and its type as its owner calls it."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """What a run reads or writes; None for what is not known."""

    namespace: str
    name: str
    columns: tuple[DatasetColumn, ...] = field(default=())
    rows: int | None = None
    bytes: int | None = None
    files: int | None = None
    version: str | None = None
    """The commit that the run made."""
    branch: str | None = None
    """The branch that the commit is on."""


@dataclass(frozen=True, slots=True)
class RunName:
    """What identifies a run for a receiver: its job, and its id."""

    namespace: str
    job: str
    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """What one event says."""

    state: State
    name: RunName
    kind: Kind
    parent: RunName | None
    inputs: tuple[Dataset, ...] = ()
    outputs: tuple[Dataset, ...] = ()
    error: str | None = None
    """The class and the code of the error. Messages are left out, because they may quote rows."""
