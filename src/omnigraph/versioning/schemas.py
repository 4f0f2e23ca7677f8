"""The schemas that a graph has had: each is kept permanently, and every commit names the one that it was made under.

They form a single line, because the schema changes only on `main`: each schema has a number, and types and properties
keep their identity. So the catalogs of any two commits of a graph can be compared.

The files `_schema.pg`, `_schema.ir.json` and `__schema_state.json` have the schema of `main`, for users and tools. They
are copies: only a graph of the first layout, which has no other schema, depends on them.
"""

import hashlib
import json
import threading
from typing import Any

from omnigraph import failpoints
from omnigraph.api.history import FIRST_SCHEMA, schema_number
from omnigraph.catalog import Catalog, catalog_from_json, catalog_to_json
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged, StorageError
from omnigraph.failpoints import Point
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.records import encode_record, read_record

SCHEMA_FILE, COMPILED_FILE, STATE_FILE = "_schema.pg", "_schema.ir.json", "__schema_state.json"
STAGED = ".staging"
_FOLDER, _SUFFIX = "__schemas", ".json"
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class AcceptedSchema:
    """An accepted schema: its text, and the catalog compiled from it."""

    id: str
    text: str
    catalog: Catalog

    @property
    def number(self) -> int:
        """The number of the schema in its graph; the first is 1."""
        return schema_number(self.id)

    def as_json(self) -> dict[str, Any]:
        """The schema as scripts read it."""
        described = {"schema_id": self.id, "schema_number": self.number}
        return {**described, "schema": self.text, "catalog": catalog_to_json(self.catalog)}


def accepted_schema(number: int, text: str, catalog: Catalog) -> AcceptedSchema:
    """A schema with the given number in its graph."""
    return AcceptedSchema(_schema_id(number, text, catalog_to_json(catalog)), text, catalog)


def _schema_id(number: int, text: str, catalog: dict[str, Any]) -> str:
    return f"{number}-{_digest(json.dumps([text, catalog]))[:_DIGITS]}"


@dataclass(frozen=True, slots=True)
class _SchemaRecord:
    """The content of the file of a schema."""

    id: str
    schema: str
    catalog: dict[str, Any]


class Schemas:
    """The schemas of one graph. Safe to share between threads."""

    def __init__(self, graph: Location) -> None:
        self._graph = graph
        self._known: dict[str, AcceptedSchema] = {}
        self._lock = threading.Lock()

    def get(self, schema_id: str) -> AcceptedSchema:
        """A schema that some commit names; always the same object for the same id."""
        with self._lock:
            if schema_id not in self._known:
                self._known[schema_id] = self._read(schema_id)
            return self._known[schema_id]

    def ids_from(self, number: int) -> list[str]:
        """The schemas with this number and later ones, in order; some may be of changes that were never committed."""
        names = [file.removesuffix(_SUFFIX) for file in objects_at(self._graph).names(_FOLDER)]
        return sorted((each for each in names if schema_number(each) >= number), key=schema_number)

    def keep(self, accepted: AcceptedSchema) -> None:
        """Stores a schema, before any commit names it."""
        data = {"id": accepted.id, "schema": accepted.text, "catalog": catalog_to_json(accepted.catalog)}
        objects_at(self._graph).replace(_file(accepted.id), encode_record(data))

    def keep_first(self) -> None:
        """Stores the only schema of a graph of the first layout, before another one replaces it in the files."""
        if objects_at(self._graph).read(_file(FIRST_SCHEMA)) is None:
            self.keep(self.get(FIRST_SCHEMA))

    def _read(self, schema_id: str) -> AcceptedSchema:
        record = read_record(_SchemaRecord, self._graph, _file(schema_id))
        if record is None and schema_id == FIRST_SCHEMA:
            return AcceptedSchema(schema_id, *_read_files(self._graph))
        uri = self._graph.child(_file(schema_id)).uri
        if record is None:
            raise Damaged(uri, "is missing, but a commit refers to the schema in it")
        computed = _schema_id(schema_number(schema_id), record.schema, record.catalog)
        if record.id != schema_id or schema_id not in (FIRST_SCHEMA, computed):
            raise Damaged(uri, f"does not hold schema {schema_id}")
        return AcceptedSchema(schema_id, record.schema, _catalog(uri, record.catalog))


def write_schema_files(graph: Location, accepted: AcceptedSchema) -> None:
    """Writes a schema to the schema files; the state file, which has the checksums of the others, comes last."""
    for name, content in _files(accepted).items():
        objects_at(graph).replace(name, content)
        failpoints.hit(Point.SCHEMA_FILE_WRITTEN)


def stage_schema_files(graph: Location, accepted: AcceptedSchema, operation_id: str) -> None:
    """Writes the schema files beside the current ones, for a write that is not visible yet."""
    failpoints.hit(Point.SCHEMA_BEFORE_STAGING)
    for name, content in _files(accepted, operation_id).items():
        objects_at(graph).replace(name + STAGED, content)
        failpoints.hit(Point.SCHEMA_FILE_STAGED)


def staged_operation(graph: Location) -> str | None:
    """The write that has staged all files; None when some are missing, or do not belong together."""
    try:
        found = _read_contents(graph, STAGED)
        operation: str | None = None if found is None else found[2].get("operation")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return operation


def settle_schema_files(graph: Location, schema_id: str) -> None:
    """Writes the schema of the newest commit of `main` to the schema files, and removes staged ones.

    Staged files are removed first: writing the next file also syncs their removal to the disk.
    """
    for name in (STATE_FILE, COMPILED_FILE, SCHEMA_FILE):
        objects_at(graph).delete(name + STAGED)
    write_schema_files(graph, Schemas(graph).get(schema_id))


def _files(accepted: AcceptedSchema, operation_id: str | None = None) -> dict[str, bytes]:
    compiled = json.dumps(catalog_to_json(accepted.catalog), indent=1, ensure_ascii=False)
    state = {"id": accepted.id, "schema": _digest(accepted.text), "compiled": _digest(compiled)}
    if operation_id is not None:
        state["operation"] = operation_id
    return {
        SCHEMA_FILE: accepted.text.encode(),
        COMPILED_FILE: compiled.encode(),
        STATE_FILE: encode_record(state),
    }


def _read_files(graph: Location) -> tuple[str, Catalog]:
    uri = graph.child(STATE_FILE).uri
    try:
        found = _read_contents(graph)
        if found is None:
            raise StorageError(graph.uri, "there is no graph here")
        text, compiled, _ = found
        catalog = json.loads(compiled)
    except _Unrelated as error:
        raise Damaged(uri, "the schema files do not belong together; one was changed by hand") from error
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(uri, f"the schema files cannot be read: {error}") from error
    return text, _catalog(uri, catalog)


class _Unrelated(ValueError):
    """The schema files do not belong together."""


def _read_contents(graph: Location, suffix: str = "") -> tuple[str, str, Any] | None:
    """The text, the compiled schema and the state in the files; None when one is missing."""
    contents = [objects_at(graph).read(name + suffix) for name in (SCHEMA_FILE, COMPILED_FILE, STATE_FILE)]
    if any(content is None for content in contents):
        return None
    text, compiled, state = (content.decode() for content in contents if content is not None)
    data = json.loads(state)
    if (data["schema"], data["compiled"]) != (_digest(text), _digest(compiled)):
        raise _Unrelated
    return text, compiled, data


def _catalog(uri: str, data: dict[str, Any]) -> Catalog:
    try:
        return catalog_from_json(data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(uri, f"its catalog cannot be understood: {error!r}") from error


def _file(schema_id: str) -> str:
    return f"{_FOLDER}/{schema_id}{_SUFFIX}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
