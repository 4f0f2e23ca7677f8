"""A server that is killed or stopped under load loses no write that it acknowledged, and leaves none there in part."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.http_clients import Answers

import omnigraph as og
from tests.crash.children import SOAKING
from tests.loaded import ACTORS, TOKENS, WRITE, assert_sound, filled_graph, load_on, under_load, written
from tests.servers import RunningServer, running_server

KILLS = 8 if SOAKING else 1
PATIENCE = 120.0


@pytest.mark.long
def test_a_server_that_is_killed_and_one_that_is_stopped_lose_nothing(
    tmp_path: Path, kills: Callable[[int], None]
) -> None:
    chance = random.Random(5)  # noqa: S311
    uri = filled_graph(tmp_path).uri
    acknowledged: set[str] = set()
    unanswered: set[str] = set()
    for life in range(KILLS):
        answers = _killed(uri, f"life{life}", chance)
        acknowledged |= {*answers.acknowledged}
        unanswered |= {*answers.unanswered}
        with running_server([uri], TOKENS) as server:
            acknowledged.add(_write_by_hand(server, f"again{life}"))
            there = _assert_whole(uri)
            assert acknowledged <= there <= acknowledged | unanswered
            answers = _stopped(server, f"stopped{life}")
        # Whoever got no answer was never listened to.
        assert _assert_whole(uri) == there | {*answers.acknowledged}
        acknowledged |= {*answers.acknowledged}
    kills(KILLS)


def _killed(uri: str, called: str, chance: random.Random) -> Answers:
    """What the clients of a server were answered until it was killed."""
    with running_server([uri], TOKENS) as server:
        with under_load(load_on(server, PATIENCE, called)) as answers:
            _wait_for_writes(answers, chance.randrange(3, 12))
            time.sleep(chance.uniform(0, 0.1))
            server.process.kill()
        _assert_no_failure(server, answers)
    return answers


def _stopped(server: RunningServer, called: str) -> Answers:
    """What they were answered until it had stopped, as it was told to."""
    with under_load(load_on(server, PATIENCE, called)) as answers:
        _wait_for_writes(answers, 3)
        assert server.stop() == 0
    assert "recovery will settle" not in server.errors()
    _assert_no_failure(server, answers, "503")
    return answers


def _assert_no_failure(server: RunningServer, answers: Answers, *statuses: str) -> None:
    failures = [str(line) for line in server.log() if line["level"] == "error"]
    assert answers.statuses.keys() <= {"200", "409", "429", "none", *statuses}, "\n".join([*answers.bodies, *failures])


def _assert_whole(uri: str) -> set[str]:
    """The writes that are there, each of them once."""
    graph = og.open(uri, "r")
    assert_sound(graph)
    there = written(graph)
    assert set(there.values()) == {1}
    return {*there}


def _wait_for_writes(answers: Answers, count: int) -> None:
    until = time.monotonic() + PATIENCE
    while len(answers.acknowledged) < count:
        assert time.monotonic() < until, answers.statuses
        time.sleep(0.01)


def _write_by_hand(server: RunningServer, name: str) -> str:
    """A server that has just begun takes writes, and answers for what is there."""
    with server.client(ACTORS[0]) as client:
        response = client.post("/graphs/people/mutate", json={"source": WRITE, "params": {"name": name}})
        assert response.status_code == 200, response.text
        assert client.get("/readyz").status_code == 200
    return name
