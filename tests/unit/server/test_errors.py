"""What errors look like over HTTP."""

import json
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from omnigraph import errors
from omnigraph.errors import (
    Damaged,
    EngineFailed,
    ExpectedVersionMismatch,
    HeadMoved,
    MergeConflicts,
    NotDurable,
    NotFound,
    OmnigraphError,
    PolicyDenied,
    QueryTimedOut,
    RecoveryFailed,
    RecoveryPending,
    StorageError,
    TooBusy,
    TooLarge,
    Unauthenticated,
    Unavailable,
    UsageError,
)
from omnigraph.server.errors import error_problem

PLACE = "/srv/graphs/people.omni"


def body_of(error: BaseException, **options: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(error_problem(error, "r1", **options).body)
    return document


@pytest.mark.parametrize(
    "kind", [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, OmnigraphError)]
)
def test_every_error_has_a_status_that_is_one(kind: type[OmnigraphError]) -> None:
    assert kind.http_status in range(400, 600)
    assert kind.exit_code in (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFound("branch", "x"), 404),
        (PolicyDenied("ada", "read", "people"), 403),
        (MergeConflicts("a", "b", []), 409),
        (HeadMoved(PLACE, 3, 4), 409),
        (RecoveryPending(["x"]), 503),
        (StorageError(PLACE, "broken"), 500),
        (QueryTimedOut(1), 504),
        (TooLarge(3), 413),
    ],
)
def test_an_error_has_a_status(error: OmnigraphError, status: int) -> None:
    assert error.http_status == status


def test_the_body_has_the_words_the_code_the_details_and_the_request() -> None:
    assert body_of(NotFound("branch", "x")) == {
        "error": "no branch `x`",
        "code": "not_found",
        "kind": "branch",
        "name": "x",
        "hint": None,
        "request_id": "r1",
    }


def test_a_write_that_another_was_ahead_of_says_where() -> None:
    conflict = body_of(ExpectedVersionMismatch("node:Person", 3, 4))["manifest_conflict"]
    assert conflict == {"table_key": "node:Person", "expected": 3, "actual": 4}
    assert body_of(HeadMoved(PLACE, 3, 4))["manifest_conflict"]["actual"] == 4


@pytest.mark.parametrize(
    "error",
    [
        StorageError(PLACE, f"cannot open {PLACE}/x"),
        Damaged(PLACE, f"{PLACE} is cut short"),
        HeadMoved(PLACE, 3, 4),
        NotDurable(PLACE, "c1", f"fsync of {PLACE}"),
        EngineFailed("load", f"worker failed at {PLACE}"),
        RecoveryFailed("x.json", f"bad {PLACE}"),
        RuntimeError(PLACE),
        HTTPException(500, PLACE),
        KeyError(PLACE),
    ],
)
def test_what_only_the_log_may_know_is_not_told(error: Exception) -> None:
    told = error_problem(error, "r1").body.decode()
    assert "/srv" not in told
    assert "r1" in told


def test_places_of_graphs_are_named_by_their_ids() -> None:
    body = body_of(NotFound("graph", PLACE, f'look at "{PLACE}"'), hidden={PLACE: "people"})
    assert body["name"] == "people"
    assert body["hint"] == 'look at "people"'


def test_notes_are_told_but_not_those_of_what_only_the_log_may_know() -> None:
    for error, told in ((UsageError("x"), ["look at main"]), (StorageError("/data/people", "is gone"), None)):
        error.add_note("look at main")
        assert json.loads(error_problem(error, "r1").body).get("notes") == told


def test_what_is_no_text_is_still_json() -> None:
    assert body_of(NotFound("branch", "a\udc80\n\u2028"))["name"] == "a\udc80\n\u2028"


@pytest.mark.parametrize(
    ("error", "name", "value"),
    [
        (TooBusy("too much", 7), "retry-after", "7"),
        (Unavailable("stopping"), "retry-after", "1"),
        (RecoveryPending(["x"]), "retry-after", "1"),
        (Unauthenticated(), "www-authenticate", "Bearer"),
        (HTTPException(405, headers={"Allow": "GET"}), "allow", "GET"),
    ],
)
def test_some_errors_say_more_in_headers(error: Exception, name: str, value: str) -> None:
    assert error_problem(error, "r1").headers[name] == value


def test_what_fastapi_refuses_looks_the_same() -> None:
    problem = {"type": "missing", "loc": ("body", "source"), "msg": "Field required", "input": {"secret": 1}}
    answer = error_problem(RequestValidationError([problem] * 100), "r1")
    body = json.loads(answer.body)
    assert (answer.status, body["code"]) == (400, "bad_request")
    assert body["problems"][0] == {"where": "body.source", "problem": "Field required"}
    assert len(body["problems"]) == 20
    assert "secret" not in answer.body.decode()


def test_an_error_that_was_wrapped_while_the_body_was_read_is_itself() -> None:
    wrapped = HTTPException(400, "There was an error parsing the body")
    wrapped.__cause__ = TooLarge(5)
    assert error_problem(wrapped, "r1").status == 413
