"""A policy holds at every verb of a graph, and in everything that a query, an export or a change touches."""

import inspect
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.api.graph import BranchesApi, CommitsApi, QueriesApi, RecoveriesApi, SchemaApi, TagsApi
from omnigraph.datasource.options import parse_read_options, parse_write_options
from omnigraph.datasource.source import pin_table
from omnigraph.datasource.writer import GraphWriter
from omnigraph.policy import Action, policy_of

SCHEMA = """
interface Named { name: String }
node Person implements Named { name: String @key, age: I32? }
node Secret implements Named { name: String @key, text: String? }
node Note { text: String, vector: Vector(256)? @embed("text") }
edge Knows: Person -> Person
edge Keeps: Person -> Secret
"""
DATA = [
    {"type": "Person", "data": {"name": "Ada", "age": 36}},
    {"type": "Person", "data": {"name": "Bob", "age": 40}},
    {"type": "Secret", "data": {"name": "s1", "text": "hidden"}},
    {"edge": "Knows", "from": "Ada", "to": "Bob"},
    {"edge": "Keeps", "from": "Ada", "to": "s1"},
]
EVERYTHING = "rules: [{id: all, actors: any, actions: any}]"
NO_SECRETS = """
rules:
  - {id: all, actors: any, actions: any}
  - {id: no-secrets, effect: forbid, actors: [ada], actions: [read, export, change], types: [Secret]}
"""
ASK = "query q { match { $p: Person } return { $p.name } }"
ADD = 'query q { insert Person { name: "Eve" } }'


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return filled(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """A graph for what changes nothing."""
    graph = filled(tmp_path_factory.mktemp("shared"))
    graph.tags.create("v0")
    return graph


def filled(folder: Path) -> og.Graph:
    graph = og.init(folder / "people.omni", SCHEMA, durability="fast", upkeep=False)
    lines = folder / "data.jsonl"
    lines.write_text("".join(json.dumps(record) + "\n" for record in DATA))
    graph.load(str(lines))
    graph.branches.create("review")
    return graph


def under(graph: og.Graph, rules: str, actor: str | None = "ada") -> og.Graph:
    return og.open(graph.uri, policy=policy_of(rules), actor=actor, durability="fast", upkeep=False)


def lines_of(graph: og.Graph, *types: str) -> list[str]:
    lines = graph.export(types=types)
    assert not isinstance(lines, int)
    return [*lines]


def only(*actions: str) -> str:
    return f"rules: [{{id: few, actors: [ada], actions: [{', '.join(actions)}]}}]"


def all_but(action: str) -> str:
    permit = "{id: all, actors: any, actions: any}"
    return f"rules: [{permit}, {{id: never, effect: forbid, actors: any, actions: [{action}]}}]"


# Each verb with the actions that it needs, and no other.
def _missing(show: Callable[[str], object]) -> None:
    """Asks for something that is not there."""
    with pytest.raises(og.NotFound):
        show("nothing")


VERBS: dict[str, tuple[tuple[str, ...], Callable[[og.Graph], Any]]] = {
    "entity": (("read",), lambda g: g.entity("Person", "Ada")),
    "query": (("read",), lambda g: g.query(ASK)),
    "explain": (("read",), lambda g: g.explain(ASK)),
    "snapshot": (("read",), lambda g: g.snapshot("review")),
    "snapshot_at": (("read",), lambda g: g.snapshot_at(version=1)),
    "export": (("read", "export"), lambda g: lines_of(g, "Person")),
    "explain_export": (("read", "export"), lambda g: g.explain_export()),
    "diff": (("read",), lambda g: [*g.diff("main", "review")]),
    "changes": (("read",), lambda g: [*g.changes()]),
    "analyze": (("read",), lambda g: g.analyze("degrees", edges="Knows")),
    "mutate": (("change",), lambda g: g.mutate(ADD)),
    "load": (("change",), lambda g: g.load({"Person": [{"name": "Fay"}]})),
    "check_load": (("change",), lambda g: g.check_load()),
    "explain_load": (("read",), lambda g: g.explain_load({"Person": [{"name": "Eve"}]})),
    "embed": (("read", "change"), lambda g: g.embed("Note")),
    "merge": (("read", "branch_merge"), lambda g: g.merge("review")),
    "optimize": (("maintain",), lambda g: g.optimize()),
    "ensure_indices": (("maintain",), lambda g: g.ensure_indices()),
    "indexes": (("maintain",), lambda g: g.indexes()),
    "repair": (("maintain",), lambda g: g.repair()),
    "verify": (("maintain",), lambda g: g.verify()),
    "cleanup": (("maintain",), lambda g: g.cleanup(keep=1)),
    "status": (("maintain",), lambda g: g.status()),
    "recoveries.list": (("maintain",), lambda g: g.recoveries.list()),
    "recoveries.pending": (("maintain",), lambda g: g.recoveries.pending()),
    "recoveries.show": (
        ("maintain",),
        lambda g: [g.recoveries.show(each.operation_id) for each in g.recoveries.list()],
    ),
    "commits.list": (("read",), lambda g: g.commits.list()),
    "commits.show": (("read",), lambda g: g.commits.show(HEAD)),
    "commits.changes": (("read",), lambda g: [*g.commits.changes(HEAD)]),
    "branches.create": (("read", "branch_create"), lambda g: g.branches.create("b")),
    "branches.delete": (("branch_delete",), lambda g: g.branches.delete("review")),
    "tags.create": (("read", "branch_create"), lambda g: g.tags.create("v1")),
    "tags.delete": (("branch_delete",), lambda g: g.tags.delete("v0")),
    "tags.show": (("read",), lambda g: g.tags.show("v0")),
    "tags.list": (("read",), lambda g: g.tags.list()),
    "schema.text": (("read",), lambda g: g.schema.text),
    "schema.catalog": (("read",), lambda g: g.schema.catalog),
    "schema.at": (("read",), lambda g: g.schema.at("review")),
    "schema.plan": (("read",), lambda g: g.schema.plan(SCHEMA)),
    "queries.add": (("query_store",), lambda g: g.queries.add(ASK)),
    "queries.remove": (("query_store",), lambda g: _missing(g.queries.remove)),
    "queries.validate": (("read",), lambda g: g.queries.validate()),
    "prepare": (("read",), lambda g: g.prepare(ASK)),
    "schema.diff": (("read",), lambda g: g.schema.diff("main", "review")),
    "schema.apply": (("schema_apply",), lambda g: g.schema.apply(SCHEMA)),
    "schema.catch_up": (("schema_apply",), lambda g: g.schema.catch_up("review")),
}
HEAD = "v0"
"""A tag at the newest commit, which names it wherever a commit is asked for."""

# What tells nothing of the graph, or filters what it tells.
FREE = {
    *("check_readable", "close", "id", "uri", "actor", "durability", "acting_as", "under", "refresh"),
    *("branches.list", "queries.list", "queries.show", "call"),
}


def test_every_verb_is_listed() -> None:
    parts = {
        "branches": BranchesApi,
        "commits": CommitsApi,
        "queries": QueriesApi,
        "recoveries": RecoveriesApi,
        "schema": SchemaApi,
        "tags": TagsApi,
    }
    verbs = {name for name, _ in inspect.getmembers(og.Graph) if not name.startswith("_")} - {*parts}
    for part, kind in parts.items():
        verbs |= {f"{part}.{name}" for name, _ in inspect.getmembers(kind) if not name.startswith("_")}
    assert verbs == VERBS.keys() | FREE


@pytest.mark.parametrize(("verb", "action"), [(verb, action) for verb in VERBS for action in VERBS[verb][0]])
def test_a_verb_is_denied_without_its_action(shared: og.Graph, verb: str, action: str) -> None:
    with pytest.raises(og.PolicyDenied) as denied:
        VERBS[verb][1](under(shared, all_but(action)))
    assert (denied.value.action, denied.value.rule) == (action, "never")


def test_a_verb_needs_nothing_but_its_actions(graph: og.Graph) -> None:
    graph.tags.create("v0")
    for actions, call in sorted(VERBS.values(), key=lambda verb: "branch_delete" in verb[0]):
        call(under(graph, only(*actions)))


def test_a_denied_write_leaves_nothing(graph: og.Graph, tmp_path: Path) -> None:
    head = graph.snapshot().commit_id
    lines = tmp_path / "secrets.jsonl"
    lines.write_text('{"type": "Secret", "data": {"name": "s2"}}\n')
    ada = under(graph, NO_SECRETS)
    for write in (
        lambda: ada.mutate('query q { insert Secret { name: "s2" } }'),
        lambda: ada.load(str(lines)),
        lambda: ada.load({"Secret": [{"name": "s2"}]}, branch="review"),
        lambda: ada.load(str(lines), "merge", branch="new", from_="main"),
    ):
        with pytest.raises(og.PolicyDenied, match="Secret"):
            write()
    assert graph.snapshot().commit_id == head
    assert [each.name for each in graph.branches.list()] == ["main", "review"]
    assert graph.recoveries.pending() == []


@pytest.mark.parametrize(
    "text",
    [
        "match { $s: Secret } return { $s.name }",
        "match { $p: Person  $p keeps $s } return { $p.name }",
        "match { $p: Person  $p keeps $s } return { count($s) }",
        "match { $p: Person  not { $p keeps $_ } } return { $p.name }",
        "match { $n: Named } return { $n.name }",
    ],
)
def test_a_query_that_tells_of_a_denied_type_is_denied(shared: og.Graph, text: str) -> None:
    query, ada = f"query q {{ {text} }}", under(shared, NO_SECRETS)
    assert len(shared.query(query)) >= 1
    for ask in (ada.query, ada.explain):
        with pytest.raises(og.PolicyDenied) as denied:
            ask(query)
        assert (denied.value.types, denied.value.rule) == (("Secret",), "no-secrets")


def test_other_types_stay_readable(shared: og.Graph) -> None:
    ada = under(shared, NO_SECRETS)
    assert sorted(row["p.name"] for row in ada.query(ASK)) == ["Ada", "Bob"]
    assert len(lines_of(ada, "Person", "Knows")) == 3
    assert {*ada.snapshot().manifest.pins} == {"node:Person", "node:Note", "edge:Knows"}
    assert [change.id for change in ada.diff(1, 2, types=["Person"])] == ["Ada", "Bob"]
    (block,) = [block for block in ada.changes(types=["Person"]) if [*block.changes()]]
    assert {change.type for change in block.changes()} == {"Person"}


def test_nothing_else_tells_of_a_denied_type(shared: og.Graph) -> None:
    ada = under(shared, NO_SECRETS)
    head = shared.snapshot().commit_id
    for look in (
        lambda: ada.entity("Secret", "s1"),
        lambda: ada.entity("Secret", "s1", at=head),
        ada.export,
        lambda: ada.export(types=["Secret"], snapshot=head),
        lambda: ada.export(types=["Keeps"]),
        lambda: ada.diff(1, 2, types=["Keeps"]),
        lambda: ada.diff(1, 2),
        ada.changes,
        lambda: ada.commits.changes(head),
        lambda: ada.analyze("degrees", edges="Keeps"),
        lambda: ada.merge("review"),
        lambda: ada.schema.plan(SCHEMA),
        lambda: ada.mutate('query q { delete Secret where text = "hidden" }'),
    ):
        with pytest.raises(og.PolicyDenied, match="Secret"):
            look()
    with pytest.raises(og.NotFound):
        ada.snapshot().table("node:Secret")


def test_a_rule_holds_for_a_type_that_was_named_otherwise(graph: og.Graph) -> None:
    before = graph.snapshot().commit_id
    renamed = SCHEMA.replace("Secret implements Named", 'Hidden implements Named @rename_from("Secret")')
    graph.schema.apply(renamed.replace("> Secret", "> Hidden"))
    ada = under(graph, NO_SECRETS.replace("Secret", "Hidden"))
    for place in ({"branch": "review"}, {"snapshot": before}):
        with pytest.raises(og.PolicyDenied) as denied:
            ada.query("query q { match { $s: Secret } return { $s.name } }", **place)  # type: ignore[arg-type]
        assert denied.value.types == ("Hidden",)


def test_branches_are_protected_or_not(graph: og.Graph) -> None:
    rules = """
    protected: [main, "release/*"]
    rules:
      - {id: reading, actors: any, actions: [read]}
      - {id: work, actors: ["group:team"], actions: [change, branch_create, branch_delete], branches: unprotected}
    groups: {team: [ada]}
    """
    ada = under(graph, rules)
    ada.mutate(ADD, branch="review")
    ada.branches.create("mine", from_="review")
    ada.load({"Person": [{"name": "Dan"}]}, branch="other", from_="main")
    ada.branches.delete("mine")
    for denied in (
        lambda: ada.mutate(ADD),
        lambda: ada.branches.create("release/1"),
        lambda: ada.load({"Person": [{"name": "Dan"}]}, branch="release/2", from_="main"),
        lambda: ada.merge("review"),
        lambda: ada.mutate(ADD, branch="review", actor="mallory"),
    ):
        with pytest.raises(og.PolicyDenied):
            denied()


def test_a_branch_that_may_not_be_read_is_not_listed(shared: og.Graph) -> None:
    ada = under(shared, "rules: [{id: few, actors: any, actions: [read], branches: [review]}]")
    assert [each.name for each in ada.branches.list()] == ["review"]
    assert len(ada.query(ASK, branch="review")) == 2
    with pytest.raises(og.PolicyDenied):
        ada.query(ASK)


def test_a_tag_of_a_branch_that_may_not_be_read_is_not_listed(shared: og.Graph) -> None:
    ada = under(shared, "rules: [{id: review, actors: [ada], actions: [read], branches: [review]}]")
    assert [tag.name for tag in shared.tags.list()] == ["v0"]
    assert ada.tags.list() == []
    with pytest.raises(og.PolicyDenied, match="branch `main`"):
        ada.tags.show("v0")


def test_a_merge_needs_to_read_both_branches(shared: og.Graph) -> None:
    hidden = "{id: hidden, effect: forbid, actors: any, actions: [read], branches: [main], types: [Secret]}"
    ada = under(shared, f"rules: [{{id: all, actors: any, actions: any}}, {hidden}]")
    assert ada.entity("Secret", "s1", at="review") is not None
    with pytest.raises(og.PolicyDenied, match="Secret"):
        ada.merge("review", dry_run=True)


def test_a_branch_shows_nothing_that_is_hidden_where_it_begins(graph: og.Graph, tmp_path: Path) -> None:
    hidden = "{id: hidden, effect: forbid, actors: [ada], actions: [read], branches: [main], types: [Secret]}"
    on_drafts = "{id: drafts, effect: forbid, actors: [ada], actions: [read], branches: [draft], types: [Secret]}"
    ada = under(graph, f"rules: [{{id: all, actors: any, actions: any}}, {hidden}, {on_drafts}]")
    lines = tmp_path / "more.jsonl"
    lines.write_text('{"type": "Person", "data": {"name": "Eve"}}')
    for begins in (
        lambda: ada.branches.create("mine"),
        lambda: ada.branches.create("mine", from_=graph.snapshot().commit_id),
        lambda: ada.load(str(lines), branch="mine", from_="main"),
    ):
        with pytest.raises(og.PolicyDenied, match="is not allowed to read `Secret` on branch `main`"):
            begins()
    ada.branches.create("draft")
    assert [each.name for each in graph.branches.list()] == ["main", "draft", "review"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda graph: graph.query("query q { match { $s: Secre } return { $s.name } }"),
        lambda graph: graph.explain("query q { match { $s: Secre } return { $s.name } }"),
        lambda graph: graph.mutate('query q { insert Secre { name: "x" } }'),
        lambda graph: graph.analyze("pagerank", nodes=["Secre"]),
    ],
)
def test_who_may_do_nothing_learns_nothing_of_the_schema(shared: og.Graph, ask: Callable[[og.Graph], object]) -> None:
    with pytest.raises(og.PolicyDenied):
        ask(under(shared, EVERYTHING.replace("any, actions", "[bob], actions")))


def test_status_and_indexes_tell_of_what_may_be_read(shared: og.Graph) -> None:
    ada = under(shared, NO_SECRETS)
    assert "Secret" in str(shared.status().as_json()["tables"])
    assert "Secret" not in str(ada.status().as_json())
    assert {status.table_key for status in ada.indexes()} < {status.table_key for status in shared.indexes()}


def test_losing_data_and_force_are_for_admins(shared: og.Graph) -> None:
    ada = under(shared, all_but("admin"))
    with pytest.raises(og.PolicyDenied, match="admin"):
        ada.schema.apply(SCHEMA, allow_data_loss=True)
    with pytest.raises(og.PolicyDenied, match="admin"):
        ada.repair(confirm=True, force=True)


def test_a_graph_acts_for_somebody(graph: og.Graph) -> None:
    ada = graph.acting_as("ada")
    commit = ada.mutate(ADD).commit
    assert commit is not None
    assert commit.actor == "ada"
    assert graph.mutate('query q { insert Person { name: "Zed" } }', actor="bob").commit.actor == "bob"  # type: ignore[union-attr]
    assert graph.actor is None
    assert len(ada.query(ASK)) == len(graph.query(ASK)) == 4


def test_the_environment_names_policy_and_actor(
    shared: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = tmp_path / "policy.yaml"
    rules.write_text(NO_SECRETS)
    monkeypatch.setenv("OMNIGRAPH_POLICY", str(rules))
    monkeypatch.setenv("OMNIGRAPH_ACTOR", "ada")
    opened = og.open(shared.uri, "r")
    assert opened.actor == "ada"
    with pytest.raises(og.PolicyDenied):
        opened.entity("Secret", "s1")
    assert og.open(shared.uri, "r", actor="bob").entity("Secret", "s1") is not None


def test_without_a_policy_everything_is_allowed_and_with_one_nothing_is_that_no_rule_permits(shared: og.Graph) -> None:
    assert shared.entity("Secret", "s1") is not None
    with pytest.raises(og.PolicyDenied) as denied:
        under(shared, "rules: []").query(ASK)
    assert denied.value.rule is None


def test_what_is_denied_is_logged_once(shared: og.Graph, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "omnigraph.policy"), pytest.raises(og.PolicyDenied):
        under(shared, NO_SECRETS).entity("Secret", "s1")
    (record,) = [each for each in caplog.records if each.name == "omnigraph.policy"]
    told = record.__dict__
    assert (told["actor"], told["action"], told["rule"]) == ("ada", Action.READ, "no-secrets")


HIDDEN_RULES = """
node Member { name: String @key, mail: String @unique }
node Vault { name: String @key }
node Person { name: String @key }
edge Keeps: Person -> Vault
edge Has: Vault -> Person @card(0..1)
"""
BLIND = """
rules:
  - {id: all, actors: any, actions: any}
  - {id: blind, effect: forbid, actors: [ada], actions: [read], types: [Member, Vault]}
"""


def test_what_a_write_was_refused_for_tells_nothing_of_types_that_may_not_be_read(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "hidden.omni", HIDDEN_RULES, durability="fast", upkeep=False)
    graph.load(
        {
            "Member": [{"name": "owner-id", "mail": "ann@example.org"}],
            "Vault": [{"name": "vault-id"}],
            "Person": [{"name": "Bob"}, {"name": "Cid"}],
            "Keeps": [{"from": "Bob", "to": "vault-id"}],
            "Has": [{"from": "vault-id", "to": "Bob"}],
        }
    )
    ada = under(graph, BLIND)
    writes: list[tuple[str, Callable[[og.Graph], Any]]] = [
        ("unique", lambda g: g.mutate('query q { insert Member { name: "x", mail: "ann@example.org" } }')),
        ("unique", lambda g: g.load({"Member": [{"name": "x", "mail": "ann@example.org"}]})),
        ("end", lambda g: g.load({"Vault": [{"name": "other"}]}, "overwrite")),
        ("cardinality", lambda g: g.load({"Has": [{"from": "vault-id", "to": "Cid"}]})),
    ]
    for rule, write in writes:
        with pytest.raises(og.ValidationError, match=r"owner-id|vault-id"):
            write(graph)
        with pytest.raises(og.ValidationError, match="details are hidden") as refused:
            write(ada)
        assert {each.rule for each in refused.value.violations} == {rule}
        for secret in ("owner-id", "vault-id", "ann@example.org"):
            assert secret not in str(refused.value)
            assert secret not in str(refused.value.details)


def test_what_a_write_was_refused_for_is_told_of_types_that_may_be_read(graph: og.Graph) -> None:
    with pytest.raises(og.ValidationError, match="there is no `Person` with the id `Nobody`"):
        under(graph, NO_SECRETS).load({"Knows": [{"from": "Ada", "to": "Nobody"}]})


def test_the_format_of_spark_asks_before_it_tells_whether_there_is_a_type(graph: og.Graph, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(only("read"))
    for type in ("Secret", "Secrets"):
        options = parse_write_options({"path": graph.uri, "type": type, "policy": str(rules), "actor": "ada"})
        with pytest.raises(og.PolicyDenied):
            GraphWriter(options, overwrite=False)


@pytest.mark.parametrize("state", [{}, {"branch": "nowhere"}, {"version": "999"}, {"snapshot": "nothing"}])
def test_the_format_of_spark_asks_before_it_tells_whether_there_is_a_state(
    graph: og.Graph, tmp_path: Path, state: dict[str, str]
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(only("change"))
    for type in ("Secret", "Secrets"):
        given = {"path": graph.uri, "type": type, "policy": str(rules), "actor": "ada", **state}
        with pytest.raises(og.PolicyDenied):
            pin_table(parse_read_options(given))
