"""Every spelling in the tables for people who know Cypher or SQL runs, and finds the same in memory and over tables."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

import omnigraph as og
from omnigraph.resident.cache import ResidentCache

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cypher.md"
RECORDS = [
    {
        "type": "Person",
        "data": {"name": "Ada", "age": 36, "city": "oslo", "tags": ["math"], "joined": 1_700_000_000_000},
    },
    {"type": "Person", "data": {"name": "Bob", "age": 20, "city": "quito", "tags": []}},
    {"type": "Person", "data": {"name": "Cyd"}},
    {"type": "Company", "data": {"name": "Zig"}},
    {"type": "Company", "data": {"name": "Acme"}},
    {"edge": "Knows", "from": "Ada", "to": "Bob", "data": {"since": "2020-01-01"}},
    {"edge": "Knows", "from": "Bob", "to": "Cyd", "data": {}},
    {"edge": "Knows", "from": "Ada", "to": "Cyd", "data": {}},
    {"edge": "WorksAt", "from": "Ada", "to": "Zig", "data": {}},
    {"edge": "LeadsTo", "from": "Zig", "to": "Acme", "data": {"meters": 2.5}},
]
_FORMS = {
    "Patterns": "match {{ {} }} return {{ 1 as one }}",
    "Conditions": "match {{ $p: Person  {} }} return {{ $p.name }}",
    "Values": "match {{ $p: Person }} return {{ {} }}",
}
"""How a spelling of a section becomes a query; those of other sections are queries themselves."""


def rows_of_tables() -> Iterator[tuple[str, str, str]]:
    """The rows of all tables: the section, what others write, and what is said about it."""
    section = ""
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            section = line[3:]
        cells = re.split(r"(?<!\\)\|", line)
        if line.startswith("| ") and cells[1].strip() not in ("openCypher", "SQL"):
            yield section, cells[1].strip(), cells[2].strip().replace("\\|", "|")


def spellings() -> Iterator[tuple[str, str]]:
    """The queries of all spellings, each with its section."""
    for section, _, answer in rows_of_tables():
        for span in re.findall(r"`([^`]+)`", answer):
            if span.startswith("match {"):
                yield section, span
            elif section in _FORMS and re.search(r"[$(\[]", span) and "…" not in span:
                yield section, _FORMS[section].format(span)


QUERIES = [*spellings()]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    schema = PAGE.read_text("utf-8").split("```pg schema\n")[1].split("```")[0]
    made = og.init(tmp_path_factory.mktemp("graph") / "g.omni", schema)
    file = tmp_path_factory.mktemp("records") / "all.jsonl"
    file.write_text("\n".join(map(json.dumps, RECORDS)))
    made.load(file)
    return made


@pytest.mark.parametrize(("section", "query"), QUERIES, ids=[query for _, query in QUERIES])
def test_every_spelling_runs(graph: og.Graph, section: str, query: str) -> None:
    found = graph.query(query).rows()
    with mock.patch.object(ResidentCache, "view", return_value=None):
        over_tables = graph.query(query).rows()
    if "now()" not in query:
        assert found == over_tables
    assert section != "Values" or found


def test_every_form_has_a_spelling_or_a_reason() -> None:
    rows = [*rows_of_tables()]
    assert len(rows) > 120
    for _, other, answer in rows:
        assert "`" in answer or "absent" in answer or "as there" in answer or "the same" in answer, other
        # A reason follows the word.
        assert "absent" not in answer or re.search(r"absent[^:,;.]*[:,] \w", answer), other


def test_each_table_has_queries() -> None:
    sections = [section for section, _ in QUERIES]
    least = {"Clauses": 16, "Patterns": 20, "Conditions": 15, "Values": 55, "SQL": 20}
    assert {name: sections.count(name) >= count for name, count in least.items()} == dict.fromkeys(least, True)
