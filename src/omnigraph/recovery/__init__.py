"""Recovery of writes that did not finish: observed, decided, applied, and recorded.

Names are imported when they are first used: who finds no such write needs no Lance.
"""

from typing import TYPE_CHECKING

from omnigraph.lazy import lazy_names

if TYPE_CHECKING:
    from omnigraph.recovery.audit import Recoveries, recoveries_json, recovery_json
    from omnigraph.recovery.decide import Mode
    from omnigraph.recovery.remnants import undo_remnants
    from omnigraph.recovery.settle import give_up, undo
    from omnigraph.recovery.sweep import recover
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "audit": "Recoveries recoveries_json recovery_json",
            "decide": "Mode",
            "remnants": "undo_remnants",
            "settle": "give_up undo",
            "sweep": "recover",
        },
    )
