"""Lines about requests are written without records, and look the same."""

import asyncio
import io
import json
import logging
import threading
from typing import Any

import pytest

from omnigraph.server.exchange import Exchange
from omnigraph.server.logs import JsonLines, JsonLogHandler, json_log_handler, json_logs, request_about, request_line


def _exchange(**fields: Any) -> Exchange:
    given = {"request_id": "id", "method": "POST", "path": "/graphs/a/query", "client": "::1", "route": "/graphs/{id}"}
    return Exchange(**{**given, **fields})


@pytest.mark.parametrize(
    "exchange",
    [
        _exchange(),
        _exchange(actor="ann", graph="people", code="too_busy"),
        _exchange(actor='é"\n', path='/\\"\x1b[31m\ud800', method="P\x00ST"),
    ],
)
def test_a_line_has_what_a_record_of_the_same_fields_has(exchange: Exchange) -> None:
    line = '{"time": "now", ' + request_line(
        exchange.request_id,
        request_about(exchange),
        exchange.client,
        level="debug",
        status=429,
        code=exchange.code,
        seconds=0.0123456,
        received=7,
        sent=8,
        cancelled=True,
    )
    record = logging.LogRecord("omnigraph.server", logging.DEBUG, "", 0, "request", None, None)
    names = ("request_id", "actor", "graph", "method", "path", "route")
    vars(record).update({name: getattr(exchange, name) for name in names})
    vars(record).update(status=429, code=exchange.code, ms=12.35, received=7, sent=8, client="::1", cancelled=True)
    expected = json.loads(JsonLines().format(record))
    found = json.loads(line)
    assert list(found) == list(expected)
    assert {**found, "time": ""} == {**expected, "time": ""}
    assert line.endswith("}\n")
    assert line.count("\n") == 1


def test_lines_of_one_turn_are_written_together_and_before_later_records() -> None:
    class Stream(io.StringIO):
        writes = 0

        def write(self, text: str) -> int:
            self.writes += 1
            return super().write(text)

    stream = Stream()
    handler = JsonLogHandler(stream)
    record = logging.LogRecord("omnigraph.server", logging.INFO, "", 0, "later", None, None)

    async def log() -> None:
        for number in range(3):
            handler.add_line(f'"message": "{number}"}}\n')
        written.append(stream.writes)
        await asyncio.sleep(0)
        written.append(stream.writes)
        handler.add_line('"message": "3"}\n')
        handler.handle(record)

    written: list[int] = []
    asyncio.run(log())
    assert written == [0, 1]
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["0", "1", "2", "3", "later"]


def test_no_line_is_lost_while_threads_log_records() -> None:
    stream = io.StringIO()
    handler = JsonLogHandler(stream)
    record = logging.LogRecord("omnigraph.server", logging.INFO, "", 0, "record", None, None)
    stop = threading.Event()

    def log_records() -> None:
        while not stop.is_set():
            handler.handle(record)

    async def log() -> None:
        for number in range(2_000):
            handler.add_line(f'"message": "{number}"}}\n')
            if number % 7 == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(0)

    threads = [threading.Thread(target=log_records) for _ in range(2)]
    for each in threads:
        each.start()
    asyncio.run(log())
    stop.set()
    for each in threads:
        each.join()
    messages = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert [each for each in messages if each != "record"] == [str(number) for number in range(2_000)]


def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    stream = io.StringIO()
    stream.close()
    handler = JsonLogHandler(stream)

    async def log() -> None:
        handler.add_line('"message": "1"}\n')
        handler._write_waiting()

    asyncio.run(log())


def test_the_handler_is_there_in_the_block_only() -> None:
    assert json_log_handler() is None
    with json_logs():
        assert json_log_handler() in logging.getLogger().handlers
    assert json_log_handler() is None
