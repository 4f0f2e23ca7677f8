"""Commits of single tables: a staged change becomes the next version, or an old version is restored.

A committed version is visible to the graph only when a manifest pins it.
"""

from collections.abc import Iterable

import pyarrow as pa
from lance.commit import CommitConflictError
from lance.dataset import Transaction

import lance
from lance import LanceOperation as Operation
from omnigraph.errors import HeadMoved, StorageError
from omnigraph.storage.durability import sync_files
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.staging import OPERATION, StagedWrite, creation_error, stage_append, stage_create
from omnigraph.storage.tables import (
    VERSION_END,
    VERSIONS,
    Table,
    has_version,
    listed_versions,
    open_table,
    typed_errors,
    version_file,
    version_in,
)

_APPENDS = 20
"""How often an append is retried when others append at the same time."""


def commit_staged(table: Table, staged: StagedWrite) -> Table:
    """Makes a staged change the table's newest version.

    Lance would put it on top of versions that came in between, and that combination was not validated. So any number
    but the next is an error, and recovery undoes the surplus version.
    """
    return _commit(table, staged.transaction, staged.version_after)


def _commit(table: Table, transaction: Transaction, version: int) -> Table:
    try:
        with typed_errors(table.location, "a version cannot be committed"):
            dataset = lance.LanceDataset.commit(table.dataset, transaction, max_retries=0)
    except StorageError as error:
        if not isinstance(error.__cause__, CommitConflictError):
            raise
        landed = _own_version(table.location, transaction, version)
        if landed is None:
            raise HeadMoved(table.location.uri, version, None) from error
        return landed
    if dataset.version != version:
        raise HeadMoved(table.location.uri, version, dataset.version)
    return Table(table.location, dataset)


def _own_version(location: Location, transaction: Transaction, version: int) -> Table | None:
    """The version that a refused commit made nevertheless: a put whose answer was lost is repeated, and refused."""
    if not has_version(location, version):
        return None
    table = open_table(location, version)
    found = table.dataset.read_transaction(version)
    return table if found is not None and found.uuid == transaction.uuid else None


def commit_created(staged: StagedWrite) -> Table:
    """Creates a staged new table; refuses where one exists."""
    location = staged.location
    try:
        dataset = lance.LanceDataset.commit(
            location.uri,
            staged.transaction,
            max_retries=0,
            enable_stable_row_ids=True,
            storage_options=location.storage_options,
        )
    except OSError as error:
        landed = _own_version(location, staged.transaction, staged.version_after)
        if landed is not None:
            return landed
        raise creation_error(location, error) from error
    if dataset.version != staged.version_after:
        raise HeadMoved(location.uri, staged.version_after, dataset.version)
    return Table(location, dataset)


def restore(location: Location, *, head: int, version: int, operation: str) -> Table:
    """Makes the content of an old version the newest version of a table.

    In Lance a restore silently wins over every change that is committed at the same time. So the caller must know that
    there is none.
    """
    table = open_table(location, head)
    transaction = Transaction(head, Operation.Restore(version), transaction_properties={OPERATION: operation})
    return _commit(table, transaction, head + 1)


def append_row(location: Location, row: pa.Table, operation: str) -> None:
    """Appends to a table that several processes append to in any order, and creates it if it does not exist.

    Versions after the newest whole one that lack their end are removed. The caller knows that they are torn, and were
    not damaged later.
    """
    for _ in range(_APPENDS):
        newest = next((each for each in listed_versions(location) if has_version(location, each)), 0)
        remove_torn_versions(location, newest)
        try:
            if newest:
                table = open_table(location, newest)
                staged = stage_append(table, row, operation)
                sync_staged([staged])
                table = commit_staged(table, staged)
            else:
                staged = stage_create(location, row, operation)
                sync_staged([staged])
                table = commit_created(staged)
        except HeadMoved as error:
            if error.actual is None:
                continue
            table = open_table(location, error.actual)
        sync_versions([table])
        return
    raise HeadMoved(location.uri, open_table(location).version, None)


def sync_staged(writes: Iterable[StagedWrite]) -> None:
    """Writes the files of staged changes through to the disk, before any version refers to them."""
    sync_files(file for staged in writes if staged.location.durable for file in staged.new_files())


def sync_versions(tables: Iterable[Table]) -> None:
    """Writes committed versions through to the disk."""
    sync_files(
        table.location.path / version_file(table.version)
        for table in tables
        if table.location.path is not None and table.location.durable
    )


def remove_torn_versions(location: Location, newest: int) -> None:
    """Removes what a power cut left of versions after the newest whole one; no reader could open them."""
    if location.path is None:
        return
    for name in objects_at(location).names(VERSIONS):
        version = version_in(f"{VERSIONS}/{name}")
        if version is not None and version > newest:
            remove_torn_version(location, version)


def remove_torn_version(location: Location, version: int) -> bool:
    """Removes a version whose file a power cut left without its end, which no reader could open.

    It was not on the disk, so it was never acknowledged. A file that has its end is left alone, whatever its content.
    """
    if location.path is None:
        return False
    file = location.path / version_file(version)
    with typed_errors(location, "cannot remove a torn version"):
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return False
        if content.endswith(VERSION_END):
            return False
        file.unlink()
        sync_files([file.parent])
    return True
