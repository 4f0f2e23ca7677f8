"""Where the graphs of the crash tests are, and how a process is killed there."""

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import omnigraph as og
from omnigraph.storage import locks
from omnigraph.storage.location import location_of
from omnigraph.storage.locks import LOCK_FOLDER
from omnigraph.storage.objects import objects_at
from omnigraph.write.sidecar import Sidecar
from tests.crash.children import Children

LEASE_SECONDS = 60.0
"""For how long the lease of a process is good that is to be killed: no machine makes it lose that before."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the graphs of a test are, and how they are reached."""

    uri: str
    options: dict[str, str] | None
    folder: Path

    def open(self, mode: str = "rw") -> og.Graph:
        return og.open(self.uri, mode, storage_options=self.options)  # type: ignore[arg-type]

    def killed(self, children: Children, failpoint: str, **job: Any) -> None:
        """Gives a job to a process that must die at the failpoint."""
        name, _, number = failpoint.partition("@")
        armed = f"{name}=crash" + (f"@{number}" if number else "")
        whole = {"uri": self.uri, "options": self.options, "failpoints": armed, "folder": str(self.folder), **job}
        code, errors = children.ended(**whole)
        assert code == -signal.SIGKILL, f"{failpoint} was not reached: {errors}"
        if self.options is not None:
            self._let_leases_end()

    def _let_leases_end(self) -> None:
        """Moves the time at which this process saw the leases of the dead one into the past, to save the wait."""
        location = location_of(self.uri, self.options)
        files = objects_at(location).names(LOCK_FOLDER)
        locks.Leases(location).look(unquote(file) for file in files)
        for key, (tag, seen) in locks._sightings.items():
            locks._sightings[key] = (tag, seen - LEASE_SECONDS)

    def sidecar(self) -> Sidecar | None:
        """The one sidecar that is there, if any."""
        pending = self.open("r").recoveries.pending()
        assert len(pending) <= 1
        assert not pending or isinstance(pending[0], Sidecar)
        return pending[0] if pending else None  # type: ignore[return-value]
