"""What a run did, what it would do, and what earlier ones did."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from omnigraph.api.base import Doc
from omnigraph.api.encoding import Result
from omnigraph.api.history import Commit
from omnigraph.dataclass_later import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationOutcome(Result):
    """How many rows violated one expectation."""

    name: Annotated[str, Doc("The name of the expectation; `missing_ends` for edges without ends.")]
    view: Annotated[str, Doc("The source, view or edge type that it is about.")]
    action: Annotated[str, Doc("What is done with rows that violate it: `fail`, `quarantine` or `warn`.")]
    rows: Annotated[int, Doc("How many rows were checked.")]
    violations: Annotated[int, Doc("How many of them violated it.")]
    allowed: Annotated[float, Doc("The share of rows that may violate it.")]

    @property
    def has_failed(self) -> bool:
        """Whether more rows violated it than may."""
        return self.violations > self.allowed * self.rows

    @property
    def is_met(self) -> bool:
        """Whether no row violated it."""
        return self.violations == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRun(Result):
    """What a run did."""

    run: Annotated[str, Doc("The id of the run.")]
    batch: Annotated[int, Doc("The number of the batch.")]
    commit: Annotated[Commit | None, Doc("The commit; none if nothing was new.")]
    branch: Annotated[str, Doc("The branch that it was written on.")]
    merged: Annotated[Commit | None, Doc("The commit that merged it, if it was written on a branch of its own.")]
    sources: Annotated[Mapping[str, int], Doc("How many rows of each source were read.")]
    nodes: Annotated[Mapping[str, int], Doc("How many records of each node type were written.")]
    edges: Annotated[Mapping[str, int], Doc("How many records of each edge type were written.")]
    expectations: Annotated[tuple[ExpectationOutcome, ...], Doc("How many rows violated each expectation.")]
    engine: Annotated[str, Doc("Where it ran: `local` or `spark`.")]
    why: Annotated[str, Doc("Why it ran there.")]
    has_more: Annotated[bool, Doc("Whether there are more new files, which the next run reads.")] = False

    @property
    def rejected_rows(self) -> int:
        """How many rows are in the quarantine."""
        return sum(each.violations for each in self.expectations if each.action == "quarantine")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSource(Result):
    """What a run would read of one source."""

    name: Annotated[str, Doc("The source.")]
    increment: Annotated[str, Doc("Which rows a run reads, as in the definition.")]
    is_new: Annotated[bool, Doc("Whether there is something that no batch has read, as far as this can be known.")]
    files: Annotated[tuple[str, ...], Doc("The files that would be read.")]
    rows: Annotated[int | None, Doc("How many rows; none if they are not counted.")]
    after: Annotated[str | None, Doc("Up to which value or position batches have read it.")] = None
    upto: Annotated[str | None, Doc("The position that would be read up to, if it has one.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinePlan(Result):
    """What a run would do."""

    batch: Annotated[int, Doc("The number that the batch would have.")]
    branch: Annotated[str, Doc("The branch that it would be written on.")]
    sources: Annotated[tuple[PlannedSource, ...], Doc("What would be read.")]
    writes: Annotated[Mapping[str, int | None], Doc("How many records of each type would be written.")]
    schema_changes: Annotated[tuple[str, ...], Doc("What the schema lacks for columns that are there.")]
    engine: Annotated[str, Doc("Where it would run: `local` or `spark`.")]
    why: Annotated[str, Doc("Why it would run there.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineBatch(Result):
    """One batch of a pipeline, as its commit keeps it."""

    number: Annotated[int, Doc("Its number.")]
    commit: Annotated[Commit, Doc("The commit that has it.")]
    details: Annotated[Mapping[str, Any], Doc("What was read, written and rejected.")]

    @property
    def run(self) -> str | None:
        """The run that made it, by whose id its rejected rows are found."""
        return self.details.get("run")

    @property
    def sources(self) -> Mapping[str, Mapping[str, Any]]:
        """What it read, by source."""
        found: Mapping[str, Mapping[str, Any]] = self.details.get("sources", {})
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatus(Result):
    """Where a pipeline stands."""

    pipeline: Annotated[str, Doc("Its name.")]
    branch: Annotated[str, Doc("The branch that it publishes on.")]
    batch: Annotated[int, Doc("The number of the last batch; 0 if there is none.")]
    at: Annotated[datetime | None, Doc("When it was committed.")]
    files: Annotated[Mapping[str, int], Doc("How many files of each source were read.")]
    after: Annotated[Mapping[str, str], Doc("Up to which value sources with a column were read.")]
    rejected: Annotated[int, Doc("How many rows all batches put into the quarantine.")]
    waiting: Annotated[tuple[str, ...], Doc("Branches with batches that wait for a person.")]
