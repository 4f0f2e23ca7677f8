"""How a row becomes a line of text: expressions over whole columns, which DuckDB evaluates.

An NDJSON line is the record that load reads back: nulls are left out, a DateTime is in UTC with milliseconds only where
there are some, a Blob is ``"base64:…"``, a float has the digits that read back as the same number. A CSV line follows
RFC 4180: a text is always in quotes, so that an empty one differs from null, which is an empty cell.

Columns are named by their position, as `parts/streaming.py` gives them.
"""

import json

from omnigraph.api.values import BLOB_PREFIX
from omnigraph.catalog import EdgeType, EntityType, Enum, List, PropertyType, Scalar, Vector
from omnigraph.catalog.model import DESTINATION, ID, SOURCE, TYPED_ID
from omnigraph.dataclass_later import dataclass
from omnigraph.parts.streaming import column_at


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShape:
    """What a line says of a row of one type; `columns` are those of the table, in order, with their types.

    `shows_id` is False where the key in the record says the id anyway. `never_null` are the columns that have a value
    in every row.
    """

    type: str
    is_edge: bool
    shows_id: bool
    never_null: frozenset[str]
    columns: tuple[tuple[str, PropertyType], ...]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]

    @property
    def properties(self) -> list[str]:
        """The columns in the data of a record, except the id."""
        return [name for name in self.names if name not in (ID, SOURCE, DESTINATION)]

    @property
    def has_blobs(self) -> bool:
        return any(type is Scalar.BLOB for _, type in self.columns)


def shape_of(entity: EntityType) -> RowShape:
    """How the rows of a type are written."""
    system: list[tuple[str, PropertyType]] = [(name, Scalar.STRING) for name in entity.system_columns]
    declared = [each for each in entity.properties.values() if each.name not in entity.system_columns]
    return RowShape(
        type=entity.name,
        is_edge=isinstance(entity, EdgeType),
        shows_id=isinstance(entity, EdgeType) or not entity.key or ID in entity.key,
        never_null=frozenset((*entity.system_columns, *(each.name for each in declared if not each.nullable))),
        columns=(*system, *((each.name, each.type) for each in declared)),
    )


def record_lines(shape: RowShape) -> str:
    """The expression of the NDJSON line of a row, with its end."""
    name = json.dumps(shape.type, ensure_ascii=False)
    if shape.is_edge:
        ends = [_json(shape, SOURCE), _literal(', "to": '), _json(shape, DESTINATION), _literal(', "data": {')]
        begin = [_literal(f'{{"edge": {name}, "from": '), *ends]
    else:
        begin = [_literal(f'{{"type": {name}, "data": {{')]
    return _together(*begin, *_items(shape), _literal("}}\n"))


def _items(shape: RowShape) -> list[str]:
    """What is between the braces of the data: texts to be put one after the other, where null stands for nothing.

    There is always one that is not null, the id or a property of the key. The commas belong to those around it.
    """
    told = [*([ID] if shape.shows_id else []), *shape.properties]
    sure = next(number for number, name in enumerate(told) if name in shape.never_null)
    labels = [ID if name == TYPED_ID else name for name in told]
    items = [
        (_literal(json.dumps(label, ensure_ascii=False) + ": "), _json(shape, name))
        for label, name in zip(labels, told, strict=True)
    ]
    before = [f"{name} || {value} || ', '" for name, value in items[:sure]]
    after = [f"', ' || {name} || {value}" for name, value in items[sure + 1 :]]
    return [*before, *items[sure], *after]


def cell_lines(shape: RowShape) -> str:
    """The expression of the CSV line of a row, with its end."""
    cells = [_cell(shape, name) for name in shape.names]
    return _together(cells[0], *(text for cell in cells[1:] for text in ("','", cell)), _literal("\n"))


def cell_header(shape: RowShape) -> bytes:
    """The first line of a CSV file. A name is a word, which needs no quotes."""
    return (",".join(shape.names) + "\n").encode()


def _together(*texts: str) -> str:
    """Texts one after the other; a null is nothing."""
    return f"concat({', '.join(texts)})"


def _json(shape: RowShape, name: str) -> str:
    """A column as JSON text; null where it is null."""
    column, type = _column(shape, name)
    match type:
        case Scalar.DATETIME | Scalar.BLOB:
            return f"""'"' || {_plain(column, type)} || '"'"""
        case List(Scalar.DATETIME):
            return f"to_json(list_transform({column}, lambda x: {_plain('x', Scalar.DATETIME)}))::VARCHAR"
        case _:
            return f"to_json({column})::VARCHAR"


def _cell(shape: RowShape, name: str) -> str:
    """A column as the text of a cell; null where it is null."""
    column, type = _column(shape, name)
    match type:
        case Scalar.STRING | Enum():
            return _in_quotes(column)
        case List() | Vector():
            return _in_quotes(_json(shape, name))
        case Scalar.DATE | Scalar.DATETIME | Scalar.BLOB:
            return _plain(column, type)
        case _:
            return f"to_json({column})::VARCHAR"


def _plain(column: str, type: Scalar) -> str:
    """A date, a datetime or a blob as the text that JSON has in quotes."""
    match type:
        case Scalar.DATETIME:
            moment = f"make_timestamp_ms(epoch_ms({column}))"
            whole, parted = (f"strftime({moment}, '%Y-%m-%dT%H:%M:%S{end}Z')" for end in ("", ".%g"))
            return f"(CASE WHEN epoch_ms({column}) % 1000 = 0 THEN {whole} ELSE {parted} END)"
        case Scalar.BLOB:
            return f"{_literal(BLOB_PREFIX)} || to_base64({column})"
        case _:
            return f"{column}::VARCHAR"


def _column(shape: RowShape, name: str) -> tuple[str, PropertyType]:
    position = shape.names.index(name)
    return column_at(position), shape.columns[position][1]


def _in_quotes(text: str) -> str:
    return f"""'"' || replace({text}, '"', '""') || '"'"""


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
