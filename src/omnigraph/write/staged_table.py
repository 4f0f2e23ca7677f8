"""One table's part of a write, staged: its files are written, and no version refers to them yet."""

from dataclasses import dataclass

from omnigraph.storage import StagedWrite, Table


@dataclass(frozen=True, slots=True)
class StagedTable:
    """The table as it was read, and the change that is staged on it.

    A change that takes several versions has the first ones in `before`, each staged on top of the one before it. Only
    the last is ever seen.
    """

    table: Table
    staged: StagedWrite
    removes: bool = False
    before: tuple[StagedWrite, ...] = ()

    @property
    def steps(self) -> tuple[StagedWrite, ...]:
        """All versions of the change, in order."""
        return (*self.before, self.staged)

    @property
    def read_version(self) -> int:
        """The version that all of it is staged on."""
        return self.steps[0].read_version
