"""Caches of versions of tables: the versions used last, and only a few that are not the newest of a branch."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from typing import Generic, TypeAlias, TypeVar

from omnigraph.storage.tables import Table

Version: TypeAlias = Hashable
"""What identifies the content of a table: where it lies, and its number."""

Value = TypeVar("Value")
Heads: TypeAlias = Callable[[], Collection[Version]]
"""Gives the versions that are the newest of some branch, as far as that is known without reading."""

MOST_OPENED = 1000
MOST_PAST = 64


class KeptVersions(Generic[Value]):
    """Values by table and version, up to `most` and up to `most_bytes`. Safe to share between threads.

    A version that is not a head any more is needed only by readers of the past, or of an old snapshot. Of these only
    the `past` used last are kept, give or take a quarter, whatever room there is. The value kept last always stays.
    """

    def __init__(
        self,
        *,
        most: int,
        past: int,
        heads: Heads | None = None,
        most_bytes: int | None = None,
        size: Callable[[Value], int] = lambda _: 0,
    ) -> None:
        self._most, self._past, self._most_bytes = most, past, most_bytes
        self._heads, self._size = heads, size
        self._kept: OrderedDict[tuple[str, Version], Value] = OrderedDict()
        self._past_counted_at = past
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def nbytes(self) -> int:
        """How many bytes all of them take."""
        with self._lock:
            return sum(map(self._size, self._kept.values()))

    def get(self, table_key: str, version: Version) -> Value | None:
        """What is kept of a version; it has been used now."""
        with self._lock:
            found = self._kept.get((table_key, version))
            if found is not None:
                self._kept.move_to_end((table_key, version))
            return found

    def keep(self, table_key: str, version: Version, value: Value) -> Value:
        """What is kept of a version from here on: this, or what another thread has brought meanwhile."""
        with self._lock:
            value = self._kept.setdefault((table_key, version), value)
            self._kept.move_to_end((table_key, version))
            self._trim()
        return value

    def trim(self) -> None:
        """Makes room when what is kept has grown."""
        with self._lock:
            self._trim()

    def clear(self) -> None:
        """Keeps nothing of what there is."""
        with self._lock:
            self._kept.clear()

    def _trim(self) -> None:
        if self._heads is not None and len(self._kept) > self._past_counted_at:
            heads = self._heads()
            old = [key for key in self._kept if key[1] not in heads]
            for key in old[: max(0, len(old) - self._past)]:
                self._drop(key)
            self._past_counted_at = len(self._kept) + self._past // 4
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        if self._most_bytes is not None:
            sizes = {key: self._size(value) for key, value in self._kept.items()}
            total = sum(sizes.values())
            for key, size in sizes.items():
                if total <= self._most_bytes:
                    break
                total -= size if self._drop(key) else 0

    def _drop(self, key: tuple[str, Version]) -> bool:
        """Forgets a version, unless it was kept last."""
        is_last = key == next(reversed(self._kept))
        if not is_last:
            del self._kept[key]
        return not is_last


def opened_tables(heads: Heads | None = None) -> KeptVersions[Table]:
    """Tables that were opened: one that has been asked before knows its indexes, and opening takes a millisecond."""
    return KeptVersions(most=MOST_OPENED, past=MOST_PAST, heads=heads)
