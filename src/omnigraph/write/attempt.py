"""What one write read before it decided anything."""

from collections.abc import Iterable
from dataclasses import dataclass

from omnigraph.catalog import Catalog
from omnigraph.versioning import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAttempt:
    """Passed whole, never re-read: a fresh head with an old plan is how a stale validation gets published.

    A retry captures a new attempt.
    """

    kind: str
    branch: str
    actor: str | None
    base: Snapshot
    message: str | None = None
    if_commit: str | None = None

    @property
    def catalog(self) -> Catalog:
        return self.base.catalog

    def versions(self, table_keys: Iterable[str]) -> dict[str, int]:
        """The versions of tables that everything was decided on."""
        return {key: self.base.manifest.pins[key].version for key in table_keys}
