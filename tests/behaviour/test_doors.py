"""The doors of the house: who may commit to a table, and who may make something visible."""

import ast
from collections.abc import Iterator

from tests.behaviour.test_layers import parsed_modules

# What moves the head of a table, by the name it is called with; `LocalObjects` and Arrow share none of them.
LANCE_WRITES = {
    "add_columns",
    "alter_columns",
    "cleanup_old_versions",
    "commit_batch",
    "create_branch",
    "create_index",
    "create_index_uncommitted",
    "create_scalar_index",
    "delete_rows",
    "drop_index",
    "execute_uncommitted",
    "merge_columns",
    "merge_insert",
    "optimize_indices",
    "write_dataset",
    "write_fragments",
}
# Functions that commit or make visible, and the only modules that may call them.
DOORS = {
    # A migration commits the version that closes an old manifest.
    "commit_staged": {"omnigraph.storage.commits", "omnigraph.versioning.older_layouts", "omnigraph.write.protocol"},
    "commit_created": {"omnigraph.storage.commits", "omnigraph.write.creation"},
    "restore": {"omnigraph.recovery.apply"},
    "create_branch": {"omnigraph.write.forks"},
    "delete_branch": {
        "omnigraph.write.forks",
        "omnigraph.branching.deletion",
        "omnigraph.maintenance.table_files",
    },
    "append_row": {"omnigraph.recovery.audit"},
    # Repair, small writes and the end of a reservation commit nothing to tables, so they have no phases to go through.
    "publish": {
        "omnigraph.versioning.publisher",
        "omnigraph.write.protocol",
        "omnigraph.write.carried",
        "omnigraph.recovery.apply",
        "omnigraph.maintenance.repair",
    },
    # The deletion of a branch keeps small writes away, which take no locks.
    "publish_reservation": {
        "omnigraph.branching.deletion",
        "omnigraph.session.writes",
        "omnigraph.write.protocol",
    },
    "append_next": {"omnigraph.versioning.publisher", "omnigraph.write.groups"},
    "write_sidecar": {"omnigraph.write.protocol", "omnigraph.recovery.remnants"},
    "delete_sidecar": {"omnigraph.write.protocol", "omnigraph.recovery.apply"},
}
# Methods of the manifest's log that write, likewise.
LOG_DOORS = {"append": {"omnigraph.versioning.publisher"}, "create": {"omnigraph.write.creation"}}


def called(tree: ast.AST) -> Iterator[tuple[str | None, str]]:
    """The calls in a source: on what, if that has a plain name, and of what."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield None, node.func.id
            elif isinstance(node.func, ast.Attribute):
                target = node.func.value
                yield target.id if isinstance(target, ast.Name) else "?", node.func.attr


def test_only_storage_writes_with_lance() -> None:
    for module, tree in parsed_modules().items():
        if module.startswith("omnigraph.storage"):
            continue
        assert not {name for target, name in called(tree) if target is not None} & LANCE_WRITES, module
        datasets = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "dataset"]
        assert datasets == [], f"{module}: the Lance dataset of a table is for storage alone"


def test_tables_are_committed_and_writes_published_through_their_doors_only() -> None:
    for module, tree in parsed_modules().items():
        for target, name in called(tree):
            if target is None and name in DOORS:
                assert module in DOORS[name], (module, name)
            if target in ("log", "_log") and name in LOG_DOORS:
                assert module in LOG_DOORS[name], (module, name)


def test_every_door_is_in_use() -> None:
    """A door that nobody goes through has been renamed, and its guard sleeps."""
    seen: dict[str, set[str]] = {}
    for module, tree in parsed_modules().items():
        for target, name in called(tree):
            if target is None or target in ("log", "_log"):
                seen.setdefault(name, set()).add(module)
    for doors in (DOORS, LOG_DOORS):
        for name, allowed in doors.items():
            assert seen[name] & allowed == allowed, name
