"""A cache of the compiled queries of a graph: those that were used last."""

import threading
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

from omnigraph.catalog import Catalog
from omnigraph.compiler import CompiledQuery, compile_query, ir
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import UsageError
from omnigraph.mutating.matches import MatchRead
from omnigraph.query.at_once import is_bounded
from omnigraph.query.programs import Program, program_of
from omnigraph.source_files import text_of
from omnigraph.syntax import QUERY
from omnigraph.versioning import Snapshot

_MOST_QUERIES, _MOST_LETTERS = 256, 1 << 20


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A query that was compiled, and for a read the program that answers it from memory, if there is one."""

    compiled: CompiledQuery
    program: Program | None
    is_bounded: bool = False
    """Whether the program reads no more than what follows from ids that are given."""
    matches: tuple[MatchRead, ...] = ()
    """The reads of the match of a mutation."""
    parts: tuple["PreparedQuery", ...] = ()
    """The reads of a union."""


class QueryCache:
    """Compiled queries by schema, text and name. Safe to share between threads.

    A source with several queries is kept, and counted, once for each query that was used.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, str, str | None], PreparedQuery] = OrderedDict()
        self._length = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, text: str, name: str | None, at: Snapshot) -> PreparedQuery | None:
        """A query of a text that was compiled before; None if it was not."""
        return self._find((at.manifest.commit.schema_id, text, "<query>", name))

    def _find(self, key: tuple[str, str, str, str | None]) -> PreparedQuery | None:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
        return found

    def prepare(self, source: str | Path, name: str | None, at: Snapshot) -> PreparedQuery:
        """Compiles a query of a source, which is a text or the path of a file, with the schema of a snapshot."""
        if name is not None and not isinstance(name, str):
            raise UsageError(f"invalid query name {name!r}: expected a text; pass parameters as `params={{…}}`")
        text, file = (source, "<query>") if isinstance(source, str) else (text_of(source, QUERY), str(source))
        key = (at.manifest.commit.schema_id, text, file, name)
        found = self._find(key)
        if found is not None:
            return found
        compiled = compile_query(text, at.catalog, name, name=file)
        found = _prepare(compiled, at.catalog)
        with self._lock:
            if key not in self._kept and len(text) <= _MOST_LETTERS // 8:
                self._kept[key] = found
                self._length += len(text)
            while len(self._kept) > _MOST_QUERIES or self._length > _MOST_LETTERS:
                self._length -= len(self._kept.popitem(last=False)[0][1])
        return found


def _prepare(compiled: CompiledQuery, catalog: Catalog) -> PreparedQuery:
    if isinstance(compiled.body, ir.Read):
        program = program_of(compiled.body, catalog)
        return PreparedQuery(compiled, program, program is not None and is_bounded(program))
    if isinstance(compiled.body, ir.Union):
        parts = tuple(_prepare(replace(compiled, body=part), catalog) for part in compiled.body.parts)
        return PreparedQuery(compiled, None, parts=parts)
    matches = (MatchRead(replace(compiled, body=read), program_of(read, catalog)) for read in compiled.body.reads)
    return PreparedQuery(compiled, None, matches=tuple(matches))
