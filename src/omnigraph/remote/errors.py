"""Turns the error documents of a server into the typed errors of the library."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from omnigraph.api.history import MergeConflict
from omnigraph.diagnostics import Diagnostic
from omnigraph.errors import (
    MergeConflicts,
    OmnigraphError,
    ParameterError,
    PipelineError,
    PolicyError,
    QueryError,
    SchemaError,
    SchemaRefused,
    Unauthenticated,
    Unavailable,
    UsageError,
    ValidationError,
)
from omnigraph.remote.calls import decode_answer
from omnigraph.violations import Violation

TOKEN = "OMNIGRAPH_TOKEN"  # noqa: S105 - the name of a variable
_MISUSED = ("bad_request", "method_not_allowed", "unsupported_media_type")


def error_of(body: Mapping[str, Any]) -> OmnigraphError:
    """The error that the body of an answer describes; one whose code is unknown here keeps its text."""
    text, code = str(body.get("error", "")), str(body.get("code", ""))
    error = _typed_error(text, code, body)
    for note in body.get("notes") or ():
        error.add_note(str(note))
    if isinstance(error, Unauthenticated):
        error.add_note(f"pass a token to `connect`, or set ${TOKEN}")
    return error


def with_names(error: OmnigraphError, names: Mapping[str, str]) -> OmnigraphError:
    """An error about a text that was sent to a server, with the name that its file has here."""
    if not isinstance(error, SchemaError | SchemaRefused | QueryError):
        return error
    return type(error)([replace(each, file=names.get(each.file, each.file)) for each in error.diagnostics])


def _typed_error(text: str, code: str, body: Mapping[str, Any]) -> OmnigraphError:
    kind = _errors_by_code().get(code)
    if kind is None:
        return UsageError(text) if code in _MISUSED else OmnigraphError(f"{text} ({code})" if code else text)
    conflict = body.get("manifest_conflict") or {}
    fields = {"problem": text, "uri": conflict.get("table_key", "the graph"), **conflict, **body}
    if kind in _SPECIAL:
        try:
            return _SPECIAL[kind](fields)
        except (KeyError, TypeError, Unavailable):
            return OmnigraphError(f"{text} ({code})")
    parameters = [each for each in inspect.signature(kind.__init__).parameters.values() if each.name != "self"]
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters):
        return kind(text)
    if any(each.name not in fields and each.default is inspect.Parameter.empty for each in parameters):
        return OmnigraphError(text)
    return kind(*(fields.get(each.name, each.default) for each in parameters))


def _of_source(kind: Callable[[list[Diagnostic]], OmnigraphError]) -> Callable[[Mapping[str, Any]], OmnigraphError]:
    return lambda fields: kind([decode_answer(Diagnostic, each) for each in fields["diagnostics"]])


def _parameter_error(fields: Mapping[str, Any]) -> ParameterError:
    return ParameterError(fields["query"], [(each["name"], each["problem"]) for each in fields["parameters"]])


def _validation_error(fields: Mapping[str, Any]) -> ValidationError:
    return ValidationError([decode_answer(Violation, each) for each in fields["violations"]], fields["total"])


def _merge_conflicts(fields: Mapping[str, Any]) -> MergeConflicts:
    found = [decode_answer(MergeConflict, each) for each in fields["merge_conflicts"]]
    return MergeConflicts(fields["source"], fields["target"], found)


_SPECIAL: dict[type[OmnigraphError], Callable[[Mapping[str, Any]], OmnigraphError]] = {
    **{kind: _of_source(kind) for kind in (PipelineError, PolicyError, QueryError, SchemaError, SchemaRefused)},
    MergeConflicts: _merge_conflicts,
    ParameterError: _parameter_error,
    ValidationError: _validation_error,
}


@cache
def _errors_by_code() -> dict[str, type[OmnigraphError]]:
    """The classes of errors by their codes."""
    public = (kind for kind in _below(OmnigraphError) if not kind.__name__.startswith("_"))
    return {kind.code: kind for kind in public if kind.__module__ == OmnigraphError.__module__}


def _below(kind: type[OmnigraphError]) -> Iterator[type[OmnigraphError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _below(each)
