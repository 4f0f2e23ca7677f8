"""The example of each verb runs, and gives what it says."""

import doctest
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.api import data, history, queries, schema, upkeep
from omnigraph.api.base import Request
from omnigraph.api.graph import all_requests
from omnigraph.graph.graph import VERBS

SCHEMA = """
node Person { name: String @key, age: I32? }
node Note { title: String @key  meaning: Vector(8)? @embed("title", model="mock/small") }
edge Knows: Person -> Person
"""
FIRST = """query first {
    insert Person { name: "Ada", age: 36 }  insert Person { name: "Bob", age: 12 }  insert Note { title: "hello" }
    insert Knows { id: "k1", from: "Ada", to: "Bob" }
}"""
# Those that need what others have made come after them; the rest are in the order of their modules.
LATE = [history.BranchDeleteRequest, history.TagDeleteRequest, schema.SchemaApplyRequest, schema.SchemaDiffRequest]
LATE += [schema.SchemaCatchUpRequest, upkeep.IndexBuildRequest, upkeep.IndexListRequest, upkeep.OptimizeRequest]
LATE += [upkeep.StatusRequest]
EARLY = [history.BranchListRequest, history.TagListRequest, data.QueryRequest, queries.QueryAddRequest]
EARLY += [queries.QueryListRequest, queries.QueryShowRequest, queries.QueryValidateRequest, queries.CallRequest]
EARLY += [queries.QueryRemoveRequest]


def _in_order() -> list[type[Request[object]]]:
    requests = {request.verb: request for request in all_requests()}
    others = [requests[verb] for verb in VERBS if requests[verb] not in (*EARLY, *LATE)]
    return [*EARLY, *others, *LATE]


def test_every_verb_has_an_example_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people.jsonl").write_text('{"type": "Person", "data": {"name": "Dan", "age": 40}}\n')
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.REPORT_NDIFF)
    said: list[str] = []
    with og.init("people.omni", SCHEMA) as g:
        g.mutate(FIRST, message="the first people")
        g.tags.create("v1", message="the first load")
        g.branches.create("review")
        g.mutate('query late { insert Person { name: "Cyd" } }', branch="review", message="Cyd for review")
        for request in _in_order():
            example = doctest.DocTestParser().get_doctest(
                request.__doc__ or "", {"g": g}, request.__name__, request.__module__, 0
            )
            assert example.examples, f"{request.__name__} has no example"
            runner.run(example, out=said.append)
    assert not runner.failures, "".join(said)
