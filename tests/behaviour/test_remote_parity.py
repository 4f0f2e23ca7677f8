"""A command says the same of a graph at a server as of one that it opens itself."""

import io
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from difflib import unified_diff
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
import typer

import omnigraph as og
from omnigraph import failpoints
from omnigraph.api.progress import Progress
from omnigraph.cli.main import app, run
from tests import nursery
from tests.servers import RunningServer, running_server, token_of

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    born: Date?
    seen: DateTime?
    tags: [String]?
    rank: F64?
    note: String?
    vec: Vector(4)? @embed("note", model="mock/x")
}
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
"""
RECORDS = """
{"type": "Person", "data": {"name": "Ada", "age": 36, "born": "1815-12-10", "tags": ["math"], "note": "engines"}}
{"type": "Person", "data": {"name": "Bob", "age": 40, "seen": "2024-05-01T12:00:00Z"}}
{"type": "Person", "data": {"name": "Zoë", "note": "a \\"quoted\\"\\nline"}}
{"type": "City", "data": {"name": "Oslo"}}
{"edge": "Knows", "from": "Ada", "to": "Bob", "data": {"since": 1830}}
"""
QUERIES = """
query people { match { $p: Person } return { $p.name, $p.age, $p.born, $p.seen, $p.tags } }
query older($age: I32) { match { $p: Person $p.age > $age } return { $p.name } }
query add($name: String, $age: I32?) { insert Person { name: $name, age: $age } }
query set_age($name: String, $age: I32) { update Person set { age: $age } where name = $name }
query link($from: String, $to: String) { insert Knows { from: $from, to: $to } }
query told($name: String, $age: I32) {
    update Person set { age: $age } where name = $name returning { name, age, born, tags, note, 0.5 as half }
}
"""
TOLD = """
query q($name: String) {
    match { $p: Person { name: $name } }
    return {
        $p.name as name, $p.age as age, $p.born as born, $p.tags as tags, $p.note as note, 0.5 as half
    }
}
"""
CRASH = """
import sys, omnigraph as og
graph = og.open(sys.argv[1])
graph.mutate('query q { insert Person { name: "Lost" } insert City { name: "Lost" } }', actor="cyd")
"""
PIPELINE = """
pipeline: cities
sources:
  cities: {files: cities-*.csv, increment: files}
nodes:
  City: {view: cities}
"""
FILES = {
    "schema.pg": SCHEMA,
    "cities.yaml": PIPELINE,
    "wrong.yaml": PIPELINE.replace("view: cities", "view: citys"),
    "cities-1.csv": "name\nLima\n",
    "people.jsonl": RECORDS.strip() + "\n",
    "more.jsonl": '{"type": "Person", "data": {"name": "Cyd"}}\n',
    "bad.jsonl": '{"type": "Person", "data": {"name": 3}}\n{"edge": "Knows", "from": "Ada", "to": "Nobody"}\nno json\n',
    "cities.csv": "name\nRome\nQuito\n",
    "knows.csv": "from,to,since\nBob,Ada,1999\n",
    "queries.gq": QUERIES,
    "wrong.gq": "query q {\n  match { $p: Persn }\n  return { $p.name }\n}\n",
    "wider.pg": SCHEMA.replace("node City {", "node City { size: I64?, "),
    "narrow.pg": SCHEMA.replace("age: I32?", "age: I32? @range(age, 0..39)"),
    "without.pg": SCHEMA.replace("    age: I32?\n", ""),
    "refused.pg": SCHEMA.replace("age: I32?", "age: String?"),
    "wrong.pg": "node Person { name: Strng @key }\n",
}
ACTOR = "ann"
EXEMPT = {"doctor", "init", "lint", "mcp", "serve"}
"""Commands whose output differs: a graph is created here, files and the environment are those of this machine, or it
serves until its input ends."""

# Each line is one command. `{commit}` is the newest commit of main, `{first}` the first one, and `{here}` a folder.
SCRIPT = """
snapshot
load --data people.jsonl
load --data more.jsonl --branch side --from main
load --data more.jsonl --data people.jsonl --mode merge
load --nodes City=cities.csv --edges Knows=knows.csv
load --data more.jsonl --explain
load --data bad.jsonl
load --data nowhere.jsonl
load --data more.jsonl --mode replace
load --nodes Cty=cities.csv
load --data more.jsonl --branch nowhere
query people --query queries.gq
query people --query queries.gq --format jsonl
query people --query queries.gq --format csv
query people --query queries.gq --format kv
query people --query queries.gq --format arrow
query people --query queries.gq --format xml
query people --query queries.gq --branch side
query people --query queries.gq --branch sid
query people --query queries.gq --snapshot {first}
query people --query queries.gq --snapshot 2
query people --query queries.gq --snapshot 999
query people --query queries.gq --explain
query older --query queries.gq --params {"age":36}
query older --query queries.gq --param age=many
query people --query queries.gq --engine fast
query nobody --query queries.gq
query add --query queries.gq --param name=Eve
query --query wrong.gq
query -e query{
query -e match{$p:Person}return{$p.*}order{$p.age}limit\t3
query -e match{$p:Person}return{$p.*} --explain
query -e match{$p:Person}return{$p.name\tas\tn}union\tmatch{$c:City}return{$c.name\tas\tn}order{n}limit\t3
query -e match{$p:Person}return{$p.name}union\tmatch{$c:City}return{$c.name}
query -e match{$p:Person{name:$name}}return{$p.*} --param name=Ada
query people -e match{$p:Person}return{$p.*}
mutate -e match{$p:City{name:"Nowhere"}}delete$p
mutate -e insert\tPerson{name:$name}
mutate add --query queries.gq --param name=Dan --param age=7
mutate set_age --query queries.gq --param name=Nobody --param age=7
mutate set_age --query queries.gq --param name=Dan --param age=8 --if-commit {commit}
mutate set_age --query queries.gq --param name=Dan --param age=9 --if-commit {first}
mutate link --query queries.gq --param from=Dan --param to=Nobody
mutate people --query queries.gq
queries validate queries.gq
queries validate wrong.gq
queries add queries.gq
queries add queries.gq
queries add wrong.gq
queries list
queries show older
queries show oldr
queries show
queries validate
query older --param age=1
query older --param old=1
query nobody
query add --param name=Eve2
mutate add --param name=Eve3
mutate older --param age=1
queries remove told
queries remove told
diff {first} main --type @query
mutate told --query queries.gq --param name=Ada --param age=37
mutate told --query queries.gq --param name=Nobody --param age=37
branch create review
branch create review
branch create other --from {first}
branch create old --from nowhere
branch list
mutate set_age --query queries.gq --param name=Ada --param age=1 --branch review
branch merge review --dry-run
mutate set_age --query queries.gq --param name=Ada --param age=2
branch merge review
branch merge review --dry-run
branch merge review --strategy mine
branch merge review --strategy theirs
branch merge review --delete-branch
branch merge nowhere
branch delete other
branch delete other
branch delete main
commit list
commit list --limit 2
commit list --filter actor=ann
commit list --filter size=1
commit list --branch revie
commit list --graph
commit show {commit}
commit show nowhere
commit changes {commit}
commit changes {commit} --format jsonl
commit changes {first}
diff {first} main
diff {first} main --format jsonl
diff 2 main --type Person
diff main nowhere
diff main side --type Nothing
changes
changes --limit 1 --format jsonl
changes --from nonsense
tag create v1 -m because
tag create v1
tag create v2 --at 2
tag create v3 --at nowhere
tag list
tag show v1
tag show v9
tag delete v2
tag delete v2
schema show
schema show --at {first}
schema show --at nowhere
schema plan wider.pg
schema plan narrow.pg
schema plan without.pg
schema apply without.pg
schema plan refused.pg
schema plan wrong.pg
schema plan nowhere.pg
schema plan schema.pg
schema apply refused.pg
schema apply narrow.pg
schema apply wrong.pg
schema apply wider.pg --if-commit {first}
schema apply wider.pg
schema apply wider.pg
schema diff {first} main
schema diff main schema.pg
schema catch-up side
schema catch-up side
schema catch-up main
export
export --type City --ordered
export --type Cty
export --branch side --type Person
export --snapshot {first}
export --out {here}/all.jsonl
export --out {here}/lines/
export --out {here}/cells --format csv
export --out {here}/columns --format parquet --type Person
export --format csv
export --format xml
export --explain
analyze pagerank
analyze degrees --format csv
analyze components --snapshot {first}
analyze shortest-paths --source Ada --target Bob
analyze pagerank --damping 2
analyze rank
analyze pagerank --out {here}/ranks.parquet
analyze pagerank --node Person --write rank=rank
analyze pagerank --node Person --write rank=age
embed Person
embed Person --all --property vec
embed City
embed Nothing
pipeline validate cities.yaml
pipeline validate wrong.yaml
pipeline plan cities.yaml
pipeline run cities.yaml
pipeline run cities.yaml
pipeline status cities.yaml
pipeline history cities.yaml
indexes --list
indexes
indexes
status
status --branch side
status --branch nowhere
optimize
optimize
repair
repair --force
recovery list
recovery show nowhere
recovery show {lost}
verify
verify --data
cleanup
cleanup --keep 1
cleanup --keep 0
cleanup --keep 1 --grace 0s --confirm
"""


@dataclass
class Side:
    """One way to a graph: the words that name it, and what is said there, without what differs from run to run."""

    folder: Path
    words: list[str]
    places: list[str]
    ids: dict[str, str] = field(default_factory=dict)

    @property
    def store(self) -> Path:
        return self.folder / "people.omni"

    def run(self, line: str, form: str) -> tuple[int, str, str]:
        """The exit code of a command, and what it said on stdout and stderr."""
        here = self.folder / "out" / (form or "plain")
        here.mkdir(parents=True, exist_ok=True)
        words = [self._filled(word, here) for word in line.split(" ")]
        code, out, err = called(*words, *self.words, *filter(None, [form]))
        files = sorted(path for path in here.rglob("*") if path.is_file())
        written = [f"{path.relative_to(here)}\n{_content(path)}" for path in files]
        shutil.rmtree(here)
        return code, self._masked("\n".join([_shown(out), *written]), here), self._masked(err.decode(), here)

    def _filled(self, word: str, here: Path) -> str:
        if "{first}" in word or "{commit}" in word or "{lost}" in word:
            graph = og.open(self.store, "r")
            commits = [commit.graph_commit_id for commit in graph.commits.list()]
            lost = graph.recoveries.list()[0].operation_id
            return word.replace("{first}", commits[-1]).replace("{commit}", commits[0]).replace("{lost}", lost)
        return word.replace("{here}", str(here))

    def _masked(self, text: str, here: Path) -> str:
        for place in (str(here), *self.places):
            text = text.replace(place, "<place>")
        text = re.sub(r"\b[0-9A-HJKMNP-TV-Z]{26}\b", lambda found: self._known(found[0]), text)
        text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?", "<time>", text)
        text = re.sub(r"[\d,.]+ (B|KiB|MiB)\b", "<size>", text)
        text = re.sub(r'("[a-z_]*bytes[a-z_]*": )\d+', r"\1<size>", text)
        text = re.sub(r"\d+ [smhd] ago", "<age>", text)
        # A server has answered queries before; a command is a new process.
        text = re.sub(r'"memory": \{\s*"tables": \{[^{}]*\}[^{}]*\}', '"memory": <memory>', text)
        # The width of a table is that of its cells.
        return re.sub(r"  +|[━─]+", " ", text)

    def _known(self, id: str) -> str:
        """An id by when it came up first: what is the same on one side has to be the same on the other."""
        return self.ids.setdefault(id, f"<id {len(self.ids)}>")


def called(*words: str) -> tuple[int, bytes, bytes]:
    """Runs the command line in this process, which saves an interpreter's start for each call."""
    out, err, code = io.BytesIO(), io.BytesIO(), 0
    said, told = io.TextIOWrapper(out, "utf-8", write_through=True), io.TextIOWrapper(err, "utf-8", write_through=True)
    with redirect_stdout(said), redirect_stderr(told), mock.patch.object(sys, "argv", ["omnigraph", *words]):
        try:
            run()
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, out.getvalue(), err.getvalue()


def _shown(out: bytes) -> str:
    """What was said; an Arrow stream is shown with its rows."""
    if out.startswith(b"\xff\xff\xff\xff"):
        table = pa.ipc.open_stream(out).read_all()
        return f"{table.schema}\n{table.to_pylist()}"
    return out.decode()


def _content(path: Path) -> str:
    if path.suffix == ".parquet":
        table = pa.parquet.read_table(path)
        return f"{table.schema}\n{table.to_pylist()}"
    return path.read_text("utf-8")


# One server is started for all of them: they run in one process, and one after the other.
pytestmark = [pytest.mark.xdist_group("remote parity"), pytest.mark.long]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, RunningServer]]:
    """Copies of a graph in which a writer was killed once: one for itself, and two at a server."""
    root = tmp_path_factory.mktemp("parity")
    for name, text in FILES.items():
        (root / name).write_text(text)
    first, second = root / "store" / "people.omni", root / "served" / "people.omni"
    og.init(first, root / "schema.pg", durability="fast")
    environment = {failpoints.VARIABLE: "mutate.after_phase_b=crash", nursery.CARRIED: "0"}
    nursery.ended(CRASH, str(first), environment=environment)
    assert len(og.open(first, durability="fast").recoveries.list()) == 1
    shutil.copytree(first, second)
    shutil.copytree(first, root / "verbs.omni")
    environment = {"OMNIGRAPH_DURABILITY": "fast"}
    with running_server([second, root / "verbs.omni"], {ACTOR: token_of(ACTOR)}, environment=environment) as server:
        yield root, server


@pytest.fixture
def sides(started: tuple[Path, RunningServer], monkeypatch: pytest.MonkeyPatch) -> tuple[Side, Side]:
    root, server = started
    monkeypatch.chdir(root)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("OMNIGRAPH_DURABILITY", "fast")
    monkeypatch.setenv("OMNIGRAPH_ACTOR", ACTOR)
    monkeypatch.setenv("OMNIGRAPH_TOKEN", token_of(ACTOR))
    store, served = root / "store", root / "served"
    return (
        Side(store, ["--store", str(store / "people.omni")], [str(store / "people.omni")]),
        Side(
            served,
            ["--server", server.url, "--graph-id", "people"],
            [f"{server.url}/graphs/people", str(served / "people.omni")],
        ),
    )


def test_every_command_says_the_same_with_a_server_as_with_a_store(sides: tuple[Side, Side]) -> None:
    here, there = sides
    differing = []
    failures: set[str] = set()
    for line in SCRIPT.strip().splitlines():
        for form in ("", "--json"):
            expected, found = here.run(line, form), there.run(line, form)
            if expected != found:
                differing.append(_difference(f"{line} {form}", expected, found))
            # What says the same in both forms, and errors of a kind that was seen, are not asked for again.
            failure = expected[2].partition("]")[0] if expected[2].startswith("error[") else None
            if "--format" in line or "--explain" in line or failure in failures:
                break
            failures.update(filter(None, [failure]))
    assert not differing, "\n\n".join(differing)


def _difference(line: str, expected: tuple[int, str, str], found: tuple[int, str, str]) -> str:
    left, right = ([f"exit code {code}", *out.splitlines(), *err.splitlines()] for code, out, err in (expected, found))
    return "\n".join([f"$ omnigraph {line}", *unified_diff(left, right, "store", "server", lineterm="", n=1)])


def commands(group: Any, *before: str) -> Iterator[tuple[str, Any]]:
    """All commands below a group, by the words that call them."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *before, name)
        else:
            yield " ".join([*before, name]), command


def test_every_command_that_takes_a_graph_takes_a_server_and_is_in_the_script() -> None:
    takes = {
        name: {parameter.name for parameter in command.params}
        for name, command in commands(typer.main.get_command(app))
        if {"store", "uri"} & {parameter.name for parameter in command.params}
    }
    assert takes.keys() >= EXEMPT
    about_a_graph = takes.keys() - EXEMPT
    assert [name for name in about_a_graph if not {"server", "graph_id", "policy", "actor"} <= takes[name]] == []
    lines = SCRIPT.strip().splitlines()
    assert [name for name in about_a_graph if not any(f"{line} ".startswith(f"{name} ") for line in lines)] == []


def test_a_server_and_a_store_are_not_named_together(sides: tuple[Side, Side]) -> None:
    here, there = sides
    for words in (["snapshot", *here.words, *there.words], ["snapshot", str(here.store), *there.words]):
        code, _, err = called(*words)
        assert (code, err) == (2, b"error[usage]: name a --server or a store, not both\n")


@pytest.mark.parametrize("option", ["--as", "--policy", "--durability"])
def test_what_a_server_decides_is_refused(sides: tuple[Side, Side], option: str) -> None:
    _, there = sides
    code, _, err = called("mutate", "add", "--query", "queries.gq", "--param", "name=Eve", *there.words, option, "fast")
    assert (code, err.decode()) == (2, f"error[usage]: {option} is not for a server, which decides that itself\n")


def test_the_command_line_counts_more_than_the_environment(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = sides
    url = there.words[1]
    monkeypatch.setenv("OMNIGRAPH_SERVER", "http://127.0.0.1:1")
    assert called("schema", "show", *here.words)[0] == 0
    assert called("schema", "show", str(here.store))[0] == 0
    assert called("schema", "show")[0] == 1
    monkeypatch.setenv("OMNIGRAPH_SERVER", f"{url}/graphs/people")
    monkeypatch.setenv("OMNIGRAPH_STORE", "nowhere")
    assert called("schema", "show")[0] == 0
    monkeypatch.delenv("OMNIGRAPH_SERVER")
    assert called("schema", "show")[0] == 1
    code, _, err = called("schema", "show", "--server", url)
    assert (code, err.decode()) == (2, f"error[usage]: {url} has several graphs; choose `people` or `verbs`\n")
    assert called("schema", "show", "--server", url, "--graph", "people")[0] == 0
    assert called("schema", "show", "--store", f"{url}/graphs/people")[0] == 0
    assert called("commit", "list", "--server", url, "--graph-id", "nobody")[0] == 1
    assert called("schema", "show", *here.words, "--graph", "people")[0] == 2
    assert called("schema", "show", "--server", "people")[0] == 2


def test_queries_are_checked_against_the_schema_of_a_server(sides: tuple[Side, Side]) -> None:
    here, there = sides
    local = called("lint", "queries.gq", "wrong.gq", "--store", str(here.store))
    remote = called("lint", "queries.gq", "wrong.gq", "--store", there.places[0])
    assert remote == local
    assert remote[0] == 1


def test_a_token_that_is_not_known_is_told_with_where_it_is_read(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, there = sides
    monkeypatch.setenv("OMNIGRAPH_TOKEN", "wrong")
    code, out, err = called("snapshot", *there.words)
    assert (code, out) == (1, b"")
    assert err.decode().startswith("error[unauthenticated]: ")
    assert "$OMNIGRAPH_TOKEN" in err.decode()


def test_the_verbs_of_python_give_what_they_give_of_a_store(sides: tuple[Side, Side]) -> None:
    _, there = sides
    here = og.open("verbs.omni", "r")
    with og.connect(there.words[1], "verbs") as remote:
        remote.load("people.jsonl")
        rows = pa.table({"name": ["Kim", "Lea"], "born": pa.array([date(1990, 1, 2), None]), "age": [1, 2]})
        first = remote.commits.list()[-1].graph_commit_id
        loaded = remote.load({"Person": rows, "City": [{"name": "Lima"}]}, "merge", branch="verbs", from_="main")
        assert (loaded.nodes, loaded.edges) == ({"Person": 2, "City": 1}, {})
        assert loaded.commit is not None
        commit = loaded.commit.graph_commit_id
        assert remote.entity("Person", "Kim", commit) == here.entity("Person", "Kim", commit)
        assert remote.entity("Person", "Nobody") is None
        with pytest.raises(og.NotFound):
            remote.entity("Nothing", "Kim")
        for at in (first, "verbs", 2, datetime.now(UTC)):
            left, right = (graph.query(QUERIES, "people", snapshot=at) for graph in (here, remote))
            assert (left.table, left.commit_id) == (right.table, right.commit_id)
        assert {"p.name": "Lea"} in remote.query(QUERIES, "older", {"age": 1}, branch="verbs").rows()
        assert [*remote.diff(first, commit)] == [*here.diff(first, commit)]
        assert [*remote.diff("main", "verbs", "Person")] == [*here.diff("main", "verbs", "Person")]
        assert [*remote.commits.changes(commit, ["City"])] == [*here.commits.changes(commit, ["City"])]
        assert [each.as_json() for each in remote.changes(branch="verbs")] == [
            each.as_json() for each in here.changes(branch="verbs")
        ]
        named: list[dict[str, Any]] = [{"commit": first}, {"version": 1}, {"time": datetime.now(UTC)}]
        for words in (*named, {"version": loaded.commit.manifest_version, "branch": "verbs"}):
            assert remote.snapshot_at(**words).as_json() == here.snapshot_at(**words).as_json()
        assert remote.query(QUERIES, "people", snapshot=remote.snapshot_at(commit=first)).commit_id == first
        assert remote.schema.at(commit) == here.schema.at(commit)
        assert remote.analyze("degrees", branch="verbs").table == here.analyze("degrees", branch="verbs").table
        assert remote.branches.list()[0].as_json() == here.branches.list()[0].as_json()
        for source, params in ((QUERIES, {"name": "Ada", "age": 5}), (QUERIES, {"name": "Nobody", "age": 5})):
            done = remote.mutate(source, "told", params)
            written = here.query(TOLD, params={"name": params["name"]})
            assert (done.table, done.columns, done.rows()) == (written.table, written.columns, written.rows())
            assert done.as_json()["rows"] == written.as_json()["rows"]
            assert (done.affected["nodes"], done.commit is None) == (len(written), not len(written))
        plain = remote.mutate(QUERIES, "add", {"name": "Plain"})
        assert (plain.table, plain.rows(), plain.affected) == (None, [], {"nodes": 1, "edges": 0})
        assert remote.mutate(Path("queries.gq"), "told", {"name": "Plain", "age": 1}).rows()[0]["age"] == 1
        assert [each.as_json() for each in remote.tags.list()] == [each.as_json() for each in here.tags.list()]


def test_a_refused_load_is_told_even_while_it_is_still_sent(sides: tuple[Side, Side], tmp_path: Path) -> None:
    _, there = sides
    large = tmp_path / "large.jsonl"
    large.write_text('{"type": "Person", "data": {"name": "Kim"}}\n' * 500_000)
    with og.connect(there.words[1], "people", token_of("nobody")) as stranger, pytest.raises(og.Unauthenticated):
        stranger.load(large)
    with og.connect(there.words[1], "people") as remote:
        told: list[Progress] = []
        with pytest.raises(og.NotFound):
            remote.load(large, branch="nowhere", report=told.append)
        assert told[-1] == Progress("sending", large.stat().st_size, large.stat().st_size)
