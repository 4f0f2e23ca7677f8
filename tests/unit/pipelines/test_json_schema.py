"""The JSON Schema for editors has the keys and words of the reader, and accepts what the reader accepts."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from omnigraph.api.data import LoadMode
from omnigraph.pipelines import reading
from omnigraph.pipelines.definition import Increment, Review, ViolationAction
from tests.behaviour.shop import TEXT
from tests.behaviour.test_pipeline_changes import CHANGES

DOCS = Path(__file__).parents[3] / "docs"
SCHEMA = json.loads((DOCS / "reference/pipeline.schema.json").read_text())
PARTS = SCHEMA["properties"]


def alternatives(part: Any) -> Any:
    """The shape of one item, where one or a list of them is accepted."""
    return part["additionalProperties"]["oneOf"][0]["properties"]


def test_the_schema_has_the_keys_and_words_of_the_reader() -> None:
    source = PARTS["sources"]["additionalProperties"]["properties"]
    expectation = PARTS["expectations"]["items"]["properties"]
    publish = PARTS["publish"]["properties"]
    assert set(PARTS) == set(reading.PIPELINE_KEYS)
    assert set(source) == set(reading.SOURCE_KEYS)
    assert set(alternatives(PARTS["nodes"])) == set(reading.NODE_KEYS)
    assert set(alternatives(PARTS["edges"])) == set(reading.EDGE_KEYS)
    assert set(expectation) == set(reading.EXPECTATION_KEYS)
    assert set(publish) == set(reading.PUBLISH_KEYS)
    assert (source["increment"]["enum"], source["format"]["enum"]) == ([*Increment], [*reading.FORMATS])
    assert expectation["action"]["enum"] == [*ViolationAction]
    assert set(publish["mode"]["enum"]) == {*LoadMode}
    assert publish["review"]["enum"] == [*Review]


@pytest.mark.parametrize("text", [TEXT, CHANGES, (DOCS / "examples/debian/debian.yaml").read_text()])
def test_the_schema_accepts_pipelines(text: str) -> None:
    jsonschema_rs.validate(SCHEMA, yaml.safe_load(text))


@pytest.mark.parametrize(
    ("old", "new"),
    [("increment: files", "increment: daily"), ("    to: sku\n", ""), ("quarantine: rejected", "quarantines: x")],
)
def test_the_schema_refuses_mistakes(old: str, new: str) -> None:
    assert old in TEXT
    assert not jsonschema_rs.is_valid(SCHEMA, yaml.safe_load(TEXT.replace(old, new)))
