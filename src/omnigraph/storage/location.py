"""Locations: folders on disk and prefixes of object stores."""

from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlparse

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import StorageError


@dataclass(frozen=True, slots=True)
class Location:
    """A folder on disk or a prefix of an object store, with what is needed to reach it.

    `durable` says that what is written to a disk must survive a power cut once it is acknowledged, and `upkeep` that
    small writes keep the tables in order along the way.
    """

    uri: str
    options: tuple[tuple[str, str], ...] = ()
    durable: bool = True
    upkeep: bool = True

    def child(self, *names: str) -> "Location":
        """A location below this one."""
        return self.at("/".join((self.uri, *names)))

    def at(self, uri: str) -> "Location":
        """Another location of the same store, reached in the same way."""
        return Location(uri, self.options, self.durable, self.upkeep)

    @property
    def storage_options(self) -> dict[str, str] | None:
        """The options as Lance takes them."""
        return dict(self.options) or None

    @property
    def path(self) -> Path | None:
        """The folder, if it is on a local disk."""
        return _path_of(self.uri)


@lru_cache(1024)
def _path_of(uri: str) -> Path | None:
    return None if "://" in uri else Path(uri)


def location_of(uri: str | Path, storage_options: dict[str, str] | None = None, *, durable: bool = True) -> Location:
    """The location that a path or URI names; a local one becomes absolute, so that the current folder may change."""
    text = str(uri)
    scheme = urlparse(text).scheme if "://" in text else ""
    options = tuple(sorted((storage_options or {}).items()))
    if scheme == "file":
        text = unquote(urlparse(text).path)
        scheme = ""
    if not scheme:
        return Location(str(Path(text).expanduser().absolute()).rstrip("/") or "/", options, durable)
    if scheme not in ("s3", "s3a", "gs", "az", "memory"):
        raise StorageError(text, f"unknown storage scheme `{scheme}`: expected a path, file, s3, s3a, gs, az or memory")
    return Location(text.rstrip("/"), options, durable)
