"""Whether the graphs can be read is told in time, also when storage does not answer."""

import asyncio
import threading
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.server.app import make_app
from omnigraph.server.routes import server as routes
from omnigraph.server.settings import ServerSettings


def test_a_look_that_hangs_holds_one_thread_however_often_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    og.init(tmp_path / "people.omni", "node Person { name: String @key }", durability="fast")
    state = make_app(
        ServerSettings(graphs={"people": str(tmp_path / "people.omni")}, unauthenticated=True)
    ).state.server
    looks, answers = [], threading.Event()

    def hangs(_: og.Graph) -> None:
        looks.append(True)
        answers.wait(30)

    monkeypatch.setattr(routes, "_READ_SECONDS", 0.01)
    monkeypatch.setattr(og.Graph, "check_readable", hangs)

    async def asked() -> list[str | None]:
        try:
            found = [await routes._problem(state) for _ in range(5)]
        finally:
            answers.set()
        await state.readiness.checks["people"]
        monkeypatch.setattr(routes, "_READ_SECONDS", 30)
        return [*found, await routes._problem(state)]

    assert asyncio.run(asked()) == ["graph `people` cannot be read"] * 5 + [None]
    assert len(looks) == 2
