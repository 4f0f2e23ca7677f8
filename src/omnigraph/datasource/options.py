"""The options of the format `omnigraph`: the fields of a request, and those that open the graph."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, get_args

from omnigraph.api.base import MAIN, Bounds, Doc, Request, VerbParameter, parameters_of
from omnigraph.api.words import Branch
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import UsageError
from omnigraph.policy import guard_of
from omnigraph.session.session import Mode, Session, open_session
from omnigraph.spark.scans import PART_ROWS
from omnigraph.storage.location import Location, location_of

_STORAGE = "storage."


class ReadRequest(Request[Any], kw_only=True):
    """Read the rows of one type from one state of a graph. Its fields are options of Spark's reader."""

    type: Annotated[str, Doc("The node or edge type.")]
    branch: Branch = MAIN
    snapshot: Annotated[str | None, Doc("The id or a tag of the commit to read, on any branch.")] = None
    version: Annotated[int | None, Doc("The version of the branch to read.")] = None
    columns: Annotated[Collection[str] | None, Doc("The columns to read, separated by commas.")] = None
    filter: Annotated[str | None, Doc("Only rows that meet this condition, in the SQL of Lance.")] = None
    partition_rows: Annotated[int, Doc("About how many rows one task reads."), Bounds(least=1)] = PART_ROWS


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
        return location_of(self.values["path"], storage)

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
            for each in parameters_of(request)
            if each.scope is None and each.wire_name in self.values
        }


def parse_options(options: Mapping[str, str], call: str) -> FormatOptions:
    """The options of a read or a write; `call` is the method that takes the path."""
    values = {name.lower(): value for name, value in options.items()}
    if "path" not in values:
        raise UsageError(f"the path of the graph is missing: expected .{call}('graph.omni')")
    if "type" not in values:
        raise UsageError("the option `type` is missing: expected a node or edge type")
    return FormatOptions(values)


def _parse_value(parameter: VerbParameter, text: str) -> Any:
    if parameter.takes_many:
        return tuple(name.strip() for name in text.split(","))
    if int not in (parameter.hint, *get_args(parameter.hint)):
        return text
    if not text.isdecimal():
        raise UsageError(f"invalid option `{parameter.wire_name}` {text!r}: expected a number")
    return int(text)
