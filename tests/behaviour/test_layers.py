"""The floors of the house: who may import whom, and what starts without what."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph

PACKAGE = Path(omnigraph.__file__).parent
# From the ground up; a module may import from its own floor and those below it.
FLOORS = (
    {"codes", "compute_later", "dataclass_later", "lazy", "strict_json"},
    {"diagnostics"},
    {"violations"},
    {"errors"},
    {"api"},
    {"syntax"},
    {"catalog"},
    {"operations"},
    {"compiler"},
    {"queries"},
    {"yaml_reader"},
    {"policy"},
    {"extras", "failpoints", "first_imports", "source_files"},
    {"embedding", "lineage"},
    {"storage"},
    {"parts"},
    {"versioning"},
    {"write"},
    {"recovery"},
    {"resident"},
    {"query"},
    {"mutating"},
    {"loading"},
    {"exporting"},
    {"changes"},
    {"branching"},
    {"merging"},
    {"analytics"},
    {"maintenance"},
    {"evolution"},
    {"spark"},
    {"session"},
    {"verbs"},
    {"graph"},
    {"datasource"},
    {"pipelines"},
    {"remote", "server"},
    {"mcp"},
    {"samples", "__init__"},
    {"cli", "__main__"},
)
UNUSED_BY_LOOKUPS = (
    *("sqlglot", "lark", "regex", "pydantic", "obstore", "asyncio"),
    *("pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet", "numpy.ma"),
    *(
        "omnigraph.analytics",
        "omnigraph.embedding",
        "omnigraph.evolution",
        "omnigraph.exporting",
        "omnigraph.loading",
        "omnigraph.maintenance",
    ),
    *("omnigraph.merging", "omnigraph.spark"),
    *("omnigraph.api.upkeep", "omnigraph.query.local", "omnigraph.query.plan", "omnigraph.query.relational"),
)
HEAVY = ("pyspark", "lance", "fastapi", "duckdb", "pandas", "httpx", "cedarpy", "yaml", "scipy")


def floor_of(module: str) -> int:
    """The floor of a dotted name below `omnigraph`."""
    parts = module.split(".")
    name = parts[1] if len(parts) > 1 else "__init__"
    return next(level for level, names in enumerate(FLOORS) if name in names)


def modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found.append((".".join(part for part in parts if part != "__init__"), path))
    return found


@cache
def parsed_modules() -> dict[str, ast.Module]:
    """Every module of the package by its dotted name; parsing them all takes seconds, so it is done once."""
    return {name: ast.parse(path.read_text("utf-8")) for name, path in modules()}


def imports_of(tree: ast.Module) -> Iterator[str]:
    """What a module imports when it runs, also within functions."""
    only_types = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for statement in block.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in only_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_imports_point_down() -> None:
    upward = [
        (module, name)
        for module, tree in parsed_modules().items()
        for name in imports_of(tree)
        if name.split(".")[0] == "omnigraph" and floor_of(name) > floor_of(module)
    ]
    assert upward == []


def test_the_documentation_lists_the_floors_from_the_top() -> None:
    page = (Path(__file__).parents[2] / "docs/architecture.md").read_text("utf-8")
    listing = page.split("## Floors")[1].split("```")[1].splitlines()[1:]
    names = [line.split()[0].removesuffix("/").removesuffix(".py") for line in listing]
    assert sorted(names) == sorted(set.union(*FLOORS) - {"__init__", "__main__"})
    levels = [floor_of(f"omnigraph.{name}") for name in names]
    assert levels == sorted(levels, reverse=True)


def test_heavy_packages_stay_on_their_floor() -> None:
    homes = {
        "cedarpy": ("omnigraph.policy",),
        "fastapi": ("omnigraph.server",),
        "httpx": ("omnigraph.remote", "omnigraph.embedding"),
        "lance": ("omnigraph.storage",),
        "mcp": ("omnigraph.mcp",),
        "openlineage": ("omnigraph.lineage",),
        "prometheus_client": ("omnigraph.server",),
        "pyspark": ("omnigraph.spark", "omnigraph.datasource", "omnigraph.pipelines.spark_rows"),
        "scipy": ("omnigraph.analytics",),
        "starlette": ("omnigraph.server",),
        "typer": ("omnigraph.cli",),
        "uvicorn": ("omnigraph.server",),
        "yaml": ("omnigraph.yaml_reader",),
    }
    strays = [
        (module, name)
        for module, tree in parsed_modules().items()
        for name in imports_of(tree)
        if not module.startswith(homes.get(name.split(".")[0], ("omnigraph",)))
    ]
    assert strays == []


def test_the_languages_do_no_io() -> None:
    for module, tree in parsed_modules().items():
        if floor_of(module) <= floor_of("omnigraph.compiler"):
            names = {name.split(".")[0] for name in imports_of(tree)}
            allowed = {"pathlib"} if module.startswith("omnigraph.api") else set()  # a path is a type there
            assert not (names - allowed) & {"os", "pathlib", "io", "shutil", "socket", "subprocess", "tempfile"}, module


def test_only_commands_and_the_server_write_to_the_console() -> None:
    """Everything else logs, so that a program that uses the library decides what is shown."""
    for module, tree in parsed_modules().items():
        if not module.startswith(("omnigraph.cli", "omnigraph.server")):
            names = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)}
            assert not names & {"print", "sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}, module


def loaded_by(code: str, *, depth: int = 1) -> set[str]:
    """The modules that a fresh interpreter has loaded after running `code`: the first parts of their names."""
    names = f"{{'.'.join(name.split('.')[:{depth}]) for name in sys.modules}}"
    script = f"import sys\n{code}\nprint(*{names}, file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return set(result.stderr.split())


def test_importing_omnigraph_loads_nothing_heavy() -> None:
    loaded = loaded_by("import omnigraph")
    assert not loaded & {*HEAVY, "pyarrow", "lark", "typer", "rich"}


def test_importing_the_client_loads_neither_a_graph_nor_an_http_library() -> None:
    loaded = loaded_by("import omnigraph.remote")
    assert not loaded & {*HEAVY, "lark", "pyarrow", "pydantic", "rich", "typer"}


def test_connecting_loads_http_without_its_command_line() -> None:
    loaded = loaded_by("import omnigraph; omnigraph.connect('http://127.0.0.1:1', 'people').close()")
    assert "httpx" in loaded
    assert not loaded & ({*HEAVY, "click", "lark", "pyarrow", "pydantic", "rich", "typer"} - {"httpx"})


def test_dataclasses_are_declared_quickly() -> None:
    """`dataclasses.dataclass` compiles all methods of a class when the class is declared."""
    strays = [
        module
        for module, tree in parsed_modules().items()
        if "dataclasses.dataclass" in imports_of(tree) and module != "omnigraph.dataclass_later"
    ]
    assert strays == []


def test_functions_of_arrow_are_imported_when_they_are_used() -> None:
    homes = {"omnigraph.compute_later", "omnigraph.storage.arrow_later"}
    strays = [
        (module, name)
        for module, tree in parsed_modules().items()
        for name in imports_of(tree)
        if name.startswith(("pyarrow.compute", "pyarrow.dataset")) and module not in homes
    ]
    assert strays == []


LOOKUP = "query q($x: String) { match { $a: A { x: $x } } return { $a.x, $a.n } }"


def graph_of_one(path: Path, how: str) -> str:
    """A graph with one node, which a mutation or a load wrote."""
    with omnigraph.init(path, "node A { x: String @key, n: I32 }") as graph:
        if how == "mutated":
            graph.mutate('query add { insert A { x: "one", n: 1 } }')
        else:
            graph.load({"A": pa.table({"x": ["one"], "n": pa.array([1], pa.int32())})}, engine="local")
    return str(path)


@pytest.mark.parametrize("mode", ["r", "rw"])
@pytest.mark.parametrize("how", ["mutated", "loaded"])
def test_a_lookup_by_key_loads_nothing_of_other_verbs(tmp_path: Path, mode: str, how: str) -> None:
    uri = graph_of_one(tmp_path / "g.omni", how)
    loaded = loaded_by(
        f"import omnigraph as og\n"
        f"rows = og.open({uri!r}, {mode!r}).query({LOOKUP!r}, params={{'x': 'one'}}).rows()\n"
        f"assert rows == [{{'a.x': 'one', 'a.n': 1}}], rows",
        depth=3,
    )
    assert "lance" in loaded
    assert not loaded & ({*HEAVY, *UNUSED_BY_LOOKUPS, "typer", "rich"} - {"lance"})


def run_cli(*arguments: str) -> str:
    return (
        f"sys.argv = ['omnigraph', *{arguments!r}]\n"
        "from omnigraph.cli.main import run\n"
        "try:\n    run()\nexcept SystemExit:\n    pass"
    )


@pytest.mark.parametrize("how", ["mutated", "loaded"])
@pytest.mark.parametrize("format", ["table", "json", "jsonl", "csv"])
def test_a_query_on_the_command_line_loads_nothing_of_other_verbs(tmp_path: Path, how: str, format: str) -> None:
    uri = graph_of_one(tmp_path / "g.omni", how)
    loaded = loaded_by(run_cli("query", uri, "-e", LOOKUP, "--param", "x=one", "--format", format), depth=3)
    assert {"lance", "typer"} <= loaded
    assert not loaded & ({*HEAVY, *UNUSED_BY_LOOKUPS, "rich"} - {"lance"})


def test_help_loads_nothing_but_typer() -> None:
    loaded = loaded_by(run_cli("--help"))
    assert "typer" in loaded
    assert not loaded & {*HEAVY, "pyarrow", "lark", "rich"}


def test_lint_loads_neither_spark_nor_lance(tmp_path: Path) -> None:
    (tmp_path / "a.pg").write_text("node A { x: String @key }")
    (tmp_path / "a.gq").write_text("query q { match { $a: A } return { $a.x } }")
    loaded = loaded_by(run_cli("lint", str(tmp_path / "a.gq"), "--schema", str(tmp_path / "a.pg")))
    assert "omnigraph" in loaded
    assert not loaded & {*HEAVY, "lark", "regex"}
