"""Commits, snapshots, and the one way to make a write visible.

Names are imported when they are first used: who reads manifests only needs neither Lance nor the catalog.
"""

from typing import TYPE_CHECKING

from omnigraph.lazy import lazy_names

if TYPE_CHECKING:
    from omnigraph.versioning.branches import Branches
    from omnigraph.versioning.commit_graph import CommitGraph
    from omnigraph.versioning.history import (
        commit_of_version,
        commit_since,
        commit_with_id,
        commits_between,
        first_number,
        manifest_after,
        manifest_at_time,
        manifest_of_commit,
        manifest_of_version,
        no_snapshot,
    )
    from omnigraph.versioning.log import ManifestLog
    from omnigraph.versioning.manifest import Manifest, Pin, SchemaChange
    from omnigraph.versioning.publisher import MergedParent, Publication, new_commit_id, publish
    from omnigraph.versioning.snapshot import Snapshot
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "branches": "Branches",
            "commit_graph": "CommitGraph",
            "history": "commit_of_version commit_since commit_with_id commits_between first_number manifest_after"
            " manifest_at_time manifest_of_commit manifest_of_version no_snapshot",
            "log": "ManifestLog",
            "manifest": "Manifest Pin SchemaChange",
            "publisher": "MergedParent Publication new_commit_id publish",
            "snapshot": "Snapshot",
        },
    )
