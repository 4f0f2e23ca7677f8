"""Tables of Spark's catalog: keeps the options of ``CREATE TABLE … USING omnigraph`` where reads and writes find them.

Spark gives the options of a table to the source when the table is created, and not when it is used. What it gives back
then is the schema, with the metadata of its columns; so that is where the options are kept.
"""

import json
from collections.abc import Mapping

from pyspark.sql import types

_OPTIONS = "omnigraph"
_MADE_BY_TABLES = "provider"
"""The option that only the creation of a table has."""

_RAW_TYPE, _ANY_TEXT = "__CHAR_VARCHAR_TYPE_STRING", "varchar(2147483647)"
"""How Spark marks the column of texts of a bounded length.

It copies the metadata of such a column to rows that are written to it, whatever they are. Of others it does so only if
their names or types differ from those of the rows.
"""

_REPEATED = "option."
_OF_SPARK = frozenset(
    (_MADE_BY_TABLES, "location", "owner", "comment", "collation", "external", "is_managed_location", "table_type")
)


def is_table(options: Mapping[str, str]) -> bool:
    """Whether these are the options of a table that is being created."""
    return _MADE_BY_TABLES in options


def without_table_properties(options: Mapping[str, str]) -> dict[str, str]:
    """The options without those that Spark adds for a table; it takes the place of the table for `path`."""
    given = {name.lower(): value for name, value in options.items()}
    if not is_table(given):
        return given
    if "graph" in given:
        given.pop("path", None)
    return {name: value for name, value in given.items() if name not in _OF_SPARK and not name.startswith(_REPEATED)}


def table_schema_with(options: Mapping[str, str], schema: types.StructType) -> types.StructType:
    """The schema of a table that is being created. The id may be left out of an `INSERT`, as in a load."""
    kept = json.dumps(without_table_properties(options), sort_keys=True)
    first, *others = schema.fields
    metadata = {_OPTIONS: kept}
    if isinstance(first.dataType, types.StringType):
        metadata[_RAW_TYPE] = _ANY_TEXT
    return types.StructType([types.StructField(first.name, first.dataType, True, metadata), *others])


def options_with_table(options: Mapping[str, str], schema: types.StructType) -> dict[str, str]:
    """The options of a read or a write, with those of the table that it is for, if it names no graph itself.

    A frame that was read from a table has the metadata of its columns too. So a write that names anything of a graph is
    not taken for one to that table.
    """
    given = without_table_properties(options)
    if not given.keys().isdisjoint(("path", "graph", "type")):
        return given
    for each in schema.fields:
        if (kept := each.metadata.get(_OPTIONS)) is not None:
            return {**json.loads(kept), **given}
    return given
