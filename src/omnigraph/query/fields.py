"""What the rows of a scan become: the fields of a relation, with those that are computed of each row.

A row is worked on for itself. Whatever must be known besides it is in `Knowledge`, which is made once and can be sent
to where the rows are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import DESTINATION, SOURCE
from omnigraph.compiler.ir import Direction
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
from omnigraph.query.words import Corpus, matching, relevances

ORIENTATIONS = {
    Direction.FORWARD: [(SOURCE, DESTINATION)],
    Direction.BACKWARD: [(DESTINATION, SOURCE)],
    Direction.EITHER: [(SOURCE, DESTINATION), (DESTINATION, SOURCE)],
}
"""The columns of the two ends of an edge, for each way in which it is followed."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the fields of a row depend on besides the row: statistics of all texts, and texts as vectors."""

    corpora: Mapping[Relevance, Corpus] = field(default_factory=dict)
    vectors: Mapping[TextToEmbed, Sequence[float]] = field(default_factory=dict)

    def vector(self, query: tuple[float, ...] | TextToEmbed | None) -> Sequence[float] | None:
        """The vector that a distance is measured to."""
        return self.vectors[query] if isinstance(query, TextToEmbed) else query


def node_rows(step: NodeScan, scan: TableScan, table: pa.Table, knowledge: Knowledge) -> pa.Table:
    """The rows of a relation of nodes that rows of one of its tables make, under SQL names."""
    if TYPE in step.relation.fields:
        table = table.append_column(TYPE, pa.repeat(pa.scalar(scan.type, pa.string()), table.num_rows))
    return _named(_computed(table, step.computed, step.required, knowledge), step.relation)


def edge_rows(step: EdgeScan, table: pa.Table, knowledge: Knowledge) -> pa.Table:
    """The rows of a relation of edges that rows of its table make, under SQL names."""
    table = _computed(table, step.computed, step.required, knowledge)
    oriented = [_oriented(table, *ends) for ends in ORIENTATIONS[step.direction]]
    if len(oriented) == 2:
        # A loop is the same edge in both orientations.
        oriented[1] = oriented[1].filter(pc.not_equal(oriented[1][SOURCE], oriented[1][DESTINATION]))
    return pa.concat_tables([_named(each, step.relation) for each in oriented])


def _computed(table: pa.Table, computed: Sequence[Computed], required: Sequence[str], knowledge: Knowledge) -> pa.Table:
    for index, each in enumerate(computed):
        name = f"@{index}"
        if name not in table.column_names:
            table = table.append_column(name, _column(table, each, knowledge))
        if name in required:
            table = table.filter(table[name])
    return table


def _column(table: pa.Table, computed: Computed, knowledge: Knowledge) -> pa.Array:
    column = table[computed.column]
    match computed:
        case TextMatching():
            return matching(column.to_pylist(), computed)
        case Relevance():
            return relevances(column.to_pylist(), computed, knowledge.corpora[computed])
        case Distance(_, query):
            return cosine_distances(column, knowledge.vector(query))


def _oriented(table: pa.Table, begin: str, end: str) -> pa.Table:
    return table.append_column(SOURCE_END, table[begin]).append_column(DESTINATION_END, table[end])


def _named(table: pa.Table, relation: Relation) -> pa.Table:
    columns = [table[name] for name in relation.fields]
    return pa.table(columns, names=relation.schema.names).cast(relation.schema)
