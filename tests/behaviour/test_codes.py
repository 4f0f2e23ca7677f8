"""Every code is documented in `docs/reference/codes.md`, and what is shown there is what happens."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from omnigraph.catalog import Catalog, check_schema, compile_schema
from omnigraph.codes import Code
from omnigraph.compiler import check_queries
from omnigraph.diagnostics import Diagnostic, Source
from omnigraph.embedding import EmbeddingSettings, model_findings, with_models
from omnigraph.evolution.migration import migration_plan
from omnigraph.pipelines.checking import check_pipeline
from omnigraph.pipelines.duck_rows import DuckRows
from omnigraph.pipelines.inputs import find_input
from omnigraph.pipelines.reading import read_definition
from omnigraph.policy.checking import MAX_BYTES, MAX_PATTERNS, check_rules
from omnigraph.syntax import MAX_NESTING, MAX_SOURCE_BYTES, QUERY, SCHEMA, Language, decode_source

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "codes.md"
SECTIONS = {
    "Schema": "S",
    "Schema changes": "OG-M",
    "Query syntax": "Q",
    "Typecheck": "T",
    "Policy": "P",
    "Pipelines": "D",
    "Lint advice": "L",
}
SUFFIXES = {"S": "pg", "O": "pg", "Q": "gq", "T": "gq", "P": "yaml", "D": "yaml"}

_HEADING = re.compile(r"^(?P<level>###?) (?P<title>.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """A fenced block: its language and its text."""

    info: str
    text: str


class Entry(NamedTuple):
    """What the page says of one code."""

    section: str
    code: str
    meaning: str
    prose: str
    examples: tuple[Example, ...]


def _examples(text: str) -> tuple[Example, ...]:
    return tuple(Example(block["info"], block["text"]) for block in _BLOCK.finditer(text))


def _entries(page: str) -> list[Entry]:
    headings = list(_HEADING.finditer(page))
    ends = [heading.start() for heading in headings[1:]] + [len(page)]
    entries = []
    section = ""
    for heading, end in zip(headings, ends, strict=True):
        if heading["level"] == "##":
            section = heading["title"]
            continue
        code, _, meaning = heading["title"].partition(" — ")
        body = page[heading.end() : end]
        entries.append(Entry(section, code, meaning, _BLOCK.sub("", body).strip(), _examples(body)))
    return entries


TEXT = PAGE.read_text("utf-8")
ENTRIES = _entries(TEXT)
EXAMPLES = {entry.code: entry.examples[0] for entry in ENTRIES if entry.examples}


@pytest.fixture(scope="module")
def common_schema() -> str:
    """The schema that the page checks its queries against."""
    [schema] = [block.text for block in _examples(TEXT) if block.info == "pg schema"]
    return schema


@pytest.fixture(scope="module")
def catalog(common_schema: str) -> Catalog:
    return compile_schema(common_schema)


# --- what a page cannot show ---


def _schema_findings(text: str, previous: str | None = None) -> tuple[Diagnostic, ...]:
    before = compile_schema(previous) if previous is not None else None
    return check_schema(Source("example.pg", text), previous=before).diagnostics


def _model_findings(text: str) -> tuple[Diagnostic, ...]:
    unfilled = with_models(compile_schema(text), EmbeddingSettings()).unfilled
    return tuple(model_findings(Source("example.pg", text), unfilled, Code.UNFILLED_VECTOR))


def _query_findings(text: str) -> tuple[Diagnostic, ...]:
    return check_queries(Source("example.gq", text), compile_schema("node Person { name: String }")).diagnostics


def _policy_findings(text: str) -> tuple[Diagnostic, ...]:
    return check_rules(Source("example.yaml", text)).diagnostics


@pytest.fixture(scope="module", autouse=True)
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The file that the pipelines of the page read."""
    folder = tmp_path_factory.mktemp("people")
    (folder / "people.csv").write_text("name\nAda\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield


def _pipeline_findings(text: str) -> tuple[Diagnostic, ...]:
    found = read_definition(Source("example.yaml", text), Path())
    if found.definition is None:
        return found.diagnostics
    catalog = compile_schema("node Person { name: String @key }")
    rows = DuckRows()
    try:
        return check_pipeline(found.definition, catalog, rows, find_input(found.definition, {})).diagnostics
    finally:
        rows.close()


def _undecodable(data: bytes, language: Language) -> tuple[Diagnostic, ...]:
    _, problem = decode_source(f"example.{'pg' if language is SCHEMA else 'gq'}", data, language)
    return (problem,) if problem is not None else ()


def _within(opening: str, inside: str, closing: str) -> str:
    return opening * (MAX_NESTING + 1) + inside + closing * (MAX_NESTING + 1)


def _query_of(clause: str) -> str:
    return f"query people {{\n    match {{ $p: Person {clause} }}\n    return {{ $p.name }}\n}}\n"


_BEFORE = "node Author { name: String @key, email: String? }"

UNSHOWN: dict[Code, tuple[Callable[[], tuple[Diagnostic, ...]], ...]] = {
    Code.SCHEMA_NESTING: (lambda: _schema_findings(f"node Person {{ tags: {_within('[', 'String', ']')} }}"),),
    Code.SCHEMA_TOO_LARGE: (
        lambda: _schema_findings("// all of it\n" + "node Person { name: String }\n" * (MAX_SOURCE_BYTES // 16)),
        lambda: _schema_findings("//" + "é" * (MAX_SOURCE_BYTES // 2)),
    ),
    Code.SCHEMA_UNREADABLE: (
        lambda: _schema_findings("node Person {\n    name: String\0\n}"),
        lambda: _schema_findings('node Person @description("half \ud83d") { name: String }'),
        lambda: _undecodable(b"node Person {\n    // caf\xe9\n}", SCHEMA),
    ),
    Code.INVALID_RENAME: (
        lambda: _schema_findings('node Person @rename_from("Writer") { name: String @key }', _BEFORE),
        lambda: _schema_findings('node Author {} node Person @rename_from("Author") {}', _BEFORE),
        lambda: _schema_findings('node A @rename_from("Author") {} node B @rename_from("Author") {}', _BEFORE),
        lambda: _schema_findings('node Author { name: String @key, mail: String? @rename_from("e_mail") }', _BEFORE),
    ),
    Code.RENAME_DONE: (
        lambda: _schema_findings('node Author @rename_from("Writer") { name: String @key }', _BEFORE),
        lambda: _schema_findings('node Author { name: String @key @rename_from("title") }', _BEFORE),
    ),
    Code.UNFILLED_VECTOR: (
        lambda: _model_findings('node Paper { title: String, meaning: Vector(3072) @embed("title") }'),
        lambda: _model_findings('node Paper { title: String, meaning: Vector(64)? @embed("title", model="small") }'),
    ),
    Code.QUERY_NESTING: (
        lambda: _query_findings(_query_of(_within("not { ", "$p.name = 1", " }"))),
        lambda: _query_findings(_query_of(f"$p.name = {_within('[', '1', ']')}")),
    ),
    Code.QUERY_TOO_LARGE: (lambda: _query_findings(_query_of("") * (MAX_SOURCE_BYTES // 64)),),
    Code.QUERY_UNREADABLE: (
        lambda: _query_findings(_query_of('$p.name = "\0"')),
        lambda: _query_findings(_query_of('$p.name = "\udc00"')),
        lambda: _undecodable(_query_of('$p.name = "Zoë"').encode("latin-1"), QUERY),
    ),
    Code.POLICY_TOO_LARGE: (lambda: _policy_findings("rules: []\n" + "# and so on\n" * (MAX_BYTES // 12)),),
    Code.POLICY_UNREADABLE: (
        lambda: _policy_findings("rules: []  # \0"),
        lambda: _policy_findings('rules: [{id: "\\udc00", actors: any, actions: any}]'),
    ),
    Code.PIPELINE_TOO_LARGE: (lambda: _pipeline_findings("pipeline: p\n" + "# and so on\n" * (1 << 17)),),
    Code.PIPELINE_UNREADABLE: (lambda: _pipeline_findings("pipeline: shop  # \0"),),
    Code.POLICY_TOO_MANY: (
        lambda: _policy_findings(f"protected: {[f'{at}*' for at in range(MAX_PATTERNS + 1)]}\nrules: []"),
    ),
}


def _codes(findings: tuple[Diagnostic, ...]) -> set[Code]:
    return {finding.code for finding in findings}


def _assert_reads_well(finding: Diagnostic) -> None:
    """A finding shows the place and marks it, and says nothing of how it was found."""
    assert finding.is_error is not finding.code.startswith("L")
    rendered = finding.render()
    head, place, _, line, caret, *rest = rendered.splitlines()
    assert head == f"{finding.severity}[{finding.code}]: {finding.message}"
    assert place.strip() == f"--> {finding.file}:{finding.line}:{finding.column}"
    assert line.startswith(f"{finding.line} |")
    assert re.fullmatch(r" *\| *\^+", caret)
    assert len(rest) == (1 if finding.hint else 0)
    for leak in ("lark", "traceback", "token("):
        assert leak not in rendered.lower()


# --- the page ---


def test_the_page_explains_every_code_once_in_order_and_no_other() -> None:
    assert [entry.code for entry in ENTRIES] == [code.value for code in Code]


def test_the_page_gives_every_code_the_meaning_it_has() -> None:
    assert {entry.code: entry.meaning for entry in ENTRIES} == {code.value: code.meaning for code in Code}


def test_every_code_stands_in_the_section_of_its_letter() -> None:
    assert list(dict.fromkeys(entry.section for entry in ENTRIES)) == list(SECTIONS)
    assert [entry.code for entry in ENTRIES if not entry.code.startswith(SECTIONS[entry.section])] == []


def test_every_code_is_explained_and_has_at_most_one_example() -> None:
    assert [entry.code for entry in ENTRIES if not entry.prose] == []
    assert [entry.code for entry in ENTRIES if len(entry.examples) > 1] == []


def test_every_code_is_provoked_by_its_example_or_by_a_source_built_here() -> None:
    assert EXAMPLES.keys() | set(UNSHOWN) == set(Code)
    assert EXAMPLES.keys() & set(UNSHOWN) == set()


def test_the_common_schema_of_the_page_has_no_findings(common_schema: str) -> None:
    assert check_schema(Source("common.pg", common_schema)).diagnostics == ()


# --- what provokes a code ---


@pytest.mark.parametrize("code", EXAMPLES)
def test_the_example_of_a_code_provokes_that_code_and_no_other(code: str, catalog: Catalog) -> None:
    info, text = EXAMPLES[code]
    assert info == SUFFIXES.get(code[0], info)
    source = Source(f"example.{info}", text)
    if code.startswith("OG-M"):
        findings = migration_plan(catalog, source).refused
    elif info == "yaml":
        findings = (_pipeline_findings if code.startswith("D") else _policy_findings)(text)
    else:
        findings = (check_schema(source) if info == "pg" else check_queries(source, catalog)).diagnostics
    assert _codes(findings) == {code}
    for finding in findings:
        assert finding.file == source.name
        _assert_reads_well(finding)


@pytest.mark.parametrize(
    ("code", "findings_of"),
    [pytest.param(code, each, id=f"{code}-{at}") for code in UNSHOWN for at, each in enumerate(UNSHOWN[code])],
)
def test_a_code_that_no_example_can_show_is_provoked_alone(
    code: Code, findings_of: Callable[[], tuple[Diagnostic, ...]]
) -> None:
    findings = findings_of()
    assert _codes(findings) == {code}
    for finding in findings:
        about_schema = code in (Code.RENAME_DONE, Code.UNFILLED_VECTOR)
        assert finding.file == f"example.{'pg' if about_schema else SUFFIXES[code[0]]}"
        _assert_reads_well(finding)
