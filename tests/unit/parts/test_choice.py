"""Where a load runs: the decision is a function of the work and the machine."""

import pytest

from omnigraph.api.progress import Choice
from omnigraph.parts.choice import Machine, choose_engine, choose_for_work, core_seconds

SMALL = Machine(threads=2, cores=2)
LARGE = Machine(threads=8, cores=64)
ON_A_CLUSTER = Machine(threads=2, cores=2, session_slots=200)
WITH_SESSION = Machine(threads=2, cores=2, session_slots=2)


@pytest.mark.parametrize(
    ("seconds", "machine", "engine"),
    [
        (0.0, SMALL, "local"),
        (6.0, SMALL, "local"),  # 3 s here, 13 s on Spark
        (10_000.0, SMALL, "local"),  # the same cores, however long it takes
        (10_000.0, WITH_SESSION, "local"),
        (40.0, LARGE, "local"),  # 5 s here, 10 s on Spark
        (400.0, LARGE, "spark"),  # 50 s here, 17 s on Spark
        (3.0, ON_A_CLUSTER, "local"),
        (6.0, ON_A_CLUSTER, "spark"),  # the session runs already
        (400.0, ON_A_CLUSTER, "spark"),
    ],
)
def test_a_load_runs_where_it_ends_first(seconds: float, machine: Machine, engine: str) -> None:
    assert choose_for_work(seconds, machine).engine == engine


def test_a_choice_says_what_it_was_made_of() -> None:
    assert choose_for_work(1.0, SMALL) == Choice("local", "the work is small")
    why = "it takes about 3 s in 2 threads and 13 s on Spark with 2 slots, of which 8 s to start"
    assert choose_for_work(6.0, SMALL) == Choice("local", why)
    why = "it takes about 20 s in 2 threads and 27 s on Spark with 2 slots"
    assert choose_for_work(40.0, WITH_SESSION) == Choice("local", why)


def test_more_slots_never_speak_against_spark() -> None:
    for seconds in (1.0, 10.0, 100.0, 1_000.0):
        chosen = [choose_for_work(seconds, Machine(8, 8, slots)).engine for slots in range(1, 200)]
        assert chosen == sorted(chosen)


def test_the_work_of_a_load_follows_from_its_size() -> None:
    assert core_seconds(line_bytes=160_000_000) == 2.0
    assert core_seconds(line_bytes=160_000_000, merges=True) == 4.0
    assert core_seconds(rows=1_600_000) == 2.0


def test_a_choice_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OMNIGRAPH_SPARK_MASTER", "OMNIGRAPH_SPARK_REMOTE", "OMNIGRAPH_SPARK"):
        monkeypatch.delenv(variable, raising=False)
    assert choose_engine("auto", lambda: [choose_for_work(400.0, LARGE)]).engine == "spark"
    assert choose_engine("auto", lambda: [choose_for_work(40.0, SMALL)]) == choose_for_work(40.0, SMALL)
    assert choose_engine("local", lambda: [choose_for_work(400.0, LARGE)]) == Choice("local", "it was asked for")
    monkeypatch.setenv("OMNIGRAPH_SPARK", "off")
    assert choose_engine("auto", lambda: [choose_for_work(400.0, LARGE)]).why.startswith(
        "Spark is off, though it takes"
    )
