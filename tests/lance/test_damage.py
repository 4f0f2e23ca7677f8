"""What Lance makes of damaged files: which damage ends the process, and what is checked before so that none does."""

import re
import struct
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lance
from omnigraph.errors import Damaged, StorageError
from omnigraph.storage.location import Location
from omnigraph.storage.staging import with_compact_ends, with_compact_ids
from omnigraph.storage.tables import is_panic, open_table
from omnigraph.write.ids import new_ids

READ = "import lance, sys; lance.dataset(sys.argv[1]).scanner().to_reader().read_all()"
FOOTER = struct.Struct("<QQQIIHH4s")


@pytest.fixture
def dataset(tmp_path: Path) -> lance.LanceDataset:
    rows = pa.table({"id": [f"{number}" for number in range(100)], "v": range(100)})
    made = lance.write_dataset(rows, tmp_path / "table", data_storage_version="2.2", enable_stable_row_ids=True)
    made.create_scalar_index("id", "BTREE")
    made.delete("v in (3, 5, 7)")
    return made


def data_file(dataset: lance.LanceDataset) -> Path:
    (file,) = Path(dataset.uri, "data").iterdir()
    return file


def changed(file: Path, place: int, content: bytes) -> None:
    before = bytearray(file.read_bytes())
    place %= len(before)
    before[place : place + len(content)] = content
    file.write_bytes(bytes(before))


def exit_code(dataset: lance.LanceDataset) -> int:
    return subprocess.run([sys.executable, "-c", READ, dataset.uri], check=False, capture_output=True).returncode


def table_of(dataset: lance.LanceDataset) -> Location:
    return Location(dataset.uri)


def test_the_end_of_a_file_says_where_its_tables_are(dataset: lance.LanceDataset) -> None:
    for file in (data_file(dataset), *Path(dataset.uri, "_indices").rglob("*.lance")):
        content = file.read_bytes()
        columns_at, column_table, buffer_table, buffers, columns, major, _, magic = FOOTER.unpack(content[-40:])
        assert (major, magic) == (2, b"LANC")
        assert columns_at <= column_table
        assert column_table + 16 * columns == buffer_table
        assert buffer_table + 16 * buffers + FOOTER.size == len(content)
        start, length = struct.unpack_from("<QQ", content, buffer_table)
        assert b"\0" not in content[start : start + length]


def test_a_number_that_is_too_large_at_the_end_of_a_file_aborts_the_process(dataset: lance.LanceDataset) -> None:
    changed(data_file(dataset), -FOOTER.size + 27, b"\xff")
    assert exit_code(dataset) == -6
    with pytest.raises(Damaged, match="its footer does not match"):
        open_table(table_of(dataset), dataset.version)


def test_a_message_with_a_nul_aborts_the_process(dataset: lance.LanceDataset) -> None:
    """It is the name of an encoding that Lance does not know, and quotes."""
    file = data_file(dataset)
    changed(file, file.read_bytes().index(b"/lance.encodings21.PageLayout") + 20, b"\0")
    assert exit_code(dataset) == -6
    with pytest.raises(Damaged, match="columns is damaged"):
        open_table(table_of(dataset), dataset.version)


def test_deletions_that_say_that_they_are_very_large_abort_the_process(dataset: lance.LanceDataset) -> None:
    (file,) = Path(dataset.uri, "_deletions").iterdir()
    place = file.read_bytes().index(b"\xff" * 8, 300)
    changed(file, place + 7, b"\x27")
    assert exit_code(dataset) == -6
    with pytest.raises(Damaged, match="list of deleted rows"):
        open_table(table_of(dataset), dataset.version)


def test_a_panic_is_no_exception_and_becomes_one(dataset: lance.LanceDataset) -> None:
    (index,) = Path(dataset.uri, "_versions").glob(f"{2**64 - 1 - dataset.version:020}.manifest")
    content = index.read_bytes()
    changed(index, content.index(b"int64"), b"\0nt64")
    seen: BaseException | None = None
    session = lance.Session()  # type: ignore[attr-defined]
    try:
        lance.dataset(dataset.uri, version=dataset.version, session=session).scanner().to_reader().read_all()
    except BaseException as error:
        seen = error
    assert seen is not None
    assert is_panic(seen) or isinstance(seen, RuntimeError | ValueError)
    with pytest.raises(StorageError):
        open_table(table_of(dataset), dataset.version).scan()


def test_whole_files_are_read(dataset: lance.LanceDataset) -> None:
    table = open_table(table_of(dataset), dataset.version)
    assert table.scan().num_rows == 97
    assert table.scan(["v"], "id = '4'").to_pylist() == [{"v": 4}]


@pytest.mark.parametrize("size", [100, 2**28])
def test_a_wrong_size_of_a_compressed_piece_does_not_abort_the_process(tmp_path: Path, size: int) -> None:
    """LZ4 keeps sizes in 32 bits. Those of zstd have 64 bits, and allocating what they say would abort the process."""
    ids = new_ids(512)
    schema = with_compact_ids(pa.schema([pa.field("id", pa.string())]))
    dataset = lance.write_dataset(pa.table([ids], schema=schema), tmp_path / "table", data_storage_version="2.2")
    file, unpacked = data_file(dataset), 26 * len(ids) + 4 * (len(ids) + 1)
    changed(file, file.read_bytes().index(struct.pack("<I", unpacked)), struct.pack("<I", size))
    if size < unpacked:
        assert exit_code(dataset) == 1
        with pytest.raises(StorageError):
            open_table(table_of(dataset), dataset.version).scan()
    else:
        assert exit_code(dataset) == 0
        assert open_table(table_of(dataset), dataset.version).scan()["id"].to_pylist() == ids.to_pylist()


@pytest.mark.parametrize("size", [100, 2**28])
def test_a_wrong_size_of_a_dictionary_does_not_abort_the_process(tmp_path: Path, size: int) -> None:
    ends = pa.array([f"person-{number // 4:06}" for number in range(4096)])
    schema = with_compact_ends(pa.schema([pa.field("src", pa.string()), pa.field("dst", pa.string())]))
    dataset = lance.write_dataset(pa.table([ends, ends], schema=schema), tmp_path / "table", data_storage_version="2.2")
    file, unpacked = data_file(dataset), 13 * 1024 + 4 * 1025 + 8
    places = [found.start() for found in re.finditer(re.escape(struct.pack("<I", unpacked)), file.read_bytes())]
    assert places, "Lance keeps the size of a dictionary in front of it"
    changed(file, places[0], struct.pack("<I", size))
    if size < unpacked:
        assert exit_code(dataset) == 1
        with pytest.raises(StorageError):
            open_table(table_of(dataset), dataset.version).scan()
    else:
        assert exit_code(dataset) in (0, 1)
