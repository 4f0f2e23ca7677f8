"""How the whole suite runs: hypothesis tries the same examples each time, but for a soak, and keeps nothing on disk."""

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from omnigraph.catalog import Catalog, compile_schema

pytest_plugins = ["tests.spark_session", "tests.stores"]

settings.register_profile(
    "suite",
    deadline=None,
    database=None,
    derandomize=os.environ.get("OMNIGRAPH_SOAK") != "1",
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
settings.load_profile("suite")

# Tests have few rows, and those about indexes are about indexes of edges and keys too.
os.environ.setdefault("OMNIGRAPH_INDEXED_EDGES", "1")
os.environ.setdefault("OMNIGRAPH_INDEXED_KEYS", "1")
os.environ.setdefault("OMNIGRAPH_TOPOLOGY_EDGES", "1")

SOCIAL_SCHEMA = """
interface Named { name: String }
node Person implements Named {
    name: String @key
    age: I32?
    city: enum(berlin, oslo, quito)? @index
    tags: [String]?
    bio: String @index
    joined: DateTime?
    photo: Blob?
    embedding: Vector(4)? @embed("bio", model="mock/small")
    sketch: Vector(4)?
    @range(age, 0..200)
    @check(name, "^[A-Z].*")
    @unique(name, city)
}
node Company implements Named { name: String @key, size: U32 @default(1), founded: Date? }
node Event { day: Date, room: I32, title: String  @key(day, room) }
node Note { text: String }
node Counter { number: I64 @key }
edge Knows: Person -> Person { since: Date?  @unique(src, dst) }
edge WorksAt: Person -> Company @card(0..1) { since: Date? }
edge Contains: Company -> Company
edge Attends: Person -> Event
edge Counts: Counter -> Counter { weight: F64 }
"""


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    """A small world with every kind of type in it."""
    return compile_schema(SOCIAL_SCHEMA)


def carry_rows(patch: pytest.MonkeyPatch, most: int) -> None:
    """Lets the manifest carry up to a number of rows of a table, in this process and in those that it starts."""
    patch.setenv("OMNIGRAPH_CARRIED_ROWS", str(most))
    patch.setattr("omnigraph.write.carried.CARRIED_ROWS", most)


@pytest.fixture
def rows_in_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every write changes tables through the four phases, in this process and in those that it starts.

    For tests about tables, forks, sidecars and recovery, whose writes would otherwise be carried in the manifest.
    """
    carry_rows(monkeypatch, 0)


@pytest.fixture(scope="module")
def module_with_rows_in_tables() -> Iterator[None]:
    """The same for a module, and for what its tests share."""
    with pytest.MonkeyPatch.context() as patch:
        carry_rows(patch, 0)
        yield


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with the longest tests, whatever the order of the others: one that comes last keeps all others waiting."""
    items.sort(key=lambda item: (not item.get_closest_marker("slow"), not item.get_closest_marker("long")))


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Names a test that failed at once: a run that is ended early has no summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        sys.stderr.write(f"\nFAILED {report.nodeid} ({report.when}, {report.duration:.0f} s)\n{report.longreprtext}\n")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line with the count of cases."""
    counted = [
        value
        for report in terminalreporter.stats.get("passed", [])
        for name, value in report.user_properties
        if name == "kills"
    ]
    if counted:
        terminalreporter.write_line(f"crash cases: {len(counted)} passed, {sum(counted)} processes killed")
