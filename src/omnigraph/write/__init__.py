"""From a change to a commit: staging, validation, and the protocol.

Names are imported when they are first used: who takes a lock only needs no Lance.
"""

from typing import TYPE_CHECKING

from omnigraph.lazy import lazy_names

if TYPE_CHECKING:
    from omnigraph.write.attempt import Allowed, WriteAttempt, anything
    from omnigraph.write.change import Origins, StagedTable, TableChange
    from omnigraph.write.fence import WriteFence
    from omnigraph.write.protocol import report_staged_table, tables_to_write, write_changes, write_staged
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "attempt": "Allowed WriteAttempt anything",
            "change": "Origins StagedTable TableChange",
            "fence": "WriteFence",
            "protocol": "report_staged_table tables_to_write write_changes write_staged",
        },
    )
