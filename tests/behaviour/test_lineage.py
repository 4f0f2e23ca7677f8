"""Loads and runs of pipelines are reported to whoever collects lineage, and never depend on it."""

import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from ulid import ULID

import omnigraph as og
from omnigraph.lineage import Dataset, dataset_at, dataset_in_spark, datasets_of_input, delivery, report_run
from omnigraph.lineage.delivery import deliver_waiting
from tests.behaviour.shop import make_shop

SCHEMA = """
node Person { name: String @key, age: I32? }
edge Knows: Person -> Person { since: Date? }
"""
RECORDS = """{"type": "Person", "data": {"name": "Ada", "age": 36}}
{"type": "Person", "data": {"name": "Bob"}}
{"edge": "Knows", "from": "Ada", "to": "Bob"}
"""
INVALID = '{"type": "Person", "data": {"name": "Ada", "age": "secret"}}\n'
SECONDS = 60.0


@dataclass
class Receiver:
    """A server that takes events, as collectors of lineage do."""

    url: str
    events: list[dict[str, Any]] = field(default_factory=list)
    status: int = 201
    waits_for: threading.Event = field(default_factory=threading.Event)

    def delivered(self) -> list[dict[str, Any]]:
        """All events that were sent so far."""
        found = delivery._delivery
        assert found is None or found.wait(SECONDS)
        return self.events

    def states(self) -> list[tuple[str, str]]:
        return [(each["job"]["name"], each["eventType"]) for each in self.delivered()]


@pytest.fixture(autouse=True)
def _no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No variable and no file says where events go, and what the client changes in the environment is undone."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(delivery, "_delivery", None)
    monkeypatch.setattr(delivery, "_is_impossible", False)
    yield
    deliver_waiting(SECONDS)
    for name in os.environ.keys() - before.keys():
        del os.environ[name]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/api/v1/lineage"
            found.waits_for.wait(SECONDS)
            found.events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(found.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Receiver(f"http://127.0.0.1:{server.server_port}")
    found.waits_for.set()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("OPENLINEAGE_URL", found.url)
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "warehouse")
    yield found
    found.waits_for.set()
    deliver_waiting(SECONDS)
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    (tmp_path / "people.jsonl").write_text(RECORDS)
    return og.init(tmp_path / "people.omni", SCHEMA)


def without_retries(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Sends events to an address, and tries once."""
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "http")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__URL", url)
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__RETRY", '{"total": 0}')


def test_a_load_is_reported_with_its_files_and_the_types_that_it_wrote(
    receiver: Receiver, graph: og.Graph, tmp_path: Path
) -> None:
    commit = graph.load("people.jsonl").commit
    assert commit is not None
    start, complete = receiver.delivered()
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert start["job"]["namespace"] == "warehouse"
    assert start["job"]["name"] == "people.load"
    assert start["job"]["facets"]["jobType"]["jobType"] == "LOAD"
    assert [(each["namespace"], each["name"]) for each in start["inputs"]] == [("file", f"{tmp_path}/people.jsonl")]
    assert start["outputs"] == []
    [read] = complete["inputs"]
    statistics = read["inputFacets"]["inputStatistics"]
    assert (statistics["rowCount"], statistics["size"], statistics["fileCount"]) == (3, len(RECORDS), 1)
    written = {each["name"].rpartition("/")[2]: each for each in complete["outputs"]}
    assert written.keys() == {"Person", "Knows"}
    person, knows = written["Person"], written["Knows"]
    assert (person["namespace"], person["name"]) == ("file", f"{tmp_path}/people.omni/Person")
    assert person["outputFacets"]["outputStatistics"]["rowCount"] == 2
    assert [(each["name"], each["type"]) for each in person["facets"]["schema"]["fields"]] == [
        ("id", "String"),
        ("name", "String"),
        ("age", "I32"),
    ]
    assert [each["name"] for each in knows["facets"]["schema"]["fields"]] == ["id", "src", "dst", "since"]
    assert person["facets"]["version"]["datasetVersion"] == commit.graph_commit_id
    assert [(each["key"], each["value"]) for each in person["facets"]["tags"]["tags"]] == [("branch", "main")]


def test_a_load_that_fails_is_reported_without_the_values_of_its_rows(
    receiver: Receiver, graph: og.Graph, tmp_path: Path
) -> None:
    (tmp_path / "invalid.jsonl").write_text(INVALID)
    with pytest.raises(og.ValidationError):
        graph.load("invalid.jsonl")
    start, fail = receiver.delivered()
    assert (start["eventType"], fail["eventType"]) == ("START", "FAIL")
    assert fail["run"]["facets"]["errorMessage"]["message"] == "ValidationError (validation_error)"
    assert fail["outputs"] == []
    assert "secret" not in json.dumps(receiver.events)


def test_a_batch_that_was_loaded_before_wrote_nothing(receiver: Receiver, graph: og.Graph) -> None:
    for _ in range(2):
        graph.load("people.jsonl", application="nightly", batch=1)
    first, again = [each for each in receiver.delivered() if each["eventType"] == "COMPLETE"]
    assert first["job"]["name"] == again["job"]["name"] == "people.load.nightly"
    assert len(first["outputs"]) == 2
    assert again["outputs"] == []


def test_a_load_that_is_stopped_is_reported_as_aborted(
    receiver: Receiver, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        graph.load("people.jsonl", report=interrupt)
    assert receiver.states() == [("people.load", "START"), ("people.load", "ABORT")]


def test_a_run_of_a_pipeline_is_the_parent_of_its_load(receiver: Receiver, tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path)
    done = shop.run(graph, engine="local")
    job, load = "shop.pipeline.shop", "shop.load.shop"
    assert receiver.states() == [(job, "START"), (load, "START"), (load, "COMPLETE"), (job, "COMPLETE")]
    start, child, *_, complete = receiver.events
    assert start["run"]["runId"] == str(og_uuid(done.run))
    parent = child["run"]["facets"]["parent"]
    assert parent["run"]["runId"] == start["run"]["runId"]
    assert parent["job"]["name"] == job
    assert "parent" not in start["run"]["facets"]
    read = {each["name"].rpartition("/")[2]: each for each in complete["inputs"]}
    columns = {name: [field["name"] for field in each["facets"]["schema"]["fields"]] for name, each in read.items()}
    assert list(columns.values()) == [
        ["number", "name", "country"],
        ["customer", "sku", "quantity", "price"],
    ]
    assert [each["inputFacets"]["inputStatistics"]["rowCount"] for each in complete["inputs"]] == [3, 4]
    assert [each["inputFacets"]["inputStatistics"]["fileCount"] for each in complete["inputs"]] == [1, 1]
    written = {each["name"].rpartition("/")[2]: each for each in complete["outputs"]}
    assert {name: each["outputFacets"]["outputStatistics"]["rowCount"] for name, each in written.items()} == {
        "Customer": 2,
        "Product": 2,
        "Bought": 2,
    }


def test_a_run_that_finds_nothing_new_is_not_reported(receiver: Receiver, tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path)
    shop.run(graph, engine="local")
    before = len(receiver.delivered())
    assert shop.run(graph, engine="local").commit is None
    assert len(receiver.delivered()) == before


def test_a_run_that_fails_before_it_reads_is_reported(receiver: Receiver, tmp_path: Path) -> None:
    graph, shop = make_shop(tmp_path)
    for file in (tmp_path / "landing").iterdir():
        file.unlink()
    with pytest.raises(og.OmnigraphError):
        shop.run(graph, engine="local")
    assert receiver.states() == [("shop.pipeline.shop", "START"), ("shop.pipeline.shop", "FAIL")]


def test_a_run_belongs_to_the_task_of_a_scheduler_that_started_it(
    receiver: Receiver, graph: og.Graph, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    task = UUID(int=7)
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", f"airflow://host/nightly.shop/{task}")
    graph.load("people.jsonl")
    parent = receiver.delivered()[0]["run"]["facets"]["parent"]
    assert parent["job"] == {**parent["job"], "namespace": "airflow://host", "name": "nightly.shop"}
    assert parent["run"]["runId"] == str(task)
    for invalid in ("nightly", f"a/b/{task}x", "/"):
        monkeypatch.setenv("OPENLINEAGE_PARENT_ID", invalid)
        caplog.clear()
        graph.load("people.jsonl", "merge")
        assert "OPENLINEAGE_PARENT_ID is ignored" in caplog.text
    assert "parent" not in receiver.delivered()[-1]["run"]["facets"]


def test_nothing_is_sent_and_nothing_imported_without_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "people.jsonl").write_text(RECORDS)
    text = (
        f"import omnigraph as og, sys; og.init('p.omni', {SCHEMA!r}).load('people.jsonl'); "
        "print([name for name in sys.modules if name.startswith(('openlineage', 'requests'))])"
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_disabled_client_sends_nothing(receiver: Receiver, graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    graph.load("people.jsonl")
    assert receiver.delivered() == []


def test_a_process_ends_when_its_events_are_in_the_file_that_the_configuration_names(
    graph: og.Graph, tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    (tmp_path / "openlineage.yml").write_text(f"transport: {{type: file, log_file_path: {events}, append: true}}\n")
    command = [sys.executable, "-m", "omnigraph", "load", "--data", "people.jsonl", "people.omni"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    states = [json.loads(line)["eventType"] for line in events.read_text().splitlines()]
    assert states == ["START", "COMPLETE"]
    assert "lineage" not in done.stderr


@pytest.mark.parametrize("status", [400, 503])
def test_a_receiver_that_refuses_events_does_not_fail_a_load(
    receiver: Receiver,
    graph: og.Graph,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    status: int,
) -> None:
    without_retries(monkeypatch, receiver.url)
    receiver.status = status
    assert graph.load("people.jsonl").total == 3
    assert len(receiver.delivered()) == 2
    assert [each.message.partition(":")[0] for each in caplog.records if each.name == "omnigraph.lineage"] == [
        "an event of lineage was not sent"
    ]


def test_a_receiver_that_is_gone_does_not_fail_a_load(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        without_retries(monkeypatch, f"http://127.0.0.1:{free.getsockname()[1]}")
        assert graph.load("people.jsonl").total == 3
        deliver_waiting(SECONDS)
    assert "an event of lineage was not sent" in caplog.text


def test_a_load_does_not_wait_for_a_receiver_that_hangs(receiver: Receiver, graph: og.Graph) -> None:
    receiver.waits_for.clear()
    assert graph.load("people.jsonl").total == 3
    assert receiver.events == []
    receiver.waits_for.set()
    assert len(receiver.delivered()) >= 2


def test_nobody_waits_again_for_a_receiver_that_did_not_answer(receiver: Receiver, graph: og.Graph) -> None:
    receiver.waits_for.clear()
    graph.load("people.jsonl")
    deliver_waiting(0.01)
    started = time.monotonic()
    deliver_waiting(SECONDS)
    assert time.monotonic() - started < SECONDS / 2


def test_events_beyond_the_queue_are_dropped(
    receiver: Receiver, graph: og.Graph, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(delivery, "_MOST_WAITING", 1)
    receiver.waits_for.clear()
    for _ in range(3):
        assert graph.load("people.jsonl", "merge").total == 3
    assert caplog.text.count("others wait") == 1
    receiver.waits_for.set()
    assert 1 <= len(receiver.delivered()) <= 5


@pytest.mark.parametrize(
    "configuration",
    [
        "transport: {type: nonsense}\n",
        "transport: [\n",
        "transport: {type: http}\n",
        "transport: {type: file}\n",
        "7\n",
    ],
)
def test_a_configuration_with_mistakes_does_not_fail_a_load(
    graph: og.Graph, tmp_path: Path, caplog: pytest.LogCaptureFixture, configuration: str
) -> None:
    (tmp_path / "openlineage.yml").write_text(configuration)
    for mode in ("append", "merge"):
        assert graph.load("people.jsonl", mode).total == 3
    assert caplog.text.count("events of lineage are not sent: ") <= 1
    assert "Traceback" not in "".join(
        each.exc_text or "" for each in caplog.records if each.name.startswith("omnigraph")
    )


def test_a_missing_package_does_not_fail_a_load(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("omnigraph.extras.is_installed", lambda _name: False)
    for mode in ("append", "merge"):
        assert graph.load("people.jsonl", mode).total == 3
    [warning] = [each.message for each in caplog.records if each.levelno == logging.WARNING]
    assert "pip install 'omnigraph[lineage]'" in warning


def test_what_cannot_be_described_does_not_fail_the_work(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> list[Dataset]:
        raise ZeroDivisionError

    with report_run("LOAD", "job", fail) as run:
        run.begins()
        run.writes(fail)
    assert receiver.states() == [("job", "START"), ("job", "COMPLETE")]
    assert "lacks what the run read or wrote" in caplog.text


FORKING = """
import os
from omnigraph.lineage import deliver_waiting, report_run

def report(job):
    with report_run("LOAD", job, list) as run:
        run.begins()
    deliver_waiting(60)

report("parent")
child = os.fork()
if child == 0:
    try:
        report("child")
    finally:
        os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_process_sends_its_own_events(receiver: Receiver) -> None:
    subprocess.run([sys.executable, "-c", FORKING], check=True)
    assert receiver.states() == [(job, state) for job in ("parent", "child") for state in ("START", "COMPLETE")]


@pytest.mark.parametrize(
    ("given", "namespace", "name"),
    [
        ("s3://lake/landing/2026-*/*.parquet", "s3://lake", "landing"),
        ("s3://lake/landing/a.parquet", "s3://lake", "landing/a.parquet"),
        ("s3a://lake/a.parquet", "s3://lake", "a.parquet"),
        ("gs://lake", "gs://lake", "/"),
        ("abfss://box@account.dfs.core.windows.net/a", "abfss://box@account.dfs.core.windows.net", "a"),
        ("https://ann:secret@host/a.csv", "https://host", "a.csv"),
        ("file:///data/a.csv", "file", "/data/a.csv"),
        ("/data/*.csv", "file", "/data"),
        ("/data/**", "file", "/data"),
        ("/data/customers-*.csv", "file", "/data/customers-*.csv"),
        ("/*.csv", "file", "/"),
    ],
)
def test_files_have_the_names_that_others_give_them(given: str, namespace: str, name: str) -> None:
    assert dataset_at(given) == Dataset(namespace=namespace, name=name)


@pytest.mark.parametrize(
    ("format_", "options", "namespace", "name"),
    [
        (
            "jdbc",
            {"url": "jdbc:postgresql://db:5432/shop?user=a&password=secret", "dbtable": "public.orders"},
            "postgresql://db:5432",
            "shop.public.orders",
        ),
        ("jdbc", {"url": "jdbc:mysql://a:secret@db/shop", "query": "select 1"}, "mysql://db", "shop"),
        ("kafka", {"kafka.bootstrap.servers": "a:9092,b:9092", "subscribe": "orders"}, "kafka://a:9092", "orders"),
        ("delta", {"path": "s3://lake/orders"}, "s3://lake", "orders"),
        ("iceberg", {"path": "lake.shop.orders"}, "spark", "lake.shop.orders"),
        ("mongodb", {}, "spark", "mongodb"),
    ],
)
def test_sources_of_spark_are_named_without_credentials(
    format_: str, options: dict[str, str], namespace: str, name: str
) -> None:
    assert dataset_in_spark(format_, options) == Dataset(namespace=namespace, name=name)


def test_only_what_has_an_address_is_an_input() -> None:
    rows = pa.table({"name": ["Ada"]})
    given = [{"Person": ["/a.csv", Path("/b.csv")], "Knows": rows}, "/c.jsonl", {"Person": [{"name": "Ada"}]}]
    assert [each.name for each in datasets_of_input(given)] == ["/a.csv", "/b.csv", "/c.jsonl"]
    assert datasets_of_input(rows) == []


def test_many_files_are_named_by_their_folders() -> None:
    files = [f"/data/{day}/{number}.jsonl" for day in ("mon", "tue") for number in range(60)]
    assert [each.name for each in datasets_of_input(files)] == ["/data/mon", "/data/tue"]
    assert len(list(datasets_of_input([f"/data/{number}/a.jsonl" for number in range(120)]))) == 100


def og_uuid(run: str) -> UUID:
    """The id of a run of a pipeline as the events have it."""
    return ULID.from_str(run).to_uuid()
