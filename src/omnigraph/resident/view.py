"""What a snapshot has in memory: one table for each type that was asked for, all of one commit."""

from collections.abc import Callable, Mapping
from dataclasses import field

from omnigraph.dataclass_later import dataclass
from omnigraph.resident.links import Links
from omnigraph.resident.tables import ResidentTable


@dataclass(frozen=True, slots=True, eq=False)
class ResidentView:
    """The tables of one snapshot, read when they are first needed."""

    read_table: Callable[[str], ResidentTable]
    read_links: Callable[["ResidentView", str], Links]
    _tables: dict[str, ResidentTable] = field(default_factory=dict)
    _links: dict[str, Links] = field(default_factory=dict)

    def table(self, key: str) -> ResidentTable:
        """A table, in memory."""
        found = self._tables.get(key)
        if found is None:
            found = self._tables.setdefault(key, self.read_table(key))
        return found

    def links(self, key: str) -> Links:
        """The edges of a table, in memory."""
        found = self._links.get(key)
        if found is None:
            found = self._links.setdefault(key, self.read_links(self, key))
        return found

    def links_at_once(self, key: str) -> Links | None:
        """The edges of a table if they are in memory."""
        return self._links.get(key)

    @property
    def tables(self) -> Mapping[str, ResidentTable]:
        """The tables that were read so far."""
        return self._tables
