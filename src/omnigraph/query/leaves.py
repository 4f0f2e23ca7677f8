"""Reads the leaves of a plan in this process: scans, and what must be known to compute fields of their rows."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID
from omnigraph.errors.answers import NoEmbeddingModel, WrongEmbedding
from omnigraph.query.cancelling import NEVER, Cancellation, checked
from omnigraph.query.fields import ORIENTATIONS, Knowledge, edge_rows, node_rows
from omnigraph.query.firsts import FirstRows
from omnigraph.query.searching import Search, is_ranked_by_index
from omnigraph.query.source import GraphReader
from omnigraph.query.steps import (
    TYPE,
    Computed,
    DirectSort,
    Distance,
    EdgeScan,
    NodeScan,
    Relevance,
    TableScan,
    TextToEmbed,
)
from omnigraph.query.words import Corpus, corpus_of
from omnigraph.storage.predicates import among

Embed: TypeAlias = Callable[[str, str | None, int], Sequence[float]]
"""Turns a text into a vector of so many numbers with the model of this name."""

NARROWING_IDS = 1000
"""Up to how many ids are named in a filter; more cost more than reading the rows that they would exclude."""

COMPUTED_ROWS = 100_000
"""Of how many rows fields are computed before a query is asked whether it shall stop."""


@dataclass(frozen=True, slots=True)
class Ids:
    """The ids that a variable may still have. When they are not `narrowing`, they are all there are."""

    values: Callable[[], pa.Array | pa.ChunkedArray]
    narrowing: bool

    def few(self) -> list[str] | None:
        """The ids, where they are worth naming in a filter."""
        if not self.narrowing:
            return None
        values = self.values()
        if len(values) > NARROWING_IDS:
            # Values may repeat; counting the distinct ones of a long list costs less than the scan it may save.
            values = pc.unique(values)
        return pc.unique(values).to_pylist() if len(values) <= NARROWING_IDS else None


@dataclass(slots=True)
class Leaves:
    """Reads through one reader; texts and statistics that several steps need are made once."""

    reader: GraphReader
    embed: Embed | None
    cancellation: Cancellation = NEVER
    _vectors: dict[TextToEmbed, Sequence[float]] = field(default_factory=dict)
    _corpora: dict[Relevance, Corpus] = field(default_factory=dict)

    def nodes(self, step: NodeScan, narrowed: dict[str, Ids]) -> pa.Table:
        """The rows of a variable; `narrowed` has what is known of its ids, for each type."""
        tables = []
        for scan in step.tables:
            known = narrowed.get(scan.type)
            few = known.few() if known is not None else None
            if few == []:
                continue
            table = self._searched(step, scan, among(ID, few) if few else None)
            knowledge = self.knowledge(step, table.column_names)
            tables += [node_rows(step, scan, part, knowledge) for part in self._parts(step, table)]
        return pa.concat_tables(tables) if tables else step.relation.schema.empty_table()

    def first_nodes(self, step: NodeScan, order: Sequence[DirectSort], count: int) -> pa.Table:
        """The rows of a variable, of which nothing is computed, that come first by an order; others may be missing."""
        fields = {step.relation.alias(name): name for name in step.relation.fields}
        tables = []
        for scan in step.tables:
            # All rows of one table have the same type.
            keys = [replace(key, alias=name) for key in order if (name := fields[key.alias]) != TYPE]
            first = FirstRows(
                table=self.reader.table(scan.table_key),
                filter=scan.filter,
                order=keys,
                count=count,
                cancellation=self.cancellation,
            )
            tables.append(node_rows(step, scan, first.read(scan.columns), Knowledge()))
        return pa.concat_tables(tables)

    def edges(self, step: EdgeScan, source: Ids | None, destination: Ids | None) -> pa.Table:
        """The rows of an edge variable, between ends that are known or not."""
        few = [None if each is None else each.few() for each in (source, destination)]
        if [] in few:
            return step.relation.schema.empty_table()
        table = self._searched(step, step.table, between(step, few[0], few[1]))
        knowledge = self.knowledge(step, table.column_names)
        return pa.concat_tables([edge_rows(step, part, knowledge) for part in self._parts(step, table)])

    def _parts(self, step: NodeScan | EdgeScan, table: pa.Table) -> Iterator[pa.Table]:
        """The rows, so many at a time if something is computed of each: that takes long, and is stopped in between."""
        size = COMPUTED_ROWS if step.computed else table.num_rows
        for start in range(0, max(table.num_rows, 1), max(size, 1)):
            self.cancellation.check()
            yield table.slice(start, size)

    def knowledge(self, step: NodeScan | EdgeScan, done: Collection[str] = ()) -> Knowledge:
        """What the computed fields of a step depend on, but for those that are done."""
        for number, each in enumerate(step.computed):
            if f"@{number}" not in done:
                self._learn(each)
        return Knowledge(self._corpora, self._vectors)

    def _learn(self, computed: Computed) -> None:
        if isinstance(computed, Relevance) and computed not in self._corpora:
            self._corpora[computed] = self.corpus(computed)
        if isinstance(computed, Distance) and isinstance(computed.query, TextToEmbed):
            self._vectors[computed.query] = self._vectors.get(computed.query) or self._embedded(computed.query)

    def corpus(self, relevance: Relevance) -> Corpus:
        """The statistics of all texts that a score is about."""
        texts: list[str | None] = []
        for scan in relevance.corpus:
            texts += self._scanned(scan, None)[relevance.column].to_pylist()
        return corpus_of(checked(texts, self.cancellation), relevance.words)

    def _searched(self, step: NodeScan | EdgeScan, scan: TableScan, restriction: str | None) -> pa.Table:
        """The rows of a scan that pass its filter and a restriction; an index may have left out some, and done more."""
        if step.computed:
            search = Search(self.reader.table(scan.table_key), step, scan, together(scan.filter, restriction))
            rows = search.rows(is_narrowed=restriction is not None, vector=self._vector)
            if rows is not None:
                self.cancellation.hold(rows.nbytes)
                return rows
        return self._scanned(scan, restriction)

    def _vector(self, distance: Distance) -> Sequence[float] | None:
        self._learn(distance)
        return Knowledge({}, self._vectors).vector(distance.query)

    def is_ranked_by_index(self, step: NodeScan | EdgeScan) -> bool:
        """Whether an index decides how the rows of a step rank."""
        scans = step.tables if isinstance(step, NodeScan) else (step.table,)
        return bool(step.computed) and any(
            is_ranked_by_index(self.reader.table(scan.table_key), step, scan) for scan in scans
        )

    def _scanned(self, scan: TableScan, restriction: str | None) -> pa.Table:
        filter = together(scan.filter, restriction)
        return self.reader.scan(scan.table_key, columns=scan.columns, filter=filter, check=self.cancellation.hold)

    def _embedded(self, query: TextToEmbed) -> Sequence[float]:
        if self.embed is None:
            raise NoEmbeddingModel(query.model, query.dimension)
        vector = self.embed(query.text, query.model, query.dimension)
        self.cancellation.check()
        if len(vector) != query.dimension:
            raise WrongEmbedding(query.model, query.dimension, len(vector))
        return vector


def together(*filters: str | None) -> str | None:
    """A filter for the rows that pass all of these; None lets every row pass."""
    given = [each for each in filters if each]
    return given[0] if len(given) == 1 else " AND ".join(f"({each})" for each in given) or None


def between(step: EdgeScan, sources: Sequence[str] | None, destinations: Sequence[str] | None) -> str | None:
    """A filter for the edges that have these ends, in an orientation that fits."""
    choices = []
    for begin, end in ORIENTATIONS[step.direction]:
        ends = (
            None if sources is None else among(begin, sources),
            None if destinations is None else among(end, destinations),
        )
        choices.append(" AND ".join(f"({each})" for each in ends if each))
    return " OR ".join(f"({each})" for each in choices if each) or None
