"""Many clients read and write at once through one server: nothing fails, nothing is lost, nothing is there twice."""

import asyncio
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from benchmarks.http_clients import answers_to

import omnigraph as og
from tests.crash.children import SOAKING
from tests.loaded import ACTORS, CLIENTS, TOKENS, assert_sound, filled_graph, load_on, under_load, written
from tests.servers import RunningServer, running_server
from tests.stores import Options

SECONDS = 60 if SOAKING else 3
WARM_SECONDS = 20 if SOAKING else 0.5
GROWTH_MIB = 200
"""What the memory of a server may move by; it is the allocators', who give back when they like."""
ALLOWED = {"200", "409", "429"}


@pytest.mark.long
def test_every_acknowledged_write_is_there_once_and_no_other(tmp_path: Path) -> None:
    uri = filled_graph(tmp_path).uri
    # One client of each actor more than it may have in flight, so that some are told to come later.
    fewer = max(1, CLIENTS // len(ACTORS) - 1)
    with running_server([uri], TOKENS, "--actor-requests", str(fewer)) as server:
        warm = asyncio.run(answers_to(load_on(server, WARM_SECONDS, "warm")))
        before = _mebibytes(server)
        answers = asyncio.run(answers_to(load_on(server, SECONDS, "w")))
        grown = _mebibytes(server) - before
        assert server.stop() == 0
    assert warm.statuses.keys() | answers.statuses.keys() <= ALLOWED, (answers.statuses, answers.bodies)
    assert answers.reads
    assert answers.acknowledged
    graph = og.open(uri, "r")
    assert_sound(graph)
    assert written(graph) == Counter(warm.acknowledged + answers.acknowledged)
    commits = Counter(commit.actor for commit in graph.commits.list() if commit.actor is not None)
    assert commits == Counter(ACTORS[int(name.split("-")[1]) % len(ACTORS)] for name in written(graph))
    if SOAKING:
        assert grown < GROWTH_MIB


def test_two_servers_write_to_one_graph_in_an_object_store(s3_store: Options, s3_uri: str) -> None:
    uri = filled_graph(s3_uri, s3_store).uri
    environment = {f"AWS_{name.removeprefix('aws_').upper()}": value for name, value in s3_store.items()}
    # Nobody dies here, so nobody may be taken for dead, however long the machine stands still.
    environment["OMNIGRAPH_LEASE_SECONDS"] = "300"
    with ExitStack() as running:
        servers = [running.enter_context(running_server([uri], TOKENS, environment=environment)) for _ in range(2)]
        # By these names, some clients of each begin with a write, however slow the machine is.
        loads = [load_on(server, SECONDS, called) for server, called in zip(servers, ("north", "south"), strict=True)]
        with under_load(loads[0]) as first, under_load(loads[1]) as second:
            pass
        assert [server.stop() for server in servers] == [0, 0]
    assert first.statuses.keys() | second.statuses.keys() <= ALLOWED, (first.bodies, second.bodies)
    assert first.acknowledged
    assert second.acknowledged
    graph = og.open(uri, "r", storage_options=s3_store)
    assert_sound(graph)
    assert written(graph) == Counter(first.acknowledged + second.acknowledged)


def _mebibytes(server: RunningServer) -> float:
    """What the server holds in memory."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024
