"""The rows of a stage in memory, from which the program of the next one continues."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from omnigraph.dataclass_later import dataclass
from omnigraph.resident.codes import Codes, encode
from omnigraph.resident.ids import pick
from omnigraph.resident.tables import Ordinals

if TYPE_CHECKING:
    from omnigraph.query.resident_paths import PathValues


class ValueTable(Protocol):
    """What has the values of a variable: a table in memory, or the rows of a stage."""

    @property
    def count(self) -> int:
        """Above all ordinals."""
        ...

    def rows(self, ordinals: Ordinals) -> Ordinals:
        """Where the rows of ordinals are."""
        ...

    def values(self, name: str, ordinals: Ordinals) -> pa.Array:
        """A column of some ordinals, in their order."""
        ...

    def values_at(self, name: str, rows: Ordinals) -> pa.Array:
        """A column of some rows, in their order."""
        ...

    def few_values(self, name: str, rows: Sequence[int]) -> list[Any] | pa.Array:
        """A column of a few rows."""
        ...

    def codes(self, name: str, ordinals: Ordinals | None = None) -> Codes:
        """A column of some ordinals, or of all, as numbers of its distinct values."""
        ...

    def has_at_once(self, names: Iterable[str]) -> bool:
        """Whether columns are in memory."""
        ...

    def bytes_at(self, name: str, rows: Ordinals) -> int:
        """How many bytes the values of some rows take."""
        ...

    def expected_bytes(self, name: str, count: int) -> int:
        """About how many bytes a number of values of a column take."""
        ...


@dataclass(frozen=True, slots=True)
class StageRows:
    """The rows of a stage: the ordinals of its entities, and its values. The ordinal of a row is its number."""

    entities: Mapping[str, Ordinals]
    columns: Mapping[str, pa.Array]
    count: int
    paths: Mapping[str, "PathValues"] = field(default_factory=dict)
    """The paths that its variables may be bound to, by what has their values in the program."""

    def rows(self, ordinals: Ordinals) -> Ordinals:
        """The same numbers."""
        return ordinals

    def values(self, name: str, ordinals: Ordinals) -> pa.Array:
        """A value of some rows, in their order."""
        return pick(self.columns[name], ordinals)

    def values_at(self, name: str, rows: Ordinals) -> pa.Array:
        """The same."""
        return self.values(name, rows)

    def few_values(self, name: str, rows: Sequence[int]) -> pa.Array:
        """A value of a few rows."""
        return self.columns[name].take(pa.array(rows, pa.int64()))

    def codes(self, name: str, ordinals: Ordinals | None = None) -> Codes:
        """A value of some rows, or of all, as numbers of the distinct ones."""
        return encode(self.columns[name] if ordinals is None else self.values(name, ordinals))

    def has_at_once(self, names: Iterable[str]) -> bool:
        """Whether there are such values."""
        return self.columns.keys() >= {*names}

    def bytes_at(self, name: str, rows: Ordinals) -> int:
        """How many bytes a value of some rows takes, on average."""
        return self.expected_bytes(name, len(rows))

    def expected_bytes(self, name: str, count: int) -> int:
        """How many bytes a value of some rows takes, on average."""
        return count * int(self.columns[name].nbytes) // max(self.count, 1)
