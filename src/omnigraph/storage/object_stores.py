"""Small files in an object store: a conditional put creates or replaces one, whole or not at all."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import from_url

from omnigraph.errors import StorageError
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Tag, reason_of

_PAGE = 1_000
"""How many objects a store lists for one request."""

_CLIENT_OPTIONS = frozenset({"allow_http", "timeout", "connect_timeout", "proxy_url"})
_MAX_RETRIES, _RETRY_TIMEOUT = "client_max_retries", "client_retry_timeout"
_OF_LANCE_ALONE = ("download_retry_count", "lance_")


@contextmanager
def _storage_errors(uri: str, verb: str) -> Iterator[None]:
    try:
        yield
    except (OSError, BaseError) as error:
        raise StorageError(uri, f"cannot {verb}: {reason_of(error)}") from error


class RemoteObjects:
    """Objects of a store, below one prefix; creating one is a conditional put."""

    def __init__(self, location: Location) -> None:
        self._uri = location.uri
        try:
            self._store: Any = store_at(location)
        except (BaseError, ValueError) as error:
            raise StorageError(location.uri, f"cannot be reached with these options: {reason_of(error)}") from error

    def read(self, name: str) -> bytes | None:
        found = self.read_tagged(name)
        return None if found is None else found[0]

    def read_range(self, name: str, start: int, stop: int) -> bytes | None:
        with _storage_errors(f"{self._uri}/{name}", "be read"):
            try:
                # A store refuses a range that begins at the end of an object, and shortens one that ends beyond it.
                size = obstore.head(self._store, name)["size"]
                if start >= min(stop, size):
                    return b""
                return bytes(obstore.get_range(self._store, name, start=start, end=min(stop, size)))
            except FileNotFoundError:
                return None

    def exists(self, name: str) -> bool:
        with _storage_errors(f"{self._uri}/{name}", "be read"):
            try:
                obstore.head(self._store, name)
            except FileNotFoundError:
                return False
        return True

    def create(self, name: str, content: bytes) -> bool:
        return self.swap(name, content, None) is not None

    def replace(self, name: str, content: bytes) -> None:
        with _storage_errors(f"{self._uri}/{name}", "be written"):
            obstore.put(self._store, name, content)

    def note(self, name: str, content: bytes) -> None:
        self.replace(name, content)

    def overwrite(self, name: str, content: bytes) -> None:
        self.replace(name, content)

    def read_tagged(self, name: str) -> tuple[bytes, Tag] | None:
        with _storage_errors(f"{self._uri}/{name}", "be read"):
            try:
                found = obstore.get(self._store, name)
            except FileNotFoundError:
                return None
            return bytes(found.bytes()), _tag(found.meta)

    def swap(self, name: str, content: bytes, tag: Tag | None) -> Tag | None:
        """Writes an object if its state still has this tag or, without a tag, if it does not exist; otherwise None."""
        with _storage_errors(f"{self._uri}/{name}", "be written"):
            try:
                return _tag(obstore.put(self._store, name, content, mode="create" if tag is None else tag))
            except (AlreadyExistsError, PreconditionError, FileNotFoundError):
                return None

    def delete(self, name: str) -> None:
        with _storage_errors(f"{self._uri}/{name}", "be deleted"), suppress(FileNotFoundError):
            obstore.delete(self._store, name)

    def delete_folder(self, folder: str) -> None:
        with _storage_errors(f"{self._uri}/{folder}", "be deleted"):
            for found in obstore.list(self._store, f"{folder}/"):
                obstore.delete(self._store, [each["path"] for each in found])

    def names(self, folder: str) -> list[str]:
        return sorted(each["path"].rpartition("/")[2] for each in self._list(folder)["objects"])

    def pages(self, folder: str) -> Iterator[list[str]]:
        with _storage_errors(f"{self._uri}/{folder}", "be listed"):
            for page in obstore.list(self._store, f"{folder}/", chunk_size=_PAGE):
                yield [name for each in page if "/" not in (name := each["path"].removeprefix(f"{folder}/"))]

    def folders(self, folder: str) -> list[str]:
        return sorted(each.rstrip("/").rpartition("/")[2] for each in self._list(folder)["common_prefixes"])

    def _list(self, folder: str) -> Any:
        with _storage_errors(f"{self._uri}/{folder}", "be listed"):
            return obstore.list_with_delimiter(self._store, folder)


def store_at(location: Location) -> Any:
    """The client of a store. The options of Lance are split into those of the client, of retries and of the store."""
    options = {name: value for name, value in location.options if not name.startswith(_OF_LANCE_ALONE)}
    client: dict[str, Any] = {name: options.pop(name) for name in _CLIENT_OPTIONS & options.keys()}
    # Lance reads this option from the environment too, and small files must be in the same store.
    client.setdefault("allow_http", os.environ.get("AWS_ALLOW_HTTP", "false"))
    client["allow_http"] = client["allow_http"].lower() == "true"
    retry: dict[str, Any] = {}
    if _MAX_RETRIES in options:
        retry["max_retries"] = int(options.pop(_MAX_RETRIES))
    if _RETRY_TIMEOUT in options:
        retry["retry_timeout"] = timedelta(seconds=int(options.pop(_RETRY_TIMEOUT)))
    # The other options depend on the kind of store, which checks them.
    return from_url(  # type: ignore[call-overload]
        location.uri, config=options, client_options=client, retry_config=retry or None
    )


def _tag(described: Mapping[str, Any]) -> Tag:
    return {name: described[name] for name in ("e_tag", "version") if described[name] is not None}
