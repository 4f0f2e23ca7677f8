"""The description of the server is whole: every route, every body, every error; and so is the page about it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.http_graph import door

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "http.md"
_ROW = re.compile(r"\| (GET|POST|DELETE) \| `(\S+)` \|")
_STATUS = re.compile(r"^\| (\d{3}) \|", re.MULTILINE)
OPEN = {"/healthz", "/readyz"}
WRITES = {
    "analyze",
    "branches_merge",
    "cleanup",
    "embed",
    "indexes_build",
    "load",
    "mutate",
    "optimize",
    "repair",
    "schema_apply",
    "schema_catch_up",
}


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with door(tmp_path_factory.mktemp("described")) as ask:
        yield ask.app.openapi()


def operations(described: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (method.upper(), path): operation
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    }


def test_the_page_lists_every_route_and_no_other(described: dict[str, Any]) -> None:
    listed = _ROW.findall(PAGE.read_text("utf-8"))
    assert sorted(listed) == sorted(operations(described))


def test_the_page_lists_every_status(described: dict[str, Any]) -> None:
    listed = set(_STATUS.findall(PAGE.read_text("utf-8")))
    answered = {status for operation in operations(described).values() for status in operation["responses"]}
    assert answered - {"200", "201", "default"} <= listed


def test_the_page_names_what_a_route_takes(described: dict[str, Any]) -> None:
    rows = {
        (method, path): line for line in PAGE.read_text("utf-8").splitlines() for method, path in _ROW.findall(line)
    }
    schemas = described["components"]["schemas"]
    for place, operation in operations(described).items():
        names = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]
        reference = _body_of(operation)
        if reference is not None and operation["operationId"] != "analyze":
            names += schemas[reference]["properties"]
        assert [name for name in names if f"`{name}`" not in rows[place]] == [], place


def _body_of(operation: dict[str, Any]) -> str | None:
    """The name of the model of a JSON body."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    reference: str = content.get("schema", {}).get("$ref", "")
    return reference.rpartition("/")[2] or None


def test_every_error_of_every_route_has_the_one_body(described: dict[str, Any]) -> None:
    for place, operation in operations(described).items():
        errors = {status: each for status, each in operation["responses"].items() if status not in ("200", "201")}
        assert {"400", "401", "403", "404", "429", "500", "503", "default"} <= errors.keys(), place
        for status, error in errors.items():
            assert error["content"] == {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}, status
            assert error["description"]
        for status in ("429", "503"):
            assert "Retry-After" in errors[status]["headers"], place
        assert "WWW-Authenticate" in errors["401"]["headers"]


def test_routes_with_a_body_and_routes_that_write_list_what_may_become_of_them(described: dict[str, Any]) -> None:
    for place, operation in operations(described).items():
        statuses = operation["responses"].keys()
        if "requestBody" in operation:
            assert {"408", "413", "415"} <= statuses, place
        if operation["operationId"] in WRITES:
            assert {"409", "422"} <= statuses, place
    for name in ("query", "mutate", "schema_apply"):
        [operation] = [each for each in operations(described).values() if each["operationId"] == name]
        assert {"query": "504"}.get(name, "412") in operation["responses"]


def test_the_error_says_what_conflicts_have(described: dict[str, Any]) -> None:
    error = described["components"]["schemas"]["Error"]
    assert {"error", "code", "request_id", "manifest_conflict", "merge_conflicts", "violations"} <= set(
        error["properties"]
    )
    assert set(described["components"]["schemas"]["ManifestConflict"]["properties"]) == {
        "table_key",
        "expected",
        "actual",
    }


def test_operations_have_short_names_and_say_what_they_do(described: dict[str, Any]) -> None:
    names = [operation["operationId"] for operation in operations(described).values()]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z_]{3,20}", name) for name in names), names
    for place, operation in operations(described).items():
        assert all(operation[word] for word in ("summary", "description")), place
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description"), (place, parameter["name"])


def test_bodies_take_no_field_that_is_not_known_and_describe_each_that_is(described: dict[str, Any]) -> None:
    bodies = {name for operation in operations(described).values() if (name := _body_of(operation))}
    assert len(bodies) > 10
    for name in bodies:
        schema = described["components"]["schemas"][name]
        assert schema["additionalProperties"] is False, name
        assert "actor" not in schema["properties"]
        assert [each for each, field in schema["properties"].items() if not field.get("description")] == [], name


def test_everything_but_health_needs_a_token(described: dict[str, Any]) -> None:
    [(scheme, declared)] = described["components"]["securitySchemes"].items()
    assert (declared["type"], declared["scheme"]) == ("http", "bearer")
    for (_, path), operation in operations(described).items():
        assert operation.get("security") == (None if path in OPEN else [{scheme: []}]), path


def test_streams_are_described_as_what_they_are(described: dict[str, Any]) -> None:
    kinds = {
        operation["operationId"]: set(operation["responses"].get("200", {}).get("content", ()))
        for operation in operations(described).values()
    }
    lines = "application/x-ndjson"
    assert {name: kinds[name] for name in ("diff", "changes", "commits_changes")} == {
        "diff": {lines},
        "changes": {lines},
        "commits_changes": {lines},
    }
    assert kinds["export"] == {lines, "application/x-tar", "application/json"}
    assert kinds["query"] == {"application/json", "application/vnd.apache.arrow.stream"}
    [load] = [each for each in operations(described).values() if each["operationId"] == "load"]
    assert set(load["requestBody"]["content"]) == {lines, "multipart/form-data"}
