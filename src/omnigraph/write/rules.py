"""The rules that need several rows, each as one function over columns: what breaks it, given what is there already.

Whoever checks, and however much at once, these functions decide: a mutation calls them with the few rows that it
touches, a load with one bucket of its keys at a time. Each works on whole columns and looks at single rows only where
something is wrong. `origins` says where a row comes from, for those who know.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from omnigraph.catalog import EdgeType, EntityType
from omnigraph.catalog.model import ID, SOURCE
from omnigraph.compute_later import pc
from omnigraph.diagnostics import quoted
from omnigraph.violations import Rule, Violation
from omnigraph.write.change import NO_IDS, NOWHERE, Origins

_FEW = 8
"""Among up to this many values, Python finds a single one faster than Arrow."""


def repeated_ids(entity: EntityType, ids: pa.Array, origins: Origins = NOWHERE) -> Iterator[Violation]:
    """Every row whose id an earlier one has."""
    if len(ids) == 1 or pc.count_distinct(ids).as_py() == len(ids):
        return
    seen: set[str] = set()
    for row, identity in enumerate(ids.to_pylist()):
        if identity in seen:
            problem = f"the id {quoted(identity)} is there twice"
            yield origins.violation(entity, None, problem, row)._replace(id=identity, rule=Rule.ID)
        seen.add(identity)


def taken_ids(entity: EntityType, ids: pa.Array, taken: pa.Array, origins: Origins = NOWHERE) -> Iterator[Violation]:
    """Every row that should be new and whose id is taken."""
    for row in _rows_among(ids, taken):
        identity = ids[row].as_py()
        problem = f"there is already one with the id {quoted(identity)}"
        yield origins.violation(entity, ID, problem, row)._replace(id=identity, rule=Rule.ID)


def missing_ends(
    edge: EdgeType,
    column: str,
    *,
    ends: pa.Array,
    missing: pa.Array,
    origins: Origins = NOWHERE,
    ids: pa.Array | None = None,
) -> Iterator[Violation]:
    """Every edge that ends at a node that is not there."""
    node = edge.source if column == SOURCE else edge.destination
    for row in _rows_among(ends, missing):
        problem = f"there is no {quoted(node)} with the id {quoted(ends[row].as_py())}"
        identity = None if ids is None else ids[row].as_py()
        yield origins.violation(edge, column, problem, row)._replace(id=identity, rule=Rule.END)


def lost_ends(edge: str, column: str, count: int, example: str) -> Violation:
    """So many edges that stay although the node at one end goes."""
    edges = "1 edge" if count == 1 else f"{count} edges"
    problem = f"{edges} would lose an end, such as {quoted(example)}; overwrite them too"
    return Violation(edge, column, problem, rule=Rule.END)


def shared_values(
    entity: EntityType, columns: Sequence[str], *, own: pa.Table, committed: pa.Table, origins: Origins = NOWHERE
) -> Iterator[Violation]:
    """Rows that share all values of a unique constraint with another; null is equal to nothing.

    Both tables have the id and the columns, without nulls; `origins` are those of `own`.
    """
    both = pa.concat_tables([committed, own])
    if not own.num_rows:
        return
    sizes = both.group_by(list(columns)).aggregate([([], "count_all")])["count_all"]
    if pc.max(sizes).as_py() <= 1:
        return
    first: dict[tuple[object, ...], str] = {}
    values = zip(*(both[column].to_pylist() for column in columns), strict=True)
    for row, (identity, shared) in enumerate(zip(both[ID].to_pylist(), values, strict=True)):
        other = first.setdefault(shared, identity)
        if other != identity:
            shown = ", ".join(str(value) for value in shared)
            problem = f"({', '.join(columns)}) = ({shown}) is already that of {quoted(other)}"
            place = row - committed.num_rows
            violation = origins.violation(entity, columns[0], problem, place if place >= 0 else None)
            yield violation._replace(id=identity, rule=Rule.UNIQUE)


def edge_counts(sources: pa.Array, ends: pa.Array) -> pa.Table:
    """How many edges each of these sources has, as `src` and `count`, in the order of the sources' ids."""
    # Each source counts once more than it has edges, so that one without any is there too.
    every = pa.concat_arrays([sources, ends.filter(pc.is_in(ends, value_set=sources))])
    counts = pa.table({SOURCE: every}).group_by(SOURCE).aggregate([([], "count_all")])
    return pa.table({SOURCE: counts[SOURCE], "count": pc.subtract(counts["count_all"], 1)}).sort_by(SOURCE)


def wrong_counts(
    edge: EdgeType, counts: pa.Table, sources: pa.Array = NO_IDS, origins: Origins = NOWHERE
) -> Iterator[Violation]:
    """Every source that has too many or too few edges; `sources` are those of the edges that have `origins`."""
    allowed = edge.cardinality
    wrong = pc.less(counts["count"], allowed.minimum)
    if allowed.maximum is not None:
        wrong = pc.or_(wrong, pc.greater(counts["count"], allowed.maximum))
    found = counts.filter(wrong)
    first = _first_rows(sources) if found.num_rows else {}
    for source, count in zip(found[SOURCE].to_pylist(), found["count"].to_pylist(), strict=True):
        problem = f"{quoted(source)} has {count} edges, and {allowed} are allowed"
        violation = origins.violation(edge, SOURCE, problem, first.get(source))
        yield violation._replace(id=source, rule=Rule.CARDINALITY)


def outside(values: pa.Array | pa.ChunkedArray, others: pa.Array) -> pa.Array | pa.ChunkedArray:
    """For each value, whether it is none of the others."""
    if len(values) == 1 and len(others) <= _FEW and isinstance(values, pa.Array):
        return pa.array([values[0].as_py() not in others.to_pylist()], pa.bool_())
    return pc.invert(pc.is_in(values, value_set=others))


def complete(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows that have a value in every one of the columns."""
    for column in columns:
        if rows[column].null_count:
            rows = rows.filter(pc.is_valid(rows[column]))
    return rows


def _first_rows(sources: pa.Array) -> Mapping[str, int]:
    first: dict[str, int] = {}
    for row, source in enumerate(sources.to_pylist()):
        first.setdefault(source, row)
    return first


def _rows_among(values: pa.Array, wrong: pa.Array) -> list[int]:
    if not len(wrong):
        return []
    rows: list[int] = pc.indices_nonzero(pc.is_in(values, value_set=wrong)).to_pylist()
    return rows
