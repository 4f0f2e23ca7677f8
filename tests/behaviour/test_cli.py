"""The command line, as people and scripts use it."""

import io
import json
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import omnigraph
from omnigraph.cli.main import run

SCHEMA = "node Person { name: String @key, age: I32? }\nedge WorksAt: Person -> Person\n"
GOOD = "query all { match { $p: Person } return { $p.name } }\nquery add($n: String) { insert Person { name: $n } }\n"
BAD = "query one { match { $p: Persn } return { $p.name } }\nquery two { match { $p worksat_ $q } return { $q.nme } }\n"


def omnigraph_cli(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the command line in this process, which saves an interpreter's start for each call."""
    command = ["omnigraph", *map(str, arguments)]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err), mock.patch.object(sys, "argv", command):
        try:
            run()
        except SystemExit as ended:
            code = int(ended.code or 0)
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())


@pytest.mark.parametrize(("arguments", "code"), [(["version"], 0), (["lint"], 2), (["snapshot", "nowhere"], 1)])
def test_a_process_ends_with_the_same_exit_code_and_no_traceback(arguments: list[str], code: int) -> None:
    command = [sys.executable, "-m", "omnigraph", *arguments]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == code
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("query", ["{ $a.x }", "{ $a.y, count($a) as n, max($a.x) as last } order { n desc }"])
@pytest.mark.parametrize("uses_duckdb", [True, False])
def test_a_process_ends_without_a_report_of_what_is_left(tmp_path: Path, query: str, *, uses_duckdb: bool) -> None:
    """DuckDB would write one."""
    schema, graph = tmp_path / "a.pg", str(tmp_path / "g.omni")
    schema.write_text("node A { x: String @key, y: I32? }")
    omnigraph_cli("init", graph, "--schema", schema)
    arguments = ["omnigraph", "query", graph, "-e", f"query q {{ match {{ $a: A }} return {query} }}"]
    before = "import duckdb; duckdb.connect().execute('select 1')" if uses_duckdb else ""
    script = f"import sys\n{before}\nsys.argv = {arguments!r}\nfrom omnigraph.cli.main import run\nrun()"
    result = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "0 rows\n")


def as_json(result: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(result.stdout)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "schema.pg").write_text(SCHEMA)
    (tmp_path / "good.gq").write_text(GOOD)
    (tmp_path / "bad.gq").write_text(BAD)
    return tmp_path


def test_lint_says_what_a_query_reads_and_writes(folder: Path) -> None:
    result = omnigraph_cli("lint", folder / "good.gq", "--schema", folder / "schema.pg")
    assert result.returncode == 0
    assert "reads   node:Person (id, name)" in result.stdout
    assert "writes  node:Person" in result.stdout
    assert "2 files, 2 queries, 0 errors, 0 warnings" in result.stdout


def test_lint_reports_all_findings_of_all_files(folder: Path) -> None:
    (folder / "worse.gq").write_text("query three { match")
    result = omnigraph_cli("lint", folder / "bad.gq", folder / "worse.gq", "--schema", folder / "schema.pg")
    assert result.returncode == 1
    for place in ("bad.gq:1:25", "bad.gq:2:24", "worse.gq:1:19"):
        assert place in result.stdout
    assert "= help: did you mean `worksAt`?" in result.stdout
    assert "$p worksat_ $q" in result.stdout
    assert "^^^^^^^^" in result.stdout
    assert result.stderr == ""


def test_lint_speaks_json(folder: Path) -> None:
    result = omnigraph_cli("lint", folder / "good.gq", folder / "bad.gq", "--schema", folder / "schema.pg", "--json")
    document = as_json(result)
    assert result.returncode == 1
    assert (document["ok"], document["errors"], document["warnings"]) == (False, 2, 0)
    first = document["findings"][0]
    assert first["file"].endswith("bad.gq")
    assert (first["code"], first["severity"], first["line"], first["column"]) == ("T003", "error", 1, 25)
    assert first["subject"] == "one"
    add = document["files"][1]["queries"][1]
    assert add == {
        "name": "add",
        "kind": "mutation",
        "parameters": [{"name": "n", "type": "String", "nullable": False}],
        "columns": None,
        "reads": {"node:Person": ["id"]},
        "writes": ["node:Person"],
    }


def test_lint_lists_a_query_without_a_header(folder: Path) -> None:
    (folder / "good.gq").write_text("match { $p: Person } return { $p.* }")
    words = ("lint", folder / "good.gq", "--schema", folder / "schema.pg")
    assert "  (without a name)\n    reads   node:Person" in omnigraph_cli(*words).stdout
    (query,) = as_json(omnigraph_cli(*words, "--json"))["files"][1]["queries"]
    assert (query["name"], query["kind"]) == (None, "read")


def test_lint_takes_folders_and_finds_the_schema_in_them(folder: Path) -> None:
    (folder / "bad.gq").unlink()
    result = omnigraph_cli("lint", folder)
    assert result.returncode == 0
    assert "2 queries" in result.stdout


def test_lint_without_a_schema_checks_the_syntax_and_says_so(folder: Path) -> None:
    result = omnigraph_cli("lint", folder / "bad.gq")
    assert result.returncode == 0
    assert "names and types were not checked" in result.stderr
    assert as_json(omnigraph_cli("lint", folder / "bad.gq", "--json"))["schema_checked"] is False


def test_lint_checks_a_schema_alone(folder: Path) -> None:
    assert omnigraph_cli("lint", "--schema", folder / "schema.pg").returncode == 0
    (folder / "schema.pg").write_text("node A { x: Strng }")
    result = omnigraph_cli("lint", "--schema", folder / "schema.pg")
    assert result.returncode == 1
    assert "did you mean `String`?" in result.stdout


def test_a_file_that_cannot_be_read_is_a_finding_among_others(folder: Path) -> None:
    (folder / "latin.gq").write_bytes(b"query caf\xe9")
    result = omnigraph_cli("lint", folder / "missing.gq", folder / "latin.gq", folder / "bad.gq", "--json",
                           "--schema", folder / "schema.pg")  # fmt: skip
    assert result.returncode == 1
    assert [finding["code"] for finding in as_json(result)["findings"]] == ["Q008", "Q008", "T003", "T005"]


def test_lint_of_nothing_is_wrong_usage() -> None:
    result = omnigraph_cli("lint")
    assert result.returncode == 2
    assert "name at least one file" in result.stderr


def test_help_lists_the_commands() -> None:
    result = omnigraph_cli("--help")
    assert result.returncode == 0
    for command in ("lint", "demo", "version"):
        assert command in result.stdout


def test_version_is_that_of_the_package() -> None:
    assert omnigraph_cli("version").stdout.strip() == omnigraph.__version__
    assert as_json(omnigraph_cli("version", "--json")) == {"version": omnigraph.__version__}


def test_the_demo_asks_changes_and_looks_back() -> None:
    result = omnigraph_cli("demo")
    assert result.returncode == 0
    for shown in ("Node types", "PublishedIn", "And at the commit before?", "load library.jsonl"):
        assert shown in result.stdout
    document = as_json(omnigraph_cli("demo", "--json"))
    assert document["loaded"]["total"] > 10_000
    assert all(answer["rows"] for answer in document["answers"].values())
    assert document["after"]["rows"] == [{"institution": "Oslo Polytechnic", "w.since": "2026-11-01"}]
    assert document["before"]["rows"] == document["answers"]["Where does she work?"]["rows"]
    assert [commit["message"] for commit in document["commits"]] == ["hire", "load library.jsonl", "init"]


def test_the_demo_writes_files_to_play_with_and_overwrites_none(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    assert omnigraph_cli("demo", folder).returncode == 0
    assert omnigraph_cli("lint", folder).returncode == 0
    again = omnigraph_cli("demo", folder)
    assert again.returncode == 2
    assert "is there already" in again.stderr


def test_lint_of_several_schemas_asks_which_one_the_queries_mean(folder: Path) -> None:
    (folder / "other.pg").write_text(SCHEMA)
    result = omnigraph_cli("lint", folder, "--json")
    assert result.returncode == 2
    assert as_json(result)["error"]["code"] == "usage"
    assert omnigraph_cli("lint", folder / "schema.pg", folder / "other.pg").returncode == 0


def test_lint_passes_by_hidden_folders(folder: Path) -> None:
    (folder / ".venv").mkdir()
    (folder / ".venv" / "other.pg").write_text("node {")
    (folder / "bad.gq").unlink()
    assert omnigraph_cli("lint", folder).returncode == 0


# --- graphs ---


@pytest.fixture
def graph(folder: Path) -> Path:
    uri = folder / "graph.omni"
    assert omnigraph_cli("init", uri, "--schema", folder / "schema.pg").returncode == 0
    return uri


def test_a_graph_is_made_loaded_changed_and_looked_at(folder: Path, graph: Path) -> None:
    data = folder / "data.jsonl"
    data.write_text('{"type":"Person","data":{"name":"Ada","age":36}}\n{"type":"Person","data":{"name":"Bob"}}\n')
    loaded = as_json(omnigraph_cli("load", "--data", data, "--as", "ada", "--json", graph))
    assert (loaded["nodes"], loaded["edges"], loaded["total"]) == ({"Person": 2}, {}, 2)
    changed = as_json(
        omnigraph_cli("mutate", "add", "--query", folder / "good.gq", "--param", "n=Cid", "--store", graph, "--json")
    )
    assert changed["affected"] == {"nodes": 1, "edges": 0}
    assert set(changed["commit"]) == {
        "graph_commit_id",
        "branch",
        "manifest_version",
        "parent_commit_id",
        "merged_parent_commit_id",
        "actor",
        "message",
        "created_at",
        "schema_id",
        "application",
        "batch",
        "details",
        "applied",
    }
    commits = as_json(omnigraph_cli("commit", "list", graph, "--json"))
    assert [commit["message"] for commit in commits] == ["add", "load data.jsonl", "init"]
    mine = as_json(omnigraph_cli("commit", "list", graph, "--filter", "actor=ada", "--json"))
    assert [commit["graph_commit_id"] for commit in mine] == [loaded["commit"]["graph_commit_id"]]
    assert as_json(omnigraph_cli("commit", "show", commits[0]["graph_commit_id"], graph, "--json")) == commits[0]
    tables = {each["table_key"]: each["rows"] for each in as_json(omnigraph_cli("snapshot", graph, "--json"))["tables"]}
    assert tables == {"node:Person": 3, "edge:WorksAt": 0}
    lines = omnigraph_cli("export", graph).stdout.splitlines()
    assert [json.loads(line)["data"]["name"] for line in lines] == ["Ada", "Bob", "Cid"]
    written = as_json(omnigraph_cli("export", graph, "--out", folder / "out.jsonl", "--json"))
    assert written["records"] == 3
    assert (folder / "out.jsonl").read_text().splitlines() == lines


def test_queries_are_checked_against_the_schema_of_a_graph(folder: Path, graph: Path) -> None:
    assert omnigraph_cli("lint", folder / "good.gq", "--store", graph).returncode == 0
    assert omnigraph_cli("lint", folder / "bad.gq", "--store", graph).returncode == 1
    assert omnigraph_cli("lint", folder / "bad.gq", "--store", graph, "--schema", folder / "schema.pg").returncode == 2


@pytest.mark.parametrize("format", ["table", "json", "jsonl", "csv", "kv"])
def test_a_query_prints_its_rows_in_every_format(graph: Path, format: str) -> None:
    omnigraph_cli("mutate", "-e", 'query q { insert Person { name: "Ada", age: 36 } }', "--store", graph)
    query = ["query", "-e", "query all { match { $p: Person } return { $p.name, $p.age } }", "--store", str(graph)]
    result = omnigraph_cli(*query, "--format", format)
    assert result.returncode == 0
    assert "p.name" in result.stdout
    assert "Ada" in result.stdout
    assert "scan" in omnigraph_cli(*query, "--explain").stdout
    assert as_json(omnigraph_cli(*query, "--snapshot", "1", "--json"))["rows"] == []
    assert omnigraph_cli(*query, "--format", "xml").returncode == 2
    assert omnigraph_cli(*query, "--engine", "local").returncode == 0
    assert omnigraph_cli(*query, "--engine", "steam").returncode == 2


def test_people_get_tables(folder: Path, graph: Path) -> None:
    (folder / "data.jsonl").write_text('{"type":"Person","data":{"name":"Ada"}}')
    result = omnigraph_cli("load", "--data", folder / "data.jsonl", graph)
    assert "Person" in result.stdout
    assert "commit 0" in result.stdout
    assert "load data.jsonl" in omnigraph_cli("commit", "list", graph).stdout
    assert "node:Person" in omnigraph_cli("snapshot", graph).stdout


def test_bad_data_is_told_with_its_line_and_exit_code(folder: Path, graph: Path) -> None:
    (folder / "data.jsonl").write_text('{"type":"Person","data":{"name":"Ada","age":"old"}}')
    result = omnigraph_cli("load", "--data", folder / "data.jsonl", graph)
    assert result.returncode == 1
    assert "error[validation_error]" in result.stderr
    assert "data.jsonl:1: Person.age: expected an I32, found the text `old`" in result.stderr
    document = as_json(omnigraph_cli("load", "--data", folder / "data.jsonl", graph, "--json"))
    assert document["error"]["details"]["violations"][0]["line"] == 1


def test_exit_codes_tell_usage_refusal_and_lost_precondition_apart(folder: Path, graph: Path) -> None:
    query: list[str | Path] = ["-e", 'query q { insert Person { name: "Ada" } }', "--store", graph]
    assert omnigraph_cli("mutate", *query, "--if-commit", "nonsense").returncode == 4
    assert omnigraph_cli("mutate", *query[:2]).returncode == 2
    assert omnigraph_cli("mutate", "--store", graph).returncode == 2
    assert omnigraph_cli("mutate", *query, "--params", "{").returncode == 2
    assert omnigraph_cli("mutate", "nope", *query).returncode == 1
    assert omnigraph_cli("load", "--data", folder / "good.gq", "--mode", "wild", graph).returncode == 2
    assert omnigraph_cli("init", graph, "--schema", folder / "schema.pg").returncode == 1
    assert omnigraph_cli("snapshot", folder).returncode == 1


def test_the_graph_may_be_named_in_the_environment(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_STORE", str(graph))
    assert omnigraph_cli("snapshot").returncode == 0
    assert omnigraph_cli("mutate", "-e", 'query q { insert Person { name: "Ada" } }').returncode == 0


# --- branches ---


def test_indexes_are_built_on_a_branch_and_shown_with_what_they_cover(forked: Path) -> None:
    def listed(*options: str) -> dict[str, tuple[str, int, int]]:
        indexes = as_json(omnigraph_cli("indexes", forked, "--list", "--json", *options))["indexes"]
        people = [each for each in indexes if each["table_key"] == "node:Person"]
        return {each["name"]: (each["state"], each["covered_rows"], each["rows"]) for each in people}

    assert listed()["name_btree"] == ("missing", 0, 1)
    built = as_json(omnigraph_cli("indexes", forked, "--branch", "review", "--as", "ada", "--json"))
    assert (built["commit"]["branch"], built["commit"]["actor"]) == ("review", "ada")
    assert built["built"] == {"node:Person": ["id_btree", "name_btree", "name_inverted"]}
    assert built["pending"]["edge:WorksAt"]["topology"] == "the table has no rows"
    assert listed("--branch", "review")["name_btree"] == ("complete", 3, 3)
    assert listed()["name_btree"] == ("missing", 0, 1)
    _mutate(forked, "review", "more", 'insert Person { name: "Dan" }')
    assert listed("--branch", "review")["name_btree"] == ("partial", 3, 4)
    shown = omnigraph_cli("indexes", forked).stdout
    assert "name_inverted" in shown
    assert shown.endswith("3 indexes built, 2 pending\n")
    assert omnigraph_cli("indexes", forked).stdout.endswith("every index that can be built is there, 2 pending\n")


def _mutate(graph: Path, branch: str, name: str, statements: str) -> None:
    query = f"query {name} {{ {statements} }}"
    assert omnigraph_cli("mutate", "-e", query, "--branch", branch, "--store", graph).returncode == 0


@pytest.fixture
def forked(graph: Path) -> Path:
    """A graph with a branch `review`, and a commit on both sides that the other lacks."""
    _mutate(graph, "main", "start", 'insert Person { name: "Ada", age: 1 } insert Person { name: "Bob", age: 1 }')
    assert omnigraph_cli("branch", "create", "review", graph).returncode == 0
    _mutate(graph, "review", "grow", 'update Person set { age: 2 } where name = "Ada" insert Person { name: "Cid" }')
    _mutate(graph, "main", "shrink", 'delete Person where name = "Bob"')
    return graph


def test_branches_are_created_listed_and_deleted(forked: Path) -> None:
    created = as_json(omnigraph_cli("branch", "create", "review/2", forked, "--from", "review", "--json"))
    assert (created["name"], created["ahead"], created["behind"]) == ("review/2", 1, 1)
    listed = as_json(omnigraph_cli("branch", "list", forked, "--json"))
    assert [branch["name"] for branch in listed] == ["main", "review", "review/2"]
    assert listed[1]["head"]["message"] == "grow"
    shown = omnigraph_cli("branch", "list", forked).stdout
    assert all(word in shown for word in ("review/2", "ahead", "behind", listed[1]["head"]["graph_commit_id"]))
    assert omnigraph_cli("branch", "create", "review", forked).returncode == 3
    refused = omnigraph_cli("branch", "delete", "review", forked, "--json")
    assert refused.returncode == 3
    assert as_json(refused)["error"]["details"] == {"name": "review", "descendants": ["review/2"], "tags": []}
    assert "deleted branch review/2" in omnigraph_cli("branch", "delete", "review/2", forked).stdout
    assert as_json(omnigraph_cli("branch", "delete", "review", forked, "--json")) == {"deleted": "review"}


def test_wrong_names_of_branches_are_wrong_usage_and_unknown_ones_are_guessed(forked: Path) -> None:
    assert omnigraph_cli("branch", "create", "a b", forked).returncode == 2
    assert omnigraph_cli("branch", "create", "__mine", forked).returncode == 2
    assert omnigraph_cli("branch", "delete", "main", forked).returncode == 2
    assert omnigraph_cli("branch", "merge", "main", forked).returncode == 2
    for command in (["snapshot"], ["export"], ["commit", "list"], ["commit", "list", "--graph"], ["changes"]):
        result = omnigraph_cli(*command, forked, "--branch", "reviw")
        assert result.returncode == 1
        assert "error[not_found]: no branch `reviw`: did you mean `review`?" in result.stderr
    for words in (["branch", "merge", "reviw"], ["branch", "delete", "reviw"], ["diff", "main", "reviw"]):
        assert "did you mean `review`?" in omnigraph_cli(*words, forked).stderr


def test_commands_work_on_the_branch_that_they_are_given(folder: Path, forked: Path) -> None:
    (folder / "more.jsonl").write_text('{"type":"Person","data":{"name":"Dan"}}')
    assert omnigraph_cli("load", "--data", folder / "more.jsonl", "--branch", "review", forked).returncode == 0
    query: list[str | Path] = ["query", "all", "--query", folder / "good.gq", "--store", forked, "--json"]
    head = as_json(omnigraph_cli("snapshot", forked, "--branch", "review", "--json"))["commit"]
    assert head["branch"] == "review"
    names = [row["p.name"] for row in as_json(omnigraph_cli(*query, "--branch", "review"))["rows"]]
    assert sorted(names) == ["Ada", "Bob", "Cid", "Dan"]
    assert len(as_json(omnigraph_cli(*query, "--snapshot", head["graph_commit_id"]))["rows"]) == 4
    assert len(as_json(omnigraph_cli(*query))["rows"]) == 1
    assert len(omnigraph_cli("export", forked, "--branch", "review").stdout.splitlines()) == 4


def test_a_load_creates_its_branch_where_it_is_told_to(folder: Path, graph: Path) -> None:
    (folder / "data.jsonl").write_text('{"type":"Person","data":{"name":"Ada"}}')
    load: list[str | Path] = ["load", "--data", folder / "data.jsonl", "--mode", "merge", graph, "--json"]
    assert omnigraph_cli(*load, "--branch", "import").returncode == 1
    for _ in range(2):
        assert as_json(omnigraph_cli(*load, "--branch", "import", "--from", "main"))["commit"]["branch"] == "import"
    assert omnigraph_cli(*load, "--from", "main").returncode == 2
    assert omnigraph_cli("export", graph).stdout == ""


def test_a_merge_shows_what_it_changed(forked: Path) -> None:
    tried = omnigraph_cli("branch", "merge", "review", forked, "--dry-run")
    assert tried.returncode == 0
    assert "nothing was written" in tried.stdout
    merged = omnigraph_cli("branch", "merge", "review", forked, "--as", "ada")
    assert merged.returncode == 0
    for word in ("Person", "inserted", "updated", "deleted", "merge of review into main"):
        assert word in merged.stdout
    again = omnigraph_cli("branch", "merge", "review", forked)
    assert (again.returncode, again.stdout) == (0, "main already has all commits of review; nothing was merged\n")
    back = as_json(omnigraph_cli("branch", "merge", "main", forked, "--into", "review", "--json"))
    assert back["kind"] == "FastForward"
    assert back["changes"] == {"Person": {"inserted": 0, "updated": 0, "deleted": 1}}
    newest = as_json(omnigraph_cli("commit", "list", forked, "--limit", "1", "--json"))[0]
    assert (newest["actor"], newest["message"]) == ("ada", "merge review")


def test_a_merge_can_delete_its_branch_and_says_when_it_stays(forked: Path) -> None:
    _mutate(forked, "review", "more", 'insert Person { name: "Dan" }')
    assert omnigraph_cli("branch", "create", "child", forked, "--from", "review").returncode == 0
    kept = omnigraph_cli("branch", "merge", "review", forked, "--delete-branch")
    assert kept.returncode == 0
    assert "branch review stays" in kept.stderr
    assert omnigraph_cli("branch", "delete", "review", forked).returncode == 3
    omnigraph_cli("branch", "delete", "child", forked)
    gone = omnigraph_cli("branch", "merge", "review", forked, "--delete-branch")
    assert "deleted branch review" in gone.stdout
    (grow,) = [each for each in as_json(omnigraph_cli("commit", "list", forked, "--json")) if each["message"] == "grow"]
    unreadable = omnigraph_cli("commit", "changes", grow["graph_commit_id"], forked)
    assert unreadable.returncode == 1
    assert "its branch `review` was deleted" in unreadable.stderr
    assert [each["name"] for each in as_json(omnigraph_cli("branch", "list", forked, "--json"))] == ["main"]


def test_conflicts_are_all_shown_and_refused_with_3(forked: Path) -> None:
    _mutate(
        forked, "main", "grow", 'update Person set { age: 3 } where name = "Ada" insert Person { name: "Cid", age: 9 }'
    )
    refused = omnigraph_cli("branch", "merge", "review", forked)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "error[merge_conflicts]: `review` cannot be merged into `main`: 2 conflicts" in refused.stderr
    for words in (["DivergentUpdate", "Ada", "age: 1", "age: 3", "age: 2"], ["DivergentInsert", "Cid", "—", "age: 9"]):
        assert any(all(word in line for word in words) for line in refused.stderr.splitlines())
    assert "hint: --strategy ours or theirs says who wins, --cells" in refused.stderr
    tried = omnigraph_cli("branch", "merge", "review", forked, "--dry-run", "--cells", "--json")
    assert tried.returncode == 3
    assert [(each["kind"], each["property"]) for each in as_json(tried)["conflicts"]] == [
        ("DivergentUpdate", "age"),
        ("DivergentInsert", None),
    ]
    document = as_json(omnigraph_cli("branch", "merge", "review", forked, "--json"))["error"]
    assert (document["code"], len(document["details"]["merge_conflicts"])) == ("merge_conflicts", 2)
    assert omnigraph_cli("branch", "merge", "review", forked, "--strategy", "mine").returncode == 2
    assert omnigraph_cli("branch", "merge", "review", forked, "--strategy", "theirs").returncode == 0
    assert as_json(omnigraph_cli("diff", "main", "review", forked, "--json"))[0]["id"] == "Bob"


def test_rules_that_a_merge_would_break_are_told_as_they_are(forked: Path) -> None:
    _mutate(forked, "review", "hire", 'insert WorksAt { from: "Ada", to: "Bob" }')
    refused = omnigraph_cli("branch", "merge", "review", forked)
    assert refused.returncode == 3
    assert any("OrphanEdge" in line and "dst" in line and "Bob" in line for line in refused.stderr.splitlines())
    assert "hint: OrphanEdge: change one side" in refused.stderr


def test_a_diff_is_shown_as_a_table_as_lines_and_as_a_document(forked: Path) -> None:
    shown = omnigraph_cli("diff", "main", "review", forked)
    assert shown.returncode == 0
    assert "age: 1 → 2" in shown.stdout
    assert "3 changes" in shown.stderr
    changes = as_json(omnigraph_cli("diff", "main", "review", forked, "--json"))
    assert [each["kind"] for each in changes] == ["insert", "insert", "update"]
    assert sorted(each["id"] for each in changes) == ["Ada", "Bob", "Cid"]
    lines = omnigraph_cli("diff", "main", "review", forked, "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == changes
    assert as_json(omnigraph_cli("diff", "1", "2", forked, "--type", "WorksAt", "--json")) == []
    assert as_json(omnigraph_cli("diff", "main", "main", forked, "--json")) == []
    commit = as_json(omnigraph_cli("commit", "list", forked, "--limit", "1", "--json"))[0]["graph_commit_id"]
    assert as_json(omnigraph_cli("diff", "2", commit, forked, "--json"))[0]["kind"] == "delete"
    assert omnigraph_cli("diff", "main", "review", forked, "--type", "Cat").returncode == 1
    assert omnigraph_cli("diff", "main", "review", forked, "--format", "xml").returncode == 2


def test_what_a_commit_changed_is_shown(forked: Path) -> None:
    shrink, _, init = as_json(omnigraph_cli("commit", "list", forked, "--json"))
    shown = omnigraph_cli("commit", "changes", shrink["graph_commit_id"], forked)
    assert "delete" in shown.stdout
    assert "1 change" in shown.stderr
    (change,) = as_json(omnigraph_cli("commit", "changes", shrink["graph_commit_id"], forked, "--json"))
    assert (change["kind"], change["id"], change["after"]) == ("delete", "Bob", None)
    assert as_json(omnigraph_cli("commit", "changes", init["graph_commit_id"], forked, "--json")) == []
    assert omnigraph_cli("commit", "changes", "nonsense", forked).returncode == 1


def test_the_changes_of_a_branch_can_be_followed(forked: Path) -> None:
    first = as_json(omnigraph_cli("changes", forked, "--limit", "2", "--json"))
    assert [block["commit"]["message"] for block in first["blocks"]] == ["init", "start"]
    assert first["cursor"] == first["blocks"][-1]["cursor"]
    lines = omnigraph_cli("changes", forked, "--from", first["cursor"], "--format", "jsonl").stdout.splitlines()
    (block,) = map(json.loads, lines)
    assert [(each["kind"], each["id"]) for each in block["changes"]] == [("delete", "Bob")]
    nothing = as_json(omnigraph_cli("changes", forked, "--from", block["cursor"], "--json"))
    assert nothing == {"blocks": [], "cursor": block["cursor"]}
    shown = omnigraph_cli("changes", forked, "--branch", "review").stdout.splitlines()
    assert any(line.endswith("  grow") for line in shown)
    assert "  update Person Ada  age: 1 → 2" in shown
    assert shown[-1].startswith("cursor ")
    assert omnigraph_cli("changes", forked, "--from", block["cursor"], "--branch", "review").returncode == 2
    assert omnigraph_cli("changes", forked, "--from", "nonsense").returncode == 2


def test_the_history_is_drawn(forked: Path) -> None:
    def drawing(*arguments: str) -> list[str]:
        lines = omnigraph_cli("commit", "list", forked, "--graph", *arguments).stdout.splitlines()
        return [" ".join(re.sub(r"[0-9A-Z]{26}|[-0-9]{10} [:0-9]{8}", "", line).split()) for line in lines]

    assert drawing() == [
        "* (main) shrink", "| * (review) grow", "|/", "* start", "* init"
    ]  # fmt: skip
    omnigraph_cli("branch", "merge", "review", forked)
    assert drawing() == [
        "* (main) merge review", "|\\", "| * (review) grow", "* | shrink", "|/", "* start", "* init"
    ]  # fmt: skip
    assert drawing("--branch", "review") == [
        "* (review) grow", "* start", "* init"
    ]  # fmt: skip
    assert len(drawing("--limit", "1")) == 2
    commits = as_json(omnigraph_cli("commit", "list", forked, "--graph", "--json"))
    assert [commit["message"] for commit in commits] == ["merge review", "grow", "shrink", "start", "init"]
    assert omnigraph_cli("commit", "list", forked, "--graph", "--filter", "actor=ada").returncode == 2
