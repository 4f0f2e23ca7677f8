"""What is new follows from what the batches before have read."""

from pathlib import Path

import pytest

from omnigraph.diagnostics import Source
from omnigraph.pipelines import inputs
from omnigraph.pipelines.definition import PipelineDefinition
from omnigraph.pipelines.inputs import find_input, states_after
from omnigraph.pipelines.reading import read_definition


def definition(folder: Path, increment: str) -> PipelineDefinition:
    text = (
        f"pipeline: p\nsources: {{s: {{files: '*.csv', increment: {increment}, column: c}}}}\nnodes: {{N: {{view: s}}}}"
    )
    found = read_definition(Source("p.yaml", text), folder).definition
    assert found is not None
    return found


def test_files_that_are_new_or_changed_are_read_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("c\n1\n")
    files = definition(tmp_path, "files")
    (first,) = find_input(files, {})
    states = states_after([{"s": first.state}])
    assert [(each.is_new, each.rows.is_empty) for each in find_input(files, states)] == [(False, True)]
    (tmp_path / "a.csv").write_text("c\n2\n")
    (tmp_path / "b.csv").write_text("c\n1\n")
    (second,) = find_input(files, states)
    assert sorted(second.state["files"]) == ["a.csv", "b.csv"]
    states = states_after([{"s": first.state}, {"s": second.state}])
    assert not find_input(files, states)[0].is_new
    assert find_input(files, states, full=True)[0].is_new


def test_a_whole_source_is_new_when_any_file_changed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("c\n1\n")
    whole = definition(tmp_path, "whole")
    (first,) = find_input(whole, {})
    assert not find_input(whole, {"s": first.state})[0].is_new
    (tmp_path / "b.csv").write_text("c\n1\n")
    assert find_input(whole, {"s": first.state})[0].is_new


def test_a_batch_reads_as_many_files_as_its_commit_can_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        (tmp_path / f"{number}.csv").write_text("c\n1\n")
    monkeypatch.setattr(inputs, "MOST_BYTES", 60)
    (found,) = find_input(definition(tmp_path, "files"), {})
    assert (sorted(found.state["files"]), found.has_more) == (["0.csv", "1.csv"], True)


def test_a_column_goes_on_after_its_greatest_value(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("c\n1\n")
    (found,) = find_input(definition(tmp_path, "column"), {"s": {"after": "7"}})
    assert (found.rows.after, found.is_new) == ("7", True)
