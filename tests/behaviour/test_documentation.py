"""What the documentation shows works, and what it points at is there."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tools.docs_tables import outdated_pages
from typer.main import get_command

from omnigraph.catalog import Catalog, compile_schema
from omnigraph.cli.main import app
from omnigraph.compiler import compile_queries

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CODES = DOCS / "reference" / "codes.md"  # its examples are mistakes, and have a test of their own
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")), *sorted(DOCS.rglob("*.md"))]
PAGES_WITH_EXAMPLES = [page for page in PAGES if page != CODES]

PAGES_ON_SPARK = [DOCS / "guide" / "streams.md"]

_FENCE = re.compile(r" *(`{3,})([^`]*)")
_CODE_SPAN = re.compile(r"(`+)[^`].*?\1", re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its info string, its text, and the line of the page on which the text starts."""

    page: Path
    line: int
    info: str
    text: str

    @property
    def name(self) -> str:
        return f"{_shown(self.page)}:{self.line}"


def _shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page in order."""
    return [block for block, _ in _parts(page) if block is not None]


def _prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return "\n".join(line for block, line in _parts(page) if block is None)


def _parts(page: Path) -> Iterator[tuple[Block | None, str]]:
    """A page as a run of blocks and lines of prose."""
    lines = enumerate(page.read_text("utf-8").splitlines(), start=1)
    for number, line in lines:
        opening = _FENCE.fullmatch(line)
        if opening is None:
            yield None, line
            continue
        inside: list[str] = []
        for _, each in lines:
            if each.strip() == opening[1]:
                break
            inside.append(each)
        else:
            pytest.fail(f"{_shown(page)}:{number}: this block never ends")
        yield Block(page, number + 1, opening[2].strip(), "\n".join(inside) + "\n"), ""


def _all_blocks(*infos: str) -> list[Any]:
    """The blocks with one of these info strings, as parameters of a test."""
    blocks = (block for page in PAGES_WITH_EXAMPLES for block in _blocks(page))
    return [pytest.param(block, id=block.name) for block in blocks if block.info in infos]


def _pages(pages: list[Path]) -> list[Any]:
    return [pytest.param(page, id=_shown(page)) for page in pages]


def _schema_of(page: Path) -> Catalog:
    """The catalog that the queries of a page are about."""
    schemas = [block for block in _blocks(page) if block.info == "pg schema"]
    assert len(schemas) == 1, f"{_shown(page)} has queries, so it needs one block `pg schema`"
    return compile_schema(schemas[0].text, name=schemas[0].name)


@pytest.mark.parametrize("page", _pages(PAGES_WITH_EXAMPLES))
def test_every_example_is_of_a_kind_that_is_tried_here(page: Path) -> None:
    known = {"python", "pg", "pg schema", "gq", "json", "sh", "sh run", "text"}
    assert [f"{block.name}: {block.info}" for block in _blocks(page) if block.info not in known] == []


@pytest.mark.parametrize("page", _pages([page for page in PAGES_WITH_EXAMPLES if page not in PAGES_ON_SPARK]))
def test_the_examples_of_a_page_run_one_after_the_other(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They share a folder of the page's own; those in Python also share their names."""
    _run_examples(page, tmp_path, monkeypatch)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("page", _pages(PAGES_ON_SPARK))
def test_the_examples_of_a_page_run_in_the_session_of_spark(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run_examples(page, tmp_path, monkeypatch)


def _run_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMNIGRAPH_STORE", raising=False)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    namespace: dict[str, Any] = {"__name__": "example"}
    try:
        for block in _blocks(page):
            if block.info == "python":
                padded = "\n" * (block.line - 1) + block.text  # so that a traceback names the line of the page
                exec(compile(padded, str(page), "exec"), namespace)  # noqa: S102 - our own examples
            elif block.info == "sh run":
                ended = subprocess.run(["/bin/sh", "-e", "-c", block.text], check=False, capture_output=True, text=True)
                assert ended.returncode == 0, f"{block.name}:\n{ended.stdout}{ended.stderr}"
    finally:
        for started in (each for each in namespace.values() if isinstance(each, subprocess.Popen)):
            started.kill()  # an example that failed did not come to the end of its server
            started.communicate()


@pytest.mark.parametrize("block", _all_blocks("pg", "pg schema"))
def test_schema_examples_compile(block: Block) -> None:
    compile_schema(block.text, name=block.name)


@pytest.mark.parametrize("block", _all_blocks("gq"))
def test_query_examples_compile_against_the_schema_of_their_page(block: Block) -> None:
    assert compile_queries(block.text, _schema_of(block.page), name=block.name)


@pytest.mark.parametrize("block", _all_blocks("json"))
def test_json_examples_are_json(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize("block", _all_blocks("sh", "sh run"))
def test_shell_examples_name_commands_that_exist(block: Block) -> None:
    targets = re.findall(r"(?m)^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"))
    commands = {"make": set(targets), "omnigraph": set(getattr(get_command(app), "commands", ()))}
    for line in block.text.splitlines():
        program, _, rest = line.partition(" ")
        if program in commands:
            assert rest.split()[0] in commands[program], f"{block.name}: {line}"


@pytest.mark.parametrize("page", _pages(PAGES))
def test_every_relative_link_leads_to_a_file_and_to_a_heading_of_it(page: Path) -> None:
    assert [target for target in _relative_links(page) if not _leads_somewhere(page, target)] == []


def test_tables_that_repeat_code_are_up_to_date() -> None:
    assert outdated_pages() == [], "run python -m tools.docs_tables"


def test_every_page_can_be_reached_from_the_index() -> None:
    index = DOCS / "index.md"
    linked = {(index.parent / target.partition("#")[0]).resolve() for target in _relative_links(index)}
    assert [_shown(page) for page in DOCS.rglob("*.md") if page != index and page.resolve() not in linked] == []


def _relative_links(page: Path) -> list[str]:
    targets = _LINK.findall(_CODE_SPAN.sub(_blanked, _prose(page)))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def _blanked(code: re.Match[str]) -> str:
    """Something to stand for a code span, which may look like a link but is none."""
    return "x" * len(code[0])


def _leads_somewhere(page: Path, target: str) -> bool:
    path, _, heading = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    return file.is_file() and (not heading or heading in _anchors(file))


def _anchors(page: Path) -> set[str]:
    """The headings of a page as links write them."""
    headings = re.findall(r"(?m)^#+ +(.+)$", _prose(page))
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}
