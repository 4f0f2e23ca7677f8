"""How Lance numbers columns, and what it keeps when they change."""

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from lance.dataset import Transaction
from lance.fragment import DataFile, FragmentMetadata, write_fragments
from lance.schema import LanceSchema

import lance
from lance import LanceOperation as Operation
from omnigraph.catalog.types import BLOB_METADATA
from omnigraph.storage.lance_schema import StoredColumn, lance_schema, new_columns, stored_columns

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("file", pa.large_binary(), metadata=BLOB_METADATA),
        pa.field("n", pa.int32()),
    ]
)
VERSIONS = ["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
COMING = pa.schema([pa.field("marks", pa.list_(pa.int32())), pa.field("kind", pa.string())])


def rows(*names: str) -> pa.Table:
    count = len(names)
    return pa.table({"id": names, "tags": [["t"]] * count, "file": [b"f"] * count, "n": range(count)}, schema=SCHEMA)


@pytest.fixture
def dataset(tmp_path: Path) -> lance.LanceDataset:
    """Two fragments of different versions, in one of which a row is deleted."""
    create = Operation.Overwrite(SCHEMA, [])
    dataset = lance.LanceDataset.commit(tmp_path / "t", create, enable_stable_row_ids=True)
    dataset = lance.write_dataset(rows("a", "b", "c"), dataset, mode="append")
    dataset = lance.write_dataset(rows("d", "e"), dataset, mode="append")
    dataset.delete("id = 'b'")
    return dataset


def committed(dataset: lance.LanceDataset, operation: Operation.BaseOperation) -> lance.LanceDataset:
    return lance.LanceDataset.commit(dataset, Transaction(dataset.version, operation), max_retries=0)


def with_values(dataset: lance.LanceDataset) -> list[FragmentMetadata]:
    """The fragments with one more file each, of the columns that come, numbered after all others."""
    fragments = []
    for fragment in dataset.get_fragments():
        count = fragment.physical_rows
        values = pa.table({"marks": [[1, 2]] * count, "kind": ["k"] * count}, schema=COMING)
        (written,) = write_fragments(values, dataset, schema=COMING, mode="overwrite")
        (file,) = written.files
        assert file.fields == [1, 2]
        numbers = [number + dataset.max_field_id + 1 for number in file.fields]
        file = DataFile(str(file.path), numbers, file.column_indices, 2, 2, file.file_size_bytes)
        fragments.append(replace(fragment.metadata, files=[*fragment.metadata.files, file]))
    return fragments


def coming(dataset: lance.LanceDataset) -> list[StoredColumn]:
    columns = new_columns(COMING, dataset.data_storage_version)
    return [column.with_ids_from(dataset.max_field_id + 1) for column in columns.values()]


def test_a_schema_is_taken_apart_into_numbered_columns_and_put_together_as_it_was(dataset: lance.LanceDataset) -> None:
    columns = stored_columns(dataset)
    assert {name: column.ids for name, column in columns.items()} == {
        "id": (0,),
        "tags": (1, 2),
        "file": (3, 5, 6),
        "n": (4,),
    }
    again = lance_schema(dataset, columns.values())
    assert again == dataset.lance_schema
    assert pickle.loads(pickle.dumps(again)) == again  # noqa: S301 - our own
    assert [field.id() for field in again.fields()] == [0, 1, 3, 4]


def test_a_schema_made_from_arrow_is_numbered_from_zero(dataset: lance.LanceDataset) -> None:
    dataset.drop_columns(["id"])
    assert [field.id() for field in dataset.lance_schema.fields()] == [1, 3, 4]
    made = LanceSchema.from_pyarrow(pa.schema([pa.field("tags", pa.list_(pa.string())), pa.field("n", pa.int32())]))
    assert [field.id() for field in made.fields()] == [0, 2]


def test_a_schema_made_from_arrow_lacks_the_parts_of_a_blob(dataset: lance.LanceDataset) -> None:
    """So `new_columns` writes a table in memory."""
    made = LanceSchema.from_pyarrow(SCHEMA)
    assert [each.name() for each in made.fields()] == SCHEMA.names
    assert sum(1 for _ in made.__reduce__()[1]) - 1 < sum(
        len(column.ids) for column in stored_columns(dataset).values()
    )


def test_the_last_value_of_a_field_of_a_message_counts(dataset: lance.LanceDataset) -> None:
    """So a column is changed by what is appended to its message, again and again."""
    column = stored_columns(dataset)["tags"]
    for number in range(3):
        column = column.with_name(f"name{number}", nullable=number % 2 == 0).with_ids_from(100)
    changed = lance_schema(dataset, [column])
    assert column.ids == (301, 302)
    (field,) = changed.fields()
    assert (field.name(), field.id(), [child.id() for child in field.children()]) == ("name2", 301, [302])
    assert changed.to_pyarrow().field("name2").nullable
    required = lance_schema(dataset, [column.with_name("name3", nullable=False)])
    assert required.to_pyarrow() == pa.schema([pa.field("name3", pa.list_(pa.string()), nullable=False)])


def test_columns_that_come_can_be_numbered_beyond_all_that_were(dataset: lance.LanceDataset) -> None:
    """A column that went lies in the files still, and its number counts."""
    dataset.drop_columns(["n"])
    assert dataset.max_field_id == 6
    dataset.drop_columns(["file"])
    assert dataset.max_field_id == 4
    assert [column.ids for column in coming(dataset)] == [(5, 6), (7,)]


def test_files_of_other_columns_can_be_written_without_a_version(dataset: lance.LanceDataset) -> None:
    """Their columns are numbered as those of a table of their own: by their items, or else by themselves."""
    version = dataset.version
    vector = pa.field("v", pa.list_(pa.float32(), 2))
    schema = pa.schema([SCHEMA.field("n"), SCHEMA.field("tags"), vector, pa.field("text", pa.string())])
    values = pa.table({"n": [1], "tags": [["t"]], "v": [[1.0, 2.0]], "text": ["t"]}, schema=schema)
    (written,) = write_fragments(values, dataset, schema=schema, mode="overwrite")
    assert lance.dataset(dataset.uri).version == version
    assert written.files[0].fields == [0, 2, 3, 4]
    with_blob = pa.schema([*schema, SCHEMA.field("file")])
    numbers = {name: column.ids for name, column in new_columns(with_blob, "2.2").items()}
    assert numbers == {"n": (0,), "tags": (1, 2), "v": (3,), "text": (4,), "file": (5, 6, 7)}


def test_a_projection_renames_reorders_relaxes_drops_and_adds_what_is_null(dataset: lance.LanceDataset) -> None:
    before = dataset.to_table(columns=VERSIONS)
    columns = stored_columns(dataset)
    layout = [
        *coming(dataset),
        columns["n"].with_name("number", nullable=False),
        columns["id"].with_name("id", nullable=True),
    ]
    after = committed(dataset, Operation.Project(lance_schema(dataset, layout)))
    assert after.schema.names == ["marks", "kind", "number", "id"]
    assert [field.nullable for field in after.schema] == [True, True, False, True]
    assert after.to_table().to_pylist() == [
        {"marks": None, "kind": None, "number": number, "id": name}
        for name, number in (("a", 0), ("c", 2), ("d", 0), ("e", 1))
    ]
    assert after.to_table(columns=VERSIONS).to_pylist() == before.to_pylist()


def test_files_put_beside_others_fill_columns_and_change_no_row(dataset: lance.LanceDataset) -> None:
    before = dataset.to_table(columns=VERSIONS)
    fragments = with_values(dataset)
    layout = [*stored_columns(dataset).values(), *coming(dataset)]
    empty = committed(dataset, Operation.Project(lance_schema(dataset, layout)))
    update = Operation.Update(removed_fragment_ids=[], updated_fragments=fragments, new_fragments=[])
    after = committed(empty, update)
    assert after.version == dataset.version + 2
    assert after.to_table(columns=["id", "kind", "marks"]).to_pylist() == [
        {"id": name, "kind": "k", "marks": [1, 2]} for name in "acde"
    ]
    assert after.to_table(columns=VERSIONS) == before


def test_a_merge_that_brings_values_takes_every_row_for_changed(dataset: lance.LanceDataset) -> None:
    """So `storage/columns.py` brings them otherwise."""
    schema = lance_schema(dataset, [*stored_columns(dataset).values(), *coming(dataset)])
    after = committed(dataset, Operation.Merge(with_values(dataset), schema))
    versions = after.to_table(columns=["_row_last_updated_at_version"])["_row_last_updated_at_version"]
    assert {*versions.to_pylist()} == {after.version}


def test_a_merge_relaxes_no_column(dataset: lance.LanceDataset) -> None:
    columns = stored_columns(dataset) | {"id": stored_columns(dataset)["id"].with_name("id", nullable=True)}
    schema = lance_schema(dataset, [*columns.values(), *coming(dataset)])
    with pytest.raises(OSError, match="nullability"):
        committed(dataset, Operation.Merge(with_values(dataset), schema))


def test_indexes_stay_with_the_numbers_of_their_columns(dataset: lance.LanceDataset) -> None:
    dataset.create_scalar_index("n", "BTREE", name="n_btree")
    dataset.create_scalar_index("tags", "LABEL_LIST", name="tags_label_list")
    columns = stored_columns(dataset)
    fragments = with_values(dataset)
    layout = [columns["id"], columns["n"].with_name("number", nullable=True), *coming(dataset)]
    renamed = committed(dataset, Operation.Project(lance_schema(dataset, layout)))
    update = Operation.Update(removed_fragment_ids=[], updated_fragments=fragments, new_fragments=[])
    after = committed(renamed, update)
    (index,) = after.describe_indices()
    assert (index.name, index.field_names, [*index.segments[0].fragment_ids]) == ("n_btree", ["number"], [0, 1])
    assert "@n_btree(" in after.scanner(filter="number = 2").explain_plan(True)
    assert after.to_table(columns=["id"], filter="number = 2")["id"].to_pylist() == ["c"]


@pytest.mark.parametrize(("kind", "name"), [("BTREE", "BTree"), ("BITMAP", "Bitmap"), ("NGRAM", "NGram")])
def test_an_index_that_was_written_tells_its_kind(dataset: lance.LanceDataset, kind: str, name: str) -> None:
    written = dataset.create_index_uncommitted("id", kind, name="any", fragment_ids=[0, 1])
    assert pickle.loads(pickle.dumps(written)).index_details[0] == f"/lance.table.{name}IndexDetails"  # noqa: S301
    labels = dataset.create_index_uncommitted("tags", "LABEL_LIST", name="any", fragment_ids=[0, 1])
    assert labels.index_details is not None
    assert labels.index_details[0] == "/lance.table.LabelListIndexDetails"


def test_rows_replace_all_others_under_the_numbers_that_the_columns_have(dataset: lance.LanceDataset) -> None:
    """With a schema of Arrow the columns would get others than the files have."""
    columns = stored_columns(dataset)
    dataset = committed(
        dataset, Operation.Project(lance_schema(dataset, [columns["n"], columns["tags"], columns["id"]]))
    )
    more = rows("x", "y").select(["n", "tags", "id"])
    written = write_fragments(more, dataset, schema=more.schema, mode="append")
    after = committed(dataset, Operation.Overwrite(dataset.lance_schema, written))
    assert [field.id() for field in after.lance_schema.fields()] == [4, 1, 0]
    assert after.to_table().to_pylist() == more.to_pylist()
