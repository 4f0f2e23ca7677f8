"""Sends events of lineage with the client of OpenLineage, beside the work that they are about.

OpenLineage's own variables and file say where events go. Without them nothing is sent, and the client is not imported.
Events wait in a queue for one thread, so that a receiver which is slow or gone delays nothing.
"""

import atexit
import logging
import os
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from queue import Full, Queue
from typing import TYPE_CHECKING, Any

from omnigraph.extras import LINEAGE, require_extra
from omnigraph.lazy import importing
from omnigraph.lineage.descriptions import RunState

if TYPE_CHECKING:
    from omnigraph.lineage.openlineage import OpenLineageClient

_MOST_WAITING = 1_000
_SECONDS_AT_END = 10.0
_VARIABLES = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
_TRANSPORT = "OPENLINEAGE__TRANSPORT"
_FILE = "openlineage.yml"
_logger = logging.getLogger("omnigraph.lineage")


class Delivery:
    """A client of OpenLineage, and the events that wait for it."""

    def __init__(self, client: "OpenLineageClient") -> None:
        self._client = client
        self._waiting: Queue[Any] = Queue(_MOST_WAITING)
        self.has_failed = False
        """Whether the last event could not be sent, or not in time."""
        threading.Thread(target=self._send_all, name="omnigraph-lineage", daemon=True).start()

    def send(self, state: RunState) -> None:
        """Puts an event into the queue. If the queue is full, the event is dropped."""
        try:
            from omnigraph.lineage.openlineage import event_of  # noqa: PLC0415 - an extra

            self._waiting.put_nowait(event_of(state, datetime.now(UTC)))
        except Full:
            self._log_failure(f"{_MOST_WAITING:,} others wait")
        except Exception:
            _logger.warning("an event of lineage was not sent", exc_info=True)

    def wait(self, seconds: float) -> bool:
        """Waits until all events are sent, or have failed; returns False if the time is over before."""
        with self._waiting.all_tasks_done:
            in_time = self._waiting.all_tasks_done.wait_for(lambda: self._waiting.unfinished_tasks == 0, seconds)
        self.has_failed |= not in_time
        return in_time

    def close(self, seconds: float) -> None:
        """Sends what waits. What is not sent in time is dropped."""
        if not self.wait(seconds):
            _logger.warning("%d events of lineage were not sent", self._waiting.unfinished_tasks)
        self._client.close(seconds)

    def _send_all(self) -> None:
        while True:
            event = self._waiting.get()
            try:
                self._client.emit(event)
                self.has_failed = False
            except Exception as error:
                self._log_failure(str(error))
            finally:
                self._waiting.task_done()

    def _log_failure(self, reason: str) -> None:
        """Logs the first of several failures in a row."""
        if not self.has_failed:
            _logger.warning("an event of lineage was not sent: %s", reason)
        self.has_failed = True


_delivery: Delivery | None = None
_is_impossible = False
_making = threading.Lock()


def current_delivery() -> Delivery | None:
    """The delivery of this process, which is made when it is first needed.

    None if OpenLineage is not configured, or not in a way that its client accepts, which is logged once.
    """
    global _delivery, _is_impossible  # noqa: PLW0603 - a process has one queue
    if not is_configured():
        return None
    with _making:
        if _delivery is None and not _is_impossible:
            try:
                _delivery = Delivery(_make_client())
            except Exception as error:
                _is_impossible = True
                _logger.warning("events of lineage are not sent: %s", error)
    return _delivery


def is_configured() -> bool:
    """Whether a variable or a file of OpenLineage says where events go."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    if any(os.environ.get(name) for name in _VARIABLES) or any(name.startswith(_TRANSPORT) for name in os.environ):
        return True
    home = os.path.expanduser("~/.openlineage")  # noqa: PTH111 - of a user without a home, `Path` would raise
    with suppress(OSError):  # a home that may not be entered says nothing
        return any(Path(folder, _FILE).is_file() for folder in (".", home))
    return False


def deliver_waiting(seconds: float) -> None:
    """Waits until events are sent, but not longer than this, where a process ends without running exit handlers.

    If the receiver did not answer before, nobody waits for it again.
    """
    if _delivery is not None and not _delivery.has_failed:
        _delivery.wait(seconds)


def _make_client() -> "OpenLineageClient":
    require_extra(LINEAGE, "lineage")
    with importing:
        from omnigraph.lineage.openlineage import OpenLineageClient  # noqa: PLC0415 - an extra

    return OpenLineageClient()


def _close_at_exit() -> None:
    if _delivery is not None:
        _delivery.close(_SECONDS_AT_END)


def _forget_in_child() -> None:
    """A process that was forked has no thread that sends, and no events of its own."""
    global _delivery, _making
    _delivery, _making = None, threading.Lock()


atexit.register(_close_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
