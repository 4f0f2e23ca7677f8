"""Small records are decoded without pydantic, to the same values; what is not declared is damage, as ever."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest

from omnigraph.errors import Damaged
from omnigraph.storage import records


@dataclass(frozen=True)
class Inner:
    name: str
    version: int


@dataclass(frozen=True)
class Outer:
    text: str
    at: Inner
    time: datetime
    whole: list[int]
    rest: dict[str, Any]
    note: str | None = None
    flag: bool = False
    extra: tuple[int, ...] = field(default=())


WHOLE: dict[str, Any] = {
    "text": "ü 漢",
    "at": {"name": "main", "version": 3},
    "time": "2026-01-02T03:04:05.678901+00:00",
    "whole": [1, 2],
    "rest": {"a": [None, 1.5, {"b": "c"}]},
}


def changed(**values: Any) -> dict[str, Any]:
    return {**WHOLE, **values}


@pytest.mark.parametrize("content", [WHOLE, changed(note="n", flag=True), changed(note=None), changed(whole=[])])
def test_a_small_record_is_decoded_as_pydantic_decodes_it(content: dict[str, Any]) -> None:
    found = records._decode_plain(Outer, content)
    assert found == records._decode_any(Outer, "uri", content)


@pytest.mark.parametrize(
    "content",
    [
        changed(text=3),
        changed(text=None),
        changed(text="half \ud800"),
        changed(at={"name": "main"}),
        changed(at={"name": "main", "version": "3"}),
        changed(at={"name": "main", "version": True}),
        changed(at={"name": "main", "version": 3.5}),
        changed(at=None),
        changed(at=[]),
        changed(time="yesterday"),
        changed(time=None),
        changed(whole=["1"]),
        changed(whole=[True]),
        changed(whole=None),
        changed(rest=[]),
        changed(rest={"a": "\ud800"}),
        changed(flag=1),
        changed(note=1),
        {name: value for name, value in WHOLE.items() if name != "text"},
        {},
    ],
)
def test_a_record_with_a_value_of_another_type_is_damaged(content: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the reason, pydantic decides
        records._decode_plain(Outer, content)
    with pytest.raises(Damaged, match="cannot be understood"):
        records.from_content(Outer, "uri", content)


@pytest.mark.parametrize("content", [changed(extra=[1, 2]), changed(time="2026-01-02T03:04:05Z"), changed(unknown=1)])
def test_what_is_not_small_is_decoded_by_pydantic(content: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        records._decode_plain(Outer, content)
    assert records.from_content(Outer, "uri", content) == records._decode_any(Outer, "uri", content)
