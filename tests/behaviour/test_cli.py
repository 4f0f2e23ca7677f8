"""The command line, as people and scripts use it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import omnigraph

SCHEMA = "node Person { name: String @key, age: I32? }\nedge WorksAt: Person -> Person\n"
GOOD = "query all { match { $p: Person } return { $p.name } }\nquery add($n: String) { insert Person { name: $n } }\n"
BAD = "query one { match { $p: Persn } return { $p.name } }\nquery two { match { $p worksat_ $q } return { $q.nme } }\n"


def omnigraph_cli(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "omnigraph", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


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


def test_the_demo_shows_the_catalog_of_the_sample() -> None:
    result = omnigraph_cli("demo")
    assert result.returncode == 0
    assert "Node types" in result.stdout
    assert "PublishedIn" in result.stdout
    assert set(as_json(omnigraph_cli("demo", "--json"))) == {"catalog", "queries"}


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
