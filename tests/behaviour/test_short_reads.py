"""Short reads of a server are answered on its event loop, and nobody can tell: all others go to threads as before."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from omnigraph.query import reading
from omnigraph.server.app import make_app
from omnigraph.server.auth import parse_tokens
from omnigraph.server.settings import ServerSettings
from omnigraph.verbs import query as verb
from tests.behaviour.http_graph import Door, door

LOOKUP = "query q($name: String) { match { $p: Person { name: $name } } return { $p.name, $p.age, $p.score, $p.bio } }"
HOP = "query q($name: String) { match { $p: Person { name: $name }  $p knows $f } return { $f.name, $f.age } }"
FILTERED = (
    "query q($name: String) { match { $p: Person { name: $name }  $p knows $f  $f.age > 3 } return { $f.id, $p.id } }"
)
COUNTED = "query q($name: String) { match { $p: Person { name: $name }  $p knows $f } return { count($f) } }"
ABSENT = (
    "query q($name: String) { match { $p: Person { name: $name }  $p knows $f  not { $f knows $p } }"
    " return { $f.name } order { $f.age desc } limit 3 }"
)
HUB, SMALL = "hub", "small"
PEOPLE = 5_000


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with door(tmp_path_factory.mktemp("short")) as found:
        records: list[dict[str, Any]] = [
            {"type": "Person", "data": {"name": HUB, "age": None, "score": 0.5, "bio": "é\n" * 3}},
            {"type": "Person", "data": {"name": SMALL, "age": 7, "bio": "x" * 2_000}},
        ]
        records += [{"type": "Person", "data": {"name": f"p{at}", "age": at % 90}} for at in range(PEOPLE)]
        records += [{"edge": "Knows", "from": HUB, "to": f"p{at}", "data": {}} for at in range(PEOPLE)]
        records += [{"edge": "Knows", "from": SMALL, "to": f"p{at}", "data": {}} for at in range(30)]
        lines = "\n".join(map(json.dumps, records)).encode()
        found.ok("POST", "/load", content=lines, headers={"content-type": "application/x-ndjson"})
        yield found


class _Threads:
    """How much work a server gave to threads."""

    def __init__(self, found: Door, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        scheduler = found.app.state.server.scheduler
        schedule = scheduler.schedule

        def count(work: Any) -> Any:
            self.count += 1
            return schedule(work)

        patch.setattr(scheduler, "schedule", count)


@pytest.fixture
def threads(people: Door, monkeypatch: pytest.MonkeyPatch) -> _Threads:
    return _Threads(people, monkeypatch)


def _ask(found: Door, source: str, name: Any, **more: Any) -> httpx.Response:
    return found("POST", "/query", json={"source": source, "params": {"name": name}, **more})


def _visible(answer: httpx.Response) -> tuple[int, bytes, dict[str, str]]:
    """What a client sees of an answer, but for what is different each time."""
    request_id = answer.headers["x-request-id"]
    headers = {name: value for name, value in answer.headers.items() if name != "x-request-id"}
    return answer.status_code, answer.content.replace(request_id.encode(), b""), headers


def _on_its_route(found: Door, source: str, name: Any) -> httpx.Response:
    """The answer to a request that says more than a short read may, and means the same."""
    return _ask(found, source, name, engine="auto")


@pytest.mark.parametrize("source", [LOOKUP, HOP, FILTERED, COUNTED, ABSENT])
@pytest.mark.parametrize("name", [SMALL, "p1", "nobody"])
def test_a_short_read_needs_no_thread_and_is_answered_as_on_its_route(
    people: Door, threads: _Threads, source: str, name: str
) -> None:
    # The first time, it is compiled, and its tables are read into memory; some columns only for a row that has them.
    expected = [_visible(_on_its_route(people, source, each)) for each in (SMALL, name)][-1]
    before = threads.count
    assert _visible(_ask(people, source, name)) == expected
    assert threads.count == before


def test_a_short_call_of_a_stored_query_needs_no_thread_either(people: Door, threads: _Threads) -> None:
    people.ok("POST", "/queries", json={"queries": [HOP.replace("query q", "query friends_of")]})
    expected = [_visible(_ask(people, HOP, name)) for name in (SMALL, "nobody")]
    before = 0
    for _ in range(2):
        before = threads.count
        found = [people("POST", "/queries/friends_of", json={"params": {"name": name}}) for name in (SMALL, "nobody")]
        assert list(map(_visible, found)) == expected
    assert threads.count == before
    for params in ({}, {"name": 7}, {"name": SMALL, "other": 1}):
        short = people("POST", "/queries/friends_of", json={"params": params})
        route = people("POST", "/queries/friends_of", json={"params": params, "branch": "main"})
        assert short.status_code == 400
        assert _visible(short) == _visible(route)
    large = people("POST", "/queries/friends_of", json={"params": {"name": HUB}})
    assert len(large.json()["rows"]) == PEOPLE
    assert threads.count > before


def test_a_read_of_a_node_with_many_edges_moves_to_a_thread(people: Door, threads: _Threads) -> None:
    expected = people.graph.query(HOP, params={"name": HUB}).as_json()
    _ask(people, HOP, SMALL)
    _ask(people, HOP, SMALL)
    before = threads.count
    answer = _ask(people, HOP, HUB).json()
    assert answer == expected
    assert len(answer["rows"]) == PEOPLE
    assert threads.count > before


def test_a_read_of_a_whole_type_moves_to_a_thread(people: Door, threads: _Threads) -> None:
    source = "query q($name: String) { match { $p: Person  $p.name = $name } return { $p.name } limit 1 }"
    scan = "query q($name: String) { match { $p: Person  $p.bio = $name } return { $p.name } limit 1 }"
    for each in (source, scan):
        _ask(people, each, "p1")
    before = threads.count
    _ask(people, scan, "p1")
    assert threads.count == before + 1


def test_the_server_answers_others_while_a_large_read_runs(people: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end = threading.Event(), threading.Event()
    read = reading.read_in_memory

    def wait_and_read(*given: Any, **options: Any) -> Any:
        begun.set()
        assert may_end.wait(60)
        return read(*given, **options)

    _ask(people, HOP, SMALL)
    monkeypatch.setattr(verb, "read_in_memory", wait_and_read)

    async def ask() -> tuple[int, int, int]:
        transport = httpx.ASGITransport(people.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://server", timeout=60) as client:
            body = {"source": HOP, "params": {"name": HUB}}
            large = asyncio.ensure_future(client.post("/graphs/people/query", json=body))
            while not begun.is_set():
                await asyncio.sleep(0.001)
            health = await client.get("/healthz")
            short = await client.post("/graphs/people/query", json={**body, "params": {"name": SMALL}})
            assert not large.done()
            may_end.set()
            return (await large).status_code, health.status_code, short.status_code

    assert people.run(ask()) == (200, 200, 200)


@pytest.mark.parametrize(
    "document",
    [
        {"source": LOOKUP},
        {"source": LOOKUP, "params": {"name": 7}},
        {"source": LOOKUP, "params": {"name": SMALL, "other": 1}},
        {"source": LOOKUP, "name": "other", "params": {"name": SMALL}},
        {"source": LOOKUP, "params": {"name": SMALL}, "timeout": -1},
        {"source": LOOKUP, "params": {"name": SMALL}, "branch": "nowhere"},
        {"source": LOOKUP, "params": {"name": SMALL}, "unknown": True},
        {"source": "query q { match", "params": {}},
        {"source": "query a($name: String) { insert Person { name: $name } }", "params": {"name": "x"}},
    ],
)
def test_an_error_is_the_same_both_ways(people: Door, document: dict[str, Any]) -> None:
    _ask(people, LOOKUP, SMALL)
    short = people("POST", "/query", json=document)
    route = people("POST", "/query", json={"engine": "auto", **document})
    assert short.status_code >= 400
    assert _visible(short) == _visible(route)


def test_a_body_that_is_not_strict_json_is_refused_as_on_its_route(people: Door) -> None:
    _ask(people, LOOKUP, SMALL)
    for text in ('{"source": "a", "source": "b"}', '{"source": NaN}', "[", '"text"', '{"source": "\\ud800"}'):
        answer = people("POST", "/query", content=text, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 422), answer.text


def test_a_commit_through_another_handle_is_seen(people: Door, threads: _Threads) -> None:
    for age in (50, 51, 52):
        change = 'query c($age: I64) { update Person set { age: $age } where name = "p4000" }'
        people.graph.mutate(change, params={"age": age})
        for _ in range(2):
            assert _ask(people, LOOKUP, "p4000").json()["rows"][0]["p.age"] == age
        before = threads.count
        answer = _ask(people, LOOKUP, "p4000").json()
        assert (answer["rows"][0]["p.age"], answer["commit_id"]) == (age, people.graph.snapshot().commit_id)
        assert threads.count == before


def test_a_long_value_moves_to_a_thread(people: Door, threads: _Threads) -> None:
    add = 'query a($bio: String) { insert Person { name: "long", bio: $bio } }'
    people.graph.mutate(add, params={"bio": "x" * 100_000})
    for _ in range(2):
        _ask(people, LOOKUP, SMALL)
    before = threads.count
    assert len(_ask(people, LOOKUP, "long").json()["rows"][0]["p.bio"]) == 100_000
    assert threads.count == before + 1


POLICY = """
rules:
  - {id: all, actors: any, actions: any}
  - {id: no-people, effect: forbid, actors: [bob], actions: [read], types: [Person]}
"""


def test_the_policy_is_asked_at_every_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with door(tmp_path) as made:
        made.graph.mutate('query a { insert Person { name: "Ada", age: 36 } }')
        rules = tmp_path / "rules.yaml"
        rules.write_text(POLICY)
        tokens = {actor: f"token-of-{actor}-0123456789" for actor in ("ann", "bob")}
        settings = ServerSettings(
            graphs={"people": made.graph.uri}, tokens=parse_tokens(json.dumps(tokens), "test"), policy=rules
        )
        found = Door(make_app(settings), made._runner, made.graph)

        def ask(actor: str, **more: Any) -> httpx.Response:
            document = {"source": LOOKUP, "params": {"name": "Ada"}, **more}
            headers = {"authorization": f"Bearer {tokens[actor]}"}
            return found("POST", "/query", json=document, headers=headers)

        cold = _visible(ask("bob"))
        assert [ask("ann").status_code for _ in range(2)] == [200, 200]
        caplog.clear()
        warm = ask("bob")
        assert warm.status_code == 403
        assert _visible(warm) == cold == _visible(ask("bob", engine="auto"))
        assert len([each for each in caplog.records if each.name == "omnigraph.policy"]) == 2
        assert found("POST", "/query", json={"source": LOOKUP}).status_code == 401


DIFFERENT = ("graph_commit_id", "parent_commit_id", "manifest_version", "created_at")
"""The fields of a commit that are different each time."""
ADD = "query a($name: String, $age: I64) { insert Person { name: $name, age: $age } }"


@pytest.mark.parametrize(
    "document",
    [
        {"source": ADD, "params": {"name": "new NUMBER", "age": 1}},
        {"source": ADD, "name": "a", "params": {"name": "new NUMBER"}, "message": "é", "branch": "main"},
        {"source": ADD, "params": {"name": "p1"}},
        {"source": ADD, "params": {"age": "x"}},
        {"source": ADD, "params": {"name": "n"}, "if_commit": "nothing"},
        {"source": ADD, "params": {"name": "n"}, "branch": "nowhere"},
        {"source": ADD, "params": {"name": "n"}, "unknown": 1},
        {"source": LOOKUP, "params": {"name": "n"}},
        {"source": "query {", "params": {}},
        {"params": {}},
    ],
)
def test_a_plain_mutation_is_answered_as_on_its_route(people: Door, document: dict[str, Any]) -> None:
    def run(number: int, content_type: str) -> tuple[int, Any, dict[str, str]]:
        text = json.dumps(document).replace("NUMBER", str(number))
        answer = people("POST", "/mutate", content=text, headers={"content-type": content_type})
        found = json.loads(answer.content.replace(answer.headers["x-request-id"].encode(), b""))
        if answer.status_code == 200:
            commit = found["commit"]
            assert commit["graph_commit_id"] == people.graph.snapshot().commit_id
            found = {**found, "commit": {**commit, **dict.fromkeys(DIFFERENT, "")}}
        headers = {
            name: value for name, value in answer.headers.items() if name not in ("x-request-id", "content-length")
        }
        return answer.status_code, found, headers

    chance = len(people.graph.commits.list())
    plain = run(chance, "application/json")
    on_route = run(chance + 1_000_000, "application/json; charset=utf-8")
    assert plain == on_route
