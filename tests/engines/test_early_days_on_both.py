"""Days and instants before the Gregorian calendar, and of years before 1000, mean the same to both engines."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from omnigraph.catalog import compile_schema
from tests.engines.both import BothWorld
from tests.unit.query.world import written

CATALOG = compile_schema("""
interface Dated { days: [Date]  instants: [DateTime]?  day: Date? }
node Event implements Dated { name: String @key  days: [Date]  instants: [DateTime]?  day: Date? }
edge After: Event -> Event
""")
DAYS = ["0001-01-01", "0999-12-31", "1200-02-28", "1582-10-04", "1582-10-10", "1582-10-15"]
INSTANTS = ["0001-01-01T00:00:00Z", "0999-12-31T23:59:59.999Z", "1500-06-01T12:00:00Z", "1582-10-14T23:59:59.999Z"]
EVENTS: list[dict[str, Any]] = [
    {
        "name": "early",
        "days": [date.fromisoformat(each) for each in DAYS],
        "instants": [datetime.fromisoformat(each).astimezone(UTC) for each in INSTANTS],
        "day": date(1, 1, 1),
    },
    {"name": "late", "days": [date(2024, 2, 29)], "instants": [], "day": date(2024, 2, 29)},
]


@pytest.fixture(scope="module")
def events(spark_for_few_rows: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> BothWorld:
    rows = {"node:Event": EVENTS, "edge:After": [{"src": each, "dst": "late"} for each in ("early", "late")]}
    return BothWorld(CATALOG, written(Path(tmp_path_factory.mktemp("days")), CATALOG, rows), spark=spark_for_few_rows)


@pytest.mark.parametrize(
    "value",
    [
        *(f'$v.days contains date("{each}")' for each in DAYS),
        *(f'$v.instants contains datetime("{each}")' for each in INSTANTS),
    ],
)
def test_an_optional_pattern_asks_for_early_times_in_a_list_of_what_is_around_it(events: BothWorld, value: str) -> None:
    found = events.rows(f"match {{ $v: Dated  optional {{ $v after $w  {value} }} }} return {{ $v.id, $w.id }}")
    assert found == [("early", "late"), ("late", None)]


def test_early_times_are_computed_with_and_returned_by_parts_of_a_union(events: BothWorld) -> None:
    first, early = 'date("0001-01-01")', 'datetime("1500-06-01T12:00:00Z")'
    found = events.rows(
        f"""match {{ $v: Event  coalesce($v.day, date("1582-10-10")) <= {first} }}
        return {{ {first} as d, {early} as t }}
        union match {{ $v: Event }} return {{ date("1582-10-10") as d, {early} as t }}"""
    )
    instant = datetime(1500, 6, 1, 12, tzinfo=UTC)
    assert found == [(date(1, 1, 1), instant), (date(1582, 10, 10), instant)]
