"""Creates and opens graphs."""

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import UsageError
from omnigraph.graph.graph import Graph
from omnigraph.lazy import importing
from omnigraph.policy import guard_of
from omnigraph.session.session import Mode, open_session
from omnigraph.storage.location import Location, location_of
from omnigraph.storage.locks import refuse_careless_store

if TYPE_CHECKING:
    from omnigraph.policy import Policy

_logger = logging.getLogger(__name__)


def init(
    uri: str | Path,
    schema: str | Path,
    *,
    storage_options: dict[str, str] | None = None,
    durability: str | None = None,
    upkeep: bool | None = None,
    policy: "Policy | str | Path | None" = None,
    actor: str | None = None,
    id: str | None = None,
) -> Graph:
    """Creates a graph with this schema, given as text or as the path of a file; fails if a graph is there."""
    with importing:
        from omnigraph.source_files import schema_text  # noqa: PLC0415 - the languages
        from omnigraph.write.creation import create_graph  # noqa: PLC0415 - Lance

    location = _location(uri, storage_options, durability, upkeep)
    text, name = schema_text(schema)
    refuse_careless_store(location)
    guard = guard_of(location.uri, policy, actor, id)
    create_graph(location, text, name=name)
    return Graph(open_session(location, "rw", guard))


def open(
    uri: str | Path,
    mode: Mode = "rw",
    *,
    storage_options: dict[str, str] | None = None,
    durability: str | None = None,
    upkeep: bool | None = None,
    policy: "Policy | str | Path | None" = None,
    actor: str | None = None,
    id: str | None = None,
) -> Graph:
    """Opens a graph. For writing, what writers left unfinished is settled first; with ``mode="r"`` nothing is written.

    With ``durability="fast"`` a commit is acknowledged before it is on the disk. Without one given,
    ``OMNIGRAPH_DURABILITY`` decides; the default is ``"full"``. With ``upkeep=False``, or without one given with
    ``OMNIGRAPH_UPKEEP=off``, small writes leave the tables as they find them.

    A `policy`, the path of a rule file unless ``OMNIGRAPH_POLICY`` names it, says who may do what; without one
    everybody may do everything. The `actor`, by default ``OMNIGRAPH_ACTOR``, reads and writes unless a verb is given
    another one. Rules name the graph by its `id`, by default the last segment of its URI.
    """
    if mode not in ("r", "rw"):
        raise UsageError(f'invalid mode {mode!r}: expected "r" or "rw"')
    location = _location(uri, storage_options, durability, upkeep)
    return Graph(open_session(location, mode, guard_of(location.uri, policy, actor, id)))


def _location(
    uri: str | Path, storage_options: dict[str, str] | None, durability: str | None, upkeep: bool | None
) -> Location:
    chosen = durability or os.environ.get("OMNIGRAPH_DURABILITY", "full")
    if chosen not in ("full", "fast"):
        raise UsageError(f'invalid durability {chosen!r}: expected "full" or "fast"')
    if (switch := os.environ.get("OMNIGRAPH_UPKEEP", "on")) not in ("on", "off"):
        raise UsageError(f'invalid OMNIGRAPH_UPKEEP {switch!r}: expected "on" or "off"')
    location = location_of(uri, storage_options, durable=chosen == "full")
    location = replace(location, upkeep=switch == "on" if upkeep is None else upkeep)
    if location.path is not None and not location.durable:
        _logger.warning("%s: durability is fast: a power cut may lose acknowledged commits", location.uri)
    return location
