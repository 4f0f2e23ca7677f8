"""The sidecar: what a write is about to do, written down first, so that a crash can be undone or completed."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from omnigraph.storage import Location, objects_at

RECOVERY_FOLDER = "__recovery"


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarTable:
    """One table that the write commits."""

    table_key: str
    path: str
    expected_version: int
    version_after: int
    transaction_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """One write. Its id is that of the commit it will be."""

    operation_id: str
    kind: str
    branch: str
    actor: str | None
    message: str | None
    tables: tuple[SidecarTable, ...]


def write_sidecar(graph: Location, sidecar: Sidecar) -> None:
    """Writes a sidecar whole."""
    content = json.dumps(asdict(sidecar), indent=1).encode()
    objects_at(graph).create(_name(sidecar.operation_id), content)


def delete_sidecar(graph: Location, operation_id: str) -> None:
    """Removes the sidecar of a write that is done, or that never began."""
    objects_at(graph).delete(_name(operation_id))


def pending_sidecars(graph: Location) -> list[Sidecar]:
    """The sidecars of writes that did not finish, oldest first."""
    objects = objects_at(graph)
    contents = (objects.read(f"{RECOVERY_FOLDER}/{name}") for name in objects.names(RECOVERY_FOLDER))
    return [_sidecar(json.loads(content)) for content in contents if content is not None]


def _sidecar(data: dict[str, Any]) -> Sidecar:
    tables = tuple(SidecarTable(**table) for table in data.pop("tables"))
    return Sidecar(tables=tables, **data)


def _name(operation_id: str) -> str:
    return f"{RECOVERY_FOLDER}/{operation_id}.json"
