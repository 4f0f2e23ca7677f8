"""What becomes of writes that did not finish: observed, decided, applied, and written down."""

from omnigraph.api.upkeep import Recovery
from omnigraph.recovery.decide import Mode
from omnigraph.recovery.remnants import undo_remnants
from omnigraph.recovery.report import Recoveries, recoveries_json, recovery_json
from omnigraph.recovery.sweep import give_up, recover, remove_torn_head, undo

__all__ = [
    "Mode",
    "Recoveries",
    "Recovery",
    "give_up",
    "recover",
    "recoveries_json",
    "recovery_json",
    "remove_torn_head",
    "undo",
    "undo_remnants",
]
