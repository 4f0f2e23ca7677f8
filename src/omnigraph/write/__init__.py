"""From a change to a commit: staging, validation, and the protocol."""

from omnigraph.write.attempt import Allowed, WriteAttempt, anything
from omnigraph.write.change import Origins, TableChange
from omnigraph.write.fence import WriteFence
from omnigraph.write.protocol import table_staged, tables_to_write, write_changes, write_staged
from omnigraph.write.staged_table import StagedTable
from omnigraph.write.validate import validate

__all__ = [
    "Allowed",
    "Origins",
    "StagedTable",
    "TableChange",
    "WriteAttempt",
    "WriteFence",
    "anything",
    "table_staged",
    "tables_to_write",
    "validate",
    "write_changes",
    "write_staged",
]
