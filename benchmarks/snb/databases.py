"""The databases that answer the reads: ours, DuckDB and ladybug, each with the same data and with texts of its own.

A file of queries has a section for each, which begins with a comment `name: …`. Answers are compared as tuples, where
instants have no zone and floats are rounded, since the databases write the same instant and the same sum differently.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import ladybug

import omnigraph as og
from benchmarks.snb.parameters import Parameters

Rows: TypeAlias = list[tuple[Any, ...]]

HERE = Path(__file__).parent
SCHEMA = (HERE / "schema.pg").read_text()
QUERIES = (HERE / "queries.gq").read_text()
NAMES = tuple(re.findall(r"^query (\w+)", QUERIES, re.MULTILINE))
"""The reads that we have, in their order."""

WITHOUT_ORDER = frozenset({"ic14"})
"""Reads whose order the benchmark leaves open where it matters: paths of the same weight."""


@dataclass(frozen=True, slots=True)
class Database:
    """One that can be asked: what it answers to a query by its name, and how it takes parameters."""

    name: str
    ask: Callable[[str, Parameters], Sequence[Any]]
    """Rows, as the database gives them to its users."""
    tidy: Callable[[Sequence[Any]], Rows]
    """The same as tuples that can be compared."""
    takes_zones: bool = False

    def parameters(self, given: Parameters) -> Parameters:
        """Parameters as this database takes them, made before time is measured."""
        return given if self.takes_zones else {name: _plain(value) for name, value in given.items()}

    def rows(self, query: str, given: Parameters) -> Rows:
        """The answer to a query, to be compared."""
        return self.comparable(query, self.ask(query, self.parameters(given)))

    def comparable(self, query: str, answer: Sequence[Any]) -> Rows:
        """An answer in a form that is the same for all databases."""
        rows = self.tidy(answer)
        return sorted(rows) if query in WITHOUT_ORDER else rows


def tuples(rows: Sequence[Any]) -> Rows:
    """Rows, or rows as dictionaries, as tuples of values that can be compared."""
    return [tuple(_plain(value) for value in (row.values() if isinstance(row, dict) else row)) for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.replace(tzinfo=None)
    return round(value, 6) if isinstance(value, float) else value


def open_ours(folder: Path, files: Mapping[str, Path]) -> tuple[og.Graph, Database]:
    """A graph with the data, asked by prepared reads."""
    graph = og.init(folder / "graph.omni", SCHEMA)
    graph.load(dict(files), engine="local")
    prepared = {name: graph.prepare(QUERIES, name) for name in NAMES}

    def ask(name: str, given: Parameters) -> Sequence[Any]:
        return prepared[name].run(given).rows()

    return graph, Database("ours", ask, tuples, takes_zones=True)


def open_duckdb(folder: Path) -> Database:
    """DuckDB, which prepares a text that it is given again."""
    duck = duckdb.connect(str(folder / "duck.db"))
    for statement in _statements("tables.sql", folder):
        duck.execute(statement)
    texts = dict(_sections("queries.sql"))

    def ask(name: str, given: Parameters) -> Sequence[Any]:
        return duck.execute(texts[name], given).fetchall()

    return Database("duckdb", ask, tuples)


def open_ladybug(folder: Path, files: Mapping[str, Path]) -> Database:
    """Ladybug, asked by prepared statements."""
    connection = ladybug.Connection(ladybug.Database(str(folder / "ladybug.db")))
    for statement in _statements("tables.cypher", folder):
        connection.execute(statement)
    for name, path in files.items():
        connection.execute(f"COPY {name} FROM '{path}'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        prepared = {name: connection.prepare(text) for name, text in _sections("queries.cypher")}

    def ask(name: str, given: Parameters) -> Sequence[Any]:
        found = connection.execute(prepared[name], given)
        assert isinstance(found, ladybug.QueryResult)
        return list(found.get_all())

    return Database("ladybug", ask, tuples)


def _statements(file: str, folder: Path) -> Iterator[str]:
    text = re.sub(r"^(--|//).*$", "", (HERE / file).read_text(), flags=re.MULTILINE)
    for statement in text.replace("{folder}", str(folder)).split(";"):
        if statement.strip():
            yield statement


def _sections(file: str) -> Iterator[tuple[str, str]]:
    for section in re.split(r"^(?:--|//) name: ", (HERE / file).read_text(), flags=re.MULTILINE)[1:]:
        name, _, text = section.partition("\n")
        yield name.strip(), text.strip().rstrip(";")
