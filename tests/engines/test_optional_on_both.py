"""Optional patterns find the same on Spark, in the process, and in a plain reading of the language."""

import pytest

from tests.engines.both import BothWorld
from tests.unit.query.test_optional import TEXTS, expected_rows, without_bytes


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_optional_is_the_same_on_both_engines(world: BothWorld, text: str) -> None:
    assert without_bytes(world.rows(text)) == without_bytes(expected_rows(text, world.catalog))
