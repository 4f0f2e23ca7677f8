"""One grammar of commands: where the graph stands, what names it, and that older spellings go on working."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tools.docs_tables import commands

import omnigraph
from omnigraph.cli import grammar
from omnigraph.cli.doctor import SETTINGS
from omnigraph.cli.grammar import GraphCommand
from omnigraph.versioning.log import MANIFEST_FOLDER
from tests.behaviour.test_cli import as_json, omnigraph_cli

SCHEMA = "node Person { name: String @key, age: I32? }\n"
ALL = "query all { match { $p: Person } return { $p.name } }"
ADD = "query add($n: String) { insert Person { name: $n } }"

ALL_COMMANDS = {" ".join(words): command for words, command in commands()}
WITHOUT_A_GRAPH = {
    "policy validate": "it is about a rule file",
    "policy test": "it is about a rule file",
    "policy explain": "it is about a rule file",
    "demo": "it creates its own graph in a folder",
    "version": "it is about the program",
}
SEVERAL_GRAPHS = {"serve"}
ONLY_FILES_BEFORE = {"lint", "queries add", "queries remove", "queries validate"}
"""Their graph is the last of any number of files or names, so it is not an argument of its own."""
NO_SERVER = {"init": "no server creates graphs", "serve": "it is the server"}

each_command = pytest.mark.parametrize("name", ALL_COMMANDS)


def options_of(command: Any) -> dict[str, Any]:
    return {name: each for each in command.params if each.param_type_name == "option" for name in each.opts}


def arguments_of(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "argument"]


@each_command
def test_the_graph_is_the_last_argument_and_store_names_it_too(name: str) -> None:
    command = ALL_COMMANDS[name]
    if name in WITHOUT_A_GRAPH:
        assert not {"--store", "--server"} & options_of(command).keys()
        return
    assert "--store" in options_of(command)
    if name in SEVERAL_GRAPHS | ONLY_FILES_BEFORE:
        assert arguments_of(command)[-1].nargs == -1
        return
    assert isinstance(command, GraphCommand)
    last = arguments_of(command)[-1]
    assert (last.name, last.metavar, last.required) == ("uri", "GRAPH", False)
    assert [each.name for each in arguments_of(command)].count("uri") == 1


@each_command
def test_graph_id_selects_the_graph_of_a_server_and_graph_is_its_alias_where_it_does_not_draw(name: str) -> None:
    options = options_of(ALL_COMMANDS[name])
    if name == "policy explain":
        assert options["--graph-id"] is options["--graph"]
    elif name in WITHOUT_A_GRAPH or name in NO_SERVER:
        assert "--graph-id" not in options
    elif name == "commit list":
        assert options["--graph"].is_flag
        assert not options["--graph-id"].is_flag
    else:
        assert options["--graph-id"] is options["--graph"]
        assert "--server" in options


@each_command
def test_from_names_a_state(name: str) -> None:
    option = options_of(ALL_COMMANDS[name]).get("--from")
    if option is not None and not option.hidden:
        assert option.metavar == "BRANCH|COMMIT|TAG"


@each_command
def test_every_parameter_has_a_help_text_that_is_a_sentence(name: str) -> None:
    command = ALL_COMMANDS[name]
    assert command.help.strip()
    for each in command.params:
        assert (each.help or "").endswith((".", "...", "`")), each.name


def test_a_folder_is_a_graph_by_what_makes_it_one() -> None:
    assert grammar._MANIFEST_FOLDER == MANIFEST_FOLDER


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for variable in ("OMNIGRAPH_STORE", "OMNIGRAPH_SERVER"):
        monkeypatch.delenv(variable, raising=False)
    Path("schema.pg").write_text(SCHEMA)
    Path("queries.gq").write_text(f"{ALL}\n{ADD}\n")
    assert omnigraph_cli("init", "people", "--schema", "schema.pg").returncode == 0
    return tmp_path / "people"


def rows(*arguments: str | Path) -> int:
    result = omnigraph_cli("query", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    return len(as_json(result)["rows"])


def test_a_lone_argument_of_query_and_mutate_is_a_name_unless_it_can_only_be_a_graph(graph: Path) -> None:
    file = ("--query", "queries.gq")
    for number, words in enumerate((["people"], [str(graph)], [f"file://{graph}"], ["--store", "people"])):
        assert omnigraph_cli("mutate", "add", *words, *file, "--param", f'n="{number}"').returncode == 0
    assert rows("all", "people", *file) == 4
    assert rows("all", *file, "--store", graph) == 4
    for word in ("people", "./people", str(graph), f"file://{graph}"):
        assert rows(word, "-e", ALL) == 4
    unnamed = omnigraph_cli("query", "all", *file)
    assert (unnamed.returncode, "name the graph as the last argument" in unnamed.stderr) == (2, True)
    (graph.parent / "all").mkdir()
    assert rows("all", *file, "--store", graph) == 4, "a folder that is not a graph is a name"


def test_a_graph_that_is_given_twice_is_refused_unless_it_is_the_same(graph: Path) -> None:
    assert omnigraph_cli("snapshot", "people", "--store", "people").returncode == 0
    assert omnigraph_cli("snapshot", "people/", "--store", "people").returncode == 0
    refused = omnigraph_cli("snapshot", "people", "--store", "others")
    assert refused.returncode == 2
    assert "the graph is given twice: people as argument, others with --store" in refused.stderr
    ids = omnigraph_cli("snapshot", "--server", "http://127.0.0.1:1", "--graph", "a", "--graph-id", "b")
    assert (ids.returncode, "--graph-id is given twice: a and b" in ids.stderr) == (2, True)
    both = omnigraph_cli("snapshot", "people", "--server", "http://127.0.0.1:1")
    assert (both.returncode, "name a --server or a store, not both" in both.stderr) == (2, True)
    alone = omnigraph_cli("snapshot", "people", "--graph-id", "a")
    assert (alone.returncode, "--graph-id selects a graph of a --server" in alone.stderr) == (2, True)


def test_the_command_line_takes_precedence_over_the_environment(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_STORE", "others")
    assert omnigraph_cli("snapshot", "people").returncode == 0
    assert omnigraph_cli("snapshot", "--store", "people").returncode == 0
    assert omnigraph_cli("snapshot").returncode == 1


def test_every_command_names_its_graph_either_way(graph: Path) -> None:
    for words in (["status"], ["branch", "list"], ["schema", "show"], ["diff", "main", "main"], ["doctor"]):
        as_argument = omnigraph_cli(*words, "people")
        as_option = omnigraph_cli(*words, "--store", "people")
        assert as_argument.returncode == as_option.returncode == 0, words
    assert omnigraph_cli("init", "--store", "second", "--schema", "schema.pg").returncode == 0
    assert omnigraph_cli("init", "--schema", "schema.pg").returncode == 2
    assert omnigraph_cli("lint", "queries.gq", "people").returncode == 0
    assert omnigraph_cli("lint", "queries.gq", "people", "--schema", "schema.pg").returncode == 2


def test_older_spellings_go_on_working(graph: Path) -> None:
    """What scripts wrote before there was one grammar."""
    add = omnigraph_cli("mutate", "add", "--query", "queries.gq", "--param", "n=Ada", "--store", "people")
    assert add.returncode == 0
    assert omnigraph_cli("lint", "queries.gq", "--store", "people").returncode == 0
    first = as_json(omnigraph_cli("changes", "people", "--limit", "1", "--json"))
    for option in ("--from", "--cursor"):
        later = as_json(omnigraph_cli("changes", "people", option, first["cursor"], "--json"))
        assert [block["commit"]["message"] for block in later["blocks"]] == ["add"]
    assert omnigraph_cli("changes", "people", "--from", first["cursor"], "--cursor", "other").returncode == 2
    assert omnigraph_cli("commit", "list", "people", "--graph").stdout.startswith("* ")
    (graph.parent / "new.pg").write_text(SCHEMA)
    for words in (
        ["schema", "plan", "new.pg"],
        ["schema", "diff", "main", "new.pg"],
        ["export"],
        ["indexes", "--list"],
    ):
        assert omnigraph_cli(*words, "people").returncode == 0
    rules = graph.parent / "rules.yaml"
    rules.write_text("rules:\n  - {id: reads, actors: [ann], actions: [read], graphs: [hr]}\n")
    for option in ("--graph", "--graph-id"):
        words = ["policy", "explain", str(rules), "--action", "read", "--actor", "ann", option, "hr", "--json"]
        assert as_json(omnigraph_cli(*words))["decision"] == "permit"


# --- doctor ---


def test_doctor_reports_the_environment_and_whether_a_graph_can_be_read(
    graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_TOKEN", "a-secret-that-is-never-shown")
    monkeypatch.setenv("OMNIGRAPH_STOER", "people")
    result = omnigraph_cli("doctor", "people", "--json")
    assert result.returncode == 0
    assert "a-secret" not in result.stdout
    document = as_json(result)
    checks = {each["name"]: each["state"] for each in document["checks"]}
    names = ("python", "pylance", "pyarrow", "duckdb", "pyspark", "java", "temporary files", "memory", "graph")
    assert {name: checks[name] for name in names} == dict.fromkeys(names, "ok")
    assert checks["OMNIGRAPH_STOER"] == "warning"
    assert document["settings"]["OMNIGRAPH_TOKEN"] is True
    assert document["settings"]["OMNIGRAPH_UPKEEP"] is False
    assert "all that is needed works" in omnigraph_cli("doctor").stdout


def test_doctor_ends_with_1_if_something_that_is_needed_does_not_work(
    graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in (["nowhere"], ["--server", "http://127.0.0.1:1"]):
        result = omnigraph_cli("doctor", *words, "--json")
        assert result.returncode == 1
        (failed,) = [each["name"] for each in as_json(result)["checks"] if each["state"] == "failed"]
        assert failed == "graph"
    monkeypatch.setenv("JAVA_HOME", str(graph))
    broken = omnigraph_cli("doctor")
    assert (broken.returncode, "of JAVA_HOME does not run" in broken.stdout) == (1, True)


def test_doctor_knows_every_setting_that_the_sources_read() -> None:
    sources = (path for path in Path(omnigraph.__file__).parent.rglob("*.py") if path.name != "doctor.py")
    read = {name for path in sources for name in re.findall(r"OMNIGRAPH_[A-Z_]+", path.read_text("utf-8"))}
    printed = {"OMNIGRAPH_LISTEN_ADDR"}  # a line of the server, not a variable
    assert {name.removesuffix("…") for name in SETTINGS} - {"JAVA_HOME"} == read - printed


# --- a server that cannot be reached ---

LOCAL_ONLY = (
    "lance",
    "pandas",
    "pyspark",
    "pyarrow",
    "numpy",
    "duckdb",
    "lark",
    "sqlglot",
    "rich",
    "cedarpy",
    "fastapi",
)
"""Packages that a command against a server does not need before there is an answer."""

REACHING = (
    ("query", "-e", ALL),
    ("mutate", "-e", ADD),
    ("status",),
    ("load", "--data", "people.jsonl"),
    ("export",),
    ("branch", "list"),
    ("diff", "main", "other"),
    ("changes",),
    ("commit", "list"),
    ("indexes",),
    ("recovery", "list"),
    ("schema", "show"),
    ("analyze", "pagerank"),
)


def test_a_command_against_a_server_loads_nothing_that_only_a_graph_here_needs() -> None:
    script = f"""
import sys
from unittest import mock
from omnigraph.cli.main import run
for words in {REACHING!r}:
    with mock.patch.object(sys, "argv", ["omnigraph", *words, "--server", "http://127.0.0.1:1"]):
        try:
            run()
        except SystemExit as ended:
            assert ended.code == 1, (words, ended.code)
    loaded = {{name.split(".")[0] for name in sys.modules}} & {{*{LOCAL_ONLY!r}}}
    assert not loaded, (words, loaded)
    assert "omnigraph.graph.graph" not in sys.modules, words
"""
    ended = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("error[unavailable]") == len(REACHING)
