"""Reads the leaves of a plan: scans, and what is computed of each row that they give."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.compiler.ir import Direction
from omnigraph.query.errors import NoEmbeddingModel, WrongEmbedding
from omnigraph.query.source import GraphReader
from omnigraph.query.steps import (
    DESTINATION_END,
    SOURCE_END,
    TYPE,
    Computed,
    Distance,
    EdgeScan,
    NodeScan,
    Relation,
    Relevance,
    TableScan,
    TextMatching,
    TextToEmbed,
)
from omnigraph.query.vectors import cosine_distances
from omnigraph.query.words import Corpus, corpus_of, matching, relevances
from omnigraph.storage.predicates import among

Embed: TypeAlias = Callable[[str, str | None, int], Sequence[float]]
"""Turns a text into a vector of so many numbers with the model of this name."""

NARROWING_IDS = 1000
"""Up to how many ids are named in a filter; more cost more than reading the rows that they would exclude."""


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
    _vectors: dict[TextToEmbed, Sequence[float]] = field(default_factory=dict)
    _corpora: dict[Relevance, Corpus] = field(default_factory=dict)

    def nodes(self, step: NodeScan, narrowed: dict[str, Ids]) -> pa.Table:
        """The rows of a variable; `narrowed` has what is known of its ids, for each type."""
        tables = []
        for scan in step.tables:
            known = narrowed.get(scan.type)
            table = self._scanned(scan, _restriction(ID, known.few() if known is not None else None))
            if table is None:
                continue
            if TYPE in step.relation.fields:
                table = table.append_column(TYPE, pa.repeat(pa.scalar(scan.type, pa.string()), table.num_rows))
            tables.append(self._computed(table, step.computed, step.required))
        return _joined(tables, step.relation)

    def edges(self, step: EdgeScan, source: Ids | None, destination: Ids | None) -> pa.Table:
        """The rows of an edge variable, between ends that are known or not."""
        few = [None if each is None else each.few() for each in (source, destination)]
        columns = {
            Direction.FORWARD: [(SOURCE, DESTINATION)],
            Direction.BACKWARD: [(DESTINATION, SOURCE)],
            Direction.EITHER: [(SOURCE, DESTINATION), (DESTINATION, SOURCE)],
        }[step.direction]
        choices = []
        for begin, end in columns:
            parts = [_restriction(begin, few[0]), _restriction(end, few[1])]
            if "" in parts:
                return step.relation.schema.empty_table()
            choices.append(" AND ".join(f"({part})" for part in parts if part))
        table = self._scanned(step.table, " OR ".join(f"({each})" for each in choices if each) or None)
        assert table is not None
        table = self._computed(table, step.computed, step.required)
        oriented = [_oriented(table, *ends) for ends in columns]
        if len(oriented) == 2:
            # A loop is the same edge in both orientations.
            oriented[1] = oriented[1].filter(pc.not_equal(oriented[1][SOURCE], oriented[1][DESTINATION]))
        return _joined(oriented, step.relation)

    def _scanned(self, scan: TableScan, restriction: str | None) -> pa.Table | None:
        """The rows of a table that pass its filter and the restriction; None when that excludes all."""
        if restriction == "":
            return None
        parts = [part for part in (scan.filter, restriction) if part]
        filter = parts[0] if len(parts) == 1 else " AND ".join(f"({part})" for part in parts) or None
        return self.reader.scan(scan.table_key, columns=scan.columns, filter=filter)

    def _computed(self, table: pa.Table, computed: Sequence[Computed], required: Sequence[str]) -> pa.Table:
        for index, each in enumerate(computed):
            name = f"@{index}"
            table = table.append_column(name, self._column(table, each))
            if name in required:
                table = table.filter(table[name])
        return table

    def _column(self, table: pa.Table, computed: Computed) -> pa.Array:
        column = table[computed.column]
        match computed:
            case TextMatching():
                return matching(column.to_pylist(), computed)
            case Relevance():
                return relevances(column.to_pylist(), computed, self._corpus(computed))
            case Distance(_, query):
                return cosine_distances(column, self._vector(query))

    def _corpus(self, relevance: Relevance) -> Corpus:
        if relevance not in self._corpora:
            texts: list[str | None] = []
            for scan in relevance.corpus:
                table = self._scanned(scan, None)
                assert table is not None
                texts += table[relevance.column].to_pylist()
            self._corpora[relevance] = corpus_of(texts, relevance.words)
        return self._corpora[relevance]

    def _vector(self, query: tuple[float, ...] | TextToEmbed | None) -> Sequence[float] | None:
        if not isinstance(query, TextToEmbed):
            return query
        if self.embed is None:
            raise NoEmbeddingModel(query.model, query.dimension)
        if query not in self._vectors:
            vector = self.embed(query.text, query.model, query.dimension)
            if len(vector) != query.dimension:
                raise WrongEmbedding(query.model, query.dimension, len(vector))
            self._vectors[query] = vector
        return self._vectors[query]


def _restriction(column: str, ids: list[str] | None) -> str | None:
    """A filter for these ids: None when all may pass, the empty text when none can."""
    if ids is None:
        return None
    return among(column, ids) if ids else ""


def _oriented(table: pa.Table, begin: str, end: str) -> pa.Table:
    return table.append_column(SOURCE_END, table[begin]).append_column(DESTINATION_END, table[end])


def _joined(tables: Sequence[pa.Table], relation: Relation) -> pa.Table:
    """The rows of all tables with the fields of a relation, under its SQL names."""
    if not tables:
        return relation.schema.empty_table()
    renamed = [
        pa.table([table[name] for name in relation.fields], names=relation.schema.names).cast(relation.schema)
        for table in tables
    ]
    return pa.concat_tables(renamed)
