"""Every route below a graph: what it answers, and what it says when something is wrong."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import TypeAdapter

from omnigraph.api.history import Change
from omnigraph.server.models import ChangeBlockAnswer
from tests.behaviour.http_graph import ADD, ARROW, LINES, NAMES, RECORDS, SCHEMA, TAKE, Door, door, graph_routes
from tests.behaviour.unchecked import numbers_unchecked

NEWER = SCHEMA.replace("age: I64?", "age: I64?  nick: String?")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A graph that tests read, or write to without minding each other."""
    with door(tmp_path_factory.mktemp("served")) as opened:
        opened.ok("POST", "/load", content=RECORDS, headers=LINES)
        opened.ok("POST", "/branches", json={"name": "taken"})
        yield opened


def documents(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def is_described(description: Any, document: Any) -> bool:
    """Whether a document has exactly the fields of its description."""
    adapter = TypeAdapter(description)
    value = adapter.validate_json(json.dumps(document), strict=True)
    return bool(adapter.dump_python(value, mode="json", by_alias=True) == document)


def test_every_route_answers_as_it_is_described(tmp_path: Path) -> None:
    with door(tmp_path) as ask:
        first = ask.graph.snapshot().commit_id
        steps: list[tuple[str, str, str, dict[str, Any]]] = [
            ("load", "POST", "/load", {"content": RECORDS, "headers": LINES}),
            ("snapshot", "GET", "/snapshot", {}),
            ("query", "POST", "/query", {"json": {"source": NAMES}}),
            ("mutate", "POST", "/mutate", {"json": {"source": ADD, "params": {"name": "Eve"}}}),
            ("mutate", "POST", "/mutate", {"json": {"source": TAKE, "params": {"name": "Eve"}}}),
            ("queries_add", "POST", "/queries", {"json": {"queries": [NAMES, ADD]}}),
            ("queries_list", "GET", "/queries?at=main", {}),
            ("queries_show", "GET", "/queries/names", {}),
            ("queries_validate", "POST", "/queries:validate", {"json": {"queries": [NAMES]}}),
            ("call", "POST", "/queries/names", {"json": {}}),
            ("call", "POST", "/queries/add", {"json": {"params": {"name": "Gus"}, "message": "by name"}}),
            ("queries_remove", "POST", "/queries:remove", {"json": {"names": ["names"]}}),
            ("entity", "GET", "/entities/Person/Ada?at=2", {}),
            ("analyze", "POST", "/analyze", {"json": {"algorithm": "pagerank", "write": {"rank": "rank"}}}),
            ("embed", "POST", "/embed", {"json": {"type": "Person", "all": True}}),
            ("branches_create", "POST", "/branches", {"json": {"name": "review/1", "from": "main"}}),
            ("branches_list", "GET", "/branches", {}),
            ("mutate", "POST", "/mutate", {"json": {"source": ADD, "params": {"name": "Fay"}, "branch": "review/1"}}),
            ("branches_merge", "POST", "/branches/merge", {"json": {"source": "review/1", "dry_run": True}}),
            ("branches_merge", "POST", "/branches/merge", {"json": {"source": "review/1"}}),
            ("tags_create", "POST", "/tags", {"json": {"name": "v/1", "at": 1, "message": "the first"}}),
            ("tags_list", "GET", "/tags", {}),
            ("tags_show", "GET", "/tags/v/1", {}),
            ("commits_list", "GET", "/commits?branch=review/1&limit=2", {}),
            ("commits_show", "GET", "/commits/v/1", {}),
            ("commits_changes", "GET", "/commits/v%2F1/changes", {}),
            ("diff", "GET", f"/diff?left={first}&right=review/1&type=Person&type=Knows", {}),
            ("changes", "GET", "/changes?branch=main&limit=3", {}),
            ("export", "POST", "/export", {"json": {"types": ["Person"], "ordered": True}}),
            ("schema_show", "GET", "/schema?at=main", {}),
            ("schema_plan", "POST", "/schema/plan", {"json": {"schema": NEWER, "branch": "review/1"}}),
            ("schema_apply", "POST", "/schema/apply", {"json": {"schema": NEWER}}),
            ("schema_catch_up", "POST", "/schema/catch-up", {"json": {"branch": "review/1"}}),
            ("schema_diff", "GET", "/schema/diff?left=1&right=main", {}),
            ("status", "GET", "/status", {}),
            ("indexes_list", "GET", "/indexes", {}),
            ("indexes_build", "POST", "/indexes", {"json": {}}),
            ("optimize", "POST", "/optimize", {"json": {"branch": "main"}}),
            ("repair", "POST", "/repair", {"json": {"confirm": True}}),
            ("verify", "POST", "/verify", {"json": {"data": True}}),
            ("cleanup", "POST", "/cleanup", {"json": {"keep": 1, "older_than": "7d", "grace": "0h"}}),
            ("recoveries_list", "GET", "/recoveries", {}),
            ("branches_delete", "DELETE", "/branches/review/1", {}),
            ("tags_delete", "DELETE", "/tags/v%2F1", {}),
        ]
        routes = graph_routes()
        lines = {"commits_changes": Change, "diff": Change, "changes": ChangeBlockAnswer, "export": dict[str, Any]}
        for name, method, path, given in steps:
            answer = ask(method, path, **given)
            assert answer.status_code == (routes[name].status_code or 200), (name, answer.text)
            assert str(tmp_path) not in answer.text, name
            if name in lines:
                assert answer.headers["content-type"] == "application/x-ndjson"
                assert all(is_described(lines[name], each) for each in documents(answer.text)), name
            else:
                assert is_described(routes[name].response_model, answer.json()), (name, answer.json())
        # What did not finish needs a killed writer; see the recoveries below.
        assert routes.keys() - {name for name, *_ in steps} == {"recoveries_show"}
        assert [branch.name for branch in ask.graph.branches.list()] == ["main"]


NO_BRANCH = {"branch": "nowhere"}
ENDLESS = base64.urlsafe_b64encode(b'{"branch": "main", "incarnation": "", "version": 1e999}').decode()
MISTAKES: list[tuple[str, str, str, dict[str, Any], int, str]] = [
    ("snapshot", "GET", "/snapshot?branch=nowhere", {}, 404, "not_found"),
    ("query", "POST", "/query", {"json": {"source": "query q("}}, 400, "query_error"),
    ("query", "POST", "/query", {"json": {"source": NAMES, "params": {"x": 1}}}, 400, "parameter_error"),
    ("query", "POST", "/query", {"json": {"source": NAMES, "branch": "b", "snapshot": 1}}, 400, "bad_request"),
    ("query", "POST", "/query", {"json": {"source": NAMES, "timeout": "1"}}, 400, "bad_request"),
    ("query", "POST", "/query", {"json": {"source": NAMES, "timeout": 0}}, 400, "bad_request"),
    ("query", "POST", "/query", {"json": {"source": NAMES, "snapshot": "9" * 18}}, 404, "not_found"),
    ("query", "POST", "/query", {"json": {"source": NAMES, "snapshot": 10**30}}, 404, "not_found"),
    ("query", "POST", "/query", {"json": {"source": ADD, "params": {"name": "x"}}}, 400, "usage"),
    (
        "mutate",
        "POST",
        "/mutate",
        {"json": {"source": ADD, "params": {"name": "x"}, "if_commit": "x"}},
        412,
        "precondition_failed",
    ),
    ("mutate", "POST", "/mutate", {"json": {"source": NAMES}}, 400, "usage"),
    ("queries_add", "POST", "/queries", {"json": {"queries": ["query q("]}}, 400, "query_error"),
    ("queries_add", "POST", "/queries", {"json": {"queries": "query q"}}, 400, "bad_request"),
    ("queries_list", "GET", "/queries?at=nowhere", {}, 404, "not_found"),
    ("queries_show", "GET", "/queries/nothing", {}, 404, "not_found"),
    ("queries_validate", "POST", "/queries:validate", {"json": {"queries": ["query q("]}}, 400, "query_error"),
    ("call", "POST", "/queries/nothing", {"json": {}}, 404, "not_found"),
    ("call", "POST", "/queries/nothing", {"json": {"name": "x"}}, 400, "bad_request"),
    ("queries_remove", "POST", "/queries:remove", {"json": {"names": ["nothing"]}}, 404, "not_found"),
    ("load", "POST", "/load", {"content": b"{}", "headers": LINES}, 422, "validation_error"),
    (
        "load",
        "POST",
        "/load",
        {"content": b'{"type": "Person", "data": {"name": "\xff"}}', "headers": LINES},
        422,
        "validation_error",
    ),
    ("load", "POST", "/load?branch=nowhere", {"content": RECORDS, "headers": LINES}, 404, "not_found"),
    ("load", "POST", "/load", {"json": {}}, 415, "unsupported_media_type"),
    ("load", "POST", "/load?mode=replace", {"content": b"", "headers": LINES}, 400, "bad_request"),
    ("entity", "GET", "/entities/Person/Nobody", {}, 404, "not_found"),
    ("entity", "GET", "/entities/Robot/Ada", {}, 404, "not_found"),
    ("analyze", "POST", "/analyze", {"json": {"algorithm": "guessing"}}, 400, "usage"),
    ("analyze", "POST", "/analyze", {"json": {"algorithm": "degrees", "engine": "spark"}}, 400, "usage"),
    ("analyze", "POST", "/analyze", {"json": {"algorithm": "pagerank", "limit": 10**30}}, 400, "bad_request"),
    ("embed", "POST", "/embed", {"json": {"type": "Knows"}}, 400, "usage"),
    ("branches_create", "POST", "/branches", {"json": {"name": "taken"}}, 409, "branch_exists"),
    ("branches_create", "POST", "/branches", {"json": {"name": "../x"}}, 400, "usage"),
    ("branches_list", "GET", "/branches?limit=1", {}, 400, "bad_request"),
    ("branches_merge", "POST", "/branches/merge", {"json": {"source": "nowhere"}}, 404, "not_found"),
    ("branches_delete", "DELETE", "/branches/nowhere", {}, 404, "not_found"),
    ("branches_delete", "DELETE", "/branches/main", {}, 400, "usage"),
    ("tags_create", "POST", "/tags", {"json": {"name": "t", "at": "nowhere"}}, 404, "not_found"),
    ("tags_create", "POST", "/tags", {"json": {"name": "t", "at": "2026-01-01T00:00:00Z"}}, 404, "not_found"),
    ("tags_list", "GET", "/tags?x", {}, 400, "bad_request"),
    ("tags_show", "GET", "/tags/none", {}, 404, "not_found"),
    ("tags_delete", "DELETE", "/tags/none", {}, 404, "not_found"),
    ("commits_list", "GET", "/commits?limit=0", {}, 400, "bad_request"),
    ("commits_show", "GET", "/commits/none", {}, 404, "not_found"),
    ("commits_changes", "GET", "/commits/none/changes", {}, 404, "not_found"),
    ("diff", "GET", "/diff?left=main&right=nowhere", {}, 404, "not_found"),
    ("diff", "GET", "/diff?left=main", {}, 400, "bad_request"),
    ("diff", "GET", "/diff?left=main&left=1&right=main", {}, 400, "bad_request"),
    ("diff", "GET", "/diff?left=main&right=1&type=Robot", {}, 404, "not_found"),
    ("changes", "GET", "/changes?cursor=nonsense", {}, 400, "usage"),
    ("changes", "GET", f"/changes?cursor={ENDLESS}", {}, 400, "usage"),
    ("export", "POST", "/export", {"json": {"types": ["Robot"]}}, 404, "not_found"),
    ("export", "POST", "/export", {"json": {"format": "xml"}}, 400, "bad_request"),
    ("schema_show", "GET", "/schema?at=nowhere", {}, 404, "not_found"),
    ("schema_diff", "GET", "/schema/diff?left=main&right=nowhere", {}, 404, "not_found"),
    ("schema_plan", "POST", "/schema/plan", {"json": {"schema": "node {"}}, 400, "schema_error"),
    (
        "schema_apply",
        "POST",
        "/schema/apply",
        {"json": {"schema": NEWER, "if_commit": "x"}},
        412,
        "precondition_failed",
    ),
    ("schema_catch_up", "POST", "/schema/catch-up", {"json": {"branch": "main"}}, 400, "usage"),
    ("status", "GET", "/status?branch=nowhere", {}, 404, "not_found"),
    ("indexes_list", "GET", "/indexes?branch=nowhere", {}, 404, "not_found"),
    ("indexes_build", "POST", "/indexes", {"json": NO_BRANCH}, 404, "not_found"),
    ("optimize", "POST", "/optimize", {"json": NO_BRANCH}, 404, "not_found"),
    ("repair", "POST", "/repair", {"json": {"force": True}}, 400, "usage"),
    ("verify", "POST", "/verify", {"json": {"data": "all"}}, 400, "bad_request"),
    ("cleanup", "POST", "/cleanup", {"json": {}}, 400, "usage"),
    ("cleanup", "POST", "/cleanup", {"json": {"keep": 1, "older_than": "soon"}}, 400, "usage"),
    ("recoveries_list", "GET", "/recoveries?all=1", {}, 400, "bad_request"),
    ("recoveries_show", "GET", "/recoveries/none", {}, 404, "not_found"),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=[f"{each[0]}-{each[5]}" for each in MISTAKES])
def test_a_mistake_has_a_status_and_a_code_that_its_route_lists(
    served: Door, mistake: tuple[str, str, str, dict[str, Any], int, str]
) -> None:
    name, method, path, given, status, code = mistake
    answer = served(method, path, **given)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert status in graph_routes()[name].responses


def test_there_is_a_mistake_of_every_route() -> None:
    assert {name for name, *_ in MISTAKES} == graph_routes().keys()


def test_answers_are_the_documents_of_the_graph(served: Door) -> None:
    graph = served.graph
    assert served.ok("GET", "/snapshot") == graph.snapshot().as_json()
    assert served.ok("GET", "/schema") == graph.schema.at().as_json()
    assert served.ok("GET", "/branches") == [each.as_json() for each in graph.branches.list()]
    assert served.ok("GET", "/commits") == [each.as_json() for each in graph.commits.list()]
    assert documents(served("GET", "/changes").text) == [each.as_json() for each in graph.changes()]
    # When it was looked at, and what the process that was asked has in memory, differ.
    assert {**served.ok("GET", "/status"), "seen_at": "", "memory": None} == {
        **graph.status().as_json(),
        "seen_at": "",
        "memory": None,
        "uri": "people",
    }


@pytest.mark.parametrize("named", [2, "time", "commit"])
def test_a_state_is_named_by_version_time_or_commit(served: Door, named: Any) -> None:
    loaded = served.graph.snapshot_at(version=2).commit
    at = {"time": loaded.created_at.isoformat(), "commit": loaded.graph_commit_id}.get(str(named), named)
    assert served.ok("POST", "/query", json={"source": NAMES, "snapshot": at})["commit_id"] == loaded.graph_commit_id


def test_digits_are_a_version_in_an_address_and_a_name_in_a_body(served: Door) -> None:
    loaded = served.graph.snapshot_at(version=2).commit.as_json()
    assert served.ok("GET", "/snapshot", params={"at": "2"})["commit"] == loaded
    assert served("POST", "/query", json={"source": NAMES, "snapshot": "2"}).status_code == 404


# --- what a client may not say ---


@pytest.mark.parametrize("path", ["/query", "/mutate", "/export", "/branches", "/tags", "/optimize", "/schema/apply"])
def test_nobody_says_in_a_body_who_they_are(served: Door, path: str) -> None:
    body = {"source": NAMES, "name": "names", "schema": SCHEMA, "actor": "eve"}
    answer = served("POST", path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert "body.actor" in [each["where"] for each in answer.json()["problems"]]


@pytest.mark.parametrize("path", ["/schema/plan", "/schema/apply"])
def test_a_schema_is_never_read_from_a_file_of_the_server(served: Door, tmp_path: Path, path: str) -> None:
    file = tmp_path / "other.pg"
    file.write_text("node Secret { key: String @key }")
    answer = served("POST", path, json={"schema": str(file)})
    assert (answer.status_code, answer.json()["code"]) == (400, "schema_error")
    assert "Secret" not in answer.text


def test_a_query_is_never_read_from_a_file_of_the_server(served: Door, tmp_path: Path) -> None:
    file = tmp_path / "other.gq"
    file.write_text(NAMES)
    for path in ("/query", "/mutate"):
        assert served("POST", path, json={"source": str(file)}).json()["code"] == "query_error"


@pytest.mark.parametrize("params", ['{"name": "\\ud800"}', '{"name": NaN}', '{"name": ' + "[" * 40 + "]" * 40 + "}"])
def test_parameters_are_json_and_nothing_that_looks_like_it(served: Door, params: str) -> None:
    content = f'{{"source": {json.dumps(ADD)}, "params": {params}}}'
    answer = served("POST", "/mutate", content=content, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


# --- rows ---


def test_rows_are_arrow_for_who_accepts_arrow(served: Door) -> None:
    answer = served("POST", "/query", json={"source": NAMES}, headers={"accept": ARROW})
    result = served.graph.query(NAMES)
    assert answer.headers["content-type"] == ARROW
    assert answer.headers["x-commit-id"] == result.commit_id
    assert pa.ipc.open_stream(answer.content).read_all().equals(result.table)


def test_an_analysis_as_arrow_has_the_rest_in_its_metadata(served: Door) -> None:
    body = {"algorithm": "degrees", "limit": 1}
    answer = served("POST", "/analyze", json=body, headers={"accept": f"{ARROW}, application/json;q=0.5"})
    table = pa.ipc.open_stream(answer.content).read_all()
    known = json.loads(table.schema.metadata[b"omnigraph"])
    plain = served.ok("POST", "/analyze", json=body)
    assert {**known, "rows": table.to_pylist()} == plain
    assert len(plain["rows"]) == 1


def test_a_plan_is_told_and_nothing_is_done(served: Door) -> None:
    before = served.graph.snapshot().commit_id
    assert "scan" in served.ok("POST", "/query", json={"source": NAMES, "explain": True})["plan"]
    assert "engine" in served.ok("POST", "/export", json={"explain": True})["plan"]
    assert "append" in served.ok("POST", "/load?explain=true", content=RECORDS, headers=LINES)["plan"]
    assert served.graph.snapshot().commit_id == before


def test_nobody_asks_for_more_time_than_the_server_gives(tmp_path: Path) -> None:
    with door(tmp_path, query_timeout=1e-9) as ask:
        for given in ({}, {"timeout": 3_600}):
            answer = ask("POST", "/query", json={"source": NAMES, **given})
            assert (answer.status_code, answer.json()["code"]) == (504, "query_timed_out")
            assert 504 in graph_routes()["query"].responses


def test_what_json_has_no_number_for_is_null(tmp_path: Path) -> None:
    with door(tmp_path) as ask:
        with numbers_unchecked():
            ask.graph.load({"Person": pa.table({"name": ["Nan", "Inf"], "score": [float("nan"), float("-inf")]})})
        source = "query q() { match { $p: Person } return { $p.score } }"
        answers = [
            ask("POST", "/query", json={"source": source}),
            ask("GET", "/entities/Person/Nan"),
            ask("GET", "/diff?left=1&right=main"),
            ask("GET", "/changes"),
        ]
        for answer in answers:
            assert answer.status_code == 200
            assert '"score":null' in answer.text or '"p.score":null' in answer.text
            assert not any(word in answer.text for word in ("NaN", "Infinity"))


# --- conflicts ---


def test_conflicts_of_a_merge_and_lost_preconditions_are_told_with_their_fields(tmp_path: Path) -> None:
    older = 'query older($age: I64) { update Person set { age: $age } where name = "Ada" }'
    with door(tmp_path) as ask:
        ask.ok("POST", "/load", content=RECORDS, headers=LINES)
        ask.ok("POST", "/branches", json={"name": "other"})
        for branch, age in (("other", 1), ("main", 2)):
            ask.ok("POST", "/mutate", json={"source": older, "params": {"age": age}, "branch": branch})
        answer = ask("POST", "/branches/merge", json={"source": "other"})
        assert (answer.status_code, answer.json()["code"]) == (409, "merge_conflicts")
        [conflict] = answer.json()["merge_conflicts"]
        assert (conflict["kind"], conflict["id"]) == ("DivergentUpdate", "Ada")
        tried = ask.ok("POST", "/branches/merge", json={"source": "other", "dry_run": True})
        assert tried["conflicts"] == [conflict]

        head = ask.graph.snapshot().commit_id
        lost = ask("POST", "/mutate", json={"source": ADD, "params": {"name": "Guy"}, "if_commit": "01"})
        assert (lost.status_code, lost.json()["actual"]) == (412, head)


# --- what did not finish ---


def test_a_write_that_is_pending_is_shown(tmp_path: Path) -> None:
    with door(tmp_path) as ask:
        folder = tmp_path / "people.omni" / "__recovery"
        folder.mkdir(exist_ok=True)
        (folder / "01JB8Z5Q3V4W5X6Y7Z8A9BCDEF.json").write_text("{}")
        [pending] = ask.ok("GET", "/recoveries")["pending"]
        assert pending["state"] == "unreadable"
        assert ask.ok("GET", f"/recoveries/{pending['operation_id']}") == pending
        refused = ask("POST", "/mutate", json={"source": ADD, "params": {"name": "Late"}})
        assert (refused.status_code, refused.json()["code"]) == (503, "recovery_failed")


def test_what_the_server_writes_is_by_nobody_if_it_does_not_ask(served: Door) -> None:
    commit = served.ok("POST", "/mutate", json={"source": ADD, "params": {"name": "Anonymous"}})["commit"]
    assert served.graph.commits.show(commit["graph_commit_id"]).actor is None
