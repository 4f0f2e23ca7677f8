"""What all views of one open graph share: its writes and its caches."""

import threading
from typing import TYPE_CHECKING

from omnigraph.lazy import importing, lazy_property
from omnigraph.storage.location import Location
from omnigraph.versioning import Branches
from omnigraph.versioning.kept import KeptVersions, opened_tables

if TYPE_CHECKING:
    from omnigraph.query import AdjacencyCache
    from omnigraph.resident.cache import ResidentCache
    from omnigraph.session.queries import QueryCache
    from omnigraph.session.writes import Writes
    from omnigraph.storage.tables import Table


class SharedState:
    """The writes and the caches of an open graph, each made when it is first used. Safe to share between threads.

    A process that only reads branches and commits then imports neither Lance nor the languages.
    """

    def __init__(self, location: Location, branches: Branches) -> None:
        self._location = location
        self._branches = branches
        self._making = threading.RLock()
        self.table_cache: KeptVersions[Table] = opened_tables(branches.head_versions)
        """Tables that are open."""

    @lazy_property
    def writes(self) -> "Writes":
        """Runs writes."""
        with importing:
            from omnigraph.resident.finder import ResidentFinder  # noqa: PLC0415 - pyarrow
            from omnigraph.session.writes import Writes  # noqa: PLC0415 - Lance

        return Writes(self._location, self._branches, self.table_cache, ResidentFinder(self.resident))

    @lazy_property
    def queries(self) -> "QueryCache":
        """Compiled queries."""
        with importing:
            from omnigraph.session.queries import QueryCache  # noqa: PLC0415 - the languages

        return QueryCache()

    @lazy_property
    def adjacency(self) -> "AdjacencyCache":
        """Edges as arrays."""
        with importing:
            from omnigraph.query.adjacency import AdjacencyCache  # noqa: PLC0415 - pyarrow

        return AdjacencyCache(heads=self._branches.head_versions)

    @lazy_property
    def resident(self) -> "ResidentCache":
        """Tables in memory."""
        with importing:
            from omnigraph.resident.cache import ResidentCache  # noqa: PLC0415 - pyarrow

        return ResidentCache()

    def clear(self) -> None:
        """Empties the caches of tables."""
        self.table_cache.clear()
        for name in ("adjacency", "resident"):
            if name in vars(self):
                getattr(self, name).clear()
