"""The tools of a graph: each stored query, and some that every graph has. No tool has a power that `GraphApi` lacks.

A tool takes a JSON object and gives one. Its results are bounded, and say how to go on. What it may not do, and what it
cannot do, is an error of the graph, with its code and its help.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

from omnigraph.api.base import MAIN
from omnigraph.api.data import MutationResult, QueryResult, ResultRows
from omnigraph.api.graph import GraphApi
from omnigraph.api.history import Change, state_named
from omnigraph.api.queries import QueryKind, StoredQuery
from omnigraph.api.values import answer_to_json, row_to_json
from omnigraph.catalog import Catalog, EdgeType, NodeType, Scalar
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import any_of, did_you_mean, quoted
from omnigraph.errors import NotFound, UsageError

PREFIX = "graph_"
"""With this begin the names of tools that every graph has. A stored query with such a name has no tool."""
Arguments = Mapping[str, Any]

_TEXT: dict[str, Any] = {"type": "string"}
_BRANCH = {**_TEXT, "description": "The branch; `main` by default."}
_AT = {
    **_TEXT,
    "description": "The state to read: a branch, a commit id, a tag or a version of `main`.",
}
_MESSAGE = {**_TEXT, "description": "Why: the message of the commit."}
_OFFSET = {"type": "integer", "minimum": 0, "description": "The number of rows to skip: `next_offset` of a result."}
_PARAMS = {"type": "object", "description": "The parameters of the query, by name."}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """What an agent may do, and how much of a result it gets at once."""

    writes: bool = False
    """Whether there are tools that write."""
    branches: tuple[str, ...] = ("*",)
    """The branches that may be written, as names and patterns in which `*` is any text."""
    most_rows: int = 100
    most_bytes: int = 64 * 1024
    timeout: float = 30.0
    """How long a query may take, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool: what it is for, what it takes and gives, and the function that runs it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[["Toolbox", Arguments], dict[str, Any]]
    required: tuple[str, ...] = ()
    result: Mapping[str, Any] | None = None
    """The JSON Schema of the result, where it is known."""
    writes: bool = False
    destroys: bool = False
    """Whether it may replace or delete what is there."""

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return {
            "type": "object",
            "properties": dict(self.parameters),
            "required": [*self.required],
            "additionalProperties": False,
        }


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of one graph for one agent."""

    graph: GraphApi
    settings: AgentSettings = field(default_factory=AgentSettings)

    def tools(self) -> list[Tool]:
        """All tools, those that every graph has first."""
        return [*(each for each in TOOLS if self._is_allowed(each)), *self._stored_tools()]

    def call(self, name: str, arguments: Arguments) -> dict[str, Any]:
        """Runs a tool; raises `OmnigraphError` with what is wrong."""
        tool = self._tool(name)
        unknown = [each for each in arguments if each not in tool.parameters]
        if unknown:
            hint = did_you_mean(unknown[0], tool.parameters)
            raise UsageError(f"{name} has no argument {quoted(unknown[0])}" + (f": {hint}" if hint else ""))
        missing = [each for each in tool.required if arguments.get(each) is None]
        if missing:
            raise UsageError(f"{name} needs the argument {quoted(missing[0])}")
        return tool.run(self, arguments)

    def _tool(self, name: str) -> Tool:
        if name.startswith(PREFIX):
            found = next((each for each in TOOLS if each.name == name), None)
            if found is not None and not self._is_allowed(found):
                raise UsageError(f"{name} writes, and this server was started for reading: start it with --write")
        else:
            stored = self.graph.queries.show(name)
            if stored.kind is QueryKind.MUTATION and not self.settings.writes:
                raise UsageError(f"{name} writes, and this server was started for reading: start it with --write")
            found = stored_tool(stored)
        if found is None:
            raise NotFound("tool", name, did_you_mean(name, [each.name for each in self.tools()]))
        return found

    def _is_allowed(self, tool: Tool) -> bool:
        return self.settings.writes or not tool.writes

    def _stored_tools(self) -> Iterator[Tool]:
        for each in self.graph.queries.list():
            tool = stored_tool(each)
            if tool is not None and not tool.name.startswith(PREFIX) and self._is_allowed(tool):
                yield tool

    # --- what tools have in common ---

    def state(self, arguments: Arguments, name: str = "at") -> Any:
        """The state that an argument names: a branch, a commit, a tag, or a version of `main` by its number."""
        named = arguments.get(name)
        return None if named is None else state_named(named, self.graph.branches.list)

    def writable(self, arguments: Arguments, name: str = "branch") -> str:
        """The branch that a tool is to write, if the agent may."""
        branch: str = arguments.get(name) or MAIN
        if not any(fnmatchcase(branch, pattern) for pattern in self.settings.branches):
            allowed = any_of(self.settings.branches)
            raise UsageError(f"branch {quoted(branch)} may not be written here: expected {allowed}")
        return branch

    def rows(self, result: ResultRows, offset: int) -> dict[str, Any]:
        """The rows of a result from an offset on, as many as it gets at once, and where to go on."""
        table = result.to_arrow()
        rows: list[dict[str, Any]] = []
        size = 0
        for row in table.slice(offset, self.settings.most_rows).to_pylist():
            document = answer_to_json(row)
            size += len(json.dumps(document, ensure_ascii=False).encode())
            if rows and size > self.settings.most_bytes:
                break
            rows.append(document)
        end = offset + len(rows)
        more = {"next_offset": end} if end < table.num_rows else {}
        return {"columns": table.column_names, "rows": rows, "row_count": table.num_rows, **more}


# --- tools that every graph has ---


def _describe(box: Toolbox, arguments: Arguments) -> dict[str, Any]:
    schema = box.graph.schema.at(box.state(arguments))
    catalog = schema.catalog
    return {
        "schema": schema.text,
        "nodes": {each.name: _properties(each) for each in catalog.nodes.values()},
        "edges": {
            each.name: {"from": each.source, "to": each.destination, "properties": _properties(each)}
            for each in catalog.edges.values()
        },
        "branches": [each.name for each in box.graph.branches.list()],
        "stored_queries": [
            {"name": each.name, "description": each.description}
            for each in box.graph.queries.list(box.state(arguments))
        ],
    }


def _properties(entity: NodeType | EdgeType) -> dict[str, str]:
    return {name: f"{each.type}{'?' if each.nullable else ''}" for name, each in entity.properties.items()}


def _query(box: Toolbox, arguments: Arguments) -> dict[str, Any]:
    result = box.graph.query(
        arguments["query"],
        None,
        arguments.get("params"),
        branch=arguments.get("branch") or MAIN,
        snapshot=box.state(arguments),
        timeout=box.settings.timeout,
    )
    return {**box.rows(result, arguments.get("offset") or 0), "commit_id": result.commit_id}


def _search(box: Toolbox, arguments: Arguments) -> dict[str, Any]:
    entity = _node_type(box.graph.schema.catalog, arguments["type"])
    texts = [name for name, each in entity.properties.items() if each.type is Scalar.STRING]
    chosen = arguments.get("property")
    if chosen is not None and chosen not in texts:
        raise NotFound("text property", chosen, did_you_mean(chosen, texts))
    names = texts if chosen is None else [chosen]
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        text = (
            f"query q($words: String) {{ match {{ $x: {entity.name}  search($x.{name}, $words) }}"
            f" return {{ $x as entity, bm25($x.{name}, $words) as score }} order {{ score desc }} limit 20 }}"
        )
        for row in box.graph.query(text, params={"words": arguments["words"]}, timeout=box.settings.timeout).rows():
            known = found.setdefault(row["entity"]["id"], {"score": 0.0, "entity": row["entity"], "found_in": []})
            known["score"] += row["score"]
            known["found_in"].append(name)
    ranked = sorted(found.values(), key=lambda each: -each["score"])[: min(20, box.settings.most_rows)]
    return {"found": [answer_to_json(each) for each in ranked]}


def _look(box: Toolbox, arguments: Arguments) -> dict[str, Any]:
    catalog = box.graph.schema.at(box.state(arguments)).catalog
    entity = _node_type(catalog, arguments["type"])
    found = box.graph.entity(entity.name, arguments["id"], at=box.state(arguments))
    if found is None:
        raise NotFound(entity.name, arguments["id"])
    limit = min(arguments.get("limit") or 10, box.settings.most_rows)
    neighbours = []
    for edge in catalog.edges_touching(entity.name):
        for side, other in _sides(edge, entity.name):
            near, far = ("src", "dst") if side == "out" else ("dst", "src")
            step = "$x $e:{} $y" if side == "out" else "$y $e:{} $x"
            text = (
                f"query q($id: String) {{ match {{ $x: {entity.name}  $y: {other}  {step.format(edge.query_name)}"
                f"  $e.@{near} = $id }} return {{ $e as edge, $y as node }} order {{ $e.@{far} }} limit {limit + 1} }}"
            )
            rows = box.graph.query(
                text, params={"id": arguments["id"]}, snapshot=box.state(arguments), timeout=box.settings.timeout
            ).rows()
            if rows:
                neighbours.append(
                    {
                        "edge": edge.name,
                        "direction": side,
                        "type": other,
                        "nodes": [answer_to_json(each) for each in rows[:limit]],
                        "more": len(rows) > limit,
                    }
                )
    return {"entity": row_to_json(found), "neighbours": neighbours}


def _sides(edge: EdgeType, node: str) -> Iterator[tuple[str, str]]:
    """The directions in which an edge leads from a type of node, and to which type."""
    if edge.source == node:
        yield "out", edge.destination
    if edge.destination == node:
        yield "in", edge.source


def _node_type(catalog: Catalog, name: str) -> NodeType:
    if name not in catalog.nodes:
        raise NotFound("node type", name, did_you_mean(name, catalog.nodes))
    return catalog.nodes[name]


def _history(box: Toolbox, arguments: Arguments) -> dict[str, Any]:
    limit = min(arguments.get("limit") or 20, box.settings.most_rows)
    commits = box.graph.commits.list(arguments.get("branch") or MAIN, limit=limit)
    return {"commits": [each.as_json() for each in commits]}


def _diff(box: Toolbox, arguments: Arguments) -> dict[str, Any]:
    offset, limit = arguments.get("offset") or 0, box.settings.most_rows
    changes = box.graph.diff(box.state(arguments, "left"), box.state(arguments, "right"), types=arguments.get("types"))
    found: list[Change] = [*islice(changes, offset, offset + limit + 1)]
    more = {"next_offset": offset + limit} if len(found) > limit else {}
    return {"changes": [each.as_json() for each in found[:limit]], **more}


def _mutate(box: Toolbox, arguments: Arguments) -> dict[str, Any]:
    result = box.graph.mutate(
        arguments["query"],
        None,
        arguments.get("params"),
        branch=box.writable(arguments),
        message=arguments.get("message"),
        if_commit=arguments.get("if_commit"),
    )
    return _mutation(box, result)


def _mutation(box: Toolbox, result: MutationResult) -> dict[str, Any]:
    commit = None if result.commit is None else result.commit.as_json()
    done = {"commit": commit, "affected": dict(result.affected), "unchanged": dict(result.unchanged)}
    return done if result.table is None else {**done, **box.rows(result, 0)}


def _load(box: Toolbox, arguments: Arguments) -> dict[str, Any]:
    branch = box.writable(arguments)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records.jsonl"
        file.write_text("".join(f"{json.dumps(each)}\n" for each in arguments["records"]), "utf-8")
        result = box.graph.load(
            file,
            arguments.get("mode") or "merge",
            branch=branch,
            message=arguments.get("message") or "load records",
            engine="local",
        )
    return result.as_json()


def _create_branch(box: Toolbox, arguments: Arguments) -> dict[str, Any]:
    box.writable(arguments, "name")
    return box.graph.branches.create(arguments["name"], arguments.get("from") or MAIN).as_json()


def _merge(box: Toolbox, arguments: Arguments) -> dict[str, Any]:
    dry_run = bool(arguments.get("dry_run"))
    into = (arguments.get("into") or MAIN) if dry_run else box.writable(arguments, "into")
    result = box.graph.merge(
        arguments["source"],
        into,
        strategy=arguments.get("strategy"),
        dry_run=dry_run,
        message=arguments.get("message"),
    )
    return result.as_json()


TOOLS: Sequence[Tool] = (
    Tool(
        name="graph_describe",
        description="Describe the graph: schema, types with properties, branches, stored queries. Call it first.",
        parameters={"at": _AT},
        run=_describe,
    ),
    Tool(
        name="graph_query",
        description="Run a query in the language of the graph that reads. The resource omnigraph://pages/queries "
        "explains the language. Results are bounded: continue with `offset` set to `next_offset`, and order the rows.",
        parameters={
            "query": {
                **_TEXT,
                "description": "For example: match { $p: Person  $p.age > 30 } return { $p.name } limit 10",
            },
            "params": _PARAMS,
            "branch": _BRANCH,
            "at": _AT,
            "offset": _OFFSET,
        },
        required=("query",),
        run=_query,
    ),
    Tool(
        name="graph_search",
        description="Find nodes of a type whose texts contain words, best matches first.",
        parameters={
            "type": {**_TEXT, "description": "The node type."},
            "words": {**_TEXT, "description": "The words; nodes that have more of them come first."},
            "property": {**_TEXT, "description": "Only this text property."},
        },
        required=("type", "words"),
        run=_search,
    ),
    Tool(
        name="graph_look",
        description="Look at one node by its id, with its properties, and its neighbours by edge type and direction.",
        parameters={
            "type": {**_TEXT, "description": "The node type."},
            "id": {**_TEXT, "description": "The id; for a type with a key, its value as a text."},
            "at": _AT,
            "limit": {
                "type": "integer",
                "minimum": 1,
                "description": "How many neighbours of each kind (default: 10).",
            },
        },
        required=("type", "id"),
        run=_look,
    ),
    Tool(
        name="graph_history",
        description="List the newest commits of a branch, with actor, message and time.",
        parameters={"branch": _BRANCH, "limit": {"type": "integer", "minimum": 1}},
        run=_history,
    ),
    Tool(
        name="graph_diff",
        description="List what leads from one state to another, as from `main` to a branch: inserts, updates, deletes.",
        parameters={
            "left": {**_TEXT, "description": "The state before: a branch, a commit id or a tag."},
            "right": {**_TEXT, "description": "The state after."},
            "types": {"type": "array", "items": _TEXT, "description": "Only these types."},
            "offset": _OFFSET,
        },
        required=("left", "right"),
        run=_diff,
    ),
    Tool(
        name="graph_mutate",
        description="Insert, update or delete by a query in the language of the graph, as one commit on a branch.",
        parameters={
            "query": {**_TEXT, "description": 'For example: insert Person { name: "Ada" }'},
            "params": _PARAMS,
            "branch": _BRANCH,
            "message": _MESSAGE,
            "if_commit": {**_TEXT, "description": "Write only if this is still the newest commit of the branch."},
        },
        required=("query",),
        run=_mutate,
        writes=True,
        destroys=True,
    ),
    Tool(
        name="graph_load",
        description="Load records as one commit on a branch: nodes as {type, data}, edges as {edge, from, to, data}.",
        parameters={
            "records": {"type": "array", "items": {"type": "object"}, "minItems": 1, "maxItems": 10_000},
            "mode": {
                **_TEXT,
                "enum": ["append", "merge"],
                "description": "Refuse existing entities, or change them (default).",
            },
            "branch": _BRANCH,
            "message": _MESSAGE,
        },
        required=("records",),
        run=_load,
        writes=True,
        destroys=True,
    ),
    Tool(
        name="graph_create_branch",
        description="Create a branch, to write on it without changing where it began.",
        parameters={
            "name": _TEXT,
            "from": {**_TEXT, "description": "A branch, a commit id or a tag; `main` by default."},
        },
        required=("name",),
        run=_create_branch,
        writes=True,
    ),
    Tool(
        name="graph_merge",
        description="Merge a branch into another as one commit; with dry_run only show changes and conflicts.",
        parameters={
            "source": {**_TEXT, "description": "The branch to merge."},
            "into": {**_TEXT, "description": "The branch to merge into; `main` by default."},
            "dry_run": {"type": "boolean"},
            "strategy": {**_TEXT, "enum": ["ours", "theirs"], "description": "Who wins where both changed an entity."},
            "message": _MESSAGE,
        },
        required=("source",),
        run=_merge,
        writes=True,
        destroys=True,
    ),
)


# --- stored queries ---


def stored_tool(query: StoredQuery) -> Tool | None:
    """The tool that calls a stored query; None for one that does not fit the schema."""
    if query.kind is None or query.parameters is None:
        return None
    writes = query.kind is QueryKind.MUTATION
    own = query.parameters["properties"]
    more = {"branch": _BRANCH, **({"message": _MESSAGE} if writes else {"at": _AT, "offset": _OFFSET})}
    more = {name: schema for name, schema in more.items() if name not in own}
    text = " ".join(each for each in (query.description, query.instruction) if each)
    return Tool(
        name=query.name,
        description=text or f"Calls the stored query {query.name}.",
        parameters={**own, **more},
        required=tuple(query.parameters["required"]),
        result=_result_schema(query, writes=writes),
        run=_call(query, frozenset(own), writes=writes),
        writes=writes,
        destroys=writes,
    )


def _call(query: StoredQuery, own: frozenset[str], *, writes: bool) -> Callable[[Toolbox, Arguments], dict[str, Any]]:
    def run(box: Toolbox, arguments: Arguments) -> dict[str, Any]:
        params = {name: value for name, value in arguments.items() if name in own}
        asked = {name: value for name, value in arguments.items() if name not in own}
        if writes:
            done = box.graph.call(query.name, params, branch=box.writable(asked), message=asked.get("message"))
            assert isinstance(done, MutationResult)
            return _mutation(box, done)
        result = box.graph.call(
            query.name,
            params,
            branch=asked.get("branch") or MAIN,
            snapshot=box.state(asked),
            timeout=box.settings.timeout,
        )
        assert isinstance(result, QueryResult)
        return {**box.rows(result, asked.get("offset") or 0), "commit_id": result.commit_id}

    return run


def _result_schema(query: StoredQuery, *, writes: bool) -> dict[str, Any]:
    row = query.result or {"type": "object"}
    rows: dict[str, Any] = {
        "columns": {"type": "array", "items": _TEXT},
        "rows": {"type": "array", "items": dict(row)},
        "row_count": {"type": "integer"},
        "next_offset": {"type": "integer", "description": "Set `offset` to this to go on; it is missing at the end."},
    }
    counts = {"type": "object", "additionalProperties": {"type": "integer"}}
    if writes:
        done = {"commit": {"type": ["object", "null"]}, "affected": counts, "unchanged": counts}
        return {"type": "object", "properties": {**done, **rows}, "required": [*done]}
    return {
        "type": "object",
        "properties": {**rows, "commit_id": _TEXT},
        "required": ["columns", "rows", "row_count", "commit_id"],
    }
