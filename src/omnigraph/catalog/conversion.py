"""Rows of a type under another schema of the same graph: which columns continue, and the values of added columns.

Types and properties are known by their identities, so it does not matter how often they were renamed in between. Both
types must be the same one.
"""

import pyarrow as pa

from omnigraph.catalog.model import EntityType, Property, table_schema
from omnigraph.catalog.types import arrow_type


def continued_columns(before: EntityType, after: EntityType) -> dict[str, str]:
    """The columns that both types have: the name in one and the name in the other."""
    by_identity = {each.identity: name for name, each in after.properties.items()}
    properties = {
        name: by_identity[each.identity] for name, each in before.properties.items() if each.identity in by_identity
    }
    return {**properties, **{name: name for name in before.system_columns}}


def kept_columns(before: EntityType, after: EntityType) -> frozenset[str]:
    """The columns that only writes to rows change, by their earlier names: all but the vectors of a model.

    A schema change widens numbers, and fills added columns with the same value on all branches.
    """
    computed = {
        each.identity for entity in (before, after) for each in entity.properties.values() if each.embedding is not None
    }
    continued = continued_columns(before, after)
    return frozenset(
        name for name in continued if name not in before.properties or before.properties[name].identity not in computed
    )


def columns_that_came(before: EntityType, after: EntityType) -> dict[str, pa.Scalar]:
    """The columns that only the later type has, each with the value that existing rows got when it was added."""
    there = {*continued_columns(before, after).values()}
    return {name: filling(each) for name, each in after.properties.items() if name not in there}


def computed_columns(before: EntityType, after: EntityType) -> frozenset[str]:
    """The vectors of the later type that a model computed for rows that were there, by the names they have there."""
    earlier = {each.identity: each for each in before.properties.values()}
    return frozenset(
        name
        for name, each in after.properties.items()
        if each.embedding is not None
        and each.embedding.model is not None
        and _is_recomputed(before, after, earlier.get(each.identity), each)
    )


def filling(declared: Property) -> pa.Scalar:
    """The value that existing rows got when a property was added."""
    value = list(declared.filling) if isinstance(declared.filling, tuple) else declared.filling
    return pa.scalar(value, arrow_type(declared.type))


def convert_rows(rows: pa.Table, before: EntityType, after: EntityType) -> pa.Table:
    """Rows as they are after the schema change, with null for vectors that are computed then.

    Dropped columns are left out.
    """
    schema = table_schema(after)
    if before == after:
        return in_columns(rows, schema)
    computed = computed_columns(before, after)
    sources = {each.identity: name for name, each in before.properties.items()}
    columns = []
    for field in schema:
        declared = after.properties.get(field.name)
        if declared is None or field.name in after.system_columns:
            columns.append(rows[field.name].cast(field.type))
        elif field.name in computed:
            columns.append(pa.chunked_array([pa.nulls(rows.num_rows, field.type)]))
        elif declared.identity in sources:
            columns.append(rows[sources[declared.identity]].cast(field.type))
        else:
            columns.append(pa.chunked_array([repeat_value(filling(declared), rows.num_rows)]))
    return pa.Table.from_arrays(columns, schema=schema)


def repeat_value(value: pa.Scalar, count: int) -> pa.Array:
    """An array of `count` equal values. Arrow itself cannot repeat a list zero times."""
    return pa.repeat(value, count) if count else pa.nulls(0, value.type)


def in_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with exactly these columns. Missing required values are not checked here."""
    return pa.Table.from_arrays([rows[field.name].cast(field.type) for field in schema], schema=schema)


def _is_recomputed(before: EntityType, after: EntityType, earlier: Property | None, later: Property) -> bool:
    assert later.embedding is not None
    if earlier is None:
        return not later.nullable
    if earlier.embedding is None or earlier.embedding.is_unfilled:
        return False
    sources = before.properties[earlier.embedding.source], after.properties[later.embedding.source]
    return earlier.embedding.model != later.embedding.model or sources[0].identity != sources[1].identity
