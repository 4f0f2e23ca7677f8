"""From a change to a commit: staging, validation, and the protocol."""

from omnigraph.write.attempt import WriteAttempt
from omnigraph.write.change import Origins, TableChange
from omnigraph.write.fence import WriteFence
from omnigraph.write.protocol import StagedTable, table_staged, tables_to_write, write_changes, write_staged
from omnigraph.write.validate import validate

__all__ = [
    "Origins",
    "StagedTable",
    "TableChange",
    "WriteAttempt",
    "WriteFence",
    "table_staged",
    "tables_to_write",
    "validate",
    "write_changes",
    "write_staged",
]
