"""Commits, snapshots, and the one way to make a write visible."""

from omnigraph.versioning.history import commit_since, commits_from, manifest_at_time, manifest_of_commit
from omnigraph.versioning.log import ManifestLog
from omnigraph.versioning.manifest import Commit, Manifest, Pin
from omnigraph.versioning.publisher import Publication, new_commit, new_commit_id, publish
from omnigraph.versioning.snapshot import Snapshot

__all__ = [
    "Commit",
    "Manifest",
    "ManifestLog",
    "Pin",
    "Publication",
    "Snapshot",
    "commit_since",
    "commits_from",
    "manifest_at_time",
    "manifest_of_commit",
    "new_commit",
    "new_commit_id",
    "publish",
]
