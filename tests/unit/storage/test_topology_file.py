"""The file of an index of topology gives back what was written, and says when it is damaged."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.storage import topology_file
from omnigraph.storage.topology_file import (
    SUFFIX,
    FragmentFiles,
    Topology,
    TopologyFile,
    UnusableTopology,
    encode_topology,
    fragments_digest,
    read_header,
)

FRAGMENTS = (FragmentFiles(2, 5, ("a.lance",)), FragmentFiles(7, 4, ("b.lance", "c.lance")))
LARGE = (FragmentFiles(0, 400_000, ("a.lance",)),)
NAME = f"{fragments_digest(FRAGMENTS)}{SUFFIX}"
EDGES = [("ann", "bo", 0), ("ann", "dé", 8), ("bo", "ann", 3), ("bo", "ann", 4), ("dé", "dé", 6)]


@pytest.mark.parametrize("is_earlier", [False, True])
def test_all_edges_come_back_with_their_ids_and_rows(is_earlier: bool) -> None:
    file = opened(earlier_content() if is_earlier else content())
    ids = file.ids().to_pylist()
    assert ids == ["ann", "bo", "dé"]
    begins, ends, rows = file.edges()
    assert [(ids[begin], ids[end], row) for begin, end, row in zip(begins, ends, rows, strict=True)] == EDGES
    assert file.gaps().tolist() == [1, 2, 5, 7]
    file.check()


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("is_earlier", [False, True])
def test_the_edges_of_some_ids_are_found_from_either_end(backward: bool, is_earlier: bool) -> None:
    file = opened(earlier_content() if is_earlier else content())
    numbers = file.find_ids(["dé", "none", "ann", "", "zoe"])
    begins, ends, rows = file.edges_at(numbers, backward=backward)
    found = sorted(zip(file.ids_at(begins), file.ids_at(ends), rows.tolist(), strict=True))
    assert found == sorted(edge for edge in EDGES if edge[int(backward)] in ("ann", "dé"))


def test_a_lookup_reads_few_bytes_of_a_large_file() -> None:
    whole = large_content()
    read: list[int] = []

    def look(start: int, stop: int) -> bytes:
        read.append(stop - start)
        return whole[start:stop]

    file = TopologyFile(read_header(look, f"{fragments_digest(LARGE)}{SUFFIX}"), look, piece=1)
    begins, ends, rows = file.edges_at(file.find_ids(["n0077777"]), backward=True)
    assert (file.ids_at(begins), file.ids_at(ends), rows.tolist()) == (["n0077776"], ["n0077777"], [77776])
    assert sum(read) < len(whole) / 4


@pytest.mark.parametrize("id_count", [1, 127, 128, 129, 1000])
def test_every_id_is_found_whatever_their_number(id_count: int) -> None:
    ids = pa.array([f"n{number:04}" for number in range(id_count)])
    numbers = np.arange(id_count)
    fragments = (FragmentFiles(0, id_count, ("a.lance",)),)
    topology = Topology(fragments=fragments, ids=ids, begins=numbers, ends=numbers, rows=numbers)
    file = opened(encode_topology(topology), fragments)
    for wanted in (ids.to_pylist(), [f"n{id_count - 1:04}"], ["a", "n", "n9999", "z"]):
        assert file.ids_at(file.find_ids(wanted)) == [each for each in wanted if each in ids.to_pylist()]


def test_edges_in_the_order_of_their_rows_need_no_numbers_of_rows() -> None:
    file = opened(large_content(), LARGE)
    assert "rows" not in file.header.sections
    assert np.array_equal(file.edges()[2], np.arange(400_000))
    assert file.edges_at(np.array([7, 70_000]), backward=False)[2].tolist() == [7, 70_000]


def test_ids_take_less_space_than_their_texts() -> None:
    file = opened(large_content(), LARGE)
    assert file.header.sections["ids"][1] < 400_000 * 4
    assert file.ids().to_pylist() == [f"n{number:07}" for number in range(400_000)]


def test_a_file_without_edges_can_be_read() -> None:
    nothing = np.empty(0, np.int64)
    topology = Topology(fragments=(), ids=pa.array([], pa.string()), begins=nothing, ends=nothing, rows=nothing)
    file = opened(encode_topology(topology), ())
    assert len(file.ids()) == len(file.edges()[0]) == len(file.find_ids(["a"])) == 0


def test_no_byte_can_be_changed_unseen() -> None:
    whole = content()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        with pytest.raises(UnusableTopology):
            opened(bytes(damaged)).check()


@pytest.mark.parametrize(
    "damage", [lambda _: b"", lambda all: all[:10], lambda all: all[:-1], lambda all: b"x" * len(all)]
)
def test_a_file_that_is_cut_or_something_else_is_refused(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(UnusableTopology):
        opened(damage(content())).check()


def test_a_file_under_the_name_of_another_is_refused() -> None:
    with pytest.raises(UnusableTopology, match="belongs to other fragments"):
        opened(content(), FRAGMENTS[:1])


def content() -> bytes:
    ids = sorted({end for begin, end, _ in EDGES} | {begin for begin, _, _ in EDGES})
    begins = np.array([ids.index(begin) for begin, _, _ in EDGES])
    ends = np.array([ids.index(end) for _, end, _ in EDGES])
    rows = np.array([edge[2] for edge in EDGES])
    return encode_topology(
        Topology(fragments=FRAGMENTS, ids=pa.array(ids, pa.string()), begins=begins, ends=ends, rows=rows)
    )


def earlier_content() -> bytes:
    """The same as earlier versions wrote it: with plain ids."""
    numbers = {"ann": 0, "bo": 1, "dé": 2}
    body = topology_file._Body()
    body.add_numbers("id_offsets", np.array([0, 3, 5, 8]), 8)
    body.add_bytes("ids", "".join(numbers).encode())
    body.add_bytes("fences", b'["ann"]')
    body.add_numbers("forward", np.array([0, 2, 4, 5]), 5)
    body.add_numbers("ends", np.array([numbers[end] for _, end, _ in EDGES]), 3)
    body.add_numbers("rows", np.array([row for _, _, row in EDGES]), 9)
    body.add_numbers("backward", np.array([0, 2, 3, 5]), 5)
    body.add_numbers("places", np.array([2, 3, 0, 1, 4]), 5)
    body.add_numbers("gaps", np.array([1, 2, 5, 7]), 9)
    return b"OGTOPO1\n" + body.finish(FRAGMENTS)[8:]


def large_content() -> bytes:
    """A ring."""
    numbers = np.arange(400_000)
    return encode_topology(
        Topology(
            fragments=LARGE,
            ids=pa.array([f"n{number:07}" for number in numbers]),
            begins=numbers,
            ends=(numbers + 1) % len(numbers),
            rows=numbers,
        )
    )


def opened(whole: bytes, fragments: tuple[FragmentFiles, ...] = FRAGMENTS) -> TopologyFile:
    def read(start: int, stop: int) -> bytes:
        return whole[start:stop]

    return TopologyFile(read_header(read, f"{fragments_digest(fragments)}{SUFFIX}"), read, piece=1 << 16)
