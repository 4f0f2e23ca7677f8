"""Every verb of a graph as a question with an answer that can be compared: in Python, as a command, over HTTP.

A verb is prepared on the whole graph and asked on the damaged one. What is prepared is what was open when the damage
happened: nothing for most, a graph or a server for those that are about it. Answers leave out what differs from run to
run: new ids, times, sizes of files.
"""

import asyncio
import base64
import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from typer.testing import CliRunner

import omnigraph as og
from omnigraph.cli.main import app as command_line
from omnigraph.server.app import make_app
from omnigraph.server.settings import ServerSettings
from tests.corruption.graph import BRANCH, BRANCH_TAG, NEXT_SCHEMA, SPARE, TAG


@dataclass(frozen=True, slots=True)
class Place:
    """Where the graph lies, one beside it that is never damaged, and room for files."""

    uri: Path
    beside: Path
    scratch: Path


class ServerError(Exception):
    """A server answered with a problem; `code` is the stable one."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(status, code, text)
        self.status, self.code, self.text = status, code, text


class NeighbourHarmed(Exception):
    """The graph beside the damaged one did not answer as it should."""


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: what is there before the damage, and what is asked after it."""

    name: str
    ask: Callable[[Place, Any], Any]
    prepare: Callable[[Place, ExitStack], Any] | None = None
    is_sampled: bool = False
    """Whether it takes so long that not every file and damage gets it."""

    @property
    def is_prepared(self) -> bool:
        """Whether something is open before the damage."""
        return self.prepare is not None

    def prepared(self, place: Place, stack: ExitStack) -> Any:
        """What is open before the damage, until the stack is closed."""
        return None if self.prepare is None else self.prepare(place, stack)


ANY = "query q { match { $p: Person } return { $p.name, $p.age, $p.city, $p.tags, $p.bio } order { $p.name } }"
ADD = """query add {
    insert Person { name: "New", age: 5, bio: "a new lantern", nick: "n", tags: ["t1"] }
    insert Knows { id: "new knows", from: "New", to: "person 002", since: 1 }
}"""
LINK = 'query link { insert Knows { id: "linked", from: "person 001", to: "person 002", since: 1 } }'
CHANGE = 'query change { update Person set { age: 3 } where name = "person 020" }'
DROP = 'query drop { delete Person where name = "person 021" }'


def _read(place: Place) -> og.Graph:
    return og.open(place.uri, mode="r")


def _write(place: Place) -> og.Graph:
    return og.open(place.uri)


def _rows(graph: og.Graph, source: str, **options: Any) -> Any:
    return plain(graph.query(source, **options))


def plain(rows: Iterable[Any]) -> list[str]:
    """Rows as texts, in their order."""
    return [json.dumps(row, sort_keys=True, default=_spell) for row in rows]


def _spell(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _exported(graph: og.Graph, **options: Any) -> list[str]:
    lines = graph.export(**options)
    assert not isinstance(lines, int)
    return sorted(lines)


def _query(clause: str, returned: str = "$p.name", tail: str = "order { $p.name }") -> Callable[[Place, Any], Any]:
    source = f"query q {{ match {{ {clause} }} return {{ {returned} }} {tail} }}"
    return lambda place, _: _rows(_read(place), source)


# --- reading ---


def _open_reading(place: Place, _: Any) -> Any:
    graph = _read(place)
    return graph.schema.text, sorted(graph.schema.catalog.nodes), graph.schema.at().id


def _entities(place: Place, _: Any) -> Any:
    graph = _read(place)
    return plain([graph.entity("Person", "person 000"), graph.entity("Knows", "knows 000"), graph.entity("Town", "x")])


def _old(place: Place, _: Any) -> Any:
    graph = _read(place)
    source = "query q { match { $p: Person } return { count($p) as n } }"
    counted = [_rows(graph, source, snapshot=at) for at in (TAG, BRANCH_TAG, BRANCH)]
    return counted, digest(_exported(graph, snapshot=TAG))


def _commits_read(place: Place, _: Any) -> Any:
    """Commits all along the history, each read as it was if its data is still there."""
    graph = _read(place)
    found: list[Any] = []
    for branch in ("main", BRANCH):
        for commit in graph.commits.list(branch)[::6]:
            try:
                snapshot = graph.snapshot_at(commit=commit.graph_commit_id)
                found.append([commit.graph_commit_id, digest(_exported(graph, snapshot=snapshot))])
            except og.NotFound as error:
                found.append([commit.graph_commit_id, str(error)])
    return found


def _diffs(place: Place, _: Any) -> Any:
    graph = _read(place)
    pairs = (("main", BRANCH), (TAG, "main"))
    return [digest(plain(change.as_json() for change in graph.diff(*pair))) for pair in pairs]


def _changes(place: Place, _: Any) -> Any:
    graph = _read(place)
    blocks = []
    for branch, count in (("main", 4), (BRANCH, 2)):
        log = graph._session.branches.log(branch)
        start = graph.commits.list(branch, limit=count + 1)[-1].manifest
        state = {"branch": branch, "incarnation": log.incarnation, "version": start}
        cursor = base64.urlsafe_b64encode(json.dumps(state).encode()).decode().rstrip("=")
        blocks += [
            [each.commit.graph_commit_id, plain(c.as_json() for c in each.changes())]
            for each in graph.changes(cursor, branch)
        ]
    return blocks


def _commits(place: Place, _: Any) -> Any:
    graph = _read(place)
    listed = {branch: [each.as_json() for each in graph.commits.list(branch)] for branch in ("main", BRANCH)}
    shown = [graph.commits.show(each["graph_commit_id"]).as_json() for each in listed["main"][::25]]
    changed = [plain(c.as_json() for c in graph.commits.changes(listed["main"][1]["graph_commit_id"]))]
    return listed, shown, changed


def _names(place: Place, _: Any) -> Any:
    graph = _read(place)
    branches = [[each.name, each.head.graph_commit_id] for each in graph.branches.list()]
    return branches, [tag.as_json() for tag in graph.tags.list()], graph.tags.show(TAG).as_json()


def _status(place: Place, _: Any) -> Any:
    graph = _read(place)
    found = []
    for branch in ("main", BRANCH):
        status = graph.status(branch)
        for table in status.tables:
            if table.error is not None:  # it tells which table cannot be read, and does not hide the others
                raise og.StorageError(table.table_key, table.error)
        found += [
            status.head.graph_commit_id,
            status.commits,
            [[table.table_key, table.rows] for table in status.tables],
            [each.name for each in status.branches],
            [each.name for each in status.tags],
            len(status.pending),
            None if status.last_recovery is None else status.last_recovery.operation_id,
        ]
    return found


def _recoveries(place: Place, _: Any) -> Any:
    graph = _read(place)
    pending = graph.recoveries.pending()
    for each in pending:
        if isinstance(each, og.OmnigraphError):
            raise each
    settled = [each.as_json() for each in graph.recoveries.list()]
    return settled, [str(each) for each in pending]


def _indexes(place: Place, _: Any) -> Any:
    graph = _read(place)
    return [sorted(f"{each.table_key} {each.name}" for each in graph.indexes(branch)) for branch in ("main", BRANCH)]


def _schemas(place: Place, _: Any) -> Any:
    graph = _read(place)
    planned = [step.what for step in graph.schema.plan(NEXT_SCHEMA).steps]
    return graph.schema.at(TAG).text, planned, [step.what for step in graph.schema.diff(TAG, "main").steps]


def _stored_queries(place: Place, _: Any) -> Any:
    graph = _read(place)
    texts = {at: [(each.name, each.source) for each in graph.queries.list(at)] for at in ("main", BRANCH)}
    return texts, graph.call("older").rows(), graph.call("older", branch=BRANCH).rows()


def _store_query(place: Place, _: Any) -> Any:
    graph = _write(place)
    added = graph.queries.add("query added { match { $t: Town } return { $t.name } }").added
    return added, [each.name for each in graph.queries.list()]


def _analyze(place: Place, _: Any) -> Any:
    return digest(sorted(plain(_read(place).analyze("degrees", edges="Knows").table.to_pylist())))


def _explain(place: Place, _: Any) -> Any:
    return bool(_read(place).explain(ANY))


def _cleanup_preview(place: Place, _: Any) -> Any:
    return _cleaned(_write(place).cleanup(keep=1, grace="0s"))


def _repair_preview(place: Place, _: Any) -> Any:
    graph = _read(place)
    return [_repaired(graph.repair(branch=branch)) for branch in ("main", BRANCH)]


# --- writing ---


def _open_writing(place: Place, _: Any) -> Any:
    graph = _write(place)
    graph.refresh()
    return [
        _rows(graph, "query q { match { $p: Person } return { count($p) as n } }"),
        graph.recoveries.pending() == [],
    ]


def _mutation(source: str, branch: str = "main") -> Callable[[Place, Any], Any]:
    return lambda place, _: _mutated(_write(place), source, branch=branch)


def _mutated(graph: og.Graph, source: str, branch: str = "main") -> Any:
    result = graph.mutate(source, branch=branch)
    return [result.affected["nodes"], result.affected["edges"]]


def _load(mode: str) -> Callable[[Place, Any], Any]:
    def ask(place: Place, _: Any) -> Any:
        names = ["Loaded"] if mode == "append" else ["Loaded", "person 030"]
        people: list[dict[str, Any]] = [{"type": "Person", "data": {"name": name, "age": 9}} for name in names]
        edge = {"edge": "Knows", "from": "Loaded", "to": "person 040", "data": {"id": "loaded"}}
        file = place.scratch / "more.jsonl"
        file.write_text("".join(json.dumps(each) + "\n" for each in [*people, edge]))
        result = _write(place).load(file, mode)
        return [result.nodes, result.edges]

    return ask


def _branch(from_: str) -> Callable[[Place, Any], Any]:
    def ask(place: Place, _: Any) -> Any:
        graph = _write(place)
        graph.branches.create("another", from_)
        return sorted(each.name for each in graph.branches.list())

    return ask


def _delete_branch(place: Place, _: Any) -> Any:
    graph = _write(place)
    graph.branches.delete(SPARE)
    return [each.name for each in graph.branches.list()]


def _delete_tag(place: Place, _: Any) -> Any:
    graph = _write(place)
    graph.tags.delete(BRANCH_TAG)
    return [tag.name for tag in graph.tags.list()]


def _merge(place: Place, _: Any) -> Any:
    result = _write(place).merge(BRANCH)
    return [result.commit is not None]


def _tag(place: Place, _: Any) -> Any:
    graph = _write(place)
    graph.tags.create("v2", BRANCH)
    return [tag.name for tag in graph.tags.list()]


def _optimize(place: Place, _: Any) -> Any:
    """What was done to each table; one that could not be optimized is reported, as an error would."""
    done = _write(place).optimize()
    if done.failed:
        raise og.StorageError("optimize", "; ".join(f"{each.table_key}: {each.error}" for each in done.failed))
    return sorted([each.table_key, each.committed, str(each.skipped)] for each in done.tables)


def _ensure(place: Place, _: Any) -> Any:
    graph = _write(place)
    results = [graph.ensure_indices(branch=branch) for branch in ("main", BRANCH)]
    # An index of topology that is damaged or missing is built again, as it should be.
    built = [{key: sorted({*names} - {"topology"}) for key, names in done.built.items()} for done in results]
    return [{key: names for key, names in each.items() if names} for each in built]


def _repaired(result: Any) -> Any:
    """How each table is; one that repair calls unverifiable is one that it reports as damaged."""
    if lost := [each.table_key for each in result.tables if each.classification.value == "unverifiable"]:
        raise og.StorageError("repair", f"unverifiable: {', '.join(lost)}")
    return sorted([each.table_key, str(each.classification)] for each in result.tables)


def _repair(*, force: bool) -> Callable[[Place, Any], Any]:
    def ask(place: Place, _: Any) -> Any:
        graph = _write(place)
        return [_repaired(graph.repair(confirm=True, force=force, branch=branch)) for branch in ("main", BRANCH)]

    return ask


def _cleaned(result: Any) -> Any:
    """What is left is compared by the tree; a table that could not be cleaned up is an error."""
    if result.failed:
        raise og.StorageError("cleanup", "; ".join(f"{each.table_key}: {each.error}" for each in result.failed))
    return [each.table_key for each in result.tables]


def _cleanup(place: Place, _: Any) -> Any:
    return _cleaned(_write(place).cleanup(keep=1, grace="0s", confirm=True))


def _apply(place: Place, _: Any) -> Any:
    result = _write(place).schema.apply(NEXT_SCHEMA)
    return [step.what for step in result.plan.steps], result.schema.number


def _catch_up(place: Place, _: Any) -> Any:
    graph = _write(place)
    graph.schema.catch_up(SPARE)
    return graph.schema.at(SPARE).number


def _embed(place: Place, _: Any) -> Any:
    result = _write(place).embed("Person", all=True)
    return len(result.commits), dict(result.filled)


# --- with a graph that was open before ---


def _open_before(place: Place, _stack: ExitStack) -> Any:
    graph = _write(place)
    graph.query(ANY)
    return graph


def _held_read(_place: Place, graph: Any) -> Any:
    walked = 'query q { match { $p: Person { name: "person 001" }  $p knows $q } return { $q.name } }'
    return _rows(graph, ANY), _rows(graph, walked), _rows(graph, ANY, snapshot=TAG)


def _held_write(_place: Place, graph: Any) -> Any:
    return _mutated(graph, ADD)


# --- as a command ---


def _command(*words: str, compared: bool = True, report: str | None = None) -> Verb:
    """A command; a `report` in its answer tells what is damaged, as an error would."""

    def ask(place: Place, _: Any) -> Any:
        result = CliRunner().invoke(command_line, [word.replace("GRAPH", str(place.uri)) for word in words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        if result.exit_code not in (0, 3):
            raise og.StorageError("command", f"exit code {result.exit_code}: {result.output[-500:]}")
        if report is not None and report in result.stdout:
            raise og.StorageError("command", f"exit code {result.exit_code}: {result.output[-500:]}")
        return result.exit_code, digest(sorted(result.stdout.splitlines())) if compared else None

    return Verb(f"omnigraph {' '.join(words).replace(' GRAPH', '')}"[:40], ask, is_sampled=True)


# --- over HTTP ---


def _serve(place: Place, stack: ExitStack) -> Any:
    app = make_app(
        ServerSettings(graphs={"damaged": str(place.uri), "beside": str(place.beside)}, unauthenticated=True)
    )
    stack.callback(app.state.server.shutdown)
    return app, stack.enter_context(asyncio.Runner())


def _request(method: str, path: str, *, compared: bool = True, **given: Any) -> Verb:
    def ask(place: Place, prepared: Any) -> Any:
        app, runner = prepared

        async def send(graph: str) -> httpx.Response:
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
                return await client.request(method, f"/graphs/{graph}{path}", **given)

        answer = runner.run(send("damaged"))
        beside = runner.run(send("beside"))
        if beside.status_code >= 500:
            raise NeighbourHarmed(beside.text)
        if not answer.is_success:
            try:
                code = answer.json()["code"]
            except (ValueError, KeyError, TypeError):
                code = answer.text[:100]
            raise ServerError(answer.status_code, str(code), answer.text)
        return [answer.status_code, digest(sorted(answer.text.splitlines())) if compared else None]

    return Verb(f"{method} {path}"[:40], ask, _serve, is_sampled=True)


def _start_server(place: Place, _: Any) -> Any:
    with ExitStack() as stack:
        _serve(place, stack)
    return "started"


def _verify(place: Place, _: Any) -> Any:
    """Whether all is whole."""
    if found := findings_of_verify(place):  # it tells what is damaged, as an error would
        raise og.Damaged(str(place.uri), "; ".join(found))
    return []


def findings_of_verify(place: Place) -> list[str]:
    """What `verify` finds wrong, an error of it included."""
    try:
        result = og.open(place.uri, mode="r").verify(data=True)
    except og.OmnigraphError as error:
        return [str(error)]
    return [str(each) for each in result.damage]


VERBS = {
    verb.name: verb
    for verb in (
        Verb("open for reading", _open_reading),
        Verb("query all", lambda place, _: _rows(_read(place), ANY)),
        Verb("query by key", _query('$p: Person { name: "person 100" }', "$p.name, $p.age, $p.photo, $p.meaning")),
        Verb("filter by BTREE", _query("$p: Person  $p.age = 40")),
        Verb("filter by range", _query("$p: Person  $p.age > 80")),
        Verb("filter by BITMAP", _query('$p: Person { city: "oslo" }')),
        Verb("filter by NGRAM", _query('$p: Person  $p.bio contains "anter"')),
        Verb("filter by LABEL_LIST", _query('$p: Person  $p.tags contains "t3"')),
        Verb("search words", _query('$p: Person  search($p.bio, "violin harbour")')),
        Verb("rank by words", _query("$p: Person", tail='order { bm25($p.bio, "engine lantern") } limit 10')),
        Verb(
            "nearest",
            _query(
                "$p: Person", tail="order { nearest($p.meaning, [0.1, 0.2, -0.3, 0.4, 0.5, 0.1, 0.0, 0.9]) } limit 5"
            ),
        ),
        Verb("traverse", _query('$p: Person { city: "berlin" }  $p knows $q  $q livesIn $t', "$p.name, $t.name")),
        Verb("traverse from one", _query('$q: Person { name: "person 003" }  $q knows $p', "$p.name")),
        Verb("entities", _entities),
        Verb("read old states", _old),
        Verb("read old commits", _commits_read, is_sampled=True),
        Verb("export", lambda place, _: digest(_exported(_read(place)))),
        Verb("export a branch", lambda place, _: digest(_exported(_read(place), branch=BRANCH))),
        Verb("diff", _diffs),
        Verb("changes", _changes),
        Verb("commits", _commits),
        Verb("branches and tags", _names),
        Verb("status", _status),
        Verb("recoveries", _recoveries),
        Verb("indexes", _indexes),
        Verb("schemas", _schemas),
        Verb("stored queries", _stored_queries),
        Verb("analyze", _analyze),
        Verb("explain", _explain),
        Verb("verify", _verify),
        Verb("open for writing", _open_writing),
        Verb("store a query", _store_query),
        Verb("insert", _mutation(ADD)),
        Verb("update", _mutation(CHANGE)),
        Verb("delete", _mutation(DROP)),
        Verb("insert on a branch", _mutation(ADD, branch=BRANCH)),
        Verb("first insert on a branch", _mutation(LINK, branch=SPARE)),
        Verb("load append", _load("append")),
        Verb("load merge", _load("merge")),
        Verb("create a branch", _branch("main")),
        Verb("create a branch at a tag", _branch(TAG)),
        Verb("delete a branch", _delete_branch),
        Verb("merge", _merge),
        Verb("create a tag", _tag),
        Verb("delete a tag", _delete_tag),
        Verb("optimize", _optimize, is_sampled=True),
        Verb("build indexes", _ensure),
        Verb("repair preview", _repair_preview),
        Verb("repair confirm", _repair(force=False)),
        Verb("repair force", _repair(force=True)),
        Verb("cleanup preview", _cleanup_preview),
        Verb("cleanup confirm", _cleanup),
        Verb("apply a schema", _apply),
        Verb("catch up a branch", _catch_up),
        Verb("embed", _embed),
        Verb("read with an open graph", _held_read, _open_before),
        Verb("write with an open graph", _held_write, _open_before),
        _command("commit", "list", "GRAPH", "--json"),
        _command("query", "--store", "GRAPH", "-e", ANY, "--json"),
        _command("status", "GRAPH", "--json", compared=False),
        _command("recovery", "list", "GRAPH", "--json", report='"state": "unreadable"'),
        _command("export", "GRAPH"),
        _command("mutate", "--store", "GRAPH", "-e", ADD, "--json", compared=False),
        _command("cleanup", "GRAPH", "--keep", "1", "--grace", "0s", "--confirm", compared=False),
        _command("optimize", "GRAPH", "--json", compared=False),
        _request("GET", "/commits"),
        _request("POST", "/query", json={"source": ANY}),
        _request("POST", "/export", json={}),
        _request("GET", "/status", compared=False),
        _request("POST", "/mutate", compared=False, json={"source": LINK}),
        _request("GET", "/tags"),
        Verb("start a server", _start_server, is_sampled=True),
    )
}
