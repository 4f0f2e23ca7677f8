"""The files that make a folder a graph: its schema, the compiled form, and what identifies them."""

import hashlib
import json

from omnigraph.catalog import Catalog, catalog_from_json, catalog_to_json
from omnigraph.errors import StorageError
from omnigraph.storage import Location, objects_at

SCHEMA_FILE, COMPILED_FILE, STATE_FILE = "_schema.pg", "_schema.ir.json", "__schema_state.json"


def write_schema_files(graph: Location, text: str, catalog: Catalog) -> None:
    """Writes the accepted schema; the state file, which vouches for the others, last."""
    objects = objects_at(graph)
    compiled = json.dumps(catalog_to_json(catalog), indent=1, ensure_ascii=False)
    objects.replace(SCHEMA_FILE, text.encode())
    objects.replace(COMPILED_FILE, compiled.encode())
    state = {"schema": _digest(text), "compiled": _digest(compiled)}
    objects.replace(STATE_FILE, json.dumps(state, indent=1).encode())


def read_schema_files(graph: Location) -> tuple[str, Catalog]:
    """The accepted schema, as text and compiled."""
    objects = objects_at(graph)
    contents = [objects.read(name) for name in (SCHEMA_FILE, COMPILED_FILE, STATE_FILE)]
    if any(content is None for content in contents):
        raise StorageError(graph.uri, "there is no graph here")
    text, compiled, state = (content.decode() for content in contents if content is not None)
    if json.loads(state) != {"schema": _digest(text), "compiled": _digest(compiled)}:
        raise StorageError(graph.uri, "the schema files do not belong together; one was changed by hand")
    return text, catalog_from_json(json.loads(compiled))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
