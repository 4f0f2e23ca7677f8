"""Brings a graph that an older version wrote to the layout of this one.

A manifest says in its stamp how it is laid out. A newer one than this version knows is refused by whoever reads it. An
older one can be read as it is, and the first manifest that is published after it has the layout of this version.
Whoever opens a graph for writing publishes one on every branch, so that older versions stop writing to it at once.

Layout 1 had one schema for ever, in the files of the graph. Layout 2 names a schema in every commit.
"""

from contextlib import suppress

from omnigraph.errors import PreconditionFailed
from omnigraph.versioning.branches import Branches
from omnigraph.versioning.manifest import INTERNAL_SCHEMA_VERSION, Manifest
from omnigraph.versioning.publisher import Publication, new_commit_id, publish

MIGRATION_ACTOR = "omnigraph:migration"


def migrate_layout(branches: Branches) -> None:
    """Publishes a manifest of this version's layout on each branch whose newest is older.

    `main` comes last, so that one look at it tells whether there is anything to do. A branch that is begun later on an
    old commit is brought up to date by its first write. Of several that migrate at once, one publishes. The newest is
    always read before its layout is, so that a migration follows none but an older one.
    """
    if branches.main.layout() == INTERNAL_SCHEMA_VERSION:
        return
    _, *others = branches.logs()
    for log in (*others, branches.main):
        head = log.head()
        while (layout := log.layout()) < INTERNAL_SCHEMA_VERSION:
            with suppress(PreconditionFailed):
                publish(log, _migration(head, layout, branch=log.branch))
            head = log.head()


def _migration(head: Manifest, layout: int, *, branch: str) -> Publication:
    return Publication(
        commit_id=new_commit_id(),
        pins={},
        expected={},
        branch=branch,
        actor=MIGRATION_ACTOR,
        message=f"layout {layout} → {INTERNAL_SCHEMA_VERSION}",
        if_commit=head.commit.graph_commit_id,
    )
