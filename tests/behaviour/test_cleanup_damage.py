"""Cleanup of a damaged graph: what cannot be read keeps everything that it might need, and is reported."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import Damaged, NotFound
from omnigraph.recovery.audit import AUDIT_FOLDER
from omnigraph.storage.tables import version_file
from omnigraph.versioning import Pin
from omnigraph.versioning.line import version_name
from omnigraph.versioning.manifest import REMEMBERED_COMMITS
from omnigraph.write.forks import table_root
from tests import nursery
from tests.behaviour.people import ages, files, other_handle, set_age, small_world, write
from tests.file_damages import DAMAGES, Damage, cut, empty, flip, remove, replace_by_older, scramble
from tests.manifest_files import manifest_file, ref_file

pytestmark = pytest.mark.usefixtures("module_with_rows_in_tables")

FOLDERS = ("nodes", "edges", "__manifest")
PERSON = "node:Person"
COMMAND = "import sys; from omnigraph.cli.main import app; app(sys.argv[1:])"
VERBS = """
import sys
import omnigraph as og
verbs = {
    "query": lambda graph: graph.query("query q { match { $p: Person } return { $p.age } }").rows(),
    "mutate": lambda graph: graph.mutate('query q { update Person set { age: 9 } where name = "Ada" }'),
    "status": lambda graph: print({each.table_key: each.error for each in graph.status().tables}["node:Person"]),
}
try:
    verbs[sys.argv[2]](og.open(sys.argv[1], durability="fast"))
except og.OmnigraphError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = small_world(tmp_path)
    for age in (2, 3):
        set_age(graph, age)
    return graph


def pin_of(graph: og.Graph, key: str = PERSON, branch: str = "main") -> Pin:
    return graph.snapshot(branch).manifest.pins[key]


def file_of(graph: og.Graph, pin: Pin) -> Path:
    return Path(graph.uri, pin.path, version_file(pin.version))


def run_cleanup(graph: og.Graph, *options: str) -> tuple[int | None, str]:
    """How the command ends in a process of its own, which remembers nothing of the files, and what it says."""
    given = ("cleanup", graph.uri, "--keep", "1", "--grace", "0s", "--json", *options)
    with nursery.started(COMMAND, *given) as child:
        output, errors = child.communicate()
    return child.returncode, output + errors


def errors_in(output: str) -> dict[str, str]:
    document, _ = json.JSONDecoder().raw_decode(output)
    return {each["table_key"]: each["error"] for each in document["tables"] if each["error"]}


def run_verb(graph: og.Graph, verb: str) -> str:
    with nursery.started(VERBS, graph.uri, verb) as child:
        output, errors = child.communicate()
    assert child.returncode == 0, errors
    return output


# --- the version that a table is pinned at ---


@pytest.mark.parametrize("damage", DAMAGES)
def test_nothing_goes_of_a_table_whose_pinned_version_is_damaged(graph: og.Graph, damage: Damage) -> None:
    pin = pin_of(graph)
    damage(file_of(graph, pin))
    before = files(graph, pin.path)
    for options in ((), ("--confirm",)):
        code, output = run_cleanup(graph, *options)
        assert code == 1
        assert version_file(pin.version) in errors_in(output)[PERSON]
        assert files(graph, pin.path) == before


@pytest.mark.parametrize("damage", DAMAGES)
def test_nobody_says_that_cleanup_removed_what_is_damaged(graph: og.Graph, damage: Damage) -> None:
    damage(file_of(graph, pin_of(graph)))
    for verb in ("query", "status", "mutate"):
        said = run_verb(graph, verb)
        assert "removed" not in said
        if damage is not flip:  # Lance does not look at the last byte, and then all is as it was
            assert "the file of version" in said
            assert verb == "status" or said.startswith("Damaged")


@pytest.mark.parametrize("damage", [cut, remove, replace_by_older])
def test_nothing_goes_of_a_table_of_which_a_fork_is_damaged(graph: og.Graph, damage: Damage) -> None:
    graph.branches.create("b")
    for age in (5, 6):
        set_age(graph, age, "b")
    set_age(graph, 4)
    fork = pin_of(graph, branch="b")
    root = table_root(fork.path)
    assert fork.path != root
    damage(file_of(graph, fork))
    before = files(graph, root)
    code, output = run_cleanup(graph, "--confirm")
    assert (code, {*errors_in(output)}) == (1, {PERSON})
    assert files(graph, root) == before
    assert ages(other_handle(graph))["Ada"] == 4


def test_a_table_that_is_missing_although_it_is_pinned_is_reported(graph: og.Graph) -> None:
    pin = pin_of(graph)
    Path(graph.uri, pin.path).rename(Path(graph.uri).parent / "away")
    code, output = run_cleanup(graph, "--confirm")
    assert code == 1
    assert version_file(pin.version) in errors_in(output)[PERSON]
    Path(graph.uri).parent.joinpath("away").rename(Path(graph.uri, pin.path))
    assert ages(other_handle(graph)) == {"Ada": 3, "Bob": 1}


def test_a_damaged_version_that_a_tag_keeps_keeps_its_table(graph: og.Graph) -> None:
    graph.tags.create("old")
    named = pin_of(graph)
    for age in (4, 5):
        set_age(graph, age)
    file_of(graph, named).unlink()
    before = files(graph, named.path)
    code, output = run_cleanup(graph, "--confirm")
    assert code == 1
    assert version_file(named.version) in errors_in(output)[PERSON]
    assert files(graph, named.path) == before
    with pytest.raises(Damaged, match=version_file(named.version)):
        other_handle(graph).snapshot_at(commit="old").table(PERSON)


# --- what versions refer to ---


def file_kinds(graph: og.Graph) -> dict[str, Path]:
    """A file of each kind that the newest version of the table refers to."""
    root = Path(graph.uri, pin_of(graph).path)
    table = other_handle(graph).snapshot().table(PERSON)
    fragment = next(each for each in table.dataset.get_fragments() if each.metadata.deletion_file is not None)
    deletions = fragment.metadata.deletion_file
    assert deletions is not None
    index = str(table.dataset.describe_indices()[0].segments[0].uuid)
    return {
        "rows": root / "data" / fragment.metadata.files[0].path,
        "deletions": root / deletions.path(fragment.fragment_id),
        "index": next((root / "_indices" / index).iterdir()),
    }


@pytest.mark.parametrize("kind", ["rows", "deletions", "index"])
def test_nothing_goes_of_a_table_that_lacks_a_file_which_a_version_needs(graph: og.Graph, kind: str) -> None:
    write(graph, " ".join(f'insert Person {{ name: "P{number}", age: 1 }}' for number in range(10)))
    graph.ensure_indices()
    write(graph, 'delete Person where name = "P3"')
    damaged = file_kinds(graph)[kind]
    if kind == "index":
        for each in damaged.parent.iterdir():
            each.unlink()
    else:
        damaged.unlink()
    root = pin_of(graph).path
    before = files(graph, root)
    code, output = run_cleanup(graph, "--confirm")
    assert (code, {*errors_in(output)}) == (1, {PERSON})
    assert files(graph, root) == before


@pytest.mark.parametrize("damage", [flip, cut, empty, replace_by_older, scramble])
@pytest.mark.parametrize("kind", ["rows", "deletions", "index"])
def test_a_damaged_file_that_a_version_needs_stays_with_all_the_others(
    graph: og.Graph, kind: str, damage: Damage
) -> None:
    write(graph, " ".join(f'insert Person {{ name: "P{number}", age: 1 }}' for number in range(10)))
    graph.ensure_indices()
    for name in ("P3", "P4"):
        write(graph, f'delete Person where name = "{name}"')
    needed = {path: path.read_bytes() for path in file_kinds(graph).values()}
    damage(file_kinds(graph)[kind])
    run_cleanup(graph, "--confirm")
    for path, content in needed.items():
        assert path.exists()
        path.write_bytes(content)
    assert len(ages(other_handle(graph))) == 10


# --- branches ---


def everything(graph: og.Graph) -> set[str]:
    return files(graph, *FOLDERS, "__tags", "__recovery", "__heads")


@pytest.mark.parametrize("damage", [cut, empty, remove, scramble])
def test_nothing_goes_while_the_ref_of_a_branch_cannot_be_read(graph: og.Graph, damage: Damage) -> None:
    graph.branches.create("b")
    for age in (5, 6):
        set_age(graph, age, "b")
    set_age(graph, 4)
    ref = ref_file(graph.uri, "b")
    content = ref.read_bytes()
    damage(ref)
    before = everything(graph)
    for options in ((), ("--confirm",)):
        code, output = run_cleanup(graph, *options)
        assert code == 1
        assert "b.json" in output
        assert everything(graph) == before
    with pytest.raises(Damaged):
        other_handle(graph).snapshot("b")
    with pytest.raises(Damaged):
        other_handle(graph).branches.create("b")
    ref.write_bytes(content)
    assert (ages(other_handle(graph))["Ada"], ages(other_handle(graph), "b")["Ada"]) == (4, 6)


def test_a_branch_that_was_never_written_keeps_its_origin_when_its_ref_cannot_be_read(graph: og.Graph) -> None:
    graph.branches.create("b")
    for age in (4, 5):
        set_age(graph, age)
    ref = ref_file(graph.uri, "b")
    content = ref.read_bytes()
    cut(ref)
    before = everything(graph)
    assert run_cleanup(graph, "--confirm")[0] == 1
    assert everything(graph) == before
    ref.write_bytes(content)
    assert ages(other_handle(graph), "b")["Ada"] == 3


@pytest.mark.parametrize("damage", [cut, empty, remove, scramble])
def test_a_fork_of_a_branch_stays_when_its_own_ref_cannot_be_read(graph: og.Graph, damage: Damage) -> None:
    graph.branches.create("b")
    for age in (5, 6):
        set_age(graph, age, "b")
    set_age(graph, 4)
    fork = pin_of(graph, branch="b")
    root = table_root(fork.path)
    (ref,) = Path(graph.uri, root, "_refs", "branches").iterdir()
    damage(ref)
    before = files(graph, fork.path)
    code, _ = run_cleanup(graph, "--confirm")
    assert code == 1
    assert files(graph, fork.path) == before
    assert (ages(other_handle(graph))["Ada"], ages(other_handle(graph), "b")["Ada"]) == (4, 6)


# --- what says what stays ---


def sidecar_of(graph: og.Graph) -> Path:
    folder = Path(graph.uri, "__recovery")
    folder.mkdir(exist_ok=True)
    (folder / "01ARZ3NDEKTSV4RRFFQ69G5FAV.json").write_text("{")
    return folder / "01ARZ3NDEKTSV4RRFFQ69G5FAV.json"


def tag_of(graph: og.Graph) -> Path:
    graph.tags.create("v1")
    set_age(graph, 7)
    (path,) = Path(graph.uri, "__tags").iterdir()
    cut(path)
    return path


def manifest_of(graph: og.Graph) -> Path:
    """That of a commit which a tag keeps."""
    graph.tags.create("v1")
    version = graph.snapshot().manifest.version
    set_age(graph, 7)
    path = manifest_file(graph.uri, version)
    cut(path)
    return path


@pytest.mark.parametrize("damaged", [sidecar_of, tag_of, manifest_of])
def test_nothing_goes_while_it_cannot_be_read_what_stays(graph: og.Graph, damaged: Callable[[og.Graph], Path]) -> None:
    path = damaged(graph)
    before = everything(graph)
    for options in ((), ("--confirm",)):
        code, output = run_cleanup(graph, *options)
        assert code == 1
        assert path.name in output
        assert everything(graph) == before


def test_an_old_commit_whose_manifest_is_damaged_was_not_removed_by_cleanup(graph: og.Graph) -> None:
    commit = graph.snapshot().commit
    set_age(graph, 7)
    manifest_file(graph.uri, commit.manifest).unlink()
    with pytest.raises(Damaged, match=version_name(commit.manifest)):
        other_handle(graph).snapshot_at(version=commit.manifest_version)


@pytest.mark.parametrize("damage", [cut, empty, remove])
def test_commits_that_only_a_damaged_manifest_repeats_are_not_said_to_be_unknown(
    graph: og.Graph, damage: Damage
) -> None:
    set_age(graph, 7)
    oldest = graph.commits.list()[-1].graph_commit_id
    while (version := graph.snapshot().manifest.version) <= REMEMBERED_COMMITS + 4:
        set_age(graph, 7 + version)
    graph.cleanup(keep=1, grace="0s", confirm=True)
    damage(manifest_file(graph.uri, REMEMBERED_COMMITS))
    again = other_handle(graph)
    for read in (again.commits.list, lambda: again.commits.show(oldest)):
        with pytest.raises(Damaged, match=version_name(REMEMBERED_COMMITS)):
            read()


def test_the_first_version_of_a_fork_stays_when_its_ref_is_that_of_another(graph: og.Graph) -> None:
    graph.branches.create("b")
    for age in (20, 21, 22):
        set_age(graph, age, "b")
    root = Path(graph.uri, table_root(pin_of(graph).path))
    (ref,) = (root / "_refs" / "branches").iterdir()
    document = json.loads(ref.read_bytes())
    (identity,) = ([number + 1, name] for number, name in document["identifier"]["version_mapping"])
    began = {"parentVersion": identity[0], "identifier": {"version_mapping": [identity]}}
    ref.write_text(json.dumps({**document, **began}))
    first = max((root / "tree" / ref.stem / "_versions").glob("*.manifest"))
    run_cleanup(graph, "--confirm")
    assert first.exists()


def test_the_record_of_recoveries_stays_when_its_only_version_is_missing(graph: og.Graph) -> None:
    program = """import sys, omnigraph as og
from omnigraph import failpoints
with failpoints.armed("mutate.after_phase_b=crash"):
    og.open(sys.argv[1]).mutate('query q { update Person set { age: 9 } where name = "Ada" }')"""
    nursery.ended(program, graph.uri)
    graph = og.open(graph.uri)
    folder = Path(graph.uri, AUDIT_FOLDER)
    (version,) = (folder / "_versions").glob("*.manifest")
    version.unlink()
    rows = [*(folder / "data").iterdir()]
    for path in folder.rglob("*"):
        os.utime(path, (0, 0))
    run_cleanup(graph, "--confirm")
    assert len(rows) == 1
    assert [*(folder / "data").iterdir()] == rows


def test_a_hard_drop_takes_no_damaged_version_of_a_branch_for_one_that_nobody_needs(graph: og.Graph) -> None:
    graph.branches.create("b")
    set_age(graph, 5, "b")
    fork = pin_of(graph, branch="b")
    before = files(graph, fork.path)
    cut(file_of(graph, fork))
    text = graph.schema.text.replace(
        "node Person { name: String @key, age: I32? }", "node Person { name: String @key }"
    )
    with pytest.raises(og.OmnigraphError) as refused:
        other_handle(graph).schema.apply(text, allow_data_loss=True)
    assert refused.value.code in ("data_still_needed", "damaged")
    assert files(graph, fork.path) == before


def test_what_a_hard_drop_removed_is_no_damage(graph: og.Graph) -> None:
    old = graph.snapshot().commit.manifest_version
    text = graph.schema.text.replace("age: I32?", "")
    graph.schema.apply(text, allow_data_loss=True)
    with pytest.raises(NotFound, match="removed by a schema change"):
        other_handle(graph).snapshot_at(version=old).table(PERSON)
    result = graph.cleanup(keep=50, grace="0s", confirm=True)
    assert result.failed == ()
