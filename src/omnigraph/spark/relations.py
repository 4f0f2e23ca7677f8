"""The leaves of a plan as data frames: a task scans some fragments and makes the rows of a relation of them.

A small table is read in this process and sent with the plan. That costs less than a task, and Spark then knows how
small it is and joins accordingly.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import partial
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from omnigraph.dataclass_later import dataclass
from omnigraph.query.fields import Knowledge, edge_rows, node_rows
from omnigraph.query.leaves import NARROWING_IDS, Embed, Ids, Leaves, between, together
from omnigraph.query.steps import Distance, EdgeScan, GraphReader, NodeScan, Relevance, TextToEmbed
from omnigraph.query.words import Corpus, corpus_of, join_corpora
from omnigraph.spark.engine import SparkEngine
from omnigraph.spark.scans import TablePart, parts_of
from omnigraph.spark.tasks import task_of_rows
from omnigraph.spark.types import exchanged_schema, local_frame, spark_schema, to_spark
from omnigraph.storage.tables import Table

SMALL_TABLE = 1000
"""Up to how many rows a table is read in this process."""

RANKED_HERE = 1_000_000
"""Up to how many rows a table is ranked in this process, by an index. Larger tables are ranked by tasks."""

STAGE = "query"
Rows = Callable[[pa.Table], pa.Table]


class PinnedTables(GraphReader, Protocol):
    """One version of a graph whose tables tasks can open by themselves: a snapshot."""

    @property
    def commit_id(self) -> str:
        """The commit that made it."""


@dataclass(frozen=True, slots=True)
class ScanPart:
    """A part of a table, and the function that makes rows of the relation of it."""

    part: TablePart
    rows: Rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of the relation."""
        for batch in self.part.batches():
            yield from self.rows(pa.Table.from_batches([batch])).to_batches()


@dataclass(slots=True)
class Relations:
    """Makes data frames of the scans of one snapshot; what several scans need is computed once."""

    session: SparkSession
    snapshot: PinnedTables
    embed: Embed | None
    _here: Leaves = field(init=False)

    def __post_init__(self) -> None:
        self._here = _SparkLeaves(self.snapshot, self.embed, self.session)

    def nodes(self, step: NodeScan) -> DataFrame:
        """The rows of a node variable."""
        if all(self.is_small(scan.table_key) for scan in step.tables) or self._is_ranked_here(step):
            return self.local(self._here.nodes(step, {}))
        knowledge = self._knowledge(step)
        parts = [
            ScanPart(part, partial(node_rows, step, scan, knowledge=knowledge))
            for scan in step.tables
            for part in self.parts(scan.table_key, scan.columns, scan.filter)
        ]
        return self.scan_parts(parts, step.relation.schema)

    def edges(self, step: EdgeScan, source: Sequence[str] | None, destination: Sequence[str] | None) -> DataFrame:
        """The rows of an edge variable, between the given ends if there are any."""
        if self.is_small(step.table.table_key) or self._is_ranked_here(step):
            return self.local(self._here.edges(step, known_ids(source), known_ids(destination)))
        filter = together(step.table.filter, between(step, narrowing_ids(source), narrowing_ids(destination)))
        rows = partial(edge_rows, step, knowledge=self._knowledge(step))
        parts = [ScanPart(part, rows) for part in self.parts(step.table.table_key, step.table.columns, filter)]
        return self.scan_parts(parts, step.relation.schema)

    def _knowledge(self, step: NodeScan | EdgeScan) -> Knowledge:
        """What a step needs to know, without the rest: it is sent to every task."""
        known = self._here.knowledge(step)
        queries = [each.query for each in step.computed if isinstance(each, Distance)]
        return Knowledge(
            {each: known.corpora[each] for each in step.computed if isinstance(each, Relevance)},
            {query: known.vectors[query] for query in queries if isinstance(query, TextToEmbed)},
        )

    def _is_ranked_here(self, step: NodeScan | EdgeScan) -> bool:
        """Whether an index ranks the rows of a step, and there are few or only the best ones are requested."""
        if isinstance(step, EdgeScan):
            few = self.snapshot.table(step.table.table_key).count() <= RANKED_HERE
        else:
            counts = (self.snapshot.table(scan.table_key).count() for scan in step.tables)
            few = step.best is not None or sum(counts) <= RANKED_HERE
        return few and self._here.is_ranked_by_index(step)

    # --- frames ---

    def is_small(self, table_key: str) -> bool:
        """Whether a table is read in this process."""
        return self.snapshot.table(table_key).count() <= SMALL_TABLE

    def parts(self, table_key: str, columns: Sequence[str], filter: str | None) -> list[TablePart]:
        """The parts of a table at the version of the snapshot."""
        return parts_of(self.snapshot.table(table_key), columns=columns, filter=filter)

    def local(self, table: pa.Table) -> DataFrame:
        """Rows of this process as a frame."""
        return local_frame(self.session, table)

    def scan_parts(self, parts: Sequence[ScanPart], schema: pa.Schema) -> DataFrame:
        """The rows of parts, read by tasks."""
        return read_parts(self.session, parts, schema)


def scan_table(session: SparkSession, table: Table, schema: pa.Schema) -> DataFrame:
    """The rows of a table as a frame; `schema` has the columns to read."""
    return read_parts(session, parts_of(table, columns=schema.names), schema)


def read_parts(session: SparkSession, parts: Sequence[ScanPart | TablePart], schema: pa.Schema) -> DataFrame:
    """The rows of parts, read by tasks; without parts, no rows."""
    if not parts:
        return local_frame(session, schema.empty_table())
    moved = exchanged_schema(schema)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with task_of_rows(STAGE):
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from to_spark(parts[number].batches(), moved)

    numbers = session.range(0, len(parts), 1, len(parts))
    return numbers.mapInArrow(task, spark_schema(schema))


class _SparkLeaves(Leaves):
    """Leaves that are read in this process; only the statistics of large tables are computed by tasks."""

    __slots__ = ("_session", "_snapshot")

    def __init__(self, snapshot: PinnedTables, embed: Embed | None, session: SparkSession) -> None:
        super().__init__(snapshot, embed)
        self._session, self._snapshot = session, snapshot

    def corpus(self, relevance: Relevance) -> Corpus:
        tables = [self._snapshot.table(scan.table_key) for scan in relevance.corpus]
        if all(table.count() <= SMALL_TABLE for table in tables):
            return super().corpus(relevance)
        parts = [part for table in tables for part in parts_of(table, columns=[relevance.column])]
        counted = SparkEngine(self._session).run("statistics", partial(_corpus_of_part, relevance), parts)
        return join_corpora(counted, relevance.words)


def _corpus_of_part(relevance: Relevance, part: TablePart) -> Corpus:
    texts = (text for batch in part.batches() for text in batch.column(relevance.column).to_pylist())
    return corpus_of(texts, relevance.words)


def narrowing_ids(ids: Sequence[str] | None) -> Sequence[str] | None:
    """Ids, if they are few enough for a filter."""
    return ids if ids is not None and len(ids) <= NARROWING_IDS else None


def known_ids(ids: Sequence[str] | None) -> Ids | None:
    """Ids that conditions give, in the form for a step in this process."""
    if ids is None:
        return None
    given = pa.array(ids, pa.string())
    return Ids(lambda: given, narrowing=True)
