"""The file of a version of the manifest: what is written is read again, and nothing else is taken for it."""

import base64
import itertools
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.api.history import Commit, Place
from omnigraph.errors import Damaged, StorageError
from omnigraph.storage.deltas import Delta
from omnigraph.storage.files import StoredFile
from omnigraph.storage.location import location_of
from omnigraph.versioning.line import (
    _LONGEST_KEPT,
    FileLine,
    _decode_kept_delta,
    decode_manifest,
    encode_manifest,
    is_torn,
    line_folder,
    version_in,
    version_name,
    written_versions,
)
from omnigraph.versioning.manifest import LAYOUT, Manifest, Pin

URI = "graph/__manifest/lines/main/1.jsonl"
FIRST = Commit(
    graph_commit_id="01K00000000000000000000001",
    branch="main",
    incarnation="",
    manifest_version=1,
    parent_commit_id=None,
    merged_parent_commit_id=None,
    merged_place=None,
    generation=1,
    actor=None,
    message="init",
    created_at=datetime(2026, 1, 2, 3, 4, 5, 678, UTC),
)
CARRIED = Delta("01K00000000000000000000001", b"rows", 2, ("a",), ("gone",))
MANIFEST = Manifest(
    1,
    {"node:Person": Pin("nodes/1-a", 3, 2, 1, (CARRIED,)), "edge:Knows": Pin("edges/2-b/tree/b.1", 7)},
    (FIRST,),
)
texts = st.text(max_size=20)
# The parts of a commit that people choose; numbers as large as they may become.
commits = st.builds(
    Commit,
    graph_commit_id=texts,
    branch=texts,
    incarnation=texts,
    manifest_version=st.integers(1, 2**63 - 1),
    parent_commit_id=st.none() | texts,
    merged_parent_commit_id=st.none() | texts,
    merged_place=st.none() | st.builds(Place, texts, texts, st.integers(1, 2**63 - 1)),
    generation=st.integers(0, 2**63 - 1),
    actor=st.none() | texts,
    message=texts,
    created_at=st.datetimes(timezones=st.just(UTC)),
    schema_id=st.text(min_size=1, max_size=20),
)
numbers = st.integers(0, 2**63 - 1)
serials = itertools.count()
# Commits have ids that no other has, by which what is carried is known.
deltas = st.builds(
    lambda rows, count, replaced, deleted: Delta(str(next(serials)), rows, count, tuple(replaced), tuple(deleted)),
    st.binary(max_size=50),
    st.integers(0, 1_000),
    st.lists(texts, max_size=3),
    st.lists(texts, max_size=3),
)
pins = st.builds(Pin, texts, numbers, numbers, numbers, st.lists(deltas, max_size=3).map(tuple))
manifests = st.builds(
    Manifest,
    numbers,
    st.dictionaries(texts, pins, max_size=5),
    st.lists(commits, min_size=1, max_size=5).map(tuple),
)


def numbered(version: int, writer: str) -> Manifest:
    """A manifest of a version, whose commit names its writer."""
    commit = replace(FIRST, manifest_version=version, graph_commit_id=writer)
    return replace(MANIFEST, version=version, commits=(commit,))


# --- what is in a file ---


@given(manifests)
def test_what_was_encoded_is_decoded(manifest: Manifest) -> None:
    content = encode_manifest(manifest)
    assert not is_torn(content)
    assert decode_manifest(URI, content) == manifest
    assert encode_manifest(decode_manifest(URI, content)) == content


def test_a_file_is_lines_of_json_that_any_tool_can_read() -> None:
    lines = [json.loads(line) for line in encode_manifest(MANIFEST).splitlines()]
    assert [*lines[0]] == ["omnigraph", "layout", "version", "checksum"]
    assert (lines[0]["omnigraph"], lines[0]["layout"], lines[0]["version"]) == ("manifest", LAYOUT, 1)
    pin = {"path": "nodes/1-a", "version": 3, "changed_at": 2, "removed_at": 1}
    assert lines[1]["tables"]["node:Person"] == pin
    assert lines[2] == {
        "carried": "node:Person",
        "commit": CARRIED.commit_id,
        "count": 2,
        "replaced": ["a"],
        "deleted": ["gone"],
        "rows": base64.b64encode(b"rows").decode(),
    }
    assert lines[3]["commit"]["graph_commit_id"] == FIRST.graph_commit_id
    assert lines[4] == {"end": True}


def test_what_is_carried_is_the_same_in_each_version_that_repeats_it() -> None:
    pin = MANIFEST.pins["node:Person"]
    longer = replace(pin, carried=(CARRIED, replace(CARRIED, commit_id="later", rows=b"more", count=1)))
    for carried in (longer, pin, longer, replace(longer, carried=longer.carried[1:])):
        manifest = replace(MANIFEST, pins={"node:Person": carried})
        assert decode_manifest(URI, encode_manifest(manifest)) == manifest


def test_deltas_that_were_joined_are_not_taken_for_those_that_were_folded() -> None:
    """The last commit and the number of deltas are the same, and what came before them is not."""
    pin = MANIFEST.pins["node:Person"]
    joined = replace(CARRIED, rows=b"rows of two commits", count=5)
    last, later = (replace(CARRIED, commit_id=commit_id, rows=b"more", count=1) for commit_id in ("last", "later"))
    for first in (CARRIED, joined):
        for carried in ((first, last), (first, last, later)):
            manifest = replace(MANIFEST, pins={"node:Person": replace(pin, carried=carried)})
            assert decode_manifest(URI, encode_manifest(manifest)) == manifest


def test_long_lines_are_decoded_and_not_kept() -> None:
    pin = MANIFEST.pins["node:Person"]
    long = replace(CARRIED, commit_id="long", rows=bytes(_LONGEST_KEPT))
    manifest = replace(MANIFEST, pins={"node:Person": replace(pin, carried=(CARRIED, long))})
    content = encode_manifest(manifest)
    decode_manifest(URI, encode_manifest(MANIFEST))
    kept = _decode_kept_delta.cache_info().currsize
    assert decode_manifest(URI, content) == manifest
    assert _decode_kept_delta.cache_info().currsize == kept


def test_the_same_manifest_is_the_same_file_whatever_the_order_of_its_tables() -> None:
    other = replace(MANIFEST, pins=dict(reversed([*MANIFEST.pins.items()])))
    assert encode_manifest(other) == encode_manifest(MANIFEST)


def test_a_time_is_read_as_the_same_time_in_another_zone() -> None:
    zoned = FIRST.created_at.astimezone(timezone(timedelta(hours=5)))
    content = encode_manifest(Manifest(1, {}, (replace(FIRST, created_at=zoned),)))
    assert decode_manifest(URI, content).commit.created_at == FIRST.created_at


# --- what is not what was written ---


def test_each_bit_of_a_file_counts() -> None:
    content = encode_manifest(MANIFEST)
    for place in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            if not is_torn(bytes(changed)):
                with pytest.raises(Damaged, match=r"1\.jsonl"):
                    decode_manifest(URI, bytes(changed))


def test_every_part_of_a_file_is_torn() -> None:
    content = encode_manifest(MANIFEST)
    assert all(is_torn(content[:length]) for length in range(len(content)))


@pytest.mark.parametrize("place", [0, 1, 100, 400, -1])
def test_a_block_that_was_never_written_makes_a_file_torn(place: int) -> None:
    content = bytearray(encode_manifest(MANIFEST))
    content[place] = 0
    assert is_torn(bytes(content))
    with pytest.raises(Damaged):
        decode_manifest(URI, bytes(content))


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"[]\n", b"[[1, 2]]\n", b"null\n", b"4\n", b"{}\n", b"[" * 100_000 + b"\n", b"\xff\xfe\n"]
)
def test_what_was_never_a_manifest_is_damaged(content: bytes) -> None:
    with pytest.raises(Damaged):
        decode_manifest(URI, content + b'{"end": true}\n')


def test_lines_that_change_places_are_damage() -> None:
    first, tables, carried, commit, end = encode_manifest(MANIFEST).splitlines(keepends=True)
    for lines in (
        (commit, carried, tables),
        (tables, commit, carried),
        (tables, carried),
        (tables, commit),
        (tables, carried, commit, commit),
    ):
        content = b"".join((first, *lines, end))
        with pytest.raises(Damaged):
            decode_manifest(URI, content)


def test_a_file_without_a_commit_is_damaged() -> None:
    with pytest.raises(Damaged, match="no commit"):
        decode_manifest(URI, encode_manifest(replace(MANIFEST, commits=())))


def test_a_newer_layout_is_refused_and_is_not_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.versioning.line.LAYOUT", LAYOUT + 1)
    content = encode_manifest(MANIFEST)
    monkeypatch.undo()
    assert not is_torn(content)
    with pytest.raises(StorageError, match="upgrade omnigraph first") as refused:
        decode_manifest(URI, content)
    assert not isinstance(refused.value, Damaged)


# --- names ---


@given(st.integers(0, 2**64 - 1))
def test_a_version_is_found_in_the_name_of_its_file(version: int) -> None:
    assert version_in(version_name(version)) == version


def test_names_sort_as_versions_do() -> None:
    versions = [1, 2, 9, 10, 99, 100, 2**40]
    assert sorted(map(version_name, versions)) == [*map(version_name, versions)]


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".jsonl",
        "1.jsonl",
        f"{1:021}.jsonl",
        f"{1:020}",
        f"{1:020}.json",
        f".draft-{1:020}.jsonl",
        "٣" * 20 + ".jsonl",
    ],
)
def test_other_names_are_no_versions(name: str) -> None:
    assert version_in(name) is None


def test_no_two_branches_have_one_folder() -> None:
    assert line_folder("main", "") == "__manifest/lines/main"
    assert line_folder("b", "12") == "__manifest/lines/b.12"


def test_only_files_of_lines_are_versions() -> None:
    now = datetime.now(UTC)
    name = version_name(3)
    found = [
        StoredFile(f"__manifest/lines/main/{name}", 1, now),
        StoredFile(f"__manifest/lines/b.1/{name}", 2, now),
        StoredFile(f"__manifest/lines/main/.draft-{name}", 3, now),
        StoredFile(f"__manifest/lines/{name}", 4, now),
        StoredFile(f"__manifest/lines/main/more/{name}", 5, now),
        StoredFile("__manifest/branches/b.json", 6, now),
    ]
    assert written_versions(found) == {
        "__manifest/lines/main": {3: found[0]},
        "__manifest/lines/b.1": {3: found[1]},
    }


# --- a line on a disk ---


@pytest.fixture
def line(tmp_path: Path) -> FileLine:
    return FileLine(location_of(tmp_path), "main", "")


def test_a_version_is_created_once_and_never_changed(line: FileLine) -> None:
    assert line.create(1, numbered(1, "a"))
    assert not line.create(1, numbered(1, "b"))
    assert line.read(1) == numbered(1, "a")
    assert (line.has(1), line.has(2), line.read(2)) == (True, False, None)


def test_versions_are_listed_newest_first_and_drafts_are_none(line: FileLine) -> None:
    assert line.versions() == []
    for version in (2, 10, 9):
        line.create(version, numbered(version, "a"))
    assert line.location.path is not None
    (line.location.path / ".draft-1234").write_bytes(encode_manifest(MANIFEST))
    (line.location.path / "notes.txt").write_text("made by hand")
    assert line.versions() == [10, 9, 2]


def test_a_creation_that_fails_leaves_nothing(line: FileLine, monkeypatch: pytest.MonkeyPatch) -> None:
    line.create(1, numbered(1, "a"))

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match="No space left"):
        line.create(2, numbered(2, "a"))
    monkeypatch.undo()
    assert line.location.path is not None
    assert [path.name for path in line.location.path.iterdir()] == [version_name(1)]


def test_only_a_torn_version_is_removed_as_one(line: FileLine) -> None:
    assert line.location.path is not None
    line.create(1, numbered(1, "a"))
    damaged = encode_manifest(MANIFEST).replace(b"nodes", b"sedon")
    (line.location.path / version_name(2)).write_bytes(damaged)
    (line.location.path / version_name(3)).write_bytes(damaged[:-1])
    assert [line.remove_torn(version) for version in (1, 2, 3, 4)] == [False, False, True, False]
    assert line.versions() == [2, 1]


def test_of_many_threads_one_creates_a_version(line: FileLine) -> None:
    writers, ready = 8, threading.Barrier(8)

    def create(writer: int) -> list[int]:
        won = []
        for version in range(1, 31):
            ready.wait()
            if line.create(version, numbered(version, str(writer))):
                won.append(version)
        return won

    with ThreadPoolExecutor(writers) as pool:
        won = [*pool.map(create, range(writers))]
    assert sorted(version for each in won for version in each) == [*range(1, 31)]
    for writer, versions in enumerate(won):
        assert [line.read(version) for version in versions] == [numbered(each, str(writer)) for each in versions]
    assert line.location.path is not None
    assert len([*line.location.path.iterdir()]) == 30
