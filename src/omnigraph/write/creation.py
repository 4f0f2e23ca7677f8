"""Creates a graph."""

import logging
from datetime import UTC, datetime

import pyarrow as pa

from omnigraph import failpoints
from omnigraph.api.history import Commit
from omnigraph.catalog import Catalog, EntityType, NodeType, compile_schema, table_schema
from omnigraph.codes import Code
from omnigraph.diagnostics import Source
from omnigraph.embedding import current_settings, model_findings, with_models
from omnigraph.errors import StorageError
from omnigraph.failpoints import Point
from omnigraph.storage.commits import commit_created, sync_versions
from omnigraph.storage.durability import forget
from omnigraph.storage.files import checksum_files
from omnigraph.storage.location import Location
from omnigraph.storage.staging import stage_create, with_compact_ends, with_compact_ids
from omnigraph.storage.tables import version_file
from omnigraph.versioning import Manifest, Pin, new_commit_id
from omnigraph.versioning.file_checksums import record_checksums
from omnigraph.versioning.log import FIRST_VERSION, open_main
from omnigraph.versioning.schemas import Schemas, accepted_schema, write_schema_files
from omnigraph.write import WriteFence

_logger = logging.getLogger(__name__)
CREATION = "graph"
"""The lock of those who create a graph, among those of its tables."""


def create_graph(graph: Location, schema: str, *, name: str = "<schema>", actor: str | None = None) -> None:
    """Creates an empty graph; refuses where one is, and leaves nothing that looks like one when it fails.

    Tables and schema come first. The manifest is what makes them a graph. Creators take turns, so that none writes its
    schema over that of another. The models that fill vectors are settled here, and recorded with the schema. A vector
    that no configured model can fill is logged as a warning.
    """
    settled = with_models(compile_schema(schema, name=name), current_settings())
    for finding in model_findings(Source(name, schema), settled.unfilled, Code.UNFILLED_VECTOR):
        _logger.warning("%s", finding.render())
    with WriteFence(graph, "main", "init") as fence:
        fence.take([CREATION])
        _create(graph, schema, settled.catalog, actor)


def _create(graph: Location, schema: str, catalog: Catalog, actor: str | None) -> None:
    log = open_main(graph)
    if graph.path is not None:
        forget(graph.path)
    if log.exists():
        raise StorageError(graph.uri, "there is already a graph here")
    commit_id = new_commit_id()
    pins = {}
    for entity in catalog.entities:
        pins[entity.table_key] = create_table(graph, entity, commit_id)
        failpoints.hit(Point.INIT_TABLE_CREATED)
    accepted = accepted_schema(1, schema, catalog)
    Schemas(graph).keep(accepted)
    write_schema_files(graph, accepted)
    failpoints.hit(Point.INIT_BEFORE_MANIFEST)
    first = Commit(
        graph_commit_id=commit_id,
        branch="main",
        manifest_version=FIRST_VERSION,
        manifest=FIRST_VERSION,
        parent_commit_id=None,
        actor=actor,
        message="init",
        created_at=datetime.now(UTC),
        schema_id=accepted.id,
    )
    log.create(Manifest(FIRST_VERSION, pins, (first,)))
    failpoints.hit(Point.INIT_AFTER_MANIFEST)


def create_table(graph: Location, entity: EntityType, commit_id: str) -> Pin:
    """An empty table, in a folder of this creator's own: what a failed one left behind is never taken over."""
    folder = "nodes" if isinstance(entity, NodeType) else "edges"
    path = f"{folder}/{entity.identity}-{commit_id.lower()}"
    table = commit_created(stage_create(graph.child(path), _stored_schema(entity).empty_table(), commit_id))
    sync_versions([table])
    checksums = checksum_files(table.location, [version_file(table.version)])
    record_checksums(graph, f"{commit_id}-{entity.identity}", {path: checksums})
    return Pin(path, table.version)


def _stored_schema(entity: EntityType) -> pa.Schema:
    """The columns of a new table, with how Lance is to encode them."""
    schema = table_schema(entity)
    if isinstance(entity, NodeType):
        return schema if entity.key else with_compact_ids(schema)
    return with_compact_ends(with_compact_ids(schema))
