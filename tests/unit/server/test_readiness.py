"""Whether the graphs can be read is told in time, also when storage does not answer."""

import asyncio
import threading
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.server.app import app_of
from omnigraph.server.routes import about
from omnigraph.server.settings import Settings


def test_a_look_that_hangs_holds_one_thread_however_often_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    og.init(tmp_path / "people.omni", "node Person { name: String @key }", durability="fast")
    hosting = app_of(Settings(graphs={"people": str(tmp_path / "people.omni")}, unauthenticated=True)).state.hosting
    looks, answers = [], threading.Event()

    def hangs(_: og.Graph) -> None:
        looks.append(True)
        answers.wait(30)

    monkeypatch.setattr(about, "_READ_SECONDS", 0.01)
    monkeypatch.setattr(og.Graph, "check_readable", hangs)

    async def asked() -> list[str | None]:
        try:
            found = [await about._problem(hosting) for _ in range(5)]
        finally:
            answers.set()
        await hosting.readiness.looking["people"]
        monkeypatch.setattr(about, "_READ_SECONDS", 30)
        return [*found, await about._problem(hosting)]

    assert asyncio.run(asked()) == ["graph `people` cannot be read"] * 5 + [None]
    assert len(looks) == 2
