"""Commits, snapshots, and the one way to make a write visible."""

from omnigraph.api.base import MAIN
from omnigraph.api.history import Commit, Place
from omnigraph.versioning.branches import Branches
from omnigraph.versioning.commit_graph import CommitGraph
from omnigraph.versioning.history import (
    commit_since,
    commit_with_id,
    manifest_at_time,
    manifest_of_commit,
    no_snapshot,
)
from omnigraph.versioning.log import ManifestLog
from omnigraph.versioning.manifest import Manifest, Pin, SchemaChange
from omnigraph.versioning.publisher import MergedParent, Publication, new_commit_id, publish
from omnigraph.versioning.snapshot import Snapshot
