"""Where a table of another system stands, and which options of its Spark reader give the rows up to there.

A position is a text: the version of a Delta table, the snapshot of an Iceberg table, the offsets of Kafka's topics. A
run finds the newest position once, reads exactly the rows between it and the one that the last batch kept, and keeps it
in its commit. Nothing here reads rows; Spark does.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from omnigraph.dataclass_later import dataclass
from omnigraph.pipelines.definition import Increment, RowSource

TABLE, PATH = "table", "path"
"""The options that say where a table is: its name in a catalog of Spark, or its folder."""
_EARLIEST, _LATEST = "earliest", "latest"
_FOLLOWING = (
    *("readChangeFeed", "readChangeData", "startingVersion", "endingVersion", "startingTimestamp", "endingTimestamp"),
    *("versionAsOf", "timestampAsOf", "snapshot-id", "as-of-timestamp", "start-snapshot-id", "end-snapshot-id"),
    *("startingOffsets", "endingOffsets", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp"),
)
_TRACKED: dict[str, tuple[Increment, ...]] = {
    "delta": (Increment.VERSION, Increment.CHANGES),
    "iceberg": (Increment.VERSION, Increment.CHANGES),
    "kafka": (Increment.OFFSETS,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionedRead:
    """One read with a format of Spark."""

    format: str
    options: Mapping[str, str]
    table: str | None = None
    """A table of a catalog that is not read by its path."""
    path: str | None = None
    added: Mapping[str, str] | None = None
    """Expressions of columns that a first read has in place of what a change feed says."""


def tracked_increments(format: str) -> tuple[Increment, ...]:
    """The increments of a format of Spark."""
    return (Increment.WHOLE, Increment.COLUMN, *_TRACKED.get(format.lower(), ()))


def formats_with(increment: Increment) -> list[str]:
    """The formats that have an increment."""
    return [name for name, increments in _TRACKED.items() if increment in increments]


def has_position(source: RowSource) -> bool:
    """Whether a run reads a source up to a position that it has to find first."""
    if source.graph is not None and source.increment is Increment.WHOLE:
        return True
    return source.increment in (Increment.VERSION, Increment.CHANGES, Increment.OFFSETS, Increment.POSITION)


def reserved_options(source: RowSource) -> list[str]:
    """The options of a source that its position decides, so that a definition may not give them."""
    if source.spark is None or not has_position(source):
        return []
    known = {name.lower() for name in _FOLLOWING}
    return [name for name in source.options if name.lower() in known]


def read_of(source: RowSource, after: str | None, upto: str | None) -> PositionedRead:
    """The read of what comes after one position, up to another; without it, of all there is."""
    assert source.spark is not None
    format = source.spark.text
    match format.lower():
        case "delta":
            return _read_of_delta(source, after, upto)
        case "iceberg":
            return _read_of_iceberg(source, after, upto)
        case _ if source.increment is Increment.OFFSETS:
            offsets = {"startingOffsets": after or _EARLIEST, "endingOffsets": upto or _LATEST}
            return PositionedRead(format=format, options={**source.options, **offsets})
        case _:
            return PositionedRead(format=format, options=source.options)


# --- Delta Lake ---


def _read_of_delta(source: RowSource, after: str | None, upto: str | None) -> PositionedRead:
    added = None
    position: dict[str, str] = {}
    if upto is not None and source.increment is Increment.CHANGES and after is not None:
        first = min(int(after) + 1, int(upto))
        position = {"readChangeFeed": "true", "startingVersion": str(first), "endingVersion": upto}
    elif upto is not None:
        position = {"versionAsOf": upto}
        if source.increment is Increment.CHANGES:
            added = {
                "_change_type": "'insert'",
                "_commit_version": f"cast({upto} as bigint)",
                "_commit_timestamp": "cast(null as timestamp)",
            }
    options = {**_without_place(source), **position}
    return PositionedRead(
        format="delta", options=options, table=source.options.get(TABLE), path=source.options.get(PATH), added=added
    )


def history_statement(source: RowSource) -> str:
    """The statement whose row has the newest version of a Delta table."""
    table, path = source.options.get(TABLE), source.options.get(PATH, "")
    named = table if table is not None else f"delta.`{path.replace('`', '``')}`"
    return f"DESCRIBE HISTORY {named} LIMIT 1"


# --- Iceberg ---


def _read_of_iceberg(source: RowSource, after: str | None, upto: str | None) -> PositionedRead:
    added = None
    position: dict[str, str] = {}
    part = None
    if upto is not None and source.increment is Increment.CHANGES and after is not None:
        part = "changes"
        position = {"start-snapshot-id": after, "end-snapshot-id": upto}
    elif upto is not None:
        position = {"snapshot-id": upto}
        if source.increment is Increment.CHANGES:
            added = {
                "_change_type": "'INSERT'",
                "_change_ordinal": "0",
                "_commit_snapshot_id": f"cast({upto} as bigint)",
            }
    given = {key: value for key, value in _without_place(source).items() if key != "branch"}
    if not position and "branch" in source.options:
        position = {"branch": source.options["branch"]}
    return PositionedRead(format="iceberg", options={**given, **position}, path=_part_of(source, part), added=added)


def references_of(source: RowSource) -> PositionedRead:
    """The branches and tags of an Iceberg table, with their snapshots."""
    return PositionedRead(format="iceberg", options={}, path=_part_of(source, "refs"))


def branch_of(source: RowSource) -> str:
    """The branch of an Iceberg table that is read."""
    return source.options.get("branch", "main")


def _part_of(source: RowSource, part: str | None) -> str:
    """An Iceberg table, or one of its tables of metadata, as its reader takes them."""
    table, path = source.options.get(TABLE), source.options.get(PATH, "")
    if part is None:
        return table or path
    return f"{table}.{part}" if table is not None else f"{path}#{part}"


def _without_place(source: RowSource) -> dict[str, str]:
    return {key: value for key, value in source.options.items() if key not in (TABLE, PATH)}


# --- Kafka ---


def offsets_after(after: str | None, greatest: Iterable[Mapping[str, Any]]) -> str | None:
    """The position after messages: `greatest` has the last offset that was seen of each topic and partition."""
    position: dict[str, dict[str, int]] = {} if after is None else json.loads(after)
    for row in greatest:
        position.setdefault(row["topic"], {})[str(row["partition"])] = int(row["last"]) + 1
    ordered = {topic: dict(sorted(each.items(), key=lambda pair: int(pair[0]))) for topic, each in position.items()}
    return json.dumps(ordered, separators=(",", ":"), sort_keys=False) if ordered else None
