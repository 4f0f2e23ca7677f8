"""A program over tables in memory finds what a plain reading of the language finds, in the same order."""

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import event, given, settings

from omnigraph.catalog import Catalog
from omnigraph.compiler import compile_query, ir
from omnigraph.query.levels import KnownValues
from omnigraph.query.plan import limit_of
from omnigraph.query.programs import NoProgram, program_of
from omnigraph.query.resident import run_program
from omnigraph.resident.links import link
from omnigraph.resident.memory import MemoryBound
from omnigraph.resident.tables import read_table
from omnigraph.resident.view import ResidentView
from tests.unit.query.reference import Reference
from tests.unit.query.test_against_reference import graphs, queries, tidy
from tests.unit.query.world import NOW, LanceReader, complete, written


def resident_view(reader: LanceReader, catalog: Catalog) -> ResidentView:
    """The tables of a reader, in memory."""
    memory = MemoryBound()
    ends = {edge.table_key: (f"node:{edge.source}", f"node:{edge.destination}") for edge in catalog.edges.values()}
    return ResidentView(
        lambda key: read_table(reader.table(key), memory),
        lambda view, key: link(view.table(key), (view.table(ends[key][0]), view.table(ends[key][1]))),
    )


@settings(max_examples=100)
@given(rows=graphs(), text=queries())
def test_a_program_finds_what_the_language_means(
    catalog: Catalog, rows: dict[str, list[dict[str, Any]]], text: str
) -> None:
    query = compile_query(text, catalog)
    assert isinstance(query.body, ir.Read)
    program = program_of(query.body, catalog)
    event("program" if program is not None else "none")
    if program is None:
        return
    expected = Reference(catalog, complete(rows, catalog), {}, NOW).answer(query.body)
    values = KnownValues({}, NOW)
    with tempfile.TemporaryDirectory() as path:
        view = resident_view(written(Path(path), catalog, rows), catalog)
        try:
            arrays = run_program(program, view, values, limit=limit_of(query, values))
        except NoProgram:
            return
    found = pa.Table.from_arrays(arrays, schema=program.schema)
    assert tidy([tuple(row.values()) for row in found.to_pylist()]) == tidy(expected)
