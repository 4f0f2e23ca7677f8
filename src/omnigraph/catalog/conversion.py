"""Rows of a type under another schema of the same graph: which columns go on, and what rows have in those that came.

Types and properties are known by their identities, so it does not matter how often they were renamed in between. Both
types must be the same one.
"""

import pyarrow as pa

from omnigraph.catalog.model import EntityType, Property
from omnigraph.catalog.tables import table_schema
from omnigraph.catalog.types import arrow_type


def continued_columns(before: EntityType, after: EntityType) -> dict[str, str]:
    """For each column that both types have, what it is called in one and in the other."""
    by_identity = {each.identity: name for name, each in after.properties.items()}
    properties = {
        name: by_identity[each.identity] for name, each in before.properties.items() if each.identity in by_identity
    }
    return {**properties, **{name: name for name in before.system_columns}}


def kept_columns(before: EntityType, after: EntityType) -> frozenset[str]:
    """Those that only writes to rows change, by the name that they have before: all but the vectors of a model.

    A change of the schema makes numbers wider, and fills what comes with the same for all branches.
    """
    computed = {
        each.identity for entity in (before, after) for each in entity.properties.values() if each.embedding is not None
    }
    continued = continued_columns(before, after)
    return frozenset(
        name for name in continued if name not in before.properties or before.properties[name].identity not in computed
    )


def columns_that_came(before: EntityType, after: EntityType) -> dict[str, pa.Scalar]:
    """The columns that only the later type has, each with what the rows got that were there when it came."""
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
        and _computed(before, after, earlier.get(each.identity), each)
    )


def filling(declared: Property) -> pa.Scalar:
    """What the rows got that were there when a property came."""
    value = list(declared.filling) if isinstance(declared.filling, tuple) else declared.filling
    return pa.scalar(value, arrow_type(declared.type))


def converted(rows: pa.Table, before: EntityType, after: EntityType) -> pa.Table:
    """Rows as they would be after the change of the schema, but for vectors that are computed then: these are null.

    Columns that went are left out, whatever they held.
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
            columns.append(pa.chunked_array([_repeated(filling(declared), rows.num_rows)]))
    return pa.Table.from_arrays(columns, schema=schema)


def _repeated(value: pa.Scalar, count: int) -> pa.Array:
    """A value so many times. Arrow cannot repeat a list zero times."""
    return pa.repeat(value, count) if count else pa.nulls(0, value.type)


def in_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with these columns and no others. That a required value is missing is for others to find."""
    return pa.Table.from_arrays([rows[field.name].cast(field.type) for field in schema], schema=schema)


def _computed(before: EntityType, after: EntityType, earlier: Property | None, later: Property) -> bool:
    assert later.embedding is not None
    if earlier is None:
        return not later.nullable
    if earlier.embedding is None:
        return False
    sources = before.properties[earlier.embedding.source], after.properties[later.embedding.source]
    return earlier.embedding.model != later.embedding.model or sources[0].identity != sources[1].identity
