"""Places where Spark runs apart from this process, started from what pip has installed, and work to be done on each."""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph as og
from omnigraph.loading import sources
from omnigraph.parts import buckets
from omnigraph.pipelines import Pipeline
from omnigraph.spark.java import Java, find_java
from omnigraph.spark.sessions import session
from tests.behaviour.shop import make_shop, write_customers
from tests.behaviour.test_debian_pipeline import ALPHA, BETA, GAMMA, LIBC, OLD_GAMMA, debian, write_list
from tests.behaviour.test_pipeline_changes import accounts, write_changes
from tests.crash.children import SOAKING
from tests.crash.spark_moments import ROOT, Moments, kill, parent_of
from tests.spark_session import QUICKLY_COMPILED

HOST = "127.0.0.1"
_LONGEST_START = 180.0
SCHEMA = """
node Person { name: String @key, age: I32?, mail: String? @unique, city: enum(oslo, rome)?  @range(age, 0..200) }
node Note { title: String @key, words: I32 }
edge Knows: Person -> Person @card(0..3) { since: Date? }
"""
PEOPLE, NOTES = 1_500, 800
QUERIES = (
    "query by_city { match { $p: Person } return { $p.city, count($p) as people, max($p.age) as oldest } }",
    'query known { match { $p: Person { name: "p7" } $p knows $q } return { $q.name, $q.age } }',
    "query long { match { $n: Note $n.words > 795 } return { $n.title, $n.words } }",
)


# --- the work ---


def write_inputs(folder: Path) -> None:
    """Mixed lines, a Parquet file, lines that are wrong in several ways, and lines that change what is there."""
    cities = ("oslo", "rome")
    people = [
        {"type": "Person", "data": {"name": f"p{n}", "age": n % 97, "mail": f"m{n}@x", "city": cities[n % 2]}}
        for n in range(PEOPLE)
    ]
    knows = [
        {"edge": "Knows", "from": f"p{n}", "to": f"p{(7 * n + step) % PEOPLE}", "data": {"since": "2024-02-29"}}
        for n in range(PEOPLE)
        for step in range(2)
    ]
    mixed = [record for pair in zip(people, knows[::2], knows[1::2], strict=True) for record in pair]
    wrong = [
        {"type": "Person", "data": {"name": "p3"}},
        {"type": "Person", "data": {"name": "new", "mail": "m5@x"}},
        {"edge": "Knows", "from": "p1", "to": "nobody"},
        *({"edge": "Knows", "from": "p2", "to": f"p{n}"} for n in range(3)),
    ]
    changes = [{"type": "Person", "data": {"name": f"p{n}", "age": 150}} for n in range(0, PEOPLE, 3)]
    for name, records in (("mixed", mixed), ("wrong", wrong), ("changes", changes)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    notes = pa.table({"title": [f"n{n}" for n in range(NOTES)], "words": pa.array(range(NOTES), pa.int32())})
    pq.write_table(notes, folder / "notes.parquet", row_group_size=200)


def outcome_of_work(inputs: Path, uri: Path) -> dict[str, Any]:
    """A load, a load that is refused, and three queries, on the Spark that the environment names."""
    graph = og.init(uri, SCHEMA, durability="fast")
    given = [str(inputs / "mixed.jsonl"), {"Note": inputs / "notes.parquet"}]
    result = graph.load(given, engine="spark", actor="loader")
    try:
        graph.load(inputs / "wrong.jsonl", engine="spark")
        refused: Any = None
    except og.ValidationError as error:
        refused = [error.total, sorted([each.line, each.problem] for each in error.violations)]
    assert result.commit is not None
    [commit, first] = graph.commits.list()
    return {
        "commit": {
            "message": commit.message,
            "actor": commit.actor,
            "version": commit.manifest_version,
            "follows the first": commit.parent_commit_id == first.graph_commit_id,
        },
        "loaded": [dict(result.nodes), dict(result.edges), result.engine],
        "refused": refused,
        "rows": rows_of(graph),
        "answers": [answer(graph, query) for query in QUERIES],
        "as a table": as_a_table(graph),
        "pipelines": outcome_of_pipelines(Path(f"{uri}-pipelines"), "spark") if SOAKING else None,
    }


def outcome_of_pipelines(folder: Path, engine: str) -> list[Any]:
    """What runs of the same files of pipelines did, and the graphs that they left."""
    found: list[Any] = []
    (folder / "shop").mkdir(parents=True)
    graph, pipeline = make_shop(folder / "shop")
    found += _outcome_of_runs(graph, pipeline, engine)
    write_customers(folder / "shop", 2, [(9, "Zoe", "at"), (3, "Rob", "fr")])
    found += _outcome_of_runs(graph, pipeline, engine)
    (folder / "debian").mkdir()
    write_list(folder / "debian", "main_Packages", ALPHA, BETA, GAMMA, LIBC)
    write_list(folder / "debian", "security_Packages", OLD_GAMMA)
    found += _outcome_of_runs(*debian(folder / "debian"), engine)
    (folder / "accounts").mkdir()
    graph, pipeline = accounts(folder / "accounts")
    write_changes(folder / "accounts", 1, [(1, "Ada", 1.0, 1, "c"), (1, "Ada", 2.0, 3, "u"), (2, "Bob", 3.0, 2, "d")])
    return [*found, *_outcome_of_runs(graph, pipeline, engine)]


def _outcome_of_runs(graph: og.Graph, pipeline: Pipeline, engine: str) -> list[Any]:
    """A run, another one that finds nothing new, and what is there then."""
    done = pipeline.run(graph, engine=engine)
    assert pipeline.run(graph, engine=engine).commit is None
    rejected = [[each.name, each.violations, each.rows] for each in done.expectations]
    return [dict(done.sources), dict(done.nodes), dict(done.edges), rejected, list(graph.export(ordered=True))]  # type: ignore[arg-type]


def as_a_table(graph: og.Graph) -> list[Any]:
    """What the format `omnigraph` reads of the graph, before and after it has written to a branch."""
    spark = session()
    notes = spark.read.format("omnigraph").option("type", "Note").option("filter", "words >= 790").load(graph.uri)
    copies = notes.selectExpr("concat('copy of ', title) AS title", "words")
    written = copies.write.format("omnigraph").option("type", "Note").option("branch", "copies").option("from", "main")
    written.mode("append").save(graph.uri)
    read = spark.read.format("omnigraph").option("type", "Note").option("branch", "copies").load(graph.uri)
    found = read.selectExpr("count(*) AS notes", "sum(words) AS words").collect()[0]
    return [notes.count(), found["notes"], found["words"], graph.snapshot().table("node:Note").count()]


def answer(graph: og.Graph, query: str) -> list[str]:
    """The rows of a query, in any order."""
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in graph.query(query, engine="spark").rows())


def rows_of(graph: og.Graph) -> list[str]:
    """Everything in the graph but the ids that were made up."""
    exported = graph.export()
    assert not isinstance(exported, int)
    records = [json.loads(line) for line in exported]
    for record in records:
        record["data"].pop("id", None)
    return sorted(json.dumps(record, sort_keys=True) for record in records)


def ages_after_a_lost_executor(inputs: Path, uri: Path) -> dict[str, int]:
    """How often each age is there after a merge in the middle of which an executor was killed."""
    graph = og.open(uri, durability="fast")
    sources.PART_BYTES = 800  # some dozen tasks, so that there is a middle
    # A worker is a child of a daemon, and that of the executor.
    moments = Moments(inputs, {"reading": lambda worker: kill(parent_of(parent_of(worker)))})
    with moments.awaited():
        result = graph.load(inputs / "changes.jsonl", "merge", engine="spark")
    assert moments.missed == set()
    ages = graph.snapshot().table("node:Person").scan(["age"])["age"].to_pylist()
    return {"merged": result.nodes["Person"], "people": len(ages), "changed": sum(age == 150 for age in ages)}


def main(inputs: str, uri: str, *, lose_an_executor: bool) -> None:
    """What a child does: the work, and its outcome as JSON."""
    cut_small()
    outcome = outcome_of_work(Path(inputs), Path(uri))
    if lose_an_executor:
        outcome["after a lost executor"] = ages_after_a_lost_executor(Path(inputs), Path(uri))
    sys.stdout.write(json.dumps(outcome))


def cut_small() -> None:
    """Makes several parts and buckets of a few thousand records."""
    sources.PART_BYTES, sources.PART_ROWS, buckets.KEYS_A_BUCKET = 80_000, 400, 2_000


def in_a_child(environment: dict[str, str], inputs: Path, uri: Path, *, lose_an_executor: bool = False) -> Any:
    """The outcome of the work in a process with these settings."""
    call = f"main({str(inputs)!r}, {str(uri)!r}, lose_an_executor={lose_an_executor})"
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"from tests.engines.clusters import main; {call}"],
        cwd=ROOT,
        env={**os.environ, **QUICKLY_COMPILED, "OMNIGRAPH_SPARK_RECORD": "off", **environment},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3_000:]
    return json.loads(ended.stdout)


# --- the places ---


@contextmanager
def standalone(folder: Path, mark: str) -> Iterator[dict[str, str]]:
    """A master and two workers of one core each; gives the settings of a driver."""
    java, port = find_java(), _free_port()
    master = f"spark://{HOST}:{port}"
    deploy = "org.apache.spark.deploy"
    wheres = ["--host", HOST, "--webui-port", "0"]
    with _program(java, folder, mark, [f"{deploy}.master.Master", *wheres, "--port", str(port)]) as started:
        _wait_for(port, started)
        sizes = ["--cores", "1", "--memory", "600m"]
        workers = [
            [f"{deploy}.worker.Worker", *wheres, *sizes, "--work-dir", str(folder / f"worker{n}"), master]
            for n in range(2)
        ]
        with _program(java, folder, mark, workers[0]), _program(java, folder, mark, workers[1]):
            yield {
                "OMNIGRAPH_SPARK_MASTER": master,
                "OMNIGRAPH_SPARK_CONF_spark_driver_host": HOST,
                "OMNIGRAPH_SPARK_CONF_spark_driver_bindAddress": HOST,
                "OMNIGRAPH_SPARK_CONF_spark_executor_memory": "512m",
                "OMNIGRAPH_SPARK_CONF_spark_ui_enabled": "false",
                "OMNIGRAPH_MARK": mark,
            }


@contextmanager
def connect(folder: Path, mark: str) -> Iterator[dict[str, str]]:
    """A Spark Connect server with an embedded Spark; gives the settings of a client."""
    java, port = find_java(), _free_port()
    settings = {
        "spark.master": "local[2,3]",
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.artifact.copyFromLocalToFs.allowDestLocal": "true",
    }
    words = ["org.apache.spark.deploy.SparkSubmit"]
    for name, value in settings.items():
        words += ["--conf", f"{name}={value}"]
    words += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with _program(java, folder, mark, words) as started:
        _wait_for(port, started)
        yield {"OMNIGRAPH_SPARK_REMOTE": f"sc://{HOST}:{port}", "OMNIGRAPH_MARK": mark}


@contextmanager
def _program(java: Java, folder: Path, mark: str, words: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A JVM with one of Spark's programs, while the block runs."""
    folder.mkdir(exist_ok=True)
    environment = {
        "JAVA_HOME": str(java.home_for_scripts()),
        "SPARK_HOME": str(java.spark_home),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(folder),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "OMNIGRAPH_MARK": mark,
        **QUICKLY_COMPILED,
    }
    command = [str(java.executable), "-cp", java.jars, "-Xmx768m", *java.options, f"-Djava.io.tmpdir={folder}", *words]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **environment}, cwd=folder
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    """One below those that the system gives to whoever asks for any: it takes a JVM seconds to come for it."""
    while True:
        port = 20_000 + secrets.randbelow(10_000)
        with socket.socket() as found, suppress(OSError):
            found.bind((HOST, port))
            return port


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _LONGEST_START
    while True:
        try:
            socket.create_connection((HOST, port), 1).close()
            return
        except OSError:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
