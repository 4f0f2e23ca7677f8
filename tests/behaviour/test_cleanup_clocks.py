"""Cleanup beside writers on other machines: whose clock says what does not matter."""

import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.storage.files import files_below, store_time
from omnigraph.storage.location import location_of
from omnigraph.storage.object_stores import store_at
from tests import nursery
from tests.behaviour.people import SCHEMA, START, ages, files, other_handle, set_age, small_world, write
from tests.clocks import DAY, HOUR, MINUTE
from tests.nursery import ROOT, Child
from tests.stores import Options

FOLDERS = ("nodes", "edges", "__manifest")
LOADER = """
import json, sys
import omnigraph as og
import omnigraph.graph, omnigraph.graph.opening
from tests.clocks import skew_clock
uri, records, seconds, given = sys.argv[1:]
skew_clock(float(seconds))
og.open(uri, **json.loads(given)).load(records, mode="merge")
"""
CLEANER = """
import sys
import omnigraph as og
import omnigraph.graph, omnigraph.graph.opening
from tests.clocks import skew_clock
skew_clock(float(sys.argv[2]))
print(og.open(sys.argv[1]).cleanup(keep=1, confirm=True).bytes_removed)
"""
CREATOR = """
import sys
import omnigraph as og
import omnigraph.graph, omnigraph.graph.opening
from tests.clocks import skew_clock
skew_clock(float(sys.argv[2]))
graph = og.init(sys.argv[1], sys.argv[3], durability="fast")
for age in range(3):
    graph.mutate(f'query q {{ insert Person {{ name: "P{age}", age: {age} }} }}')
"""
FAST: dict[str, Any] = {"durability": "fast"}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = small_world(tmp_path)
    for age in (2, 3):
        set_age(graph, age)
    return graph


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "more.jsonl"
    path.write_text('{"type": "Person", "data": {"name": "Eve", "age": 7}}\n')
    return path


def loading(
    uri: str, records: Path, failpoint: str, *, skew: float = 0, given: Any = FAST, **environment: str
) -> Child:
    """A process that loads records, by a clock of its own, and meets a failpoint."""
    arguments = (uri, str(records), str(skew), json.dumps(given))
    return nursery.started(LOADER, *arguments, environment={**environment, failpoints.VARIABLE: failpoint})


def resumed(child: Child) -> int:
    child.send_signal(signal.SIGCONT)
    return child.wait()


def clean(graph: og.Graph, **options: Any) -> int:
    result = graph.cleanup(**{"keep": 1, "grace": "0s", "confirm": True, **options})
    assert result.failed == ()
    return result.bytes_removed


# --- a writer whose clock is wrong ---


@pytest.mark.parametrize("durability", ["fast", "full"])
@pytest.mark.parametrize("skew", [10 * MINUTE, HOUR, DAY, -10 * MINUTE, -HOUR, -DAY])
def test_files_of_a_load_stay_whatever_its_clock_says(
    graph: og.Graph, records: Path, skew: float, durability: str
) -> None:
    child = loading(graph.uri, records, "load.table_staged=pause", skew=skew, given={"durability": durability})
    try:
        child.wait_until_stopped()
        assert clean(graph) > 0
    finally:
        ended = resumed(child)
    assert ended == 0, child.errors
    assert ages(other_handle(graph)) == {"Ada": 3, "Bob": 1, "Eve": 7}


@pytest.mark.parametrize("skew", [DAY, -DAY])
def test_what_a_writer_began_on_stays_whatever_its_clock_says(graph: og.Graph, records: Path, skew: float) -> None:
    with records.open("a") as file:
        file.write('{"type": "City", "data": {"name": "Oslo"}}\n')
        file.write('{"edge": "Knows", "from": "Bob", "to": "Ada", "data": {"id": "ba"}}\n')
    child = loading(graph.uri, records, "load.table_staged=pause@1", skew=skew)
    try:
        child.wait_until_stopped()
        began_on = graph.snapshot()
        for name in ("Rome", "Bern"):
            write(graph, f'insert City {{ name: "{name}" }}')
            write(graph, f'insert Knows {{ id: "{name}", from: "Ada", to: "Bob" }}')
        clean(graph)
        again = other_handle(graph).snapshot_at(version=began_on.commit.manifest_version)
        assert [again.table(key).count() for key in ("node:City", "edge:Knows")] == [0, 1]
    finally:
        ended = resumed(child)
    assert ended == 0, child.errors
    assert ages(other_handle(graph))["Eve"] == 7
    clean(graph)
    with pytest.raises(og.NotFound):
        graph.snapshot_at(version=began_on.commit.manifest_version)


@pytest.mark.parametrize("skew", [10 * MINUTE, -HOUR])
def test_files_of_a_load_on_an_object_store_stay_whatever_its_clock_says(
    s3_store: Options, s3_uri: str, records: Path, skew: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = og.init(s3_uri, SCHEMA, storage_options=s3_store)
    write(graph, START)
    set_age(graph, 3)
    # It renews nothing while it is stopped, and is alive for as long as this says.
    lasting = {"OMNIGRAPH_LEASE_SECONDS": "3600"}
    given = {"storage_options": s3_store}
    child = loading(s3_uri, records, "load.table_staged=pause", skew=skew, given=given, **lasting)
    try:
        child.wait_until_stopped()
        monkeypatch.setattr("omnigraph.storage.locks._SECONDS", 2.0)
        monkeypatch.setattr("omnigraph.maintenance.retention.TRUSTED_SECONDS", 0)
        later = timedelta(seconds=5)
        monkeypatch.setattr("omnigraph.maintenance.cleanup.store_time", lambda graph: store_time(graph) + later)
        clean(graph)
    finally:
        ended = resumed(child)
    assert ended == 0, child.errors
    assert ages(og.open(s3_uri, storage_options=s3_store)) == {"Ada": 3, "Bob": 1, "Eve": 7}


_FAKETIME = next((each for each in Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)


@pytest.mark.skipif(_FAKETIME is None, reason="libfaketime is not installed (apt-get install faketime)")
@pytest.mark.parametrize("skew", ["+1d", "-1h"])
def test_files_of_a_process_stay_that_has_another_time_altogether(graph: og.Graph, records: Path, skew: str) -> None:
    program = "import sys, omnigraph as og; og.open(sys.argv[1], durability='fast').load(sys.argv[2], mode='merge')"
    environment = {
        **os.environ,
        "LD_PRELOAD": str(_FAKETIME),
        "FAKETIME": skew,
        "DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
        failpoints.VARIABLE: "load.table_staged=pause",
    }
    command = [sys.executable, "-c", program, graph.uri, str(records)]
    with subprocess.Popen(command, env=environment, cwd=ROOT) as process:
        try:
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            assert clean(graph) > 0
        finally:
            process.send_signal(signal.SIGCONT)
    assert process.returncode == 0
    assert ages(other_handle(graph)) == {"Ada": 3, "Bob": 1, "Eve": 7}


# --- a cleanup whose clock is wrong ---


def test_a_cleanup_whose_clock_is_ahead_takes_nothing_for_old(graph: og.Graph, records: Path) -> None:
    child = loading(graph.uri, records, "load.table_staged=crash")
    assert child.wait() == -signal.SIGKILL
    before = files(graph, *FOLDERS)
    with nursery.started(CLEANER, graph.uri, str(DAY)) as cleaner:
        output, errors = cleaner.communicate()
    assert (output.strip(), cleaner.returncode) == ("0", 0), errors
    assert files(graph, *FOLDERS) == before


@pytest.mark.parametrize("skew", [-30 * DAY, 30 * DAY])
def test_commits_are_as_old_as_their_files_whatever_the_clock_of_their_writer_says(tmp_path: Path, skew: float) -> None:
    uri = str(tmp_path / "graph.omni")
    code, errors = nursery.ended(CREATOR, uri, str(skew), SCHEMA)
    assert code == 0, errors
    graph = og.open(uri, durability="fast")
    assert clean(graph, keep=None, older_than="7d") == 0
    assert clean(graph, grace="1h") == 0
    assert clean(graph) > 0


# --- what is about to be published ---


def test_files_of_a_write_that_was_announced_stay(graph: og.Graph, records: Path) -> None:
    clean(graph)
    before = files(graph, *FOLDERS)
    assert loading(graph.uri, records, "load.after_phase_a=crash").wait() == -signal.SIGKILL
    written = files(graph, *FOLDERS)
    assert written > before
    clean(graph)
    assert files(graph, *FOLDERS) == written
    settled = other_handle(graph)
    assert settled.recoveries.pending() == []
    clean(settled)
    assert ages(settled) == {"Ada": 3, "Bob": 1}


@pytest.mark.usefixtures("rows_in_tables")
@pytest.mark.parametrize("durability", ["fast", "full"])
def test_a_load_whose_files_are_gone_is_refused_and_nothing_is_lost(
    graph: og.Graph, records: Path, durability: str
) -> None:
    before = files(graph, "nodes")
    child = loading(graph.uri, records, "load.before_phase_a=pause", given={"durability": durability})
    try:
        child.wait_until_stopped()
        (written,) = files(graph, "nodes") - before
        Path(graph.uri, written).unlink()
    finally:
        ended = resumed(child)
    assert ended == 1
    assert "StagedFileGone" in child.errors
    assert graph.recoveries.pending() == []
    set_age(graph, 4)
    assert ages(other_handle(graph)) == {"Ada": 4, "Bob": 1}


@pytest.mark.usefixtures("rows_in_tables")
def test_a_load_whose_files_are_gone_from_an_object_store_is_refused(
    s3_store: Options, s3_uri: str, records: Path
) -> None:
    graph = og.init(s3_uri, SCHEMA, storage_options=s3_store)
    write(graph, START)
    nodes = location_of(s3_uri, s3_store).child("nodes")
    before = {file.name for file in files_below(nodes)}
    given = {"storage_options": s3_store}
    child = loading(s3_uri, records, "load.before_phase_a=pause", given=given, OMNIGRAPH_LEASE_SECONDS="3600")
    try:
        child.wait_until_stopped()
        (written,) = {file.name for file in files_below(nodes)} - before
        obstore.delete(store_at(nodes), written)
    finally:
        ended = resumed(child)
    assert ended == 1
    assert "StagedFileGone" in child.errors
    set_age(graph, 4)
    assert ages(og.open(s3_uri, storage_options=s3_store)) == {"Ada": 4, "Bob": 1}


def test_an_index_whose_files_are_gone_is_not_published(graph: og.Graph) -> None:
    program = "import sys, omnigraph as og; og.open(sys.argv[1], durability='fast').ensure_indices()"
    environment = {failpoints.VARIABLE: "ensure_indices.before_phase_a=pause"}
    child = nursery.started(program, graph.uri, environment=environment)
    try:
        child.wait_until_stopped()
        for folder in Path(graph.uri, "nodes").glob("*/_indices"):
            shutil.rmtree(folder)
    finally:
        ended = resumed(child)
    assert ended == 1
    assert "StagedFileGone" in child.errors
    assert ages(other_handle(graph)) == {"Ada": 3, "Bob": 1}
