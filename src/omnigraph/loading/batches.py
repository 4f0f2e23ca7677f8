"""Loads with a key: whether a batch was loaded before, and whether its content is the same.

The manifest has the last batch of each application, so a batch that comes next costs one look. For any other, the
commit that loaded it is found in the history, and the content is compared before anything is written: a number alone
does not say that it is the same batch, as after a lost checkpoint an application counts from 0 again.
"""

from collections.abc import Callable, Iterator
from functools import cache

import pyarrow as pa

from omnigraph.api.history import Commit
from omnigraph.catalog.model import ID
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import BatchConflict
from omnigraph.loading.columns import flat
from omnigraph.loading.records import TypeRows
from omnigraph.parts.duck import connection
from omnigraph.versioning import Branches, CommitGraph
from omnigraph.write import WriteAttempt

_MODULUS = 2**64


@dataclass(frozen=True, slots=True)
class LoadKey:
    """The key of a load: the application, and the number of its batch. The commit keeps `details` with it."""

    application: str
    batch: int
    details: str | None = None


def find_repeated(
    attempt: WriteAttempt, branches: Branches, key: LoadKey, read_digest: Callable[[], str], *, replaces: bool
) -> Commit | None:
    """The commit that loaded a batch with this key and content; None for a batch that is still to be loaded.

    That is one after all others of its application. It is also one without rows that no commit loaded, as it changes
    nothing, unless it `replaces` what is there. Raises `BatchConflict` for others with other content.
    """
    last = attempt.base.manifest.batches.get(key.application)
    if last is None or last.number < key.batch:
        return None
    found = list(_commits_with(attempt, branches, key))
    digest = read_digest()
    if not found and not replaces and digest == digest_of(0, 0):
        return None
    if not found:
        problem = f"it is not in the history, and the last one is {last.number}; "
        problem += "if its application lost its place, let it go on after that, or under another name"
        raise BatchConflict(key.application, key.batch, last.number, problem)
    for commit in found:
        if commit.digest == digest:
            return commit
    method = digest.partition(":")[0]
    if all(commit.digest is None or not commit.digest.startswith(f"{method}:") for commit in found):
        problem = (
            f"commit {found[0].graph_commit_id} loaded it with another version of DuckDB, so it cannot be compared"
        )
    else:
        problem = f"commit {found[0].graph_commit_id} loaded it with other content"
    raise BatchConflict(key.application, key.batch, last.number, problem)


def _commits_with(attempt: WriteAttempt, branches: Branches, key: LoadKey) -> Iterator[Commit]:
    """The commits of this history with a key, newest first; mostly one."""
    base = attempt.base
    for commit in CommitGraph(branches, base.manifest.commits).later_commits([(base.commit, -1)]):
        if commit.application == key.application and commit.batch == key.batch:
            yield commit


# --- content ---


def content_of(records: TypeRows, *, tells_null_apart: bool) -> int:
    """A number that identifies the content of records, whatever their order: the sum of the hashes of all rows.

    Ids that records do not give themselves are left out. That null was given, and not nothing, counts where it makes a
    difference.
    """
    entity, rows = records.entity, records.rows
    columns = {name: rows[name] for name in rows.column_names}
    if records.generated_ids:
        columns[ID] = pa.nulls(rows.num_rows, pa.string())
    elif records.stated is not None:
        columns[ID] = pc.if_else(records.stated, flat(rows[ID]), pa.scalar(None, pa.string()))
    for name, declared in entity.properties.items():
        if (tells_null_apart or declared.default is not None) and name in columns:
            columns[f"@{name}"] = records.given.get(name, pa.repeat(True, rows.num_rows))
    names = [f"c{number}" for number in range(len(columns))]
    table = pa.table([columns[name] for name in sorted(columns)], names)
    with connection() as duck:
        duck.register("records", table)
        duck.execute(f"SELECT sum(hash(?, {', '.join(names)})) FROM records", [entity.table_key])  # noqa: S608
        found = duck.fetchone()
    return int(found[0]) % _MODULUS if found and found[0] is not None else 0


def digest_of(count: int, content: int) -> str:
    """The digest of a number of rows and the sum of their hashes; it begins with the method.

    Another version of DuckDB may have another method.
    """
    return f"{_method()}:{count}:{content % _MODULUS:016x}"


@cache
def _method() -> str:
    with connection() as duck:
        found = duck.execute("SELECT hash('omnigraph', 1, 2.5, true, NULL)").fetchone()
    assert found is not None
    return f"{int(found[0]) & 0xFFFF:04x}"
