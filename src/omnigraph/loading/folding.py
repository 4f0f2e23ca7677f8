"""Folds the changes of each entity into one, in their order: what its last state is, and what of it is given.

The result does not depend on how changes are spread over loads: properties that a change does not give come from the
change before it, back to the last deletion, and from the graph if there is none.
"""

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.catalog import EntityType, table_schema
from omnigraph.catalog.model import ID
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import quoted
from omnigraph.loading.columns import flat
from omnigraph.loading.records import Faults, TypeRows
from omnigraph.loading.streams import PLACE
from omnigraph.storage.equality import equal_rows, equal_values
from omnigraph.storage.tables import array_of, numbers_in
from omnigraph.violations import Rule
from omnigraph.write.change import Origins

GIVEN = "@given "
"""What the columns begin with that say which records give a property."""
ORDER, DELETED = "@order", "@deleted"
"""The columns of changes: their place in the order, and whether they delete."""

_Numbers: TypeAlias = NDArray[np.int64]
_Marks: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FoldedChanges:
    """The changes of entities of one type, one for each entity."""

    upserts: TypeRows
    """The entities that are there in the end, with what the changes give of them."""
    fresh: pa.Array
    """Which of these were deleted before they came again: nothing of what the graph has remains."""
    deleted: pa.Array
    """The ids of the entities that are not there in the end."""
    stale: int
    """How many changes come before what the graph has."""
    faults: Faults
    """Different changes of an entity at the same place of the order."""


def fold_changes(entity: EntityType, changes: pa.Table, stored: pa.Table | None) -> FoldedChanges:
    """Folds changes of one type: rows with all columns, `GIVEN` ones, `PLACE`, `ORDER` and `DELETED`.

    `stored` has the ids of entities of the graph and, as `ORDER`, what was applied to them last; None if the graph does
    not keep it.
    """
    faults = Faults()
    count = changes.num_rows
    if stored is not None and stored.num_rows:
        changes = changes.filter(pc.invert(_come_before(changes, stored)))
    ids = flat(changes[ID]).dictionary_encode()
    if len(ids.dictionary) == changes.num_rows:
        deleted = flat(changes[DELETED])
        kept = changes.filter(pc.invert(deleted))
        fresh = pa.repeat(False, kept.num_rows)
        gone = flat(changes[ID]).filter(deleted)
        return FoldedChanges(_as_rows(entity, kept), fresh, gone, count - changes.num_rows, faults)
    columns = {"id": ids.indices, "order": changes[ORDER], "place": changes[PLACE]}
    order = pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending") for name in columns])
    changes, codes = changes.take(order), numbers_in(ids.indices)[numbers_in(order)]
    _find_ties(entity, changes, codes, faults)
    upserts, fresh, gone = _fold_sorted(entity, changes, codes)
    return FoldedChanges(upserts, fresh, gone, count - changes.num_rows, faults)


def _come_before(changes: pa.Table, stored: pa.Table) -> pa.Array:
    """Which changes come before what was applied to their entity last."""
    positions = pc.index_in(flat(changes[ID]), value_set=flat(stored[ID]))
    last = flat(stored[ORDER]).take(positions)
    return pc.fill_null(pc.less(flat(changes[ORDER]), last), False)


def _find_ties(entity: EntityType, changes: pa.Table, codes: _Numbers, faults: Faults) -> None:
    """Reports changes of one entity that differ and have the same place in the order."""
    order = flat(changes[ORDER])
    equal = numbers_in(pc.equal(order[1:], order[:-1]).cast(pa.int8())).astype(np.bool_)
    later = np.flatnonzero((codes[1:] == codes[:-1]) & equal) + 1
    if not len(later):
        return
    left, right = changes.take(array_of(later - 1)), changes.take(array_of(later))
    deletes = [flat(each[DELETED]) for each in (left, right)]
    same = equal_rows(left, right, [each for each in table_schema(entity).names if each not in entity.properties])
    for name in entity.properties:
        given = [flat(each[GIVEN + name]) for each in (left, right)]
        values = equal_values(flat(left[name]), flat(right[name]))
        same = pc.and_(same, pc.and_(pc.equal(*given), pc.or_(values, pc.invert(given[0]))))
    differ = pc.invert(pc.or_(pc.and_(*deletes), pc.and_(same, pc.equal(*deletes))))
    origins = Origins(right[PLACE].to_numpy())
    for position in pc.indices_nonzero(differ).to_pylist():
        identity, place = right[ID][position].as_py(), right[ORDER][position].as_py()
        problem = f"two different changes of {quoted(identity)} have the sequence {place}: expected different ones"
        violation = origins.violation(entity, None, problem, position)
        faults.report(violation._replace(id=identity, rule=Rule.SEQUENCE))


def _fold_sorted(entity: EntityType, changes: pa.Table, codes: _Numbers) -> tuple[TypeRows, pa.Array, pa.Array]:
    """The entities that stay, which of them are fresh, and the ids of those that go; changes are sorted by both."""
    positions = np.arange(len(codes))
    starts = np.concatenate([[0], np.flatnonzero(codes[1:] != codes[:-1]) + 1])
    lasts = np.concatenate([starts[1:], [len(codes)]]) - 1
    deletes: _Marks = changes[DELETED].to_numpy().astype(np.bool_)
    last_deletes = np.maximum.reduceat(np.where(deletes, positions, -1), starts)
    stays = last_deletes != lasts
    counted = positions > np.repeat(last_deletes, lasts - starts + 1)
    ends = array_of(lasts[stays])
    columns: dict[str, Any] = {
        name: changes[name].take(ends) for name in table_schema(entity).names if name not in entity.properties
    }
    for name in entity.properties:
        given: _Marks = changes[GIVEN + name].to_numpy().astype(np.bool_)
        found = np.maximum.reduceat(np.where(given & counted, positions, -1), starts)[stays]
        columns[GIVEN + name] = pa.array(found >= 0)
        columns[name] = changes[name].take(array_of(np.maximum(found, 0)))
    upserts = _as_rows(entity, pa.table({**columns, PLACE: changes[PLACE].take(ends)}))
    fresh = pa.array(last_deletes[stays] >= 0)
    return upserts, fresh, flat(changes[ID]).take(array_of(lasts[~stays]))


def _as_rows(entity: EntityType, rows: pa.Table) -> TypeRows:
    given = {name: flat(rows[GIVEN + name]) for name in entity.properties}
    origins = Origins(rows[PLACE].to_numpy())
    return TypeRows(entity, rows.select(table_schema(entity).names), given, generated_ids=False, origins=origins)
