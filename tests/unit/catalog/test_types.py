"""What property types are in Arrow, and back."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.catalog import Catalog, Enum, List, PropertyType, Scalar, Vector, arrow_type, property_type, table_schema
from omnigraph.catalog.serial import type_from_json, type_to_json

element_types = st.sampled_from([each for each in Scalar if each is not Scalar.BLOB])
property_types: st.SearchStrategy[PropertyType] = st.one_of(
    st.sampled_from(Scalar),
    st.integers(1, 65_536).map(Vector),
    element_types.map(List),
)


@given(property_types)
def test_every_type_but_an_enum_comes_back_from_arrow(type: PropertyType) -> None:
    assert property_type(arrow_type(type)) == type


def test_an_enum_is_text_in_arrow() -> None:
    assert arrow_type(Enum(("a", "b"))) == pa.string()
    assert arrow_type(List(Enum(("a", "b")))) == pa.list_(pa.string())


@pytest.mark.parametrize(
    ("scalar", "arrow"),
    [
        (Scalar.STRING, pa.utf8()),
        (Scalar.I32, pa.int32()),
        (Scalar.U64, pa.uint64()),
        (Scalar.F32, pa.float32()),
        (Scalar.DATE, pa.date32()),
        (Scalar.DATETIME, pa.timestamp("ms", tz="UTC")),
        (Scalar.BLOB, pa.large_binary()),
        (Vector(3), pa.list_(pa.float32(), 3)),
    ],
)
def test_a_type_has_the_arrow_type_that_the_documentation_says(scalar: PropertyType, arrow: pa.DataType) -> None:
    assert arrow_type(scalar) == arrow


@pytest.mark.parametrize(
    "arrow", [pa.null(), pa.int8(), pa.list_(pa.float64(), 3), pa.list_(pa.list_(pa.string())), pa.struct([])]
)
def test_an_arrow_type_that_no_property_has_is_none(arrow: pa.DataType) -> None:
    assert property_type(arrow) is None


@given(property_types | st.just(Enum(("a", "b"))) | st.just(List(Enum(("a",)))))
def test_a_type_survives_json(type: PropertyType) -> None:
    assert type_from_json(type_to_json(type)) == type


def test_a_table_starts_with_what_identifies_a_row(catalog: Catalog) -> None:
    person = table_schema(catalog.nodes["Person"])
    assert person.names[:3] == ["id", "name", "age"]
    assert not person.field("id").nullable
    assert not person.field("name").nullable
    assert person.field("age").nullable
    assert table_schema(catalog.edges["Knows"]).names == ["id", "src", "dst", "since"]


def test_a_blob_is_marked_for_lance(catalog: Catalog) -> None:
    photo = table_schema(catalog.nodes["Person"]).field("photo")
    assert photo.metadata == {b"lance-encoding:blob": b"true"}
