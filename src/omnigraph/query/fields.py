"""What the rows of a scan become: the fields of a relation, with those that are computed of each row.

A row is worked on for itself. Whatever must be known besides it is in `Knowledge`, which is made once and can be sent
to where the rows are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np
import pyarrow as pa

from omnigraph.catalog.model import DESTINATION, SOURCE
from omnigraph.compiler.ir import Direction
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.query import steps
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

    corpora: Mapping[steps.Relevance, Corpus] = field(default_factory=dict)
    vectors: Mapping[steps.TextToEmbed, Sequence[float]] = field(default_factory=dict)

    def vector(self, query: tuple[float, ...] | steps.TextToEmbed | None) -> Sequence[float] | None:
        """The vector that a distance is measured to."""
        return self.vectors[query] if isinstance(query, steps.TextToEmbed) else query


def node_rows(step: steps.NodeScan, scan: steps.TableScan, table: pa.Table, knowledge: Knowledge) -> pa.Table:
    """The rows of a relation of nodes that rows of one of its tables make, under SQL names."""
    if steps.TYPE in step.relation.fields:
        table = table.append_column(steps.TYPE, pa.repeat(pa.scalar(scan.type, pa.string()), table.num_rows))
    return _to_relation(_add_computed(table, step.computed, step.required, knowledge), step.relation)


def edge_rows(step: steps.EdgeScan, table: pa.Table, knowledge: Knowledge) -> pa.Table:
    """The rows of a relation of edges that rows of its table make, under SQL names."""
    table = _add_computed(table, step.computed, step.required, knowledge)
    oriented = [_add_ends(table, *ends) for ends in ORIENTATIONS[step.direction]]
    if len(oriented) == 2:
        # A loop is the same edge in both orientations.
        oriented[1] = oriented[1].filter(pc.not_equal(oriented[1][SOURCE], oriented[1][DESTINATION]))
    return pa.concat_tables([_to_relation(each, step.relation) for each in oriented])


def _add_computed(
    table: pa.Table, computed: Sequence[steps.Computed], required: Sequence[str], knowledge: Knowledge
) -> pa.Table:
    for index, each in enumerate(computed):
        name = f"@{index}"
        if name not in table.column_names:
            table = table.append_column(name, _column(table, each, knowledge))
        if name in required:
            table = table.filter(table[name])
    return table


def _column(table: pa.Table, computed: steps.Computed, knowledge: Knowledge) -> pa.Array:
    column = table[computed.column]
    match computed:
        case steps.TextMatching():
            return matching(column.to_pylist(), computed)
        case steps.Relevance():
            return relevances(column.to_pylist(), computed, knowledge.corpora[computed])
        case steps.Distance(_, query):
            return cosine_distances(column, knowledge.vector(query))


def _add_ends(table: pa.Table, begin: str, end: str) -> pa.Table:
    return table.append_column(steps.SOURCE_END, table[begin]).append_column(steps.DESTINATION_END, table[end])


def _to_relation(table: pa.Table, relation: steps.Relation) -> pa.Table:
    columns = [table[name] for name in relation.fields]
    return pa.table(columns, names=relation.schema.names).cast(relation.schema)


# So many vectors are made wide at once: they should stay in the cache of the processor.
_AT_ONCE = 1024


def cosine_distances(vectors: pa.ChunkedArray, query: Sequence[float] | None) -> pa.Array:
    """``1 - cos`` for each vector, as F32. Null where there is no vector, no query, or a vector of zeros.

    Computed in F64, so that the order of near neighbours does not depend on rounding.
    """
    count = len(vectors)
    if query is None or count == 0:
        return pa.nulls(count, pa.float32())
    target = np.asarray(query, dtype=np.float32).astype(np.float64)
    length = np.linalg.norm(target)
    combined = vectors.combine_chunks()
    is_null = combined.is_null().to_numpy(zero_copy_only=False)
    dimension = combined.type.list_size
    # A null keeps its slots in the values of a fixed-size list, filled with anything.
    start = combined.offset * dimension
    matrix = combined.values.to_numpy(zero_copy_only=False)[start : start + count * dimension].reshape(count, dimension)
    lengths, products = np.empty(count), np.empty(count)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for begin in range(0, count, _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            wide = matrix[part].astype(np.float64)
            lengths[part] = np.sqrt(np.einsum("ij,ij->i", wide, wide))
            products[part] = wide @ target
        distances = 1.0 - products / (lengths * length)
    missing = is_null | ~(lengths > 0) | (length == 0)
    return pa.array(distances.astype(np.float32), mask=missing)
