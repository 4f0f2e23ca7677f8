"""Gives every type and property a number that outlives its name.

A name that was there before keeps its number. A new name that says `@rename_from("old")` takes over the number of the
old one. Everything else is new, also a name that was dropped once and comes back: numbers are never used again.
"""

from collections.abc import Collection, Mapping
from typing import TypeAlias

from omnigraph.catalog.annotations import single_text
from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.codes import Code
from omnigraph.diagnostics import Findings, did_you_mean, quoted
from omnigraph.syntax.schema_ast import EdgeDeclaration, NodeDeclaration, PropertyDeclaration

Named: TypeAlias = NodeDeclaration | EdgeDeclaration | PropertyDeclaration
"""Something with a name and annotations, one of which may say what it was called before."""


class Identities:
    """Hands out identities for one compilation, against the catalog that was accepted before (if any)."""

    def __init__(self, previous: Catalog | None, findings: Findings) -> None:
        self._previous = previous
        self._findings = findings
        self.next = previous.next_identity if previous is not None else 1

    def of_nodes(self, declared: Collection[Named]) -> dict[str, tuple[int, EntityType | None]]:
        """The identity of each node type by its name, with the type it was before."""
        return self._of_types(declared, self._previous.nodes if self._previous else {}, "node type")

    def of_edges(self, declared: Collection[Named]) -> dict[str, tuple[int, EntityType | None]]:
        """The identity of each edge type by its name, with the type it was before."""
        known = self._previous.edges.values() if self._previous else ()
        return self._of_types(declared, {each.declared_name: each for each in known}, "edge type")

    def of_properties(self, declared: Collection[Named], before: EntityType | None) -> dict[str, int]:
        """The identity of each property of a type by its name; `before` is the type as it was."""
        known = {name: each.identity for name, each in before.properties.items()} if before is not None else {}
        sources = self._sources(declared, known, "property", renamable=before is not None)
        return {each.name: known[sources[each.name]] if each.name in sources else self._fresh() for each in declared}

    def _of_types(
        self, declared: Collection[Named], known: Mapping[str, EntityType], kind: str
    ) -> dict[str, tuple[int, EntityType | None]]:
        sources = self._sources(declared, known, kind, renamable=self._previous is not None)
        found: dict[str, tuple[int, EntityType | None]] = {}
        for each in declared:
            before = known[sources[each.name]] if each.name in sources else None
            found[each.name] = (before.identity if before is not None else self._fresh(), before)
        return found

    def _sources(
        self, declared: Collection[Named], known: Mapping[str, object], kind: str, *, renamable: bool
    ) -> dict[str, str]:
        """For each declared name that was there before, under which name."""
        names = {each.name for each in declared}
        sources = {name: name for name in names if name in known}
        taken: set[str] = set()
        for each in declared:
            old = self._renamed_from(each)
            if old is None or not renamable:
                continue
            if each.name in known and old not in known:
                message = f"{kind} {quoted(each.name)} was already renamed: there is no {quoted(old)}"
                self._findings.report(Code.RENAME_DONE, message, each.span, "the annotation can be removed")
                continue
            problem = None
            if old in names:
                problem = f"{kind} {quoted(old)} is still declared"
            elif each.name in known:
                problem = f"{kind} {quoted(each.name)} already exists, so {quoted(old)} cannot be renamed to it"
            elif old not in known:
                problem = f"there is no {kind} {quoted(old)} to rename"
            elif old in taken:
                problem = f"{kind} {quoted(old)} is renamed twice"
            if problem is not None:
                hint = did_you_mean(old, known) if old not in known else None
                if old in names and old in known:
                    hint = f"rename {quoted(old)} in one schema change, and reuse its name in the next"
                self._findings.report(Code.INVALID_RENAME, problem, each.span, hint)
                continue
            sources[each.name] = old
            taken.add(old)
        return sources

    def _renamed_from(self, each: Named) -> str | None:
        for annotation in each.annotations:
            if annotation.name == "rename_from":
                return single_text(annotation, self._findings)
        return None

    def _fresh(self) -> int:
        self.next += 1
        return self.next - 1
