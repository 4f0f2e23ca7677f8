"""The graph that bulk loads are measured with: people who know people, as NDJSON and Parquet, the same every time."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SCHEMA = """
node Person { name: String @key, age: I32?, city: enum(berlin, oslo, quito)?  @range(age, 0..200) }
edge Knows: Person -> Person { since: Date? }
"""
PEOPLE = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("age", pa.int32()),
        pa.field("city", pa.string()),
    ]
)
FRIENDSHIPS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("src", pa.string(), nullable=False),
        pa.field("dst", pa.string(), nullable=False),
        pa.field("since", pa.date32()),
    ]
)
_CITIES = ("berlin", "oslo", "quito")
_FIRST_DAY = np.datetime64("2015-01-01")
_DAYS = 4_000
_BLOCK = 250_000

_Numbers = npt.NDArray[np.int64]


def write_lines(path: Path, lines: int) -> None:
    """An NDJSON file of so many lines, about 95 bytes each: one tenth of them people, then whom they know."""
    chance = np.random.default_rng(7)
    people = max(lines // 10, 1)
    days = [str(_FIRST_DAY + day) for day in range(_DAYS)]
    with path.open("w", buffering=1 << 22) as out:
        for numbers in _blocks(people):
            ages, cities = _person_values(chance, len(numbers))
            rows = zip(numbers, ages.tolist(), cities.tolist(), strict=True)
            out.writelines(
                f'{{"type": "Person", "data": {{"name": "person{number}", "age": {age}, "city": "{_CITIES[city]}"}}}}\n'
                for number, age, city in rows
            )
        for numbers in _blocks(lines - people):
            sources, targets, since = _friendship_values(chance, people, len(numbers))
            ends = zip(sources.tolist(), targets.tolist(), since.tolist(), strict=True)
            out.writelines(
                f'{{"edge": "Knows", "from": "person{source}", "to": "person{target}", '
                f'"data": {{"since": "{days[day]}"}}}}\n'
                for source, target, day in ends
            )


def write_parquet(folder: Path, *, people: int, friendships: int) -> None:
    """`nodes.parquet` with name, age and city, and `edges.parquet` with from, to and since, in many row groups."""
    chance = np.random.default_rng(7)
    given = pa.schema([PEOPLE.field("name"), PEOPLE.field("age"), PEOPLE.field("city")])
    with pq.ParquetWriter(folder / "nodes.parquet", given) as out:
        for numbers in _blocks(people):
            ages, cities = _person_values(chance, len(numbers))
            columns = [_names(np.array(numbers)), pa.array(ages, pa.int32()), pa.array(_CITIES).take(pa.array(cities))]
            out.write_table(pa.table(columns, schema=given))
    given = pa.schema({"from": pa.string(), "to": pa.string(), "since": pa.date32()})
    with pq.ParquetWriter(folder / "edges.parquet", given) as out:
        for numbers in _blocks(friendships):
            sources, targets, since = _friendship_values(chance, people, len(numbers))
            columns = [_names(sources), _names(targets), pa.array(_FIRST_DAY + since, pa.date32())]
            out.write_table(pa.table(columns, schema=given))


def _blocks(count: int) -> Iterator[range]:
    for first in range(0, count, _BLOCK):
        yield range(first, min(first + _BLOCK, count))


def _person_values(chance: np.random.Generator, count: int) -> tuple[_Numbers, _Numbers]:
    return chance.integers(0, 100, count), chance.integers(0, len(_CITIES), count)


def _friendship_values(chance: np.random.Generator, people: int, count: int) -> tuple[_Numbers, _Numbers, _Numbers]:
    ends = chance.integers(0, people, count), chance.integers(0, people, count)
    return *ends, chance.integers(0, _DAYS, count)


def _names(numbers: _Numbers) -> pa.Array:
    return pc.binary_join_element_wise("person", pa.array(numbers).cast(pa.string()), "")
