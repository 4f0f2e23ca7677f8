"""Caches by table and version: the versions used last, and only a few that are not the head of a branch."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from omnigraph.storage.tables import Table

Version: TypeAlias = Hashable
"""Identifies the content of a table: its location and its version number."""

Value = TypeVar("Value")
Heads: TypeAlias = Callable[[], Collection[Version]]
"""Returns the versions at the heads of branches, as far as they are known without reading."""

MOST_OPENED = 1000
MOST_PAST = 64


class KeptVersions(Generic[Value]):
    """Values by table and version, up to `most` and up to `most_bytes`. Safe to share between threads.

    Versions that are not at a head are needed only by readers of old states. About `past` of them are kept (up to a
    quarter more), those used last, even if there is room for more. The value that was added last is always kept.
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
        """The value of a version, or None. It counts as used now."""
        with self._lock:
            found = self._kept.get((table_key, version))
            if found is not None:
                self._kept.move_to_end((table_key, version))
            return found

    def keep(self, table_key: str, version: Version, value: Value) -> Value:
        """Keeps a value, unless another thread has added one meanwhile; returns the value that is kept."""
        with self._lock:
            value = self._kept.setdefault((table_key, version), value)
            self._kept.move_to_end((table_key, version))
            self._trim()
        return value

    def trim(self) -> None:
        """Applies the limits again, after values have grown."""
        with self._lock:
            self._trim()

    def clear(self) -> None:
        """Removes all values."""
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
        """Removes the value of a version, unless it was added or used last."""
        is_last = key == next(reversed(self._kept))
        if not is_last:
            del self._kept[key]
        return not is_last


def opened_tables(heads: Heads | None = None) -> "KeptVersions[Table]":
    """A cache of open tables: opening one takes a millisecond, and an open table has its indexes loaded."""
    return KeptVersions(most=MOST_OPENED, past=MOST_PAST, heads=heads)
