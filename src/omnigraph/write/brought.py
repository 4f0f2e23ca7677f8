"""The files that a write brings: that they are there before a version refers to them, and their checksums.

On a disk the content is read before any lock is taken, because that takes as long as the write is large. On an object
store the look under the locks tells the tags of the objects, so nothing more is asked for.
"""

import logging
from collections.abc import Iterable, Mapping

from omnigraph.errors import StorageError
from omnigraph.storage.files import FileChecksum, checksum_files
from omnigraph.storage.location import Location
from omnigraph.storage.references import describe_staged_files
from omnigraph.storage.tables import version_file
from omnigraph.versioning.file_checksums import record_checksums
from omnigraph.write.change import StagedTable

_logger = logging.getLogger(__name__)


class BroughtChecksums:
    """The checksums of the files of one write. Made before it takes its locks."""

    def __init__(self, parts: Mapping[str, StagedTable]) -> None:
        self._files: dict[Location, dict[str, FileChecksum]] = {}
        local = {key: part for key, part in parts.items() if part.table.location.path is not None}
        self._add(local.values())

    def check(self, parts: Mapping[str, StagedTable]) -> None:
        """Raises `StagedFileGone` for a file that is not there any more. The caller holds the locks of the tables.

        Cleanup lists a table under its locks. So what is there under them was not taken for that of a dead writer, and
        what is announced next stays. What was staged since the first look is looked at too.
        """
        self._add(parts.values())

    def _add(self, parts: Iterable[StagedTable]) -> None:
        steps = [(part.table, step) for part in parts for step in part.steps]
        for (_, step), files in zip(steps, describe_staged_files(steps), strict=True):
            known = self._files.setdefault(step.location, {})
            if step.location.path is None:
                known.update({file.name: FileChecksum(file.size, etag=file.etag) for file in files})
            else:
                known.update(checksum_files(step.location, [file.name for file in files if file.name not in known]))

    def record(self, graph: Location, operation_id: str, parts: Mapping[str, StagedTable]) -> None:
        """Records the checksums of all files of a write whose tables are committed, with those of their versions.

        `verify` and later writes compare with the record if it exists, so a failure does not fail the write.
        """
        try:
            for part in parts.values():
                names = [version_file(step.version_after) for step in part.steps]
                self._files.setdefault(part.table.location, {}).update(checksum_files(part.table.location, names))
            tables = {
                location.uri.removeprefix(f"{graph.uri}/"): files for location, files in self._files.items() if files
            }
            record_checksums(graph, operation_id, tables)
        except StorageError as error:
            _logger.warning("the checksums of %s could not be recorded: %s", operation_id, error)
