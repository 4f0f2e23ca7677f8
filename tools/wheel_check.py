"""Builds the wheel, installs it without extras and with each extra in new environments, and tries what each adds.

`make wheel-check` runs `python -m tools.wheel_check [EXTRA ...]`. It needs the package registry and some gigabytes of
disk. It prints the size of each environment, and ends with 1 if a trial fails. An empty `EXTRA` is the base.
"""

import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
BASE = """
from pathlib import Path
import omnigraph as og

graph = og.init("people.omni", "node Person { name: String @key, age: I32? }  edge Knows: Person -> Person")
Path("people.jsonl").write_text('{"type": "Person", "data": {"name": "Ada", "age": 36}}')
names = "query names { match { $p: Person } return { $p.name } order { $p.name } }"
assert graph.load("people.jsonl").total == 1
graph.branches.create("review")
graph.mutate('query add { insert Person { name: "Bob" } }', branch="review")
assert [row["p.name"] for row in graph.query(names)] == ["Ada"]
assert [row["p.name"] for row in graph.query(names, branch="review")] == ["Ada", "Bob"]
"""
WITHOUT_SPARK = """
try:
    graph.load("people.jsonl", engine="spark")
    raise SystemExit("Spark is installed")
except og.MissingExtra as error:
    assert "pip install 'omnigraph[spark]'" in str(error), error
"""
SPARK = """
loaded = graph.load("people.jsonl", mode="merge", engine="spark")
assert (loaded.engine, loaded.total) == ("spark", 1), loaded
assert og.spark.session().read.format("omnigraph").option("type", "Person").load("people.omni").count() == 1
og.spark.stop()
"""
SERVER = """
import json, subprocess, sys, urllib.request

command = [sys.executable, "-m", "omnigraph", "serve", "people.omni", "--bind", "127.0.0.1:0", "--unauthenticated"]
server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
try:
    url = "http://" + server.stdout.readline().strip().partition("=")[2]
    asked = urllib.request.Request(
        f"{url}/graphs/people/query",
        json.dumps({"source": names}).encode(),
        {"Content-Type": "application/json"},
    )
    assert json.load(urllib.request.urlopen(asked))["rows"] == [{"p.name": "Ada"}]
    with og.connect(url, graph="people") as remote:
        assert len(remote.query(names)) == 1
finally:
    server.terminate()
    server.wait(60)
"""
EMBED = """
notes = og.init("notes.omni", 'node Note { text: String @key, vector: Vector(64)? @embed("text") }')
Path("notes.jsonl").write_text('{"type": "Note", "data": {"text": "a graph in a lakehouse"}}')
notes.load("notes.jsonl")
found = notes.query("query all { match { $n: Note } return { $n.vector } }").rows()
assert len(found[0]["n.vector"]) == 64 and any(found[0]["n.vector"]), found
"""
CONNECT = """
import os, sys
from omnigraph.spark.java import find_java

java = find_java()
os.environ.update(JAVA_HOME=str(java.home_for_scripts()), SPARK_HOME=str(java.spark_home))
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession

SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false").getOrCreate()
session = og.spark.session()
assert "connect" in type(session).__module__, type(session)
assert session.range(3).count() == 3
loaded = graph.load("people.jsonl", mode="merge", engine="spark")
assert (loaded.engine, loaded.total) == ("spark", 1), loaded
session.stop()
"""
ANALYTICS = """
assert len(graph.analyze("components")) == 1
"""
LINEAGE = """
import os, subprocess, sys

variables = {"TYPE": "file", "LOG_FILE_PATH": "events.jsonl", "APPEND": "true"}
os.environ.update({f"OPENLINEAGE__TRANSPORT__{name}": value for name, value in variables.items()})
load = "import omnigraph as og; og.open('people.omni').load('people.jsonl', mode='merge')"
subprocess.run([sys.executable, "-c", load], check=True)
assert len(Path("events.jsonl").read_text().splitlines()) == 2
"""
MCP = """
import asyncio, sys
from mcp import Client, StdioServerParameters

async def list_tools():
    command = StdioServerParameters(command=sys.executable, args=["-m", "omnigraph", "mcp", "people.omni"])
    async with Client(command) as client:
        return [each.name for each in (await client.list_tools()).tools]

assert "graph_describe" in asyncio.run(list_tools())
"""
TRIALS = {
    "": BASE + WITHOUT_SPARK,
    "analytics": BASE + ANALYTICS,
    "spark": BASE + SPARK,
    "connect": BASE + CONNECT,
    "server": BASE + SERVER,
    "embed": BASE + EMBED,
    "lineage": BASE + LINEAGE,
    "mcp": BASE + MCP,
    "all": BASE + ANALYTICS + SPARK + SERVER + EMBED + LINEAGE + MCP,
}


def build_wheel(folder: Path) -> Path:
    """The wheel of this tree."""
    _run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)])
    return next(folder.glob("omnigraph-*.whl"))


def check_extra(wheel: Path, extra: str, folder: Path) -> tuple[bool, int]:
    """Installs the wheel with an extra in a new environment and tries it: whether it works, and its size in bytes."""
    environment, place = folder / "environment", folder / "place"
    venv.create(environment, with_pip=True)
    python = str(environment / "bin" / "python")
    requirement = f"omnigraph[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *constraints, requirement])
    place.mkdir()
    script = place / "trial.py"
    script.write_text(f"{TRIALS[extra]}\n")
    done = subprocess.run([python, "-P", str(script)], cwd=place, check=False)  # noqa: S603
    return done.returncode == 0, _size_of(environment)


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True)  # noqa: S603


def _size_of(folder: Path) -> int:
    files = {each.stat().st_ino: each.stat().st_blocks * 512 for each in folder.rglob("*") if not each.is_symlink()}
    return sum(files.values())


def main(arguments: list[str]) -> int:
    """Tries the extras that are named, or all; gives the exit code."""
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        sys.stdout.write(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB\n")
        for extra in arguments or TRIALS:
            within = Path(folder, extra or "base")
            within.mkdir()
            start = time.monotonic()
            works, size = check_extra(wheel, extra, within)
            shown = f"omnigraph[{extra}]" if extra else "omnigraph"
            seconds = time.monotonic() - start
            sys.stdout.write(f"{shown}: {'works' if works else 'FAILS'}, {size / 2**20:,.0f} MiB, {seconds:.0f} s\n")
            sys.stdout.flush()
            failed += [] if works else [extra]
            shutil.rmtree(within)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
