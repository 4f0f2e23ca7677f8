"""What a graph holds, for tests that look at it from the outside."""

from typing import Any

import omnigraph as og


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
