"""The stored queries that a graph has had, in sets: each is kept permanently, and every commit names the one it has.

A set is one small file that never changes, named by its content. So a branch has the queries of the commit that it
began at, the past has those that it had, and storing a query touches no table.
"""

import hashlib
import json
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.records import encode_record, read_record

QUERIES = "queries"
"""What claims of writes call the stored queries, as if they were a table."""
QUERY_FOLDER = "__queries"
_SUFFIX = ".json"
_DIGITS = 32


@dataclass(frozen=True, slots=True)
class QuerySet:
    """The stored queries of a commit: their texts by name, in the order of the names."""

    id: str
    texts: Mapping[str, str]


NO_QUERIES = QuerySet("", MappingProxyType({}))
"""The set of a graph that has never stored a query. An empty set has no file."""


@dataclass(frozen=True, slots=True)
class QueriesUpdate:
    """What a write does to the stored queries. With the same set before and after, they must only stay as they are."""

    before: str
    after: str


def query_set(texts: Mapping[str, str]) -> QuerySet:
    """The set with these queries."""
    ordered = dict(sorted(texts.items()))
    return QuerySet(_set_id(ordered), MappingProxyType(ordered)) if ordered else NO_QUERIES


def _set_id(texts: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps([*texts.items()]).encode()).hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True)
class _QuerySetRecord:
    """The content of the file of a set."""

    id: str
    queries: dict[str, str]


class QuerySets:
    """The sets of stored queries of one graph. Safe to share between threads."""

    def __init__(self, graph: Location) -> None:
        self._graph = graph
        self._known: dict[str, QuerySet] = {"": NO_QUERIES}
        self._lock = threading.Lock()

    def get(self, set_id: str) -> QuerySet:
        """The set that some commit names; always the same object for the same id."""
        found = self._known.get(set_id)
        if found is None:
            with self._lock:
                found = self._known.get(set_id) or self._read(set_id)
                self._known[set_id] = found
        return found

    def get_if_read(self, set_id: str) -> QuerySet | None:
        """The set, if it was read before; None if it has to be read."""
        return self._known.get(set_id)

    def keep(self, kept: QuerySet) -> None:
        """Stores a set, before any commit names it."""
        if kept.id:
            data: dict[str, Any] = {"id": kept.id, "queries": dict(kept.texts)}
            objects_at(self._graph).replace(_file(kept.id), encode_record(data))

    def _read(self, set_id: str) -> QuerySet:
        uri = self._graph.child(_file(set_id)).uri
        record = read_record(_QuerySetRecord, self._graph, _file(set_id))
        if record is None:
            raise Damaged(uri, "is missing, but a commit refers to the stored queries in it")
        found = query_set(record.queries)
        if not set_id == record.id == found.id:
            raise Damaged(uri, f"does not hold the stored queries {set_id}")
        return found


def _file(set_id: str) -> str:
    return f"{QUERY_FOLDER}/{set_id}{_SUFFIX}"
