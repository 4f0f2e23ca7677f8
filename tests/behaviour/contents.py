"""What a graph holds, for tests that look at it from the outside."""

from collections import Counter
from collections.abc import Collection
from typing import Any

import omnigraph as og
from omnigraph.changes import diff_snapshots
from omnigraph.versioning import Snapshot


def lines_of(graph: og.Graph) -> list[str]:
    """All records of a graph, in order."""
    lines = graph.export(ordered=True)
    assert not isinstance(lines, int)
    return list(lines)


def entity_of(graph: og.Graph, type: str, id: str) -> dict[str, Any]:
    """An entity that is there."""
    found = graph.entity(type, id)
    assert found is not None
    return found


def diff_counts(left: Snapshot, right: Snapshot, types: Collection[str] | None = None) -> dict[str, dict[str, int]]:
    """How many entities were inserted, updated and deleted, for each type that differs."""
    kinds = {"insert": "inserted", "update": "updated", "delete": "deleted"}
    counts: dict[str, Counter[str]] = {}
    for change in diff_snapshots(left, right, types):
        counts.setdefault(change.type, Counter())[kinds[change.kind.value]] += 1
    return {name: {kind: found[kind] for kind in kinds.values()} for name, found in counts.items()}
