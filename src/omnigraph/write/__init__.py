"""From a change to a commit: staging, validation, and the protocol."""

from omnigraph.write.attempt import Allowed, WriteAttempt, anything
from omnigraph.write.change import Origins, StagedTable, TableChange
from omnigraph.write.fence import WriteFence
from omnigraph.write.protocol import report_staged_table, tables_to_write, write_changes, write_staged
from omnigraph.write.validate import validate
