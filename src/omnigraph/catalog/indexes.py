"""Which indexes the table of a type should have.

This is intent: a table may lack any of them, for a while or for good, and every answer stays the same.
"""

from collections.abc import Iterator
from enum import StrEnum

from omnigraph.catalog.model import ID, EntityType, NodeType
from omnigraph.catalog.types import Enum, List, PropertyType, Scalar, Vector
from omnigraph.dataclass_later import dataclass


class IndexKind(StrEnum):
    """What an index is made for, by the name that storage has for it."""

    BTREE = "BTREE"
    BITMAP = "BITMAP"
    LABEL_LIST = "LABEL_LIST"
    NGRAM = "NGRAM"
    FULL_TEXT = "INVERTED"
    VECTOR = "VECTOR"
    TOPOLOGY = "TOPOLOGY"


FILTERS = frozenset({IndexKind.BTREE, IndexKind.BITMAP, IndexKind.LABEL_LIST, IndexKind.NGRAM})
"""The kinds that serve conditions; a column has one of them, and storage must know it before any of the others."""


@dataclass(frozen=True, slots=True)
class IndexIntent:
    """An index of one kind over one column."""

    column: str
    kind: IndexKind

    @property
    def name(self) -> str:
        """What the index is called. In its table it may have another name, as that of its column can change."""
        return f"{self.column}_{self.kind.lower()}"


def index_intents(entity: EntityType) -> tuple[IndexIntent, ...]:
    """All indexes of a type, those of one column next to each other and the one that serves conditions first."""
    return tuple(dict.fromkeys(_intents(entity)))


def _intents(entity: EntityType) -> Iterator[IndexIntent]:
    # The ends of edges have an index of topology instead, which is a file beside the table.
    yield IndexIntent(ID, IndexKind.BTREE)
    declared = {*entity.indexed_properties, *(entity.key if isinstance(entity, NodeType) else ())}
    for name, property in entity.properties.items():
        if name not in declared:
            continue
        for kind in _kinds(property.type, substring=name in entity.substrings):
            if name not in entity.system_columns or kind is IndexKind.FULL_TEXT:
                yield IndexIntent(name, kind)


def _kinds(type: PropertyType, *, substring: bool) -> tuple[IndexKind, ...]:
    """The kinds that serve a type.

    For conditions on a column storage asks only one index. Trigrams, where they are declared, also find whole texts and
    prefixes, so they stand in the place of the order. Few values are found faster by a bitmap of each than in order.
    """
    match type:
        case Scalar.STRING:
            return (IndexKind.NGRAM if substring else IndexKind.BTREE, IndexKind.FULL_TEXT)
        case Enum() | Scalar.BOOL:
            return (IndexKind.BITMAP,)
        case List():
            return (IndexKind.LABEL_LIST,)
        case Vector():
            return (IndexKind.VECTOR,)
        case Scalar.BLOB:
            return ()
        case _:
            return (IndexKind.BTREE,)
