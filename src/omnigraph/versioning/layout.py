"""Migrates a graph of an older version of OmniGraph to the layout of this version.

The stamp of a manifest is the number of its layout. A newer layout is refused by readers. An older layout can be read,
and the next manifest that is published has the layout of this version. Opening a graph for writing publishes a manifest
on every branch, so that older versions of OmniGraph stop writing to it at once.

Layout 1 had a single schema, in the files of the graph. Since layout 2, every commit names its schema.
"""

from contextlib import suppress

from omnigraph.errors import PreconditionFailed
from omnigraph.versioning.branches import Branches
from omnigraph.versioning.manifest import INTERNAL_SCHEMA_VERSION, Manifest
from omnigraph.versioning.publisher import Publication, new_commit_id, publish

MIGRATION_ACTOR = "omnigraph:migration"


def migrate_layout(branches: Branches) -> None:
    """Publishes a manifest of this version's layout on each branch whose head has an older layout.

    `main` comes last, so that its layout shows whether anything is left to do. A branch that begins later at an old
    commit is migrated by its first write. If several processes migrate at once, one of them publishes. The head is read
    before its layout, so that a migration is never published after a head of the new layout.
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
