"""From a change to a commit: staging, validation, and the protocol."""

from omnigraph.write.attempt import WriteAttempt
from omnigraph.write.change import Origins, TableChange
from omnigraph.write.protocol import write_changes
from omnigraph.write.validate import validate

__all__ = ["Origins", "TableChange", "WriteAttempt", "validate", "write_changes"]
