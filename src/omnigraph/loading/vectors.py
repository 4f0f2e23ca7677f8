"""Which vectors of loaded rows a model computes: those of texts that came or changed, where no vector was given."""

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID
from omnigraph.embedding import Settings, embedded_properties, filled
from omnigraph.loading.columns import flat
from omnigraph.loading.records import TypeRows


def with_vectors(records: TypeRows, rows: pa.Table, known: pa.Table | None, models: Settings) -> pa.Table:
    """The completed rows of records, with the vectors that models have to fill.

    `known` are the entities among them that are there already: one that a record gives no text, or the same text,
    keeps its vector.
    """
    embedded = list(embedded_properties(records.entity))
    if not embedded or not rows.num_rows:
        return rows
    positions = None
    if known is not None:
        positions = pc.index_in(flat(rows[ID]), value_set=flat(known[ID]))
    wanted = {}
    for declared, source, _ in embedded:
        missing = pc.is_null(flat(rows[declared.name]))
        if known is None:
            wanted[declared.name] = missing
            continue
        is_new = pc.is_null(positions)
        text = flat(rows[source])
        before = flat(known[source]).cast(text.type).take(positions)
        unchanged = pc.or_(pc.fill_null(pc.equal(text, before), False), pc.and_(pc.is_null(text), pc.is_null(before)))
        stale = pc.and_(pc.invert(_given(records, declared.name)), pc.invert(unchanged))
        touched = pc.and_(_told(records, source), pc.or_(missing, stale))
        wanted[declared.name] = pc.if_else(is_new, missing, touched)
    return filled(records.entity, rows, wanted, models)


def _told(records: TypeRows, name: str) -> pa.Array:
    """Which records say something of a property, even if it is that there is none."""
    told = records.given.get(name)
    return pa.repeat(True, records.rows.num_rows) if told is None else told


def _given(records: TypeRows, name: str) -> pa.Array:
    """Which records give a value for a property."""
    return pc.and_(_told(records, name), pc.is_valid(flat(records.rows[name])))
