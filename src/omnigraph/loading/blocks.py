"""Reads a block of NDJSON lines of one type in one go, where nothing in it is unusual.

Arrow's JSON reader is some ten times as fast as reading line by line, and as strict: what it does not take exactly as
we would, it refuses. Then the block is read line by line, which also finds the line that is wrong.
"""

import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from omnigraph.catalog import EdgeType, EntityType, PropertyType, Scalar, Vector, all_finite, arrow_type
from omnigraph.catalog.model import DESTINATION, ID, SOURCE

# How almost everybody writes a record. Any other order of the keys is just as right, and read line by line.
_BEGINNING = r'^\{\s*"(?P<kind>type|edge)"\s*:\s*"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"'
_READ_AS_TEXT = (Scalar.DATE, Scalar.DATETIME)


def lines_of(block: bytes) -> pa.Array:
    """The lines of a block; empty ones are kept, so that positions are line numbers."""
    table = pa.csv.read_csv(
        pa.py_buffer(block),
        read_options=pa.csv.ReadOptions(column_names=["line"], block_size=max(len(block), 1) + 1),
        parse_options=pa.csv.ParseOptions(delimiter="\x01", quote_char=False, ignore_empty_lines=False),
        convert_options=pa.csv.ConvertOptions(column_types={"line": pa.string()}, strings_can_be_null=False),
    )
    return table["line"].combine_chunks()


def line_count(block: bytes) -> int:
    """How many lines a block has; the last one may have a newline at its end."""
    return block.count(b"\n") + (not block.endswith(b"\n"))


def only_kind_in(block: bytes, count: int) -> str | None:
    """``type:Person`` or ``edge:Knows`` when each of so many lines begins like the first, to the letter; else None."""
    first = re.match(_BEGINNING.encode(), block)
    if first is None or block.count(b"\n" + first[0]) + 1 != count:
        return None
    return f"{first['kind'].decode()}:{first['name'].decode()}"


def kinds_of(lines: pa.Array) -> pa.Array | None:
    """For each line ``type:Person`` or ``edge:Knows``; None when a line begins in another way."""
    found = pc.extract_regex(lines, _BEGINNING)
    if found.null_count:
        return None
    return pc.binary_join_element_wise(found.field("kind"), found.field("name"), ":")


def text_of(lines: pa.Array) -> bytes:
    """These lines as one text."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    text: bytes = pc.binary_join(whole, "\n")[0].as_buffer().to_pybytes()
    return text


def rows_of(entity: EntityType, text: bytes, count: int) -> dict[str, pa.Array] | None:
    """The records of so many lines as columns, null where nothing is given; None when they need a closer look.

    The ids that records give themselves are the column `id`.
    """
    if any(declared.type is Scalar.BLOB for declared in entity.properties.values()):
        return None  # the bytes of a Blob are not those of its JSON text
    if not _is_text(text):
        return None  # Arrow would take the bytes as they are, and nobody could read the rows again
    try:
        table = pa.json.read_json(
            pa.py_buffer(text),
            read_options=pa.json.ReadOptions(block_size=1 << 22, use_threads=pa.cpu_count() > 1),
            parse_options=pa.json.ParseOptions(
                explicit_schema=_record_schema(entity), unexpected_field_behavior="error"
            ),
        )
        return _flattened(entity, table, count)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return None


def _is_text(content: bytes) -> bool:
    if content.isascii():
        return True
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _flattened(entity: EntityType, table: pa.Table, count: int) -> dict[str, pa.Array] | None:
    if table.num_rows != count:
        return None
    data = table["data"].combine_chunks()
    columns = {}
    for declared in entity.properties.values():
        column = pc.struct_field(data, declared.name)
        column = column.cast(arrow_type(declared.type))
        if not all_finite(column):
            return None
        columns[declared.name] = column
    if ID not in columns:
        columns[ID] = pc.struct_field(data, ID)
    if isinstance(entity, EdgeType):
        columns |= {SOURCE: table["from"].combine_chunks(), DESTINATION: table["to"].combine_chunks()}
        if columns[SOURCE].null_count or columns[DESTINATION].null_count:
            return None
    return columns


def _record_schema(entity: EntityType) -> pa.Schema:
    properties = {declared.name: _json_type(declared.type) for declared in entity.properties.values()}
    data = pa.struct([pa.field(name, type) for name, type in {**properties, ID: pa.string()}.items()])
    if isinstance(entity, EdgeType):
        return pa.schema([("edge", pa.string()), ("from", pa.string()), ("to", pa.string()), ("data", data)])
    return pa.schema([("type", pa.string()), ("data", data)])


def _json_type(type: PropertyType) -> pa.DataType:
    if isinstance(type, Vector):
        return pa.list_(pa.float32())
    return pa.string() if type in _READ_AS_TEXT else arrow_type(type)
