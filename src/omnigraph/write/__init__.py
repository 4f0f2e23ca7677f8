"""From a change to a commit: staging, validation, and the protocol."""

from omnigraph.write.attempt import WriteAttempt
from omnigraph.write.change import Origins, TableChange
from omnigraph.write.protocol import StagedTable, write_changes, write_staged
from omnigraph.write.validate import validate

__all__ = ["Origins", "StagedTable", "TableChange", "WriteAttempt", "validate", "write_changes", "write_staged"]
