"""Reads the leaves of a plan in this process: scans, and the statistics and vectors that computed fields need."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field, replace
from typing import TypeAlias

import pyarrow as pa

from omnigraph.catalog.model import ID
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import NoEmbeddingModel, WrongEmbedding
from omnigraph.query import steps
from omnigraph.query.cancelling import NEVER, Cancellation, check_each
from omnigraph.query.fields import ORIENTATIONS, Knowledge, edge_rows, node_rows
from omnigraph.query.searching import Search, is_ranked_by_index
from omnigraph.query.words import Corpus, corpus_of
from omnigraph.storage.predicates import among
from omnigraph.storage.tables import ROW_ADDRESS, Table

Embed: TypeAlias = Callable[[str, str | None, int], Sequence[float]]
"""Turns a text into a vector: called with the text, the name of the model and the dimension."""

NARROWING_IDS = 1000
"""Up to this many ids are named in a filter; more cost more than reading the rows that they would exclude."""

COMPUTED_ROWS = 100_000
"""Fields are computed for this many rows at a time; then the query checks whether it must stop."""


@dataclass(frozen=True, slots=True)
class Ids:
    """The ids that a variable may still have. If they are not `narrowing`, these are all ids of the type."""

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

    reader: steps.GraphReader
    embed: Embed | None
    cancellation: Cancellation = NEVER
    _vectors: dict[steps.TextToEmbed, Sequence[float]] = field(default_factory=dict)
    _corpora: dict[steps.Relevance, Corpus] = field(default_factory=dict)

    def nodes(self, step: steps.NodeScan, narrowed: dict[str, Ids]) -> pa.Table:
        """The rows of a variable; `narrowed` has what is known of its ids, for each type."""
        tables = []
        for scan in step.tables:
            known = narrowed.get(scan.type)
            few = known.few() if known is not None else None
            if few == []:
                continue
            table = self._search(step, scan, among(ID, few) if few else None)
            knowledge = self.knowledge(step, table.column_names)
            tables += [node_rows(step, scan, part, knowledge) for part in self._parts(step, table)]
        return pa.concat_tables(tables) if tables else step.relation.schema.empty_table()

    def first_nodes(self, step: steps.NodeScan, order: Sequence[steps.DirectSort], count: int) -> pa.Table:
        """The rows of a variable, of which nothing is computed, that come first by an order; others may be missing."""
        fields = {step.relation.alias(name): name for name in step.relation.fields}
        tables = []
        for scan in step.tables:
            # All rows of one table have the same type.
            keys = [replace(key, alias=name) for key in order if (name := fields[key.alias]) != steps.TYPE]
            first = FirstRows(
                table=self.reader.table(scan.table_key),
                filter=scan.filter,
                order=keys,
                count=count,
                cancellation=self.cancellation,
            )
            tables.append(node_rows(step, scan, first.read(scan.columns), Knowledge()))
        return pa.concat_tables(tables)

    def edges(self, step: steps.EdgeScan, source: Ids | None, destination: Ids | None) -> pa.Table:
        """The rows of an edge variable, between ends that are known or not."""
        few = [None if each is None else each.few() for each in (source, destination)]
        if [] in few:
            return step.relation.schema.empty_table()
        table = self._search(step, step.table, between(step, few[0], few[1]))
        knowledge = self.knowledge(step, table.column_names)
        return pa.concat_tables([edge_rows(step, part, knowledge) for part in self._parts(step, table)])

    def _parts(self, step: steps.NodeScan | steps.EdgeScan, table: pa.Table) -> Iterator[pa.Table]:
        """The rows; in parts if a field is computed, so that the query can stop in between."""
        size = COMPUTED_ROWS if step.computed else table.num_rows
        for start in range(0, max(table.num_rows, 1), max(size, 1)):
            self.cancellation.check()
            yield table.slice(start, size)

    def knowledge(self, step: steps.NodeScan | steps.EdgeScan, done: Collection[str] = ()) -> Knowledge:
        """What the computed fields of a step depend on, but for those that are done."""
        for number, each in enumerate(step.computed):
            if f"@{number}" not in done:
                self._learn(each)
        return Knowledge(self._corpora, self._vectors)

    def _learn(self, computed: steps.Computed) -> None:
        if isinstance(computed, steps.Relevance) and computed not in self._corpora:
            self._corpora[computed] = self.corpus(computed)
        if isinstance(computed, steps.Distance) and isinstance(computed.query, steps.TextToEmbed):
            self._vectors[computed.query] = self._vectors.get(computed.query) or self._embed_text(computed.query)

    def corpus(self, relevance: steps.Relevance) -> Corpus:
        """The statistics of all texts that a score is about."""
        texts: list[str | None] = []
        for scan in relevance.corpus:
            texts += self._scan(scan, None)[relevance.column].to_pylist()
        return corpus_of(check_each(texts, self.cancellation), relevance.words)

    def _search(
        self, step: steps.NodeScan | steps.EdgeScan, scan: steps.TableScan, restriction: str | None
    ) -> pa.Table:
        """The rows of a scan that pass its filter and a restriction; an index may have left out some, and done more."""
        if step.computed:
            search = Search(self.reader.table(scan.table_key), step, scan, together(scan.filter, restriction))
            rows = search.rows(is_narrowed=restriction is not None, vector=self._vector)
            if rows is not None:
                self.cancellation.hold(rows.nbytes)
                return rows
        return self._scan(scan, restriction)

    def _vector(self, distance: steps.Distance) -> Sequence[float] | None:
        self._learn(distance)
        return Knowledge({}, self._vectors).vector(distance.query)

    def is_ranked_by_index(self, step: steps.NodeScan | steps.EdgeScan) -> bool:
        """Whether an index decides how the rows of a step rank."""
        scans = step.tables if isinstance(step, steps.NodeScan) else (step.table,)
        return bool(step.computed) and any(
            is_ranked_by_index(self.reader.table(scan.table_key), step, scan) for scan in scans
        )

    def _scan(self, scan: steps.TableScan, restriction: str | None) -> pa.Table:
        filter = together(scan.filter, restriction)
        return self.reader.scan(scan.table_key, columns=scan.columns, filter=filter, check=self.cancellation.hold)

    def _embed_text(self, query: steps.TextToEmbed) -> Sequence[float]:
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


def between(step: steps.EdgeScan, sources: Sequence[str] | None, destinations: Sequence[str] | None) -> str | None:
    """A filter for the edges that have these ends, in an orientation that fits."""
    choices = []
    for begin, end in ORIENTATIONS[step.direction]:
        ends = (
            None if sources is None else among(begin, sources),
            None if destinations is None else among(end, destinations),
        )
        choices.append(" AND ".join(f"({each})" for each in ends if each))
    return " OR ".join(f"({each})" for each in choices if each) or None


# --- the first rows of a table ---

FEW_ROWS = 1000
"""Up to this many rows are read by their address in the table."""

MANY_ROWS = 10_000
"""Up to this many rows, all columns are read. Of more, first the sort keys, then the other columns of the first."""

_PENDING_ROWS, _PENDING_BYTES = 64 * 1024, 256 * 1024 * 1024
"""Of more rows or bytes than these, only the rows that come first are kept. Arrow cannot sort 2 GiB of text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRows:
    """The rows that come first of those that pass a filter. `order` names columns, and leaves no two rows equal."""

    table: Table
    filter: str | None
    order: Sequence[steps.DirectSort]
    count: int
    cancellation: Cancellation

    def read(self, columns: Sequence[str]) -> pa.Table:
        """These columns of the rows, in any order; there may be more rows than were asked for."""
        keys = dict.fromkeys(key.alias for key in self.order)
        if self.count > FEW_ROWS or keys.keys() >= {*columns}:
            return self._scan_first(columns)
        if self.filter is not None or self.table.count() <= MANY_ROWS:
            rows = self.table.scan(columns, self.filter, MANY_ROWS + 1, check=self.cancellation.hold)
            if rows.num_rows <= MANY_ROWS:
                return rows
        places = self._scan_first((*keys, ROW_ADDRESS))[ROW_ADDRESS]
        rows = self.table.rows_at(places.combine_chunks(), columns)
        self.cancellation.hold(rows.nbytes)
        return rows

    def _scan_first(self, columns: Sequence[str]) -> pa.Table:
        """The same, in one pass over all rows that keeps little more than the first rows seen so far."""
        pending = self.table.scan(columns, "false")
        held, most_bytes = 0, _PENDING_BYTES
        for batch in self.table.batches(columns, self.filter):
            pending = pa.concat_tables([pending, pa.Table.from_batches([batch])])
            self.cancellation.hold(max(pending.nbytes - held, 0))
            held = max(pending.nbytes, held)
            if pending.num_rows > max(2 * self.count, _PENDING_ROWS) or pending.nbytes > most_bytes:
                pending = in_order(pending, self.order, self.count)
                most_bytes = 2 * pending.nbytes + _PENDING_BYTES
        return in_order(pending, self.order, self.count)


def in_order(rows: pa.Table, order: Sequence[steps.DirectSort], count: int | None) -> pa.Table:
    """The first `count` rows in this order."""
    if rows.num_rows > 1:
        keys = [
            (key.alias, "descending" if key.descending else "ascending", "at_start" if key.nulls_first else "at_end")
            for key in order
        ]
        return _take(rows, pc.sort_indices(rows, sort_keys=keys).slice(0, count))
    return rows.slice(0, count)


def _take(rows: pa.Table, places: pa.Array) -> pa.Table:
    """The rows at some places."""
    try:
        return rows.take(places)
    except pa.ArrowInvalid:
        # Arrow puts a column together first, and an array has no room for more than 2 GiB of text.
        if len(places) > MANY_ROWS:
            raise
        return pa.concat_tables([rows.slice(place, 1) for place in places.to_pylist()])
