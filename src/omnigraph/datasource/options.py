"""The options of the format `omnigraph`: the fields of a request, and those that open the graph.

An option that is unknown is refused: ignored, a misspelled `filter` would give all rows, and a state of the past that
was asked for in the words of another format would be the newest one. What users of Delta Lake and Iceberg write for the
same is understood.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, get_args

from omnigraph.api.base import MAIN, Bounds, Doc, Request, VerbParameter, WireName, parameters_of
from omnigraph.api.data import LoadMode, LoadRequest
from omnigraph.api.words import Branch
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import UsageError
from omnigraph.policy import guard_of
from omnigraph.session.session import Mode, Session, open_session
from omnigraph.spark.scans import PART_ROWS
from omnigraph.storage.location import Location, location_of

_STORAGE = "storage."
_PATH, _GRAPH = "path", "graph"
_OPENING = (_PATH, _GRAPH, "type", "policy", "actor")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STATES = ("snapshot", "version", "timestamp")


class ReadRequest(Request[Any], kw_only=True):
    """Read the rows of one type from one state of a graph. Its fields are options of Spark's reader."""

    type: Annotated[str, Doc("The node or edge type.")]
    branch: Branch = MAIN
    snapshot: Annotated[str | None, Doc("The id or a tag of the commit to read, on any branch.")] = None
    version: Annotated[int | None, Doc("The version of the branch to read.")] = None
    timestamp: Annotated[
        str | None, Doc("The time whose state of the branch is read; without a zone it is in UTC.")
    ] = None
    columns: Annotated[Collection[str] | None, Doc("The columns to read, separated by commas.")] = None
    filter: Annotated[str | None, Doc("Only rows that meet this condition, in the SQL of Lance.")] = None
    partition_rows: Annotated[int, Doc("About how many rows one task reads."), Bounds(least=1)] = PART_ROWS

    def problem(self) -> str | None:
        named = [name for name in _STATES if getattr(self, name) is not None]
        return f"the options `{named[0]}` and `{named[1]}` both name a state: remove one" if len(named) > 1 else None

    @property
    def time(self) -> datetime | None:
        """The time that `timestamp` names."""
        return None if self.timestamp is None else _parse_time("timestamp", self.timestamp)


LATEST = "latest"
"""The start of a stream that reads only what changes after it was started."""
_BEGINNINGS = ("starting_version", "starting_timestamp", "starting_commit")


class ChangesReadRequest(Request[Any], kw_only=True):
    """Read what changes in one type of a graph, as a stream. Its fields are options of Spark's reader of streams.

    Without a start, the stream begins with all entities as they are, as inserts.
    """

    type: Annotated[str, Doc("The node or edge type.")]
    branch: Branch = MAIN
    read_change_feed: Annotated[
        str, Doc("Whether to read changes; any other option of streams means it too."), WireName("readchangefeed")
    ] = "true"
    starting_version: Annotated[
        str | None,
        Doc("The version of the branch whose changes come first, or `latest` for those that are made from now on."),
        WireName("startingversion"),
    ] = None
    starting_timestamp: Annotated[
        str | None,
        Doc("Changes from this time on are read; without a zone it is in UTC."),
        WireName("startingtimestamp"),
    ] = None
    starting_commit: Annotated[
        str | None, Doc("The id or a tag of the commit whose changes come first."), WireName("startingcommit")
    ] = None
    max_commits: Annotated[int, Doc("How many commits a batch has at most."), WireName("maxcommitspertrigger")] = 1_000
    max_rows: Annotated[
        int | None,
        Doc("A batch ends before the commit with which it would have more changes; a commit is never divided."),
        WireName("maxrowspertrigger"),
    ] = None
    partition_rows: Annotated[int, Doc("About how many changes one task reads."), Bounds(least=1)] = PART_ROWS

    def problem(self) -> str | None:
        if self.read_change_feed.lower() != "true":
            return f"invalid option `readChangeFeed` {self.read_change_feed!r}: a stream reads changes, so it is `true`"
        named = [name for name in _BEGINNINGS if getattr(self, name) is not None]
        if len(named) > 1:
            first, second = (_SHOWN[name.replace("_", "")] for name in named[:2])
            return f"the options `{first}` and `{second}` both name a start: remove one"
        version = self.starting_version
        if version is not None and version.lower() != LATEST and not version.isdecimal():
            return f"invalid option `startingVersion` {version!r}: expected the number of a version, or `latest`"
        for name, most in (("maxCommitsPerTrigger", self.max_commits), ("maxRowsPerTrigger", self.max_rows)):
            if most is not None and most < 1:
                return f"invalid option `{name}` '{most}': expected at least 1"
        return None

    @property
    def starts_now(self) -> bool:
        """Whether only what changes after the start is read."""
        return self.starting_version is not None and self.starting_version.lower() == LATEST

    @property
    def starting_time(self) -> datetime | None:
        """The time that `starting_timestamp` names."""
        text = self.starting_timestamp
        return None if text is None else _parse_time("option `startingTimestamp`", text)


def _parse_time(what: str, text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        problem = "expected a date, or a date and a time such as 2026-01-31T12:00:00Z"
        raise UsageError(f"invalid {what} {text!r}: {problem}") from error
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _version_as_of(value: str) -> tuple[str, str]:
    """A number is a version of the branch, another text the id or a tag of a commit, as in `VERSION AS OF`."""
    return ("version" if value.isdecimal() else "snapshot"), value


def _milliseconds(value: str) -> tuple[str, str]:
    try:
        return "timestamp", (_EPOCH + timedelta(milliseconds=int(value))).isoformat()
    except (ValueError, OverflowError) as error:
        raise UsageError(f"invalid option `as-of-timestamp` {value!r}: expected milliseconds since 1970") from error


Meaning = Callable[[str], tuple[str, str]]
_OF_READS: Mapping[str, Meaning] = {
    "versionasof": _version_as_of,
    "timestampasof": lambda value: ("timestamp", value),
    "snapshot-id": lambda value: ("snapshot", value),
    "tag": lambda value: ("snapshot", value),
    "as-of-timestamp": _milliseconds,
}
"""What other formats call the options of a read, with our option and its value."""

_OF_WRITES: Mapping[str, Meaning] = {
    "txnappid": lambda value: ("application", value),
    "txnversion": lambda value: ("batch", value),
}
"""What other formats call the options of a write."""

_OF_QUERIES = frozenset(("checkpointlocation", "queryname"))
"""Options of a streaming query, which Spark passes on."""

_OF_STREAMS: Mapping[str, Meaning] = {
    "readchangedata": lambda value: ("readchangefeed", value),
}
"""What other formats call the options of a read of changes."""

_FOREIGN = {
    "maxfilespertrigger": "a graph has no files to count: use `maxCommitsPerTrigger` or `maxRowsPerTrigger`",
    "maxbytespertrigger": "use `maxCommitsPerTrigger` or `maxRowsPerTrigger`",
    "ignoredeletes": "filter the stream by its column `_change_type`",
    "ignorechanges": "filter the stream by its column `_change_type`",
    "skipchangecommits": "filter the stream by its column `_change_type`",
    "witheventtimeorder": "order rows by the column `_commit_version`",
    "endingversion": "a stream has no end: use `.trigger(availableNow=True)`",
    "endingtimestamp": "a stream has no end: use `.trigger(availableNow=True)`",
}
"""Options of other formats for streams that have no counterpart, and what to do instead."""

_SHOWN = {
    "readchangefeed": "readChangeFeed",
    "readchangedata": "readChangeData",
    "startingversion": "startingVersion",
    "startingtimestamp": "startingTimestamp",
    "startingcommit": "startingCommit",
    "maxcommitspertrigger": "maxCommitsPerTrigger",
    "maxrowspertrigger": "maxRowsPerTrigger",
    "versionasof": "versionAsOf",
    "timestampasof": "timestampAsOf",
    "txnappid": "txnAppId",
    "txnversion": "txnVersion",
}


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """The options of a read or a write, by their names in lower case."""

    values: Mapping[str, str]

    @property
    def location(self) -> Location:
        """Where the graph is; options such as `storage.aws_region` are for its store."""
        storage = {
            name.removeprefix(_STORAGE): value for name, value in self.values.items() if name.startswith(_STORAGE)
        }
        return location_of(self.values[_PATH], storage)

    @property
    def type_name(self) -> str:
        """The node or edge type."""
        return self.values["type"]

    def open_session(self, mode: Mode) -> Session:
        """Opens the graph for the actor, under the policy."""
        location = self.location
        return open_session(location, mode, guard_of(location.uri, self.values.get("policy"), self.values.get("actor")))

    def fields(self, request: type[Request[Any]]) -> dict[str, Any]:
        """The fields of a request that are given as options."""
        return {
            each.name: _parse_value(each, self.values[each.wire_name])
            for each in _options_of(request)
            if each.wire_name in self.values
        }


def parse_read_options(options: Mapping[str, str]) -> FormatOptions:
    """The options of a read. With the option `graph` they may be those of a table, which is written with them too."""
    given = {name.lower(): value for name, value in options.items()}
    reads, writes = _names_of(ReadRequest), _names_of(LoadRequest)
    only_writes = (writes | _OF_WRITES.keys()) - reads if _GRAPH in given else frozenset()
    return _parse(given, "load", reads, _OF_READS, ignored=only_writes)


def reads_changes(options: Mapping[str, str]) -> bool:
    """Whether these are options of a read of changes; Spark does not tell a source whether it is read as a stream."""
    return not _ONLY_OF_STREAMS.isdisjoint(name.lower() for name in options)


def parse_changes_options(options: Mapping[str, str]) -> FormatOptions:
    """The options of a stream that reads changes."""
    given = {name.lower(): value for name, value in options.items()}
    names = _names_of(ChangesReadRequest)
    for name in given.keys() & ((_names_of(ReadRequest) | _OF_READS.keys()) - {*names, *_OPENING}):
        raise UsageError(f"the option `{_SHOWN.get(name, name)}` is not for streams")
    return _parse(given, "load", names, _OF_STREAMS, ignored=())


def parse_write_options(options: Mapping[str, str]) -> FormatOptions:
    """The options of a write of a frame."""
    return _parse_write(options, "save", _names_of(LoadRequest), _OF_WRITES, ignored=())


def parse_stream_write_options(options: Mapping[str, str]) -> FormatOptions:
    """The options of a write of a stream. Spark numbers its batches, and its output mode says whether they replace."""
    given = {name.lower(): value for name, value in options.items()}
    for name in given.keys() & {"batch", "txnversion"}:
        raise UsageError(f"the option `{_SHOWN.get(name, name)}` is not for streams, whose batches Spark numbers")
    if given.get("mode") == LoadMode.OVERWRITE:
        raise UsageError("invalid mode 'overwrite': to replace all entities, use `.outputMode('complete')`")
    aliases = {name: meaning for name, meaning in _OF_WRITES.items() if name != "txnversion"}
    return _parse_write(given, "start", _names_of(LoadRequest) - {"batch"}, aliases, ignored=_OF_QUERIES)


def _parse_write(
    options: Mapping[str, str],
    call: str,
    writes: Collection[str],
    aliases: Mapping[str, Meaning],
    *,
    ignored: Collection[str],
) -> FormatOptions:
    given = {name.lower(): value for name, value in options.items()}
    for name in given.keys() & ((_names_of(ReadRequest) | _OF_READS.keys()) - {*writes, *_OPENING}):
        raise UsageError(f"the option `{_SHOWN.get(name, name)}` is for reading: remove it to write")
    return _parse(given, call, writes, aliases, ignored=ignored)


def _parse(
    given: Mapping[str, str],
    call: str,
    names: Collection[str],
    aliases: Mapping[str, Meaning],
    *,
    ignored: Collection[str],
) -> FormatOptions:
    """Options with their names in lower case; `call` is the method that takes the path."""
    known = {*_OPENING, *names, *aliases, *ignored}
    values: dict[str, str] = {}
    sources: dict[str, str] = {}
    for name, value in given.items():
        if name not in known and not name.startswith(_STORAGE):
            raise UsageError(f"unknown option `{name}`: {_hint_at_options(name, call, {*_OPENING, *names, *aliases})}")
        if name in ignored:
            continue
        own, meant = aliases[name](value) if name in aliases else (name, value)
        own = _PATH if own == _GRAPH else own
        if own in values:
            raise UsageError(f"the options `{sources[own]}` and `{_SHOWN.get(name, name)}` mean the same: remove one")
        values[own], sources[own] = meant, _SHOWN.get(name, name)
    if _PATH not in values:
        raise UsageError(f"the path of the graph is missing: expected .{call}('graph.omni'), or the option `graph`")
    if "type" not in values:
        raise UsageError("the option `type` is missing: expected a node or edge type")
    return FormatOptions(values)


def _hint_at_options(name: str, call: str, known: Collection[str]) -> str:
    """What to write instead of an unknown option: the nearest one, among them those of streams if it is a read."""
    if name in _FOREIGN:
        return _FOREIGN[name]
    if near := did_you_mean(name, [*known, *(_ONLY_OF_STREAMS if call == "load" else ())]):
        words = near.split("`")
        return "`".join(_SHOWN.get(each, each) for each in words)
    return f"known are {', '.join(f'`{each}`' for each in sorted(_SHOWN.get(each, each) for each in known))}"


def _options_of(request: type[Request[Any]]) -> list[VerbParameter]:
    """The fields that are options. The writer loads in the driver, so it has no choice of an engine."""
    return [each for each in parameters_of(request) if each.scope is None and each.name != "engine"]


def _names_of(request: type[Request[Any]]) -> frozenset[str]:
    return frozenset(each.wire_name for each in _options_of(request))


_ONLY_OF_STREAMS = (_names_of(ChangesReadRequest) - _names_of(ReadRequest)) | _OF_STREAMS.keys()


def _parse_value(parameter: VerbParameter, text: str) -> Any:
    if parameter.takes_many:
        return tuple(name.strip() for name in text.split(","))
    if int not in (parameter.hint, *get_args(parameter.hint)):
        return text
    if not text.isdecimal():
        name = _SHOWN.get(parameter.wire_name, parameter.wire_name)
        raise UsageError(f"invalid option `{name}` {text!r}: expected a number")
    return int(text)
