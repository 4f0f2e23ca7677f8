"""Recovery of writes that did not finish: observed, decided, applied, and recorded."""

from omnigraph.api.upkeep import Recovery
from omnigraph.recovery.audit import Recoveries, recoveries_json, recovery_json
from omnigraph.recovery.decide import Mode
from omnigraph.recovery.remnants import undo_remnants
from omnigraph.recovery.sweep import give_up, recover, remove_torn_head, undo
