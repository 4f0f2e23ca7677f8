"""A server leaves the process that it ran in as it was."""

import os
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.parts.choice import SPARK_SWITCH
from omnigraph.server.lifecycle import serve
from omnigraph.server.settings import ServerSettings


@pytest.mark.parametrize("before", [None, "on"])
def test_spark_is_what_it_was_when_a_server_has_ended(
    before: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SPARK_SWITCH, raising=False)
    if before is not None:
        monkeypatch.setenv(SPARK_SWITCH, before)
    with pytest.raises(og.OmnigraphError):
        serve(ServerSettings(graphs={"people": str(tmp_path / "nothing.omni")}, unauthenticated=True))
    assert os.environ.get(SPARK_SWITCH) == before
