"""Whatever a request is made of that the description of the server allows, or does not, the answer is as described."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from fastapi import FastAPI
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import load_all_checks
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi import checks

import omnigraph as og
from omnigraph.parts.choice import OFF, SPARK_SWITCH
from omnigraph.server.app import make_app
from omnigraph.server.auth import parse_tokens
from omnigraph.server.routes import ALL_ROUTERS
from omnigraph.server.settings import ServerSettings
from tests.behaviour.http_graph import ADD, NAMES, SCHEMA
from tests.servers import token_of

SOAKING = os.environ.get("OMNIGRAPH_SOAK") == "1"
EXAMPLES = {GenerationMode.POSITIVE: 150 if SOAKING else 6, GenerationMode.NEGATIVE: 150 if SOAKING else 4}
LONGEST_ADDRESS = 32 * 1024
"""A client sends no longer one, nor would the server read it."""
POLICY = "rules: [{id: all, actors: [ann], actions: any}]"
ROUTES = [route for router in ALL_ROUTERS for route in router.routes if isinstance(route, APIRoute)]
LABELS = sorted(f"{method} {route.path.replace(':path', '')}" for route in ROUTES for method in route.methods or ())
MENTIONED = 2
"""How many of the values that make sense are put into a request, in the place of others, on average of four."""
SENSIBLE: dict[str, list[Any]] = {
    "source": [NAMES, ADD, "query q { match { $p: Person  $p knows $f } return { $p, $f } limit 2 }", "review"],
    "params": [{}, {"name": "Ada"}],
    "name": ["names", "add", "new", None],
    "schema": [SCHEMA, SCHEMA.replace("age: I64?", "age: I64?  nick: String?"), SCHEMA + "node Extra { }"],
    "branch": ["main", "review"],
    "into": ["main", "review"],
    "from": ["main", "review", "v1"],
    "at": ["main", "v1", "1"],
    "left": ["1", "main"],
    "right": ["review", "v1"],
    "snapshot": ["v1", 1, 2],
    "commit": ["v1"],
    "type": ["Person", "Knows"],
    "entity": ["Ada", "Nobody"],
    "types": [["Person"], ["Knows", "Person"]],
    "edges": [["Knows"]],
    "nodes": [["Person"]],
    "algorithm": [
        "pagerank",
        "components",
        "label-propagation",
        "degrees",
        "triangles",
        "communities",
        "shortest-paths",
    ],
    "write": [{"rank": "rank"}],
    "property": ["embedding"],
    "if_commit": [None],
    "engine": ["auto", "local"],
    "timeout": [None, 5.0],
    "older_than": ["0h", "7d"],
    "grace": ["0h"],
    "format": ["jsonl", "csv", "parquet"],
}


@dataclass(frozen=True)
class Described:
    """An application, its description, and where its requests run."""

    app: FastAPI
    runner: asyncio.Runner
    operations: dict[str, APIOperation[Any, Any, Any, Any]]

    def answer(self, case: Case[Any]) -> httpx.Response:
        """What the application answers to a case."""
        given = case.as_transport_kwargs(base_url="http://server")
        for unknown in ("verify", "timeout", "allow_redirects", "stream", "cert", "proxies"):
            given.pop(unknown, None)
        prepared = requests.Request(**given).prepare()
        assume(len(str(prepared.url)) < LONGEST_ADDRESS)
        headers: dict[str, Any] = {**prepared.headers, "Authorization": f"Bearer {token_of('ann')}"}
        content: Any = prepared.body

        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport) as client:
                return await client.request(str(prepared.method), str(prepared.url), content=content, headers=headers)

        return self.runner.run(asked())


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Described]:
    """An application for a graph that anything may happen to."""
    folder = tmp_path_factory.mktemp("described")
    graph = og.init(folder / "people.omni", SCHEMA, durability="fast", upkeep=False)
    graph.load({"Person": [{"name": "Ada", "age": 36}, {"name": "Bob"}], "Knows": [{"from": "Ada", "to": "Bob"}]})
    graph.branches.create("review")
    graph.tags.create("v1")
    (folder / "policy.yaml").write_text(POLICY)
    settings = ServerSettings(
        graphs={"people": graph.uri},
        tokens=parse_tokens(f'{{"ann": "{token_of("ann")}"}}', "test"),
        policy=folder / "policy.yaml",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMNIGRAPH_DURABILITY", "fast")
        app = make_app(settings)
    # Tokens are none of its business: with them described, it would leave them out, or make some up.
    description = {**app.openapi(), "components": {**app.openapi()["components"], "securitySchemes": {}}}
    schema = schemathesis.openapi.from_dict(_without_security(description))
    found = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    load_all_checks()
    with asyncio.Runner() as runner:
        yield Described(app, runner, {operation.label: operation for operation in found})


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server is started so, unless it is told otherwise; other tests run between those of this module."""
    monkeypatch.setenv(SPARK_SWITCH, OFF)


def _without_security(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_security(inner) for name, inner in value.items() if name != "security"}
    return [_without_security(inner) for inner in value] if isinstance(value, list) else value


def test_every_route_is_described(described: Described) -> None:
    assert sorted(described.operations) == LABELS


def with_sense(case: Case[Any], data: st.DataObject) -> None:
    """Puts values that make sense for the graph in the place of some others, which almost never do."""
    if "id" in case.path_parameters and data.draw(st.integers(0, 9)):
        case.path_parameters["id"] = "people"
    for part in (case.path_parameters, case.query, case.body):
        if isinstance(part, dict):
            for name in [name for name in part if name in SENSIBLE]:
                if data.draw(st.integers(0, 3)) >= MENTIONED:
                    part[name] = data.draw(st.sampled_from(SENSIBLE[name]))


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["right", "wrong"])
@pytest.mark.parametrize("label", LABELS)
def test_answers_are_as_described(described: Described, label: str, mode: GenerationMode) -> None:
    operation = described.operations[label]
    if mode is GenerationMode.NEGATIVE and not (operation.body or operation.query):
        return  # there is only a name, and every text might be one
    wanted = [
        checks.content_type_conformance,
        checks.response_headers_conformance,
        checks.response_schema_conformance,
        *([checks.negative_data_rejection] if mode is GenerationMode.NEGATIVE else []),
    ]

    @settings(
        max_examples=EXAMPLES[mode],
        deadline=None,
        database=None,
        derandomize=not SOAKING,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    @given(case=operation.as_strategy(generation_mode=mode), data=st.data())
    def answers(case: Case[Any], data: st.DataObject) -> None:
        if mode is GenerationMode.POSITIVE:
            with_sense(case, data)
        answer = described.answer(case)
        assert answer.status_code < 500 or answer.status_code == 504, answer.text
        assert str(answer.status_code) in operation.definition.raw["responses"], answer.text
        case.validate_response(answer, checks=wanted)
        if answer.is_error:
            assert {"error", "code", "request_id"} <= answer.json().keys()

    answers()
