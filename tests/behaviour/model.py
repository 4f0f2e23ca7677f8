"""A plain Python model of a graph: what a write may do and what is there after it, without any storage.

Written from the language's rules and not from the code, so that the two can disagree.
"""

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

Rows = dict[str, dict[str, Any]]


class Refused(Exception):
    """The model does not allow a write."""


@dataclass(frozen=True)
class ModelType:
    """A type as the model sees it: all properties are I32 or String."""

    name: str
    key: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    defaults: dict[str, Any] = field(default_factory=dict)
    unique: tuple[str, ...] = ()
    source: str | None = None
    destination: str | None = None
    maximum: int | None = None
    low: int | None = None

    @property
    def is_edge(self) -> bool:
        return self.source is not None

    def declaration(self) -> str:
        """The type in the schema language."""
        lines = []
        for name, type in self.properties.items():
            mark = "" if name in self.required else "?"
            default = f" @default({self.defaults[name]})" if name in self.defaults else ""
            key = " @key" if name == self.key else ""
            lines.append(f"    {name}: {type}{mark}{default}{key}")
        if self.unique:
            lines.append(f"    @unique({', '.join(self.unique)})")
        if self.low is not None:
            lines.append(f"    @range(n, {self.low}..)")
        head = f"node {self.name}"
        if self.is_edge:
            card = f" @card(0..{self.maximum})" if self.maximum is not None else ""
            head = f"edge {self.name}: {self.source} -> {self.destination}{card}"
        return "\n".join([f"{head} {{", *lines, "}"])


class Model:
    """The content of a graph, by type and id. Every change is checked whole and made whole, or refused."""

    def __init__(self, types: list[ModelType]) -> None:
        self.types = {each.name: each for each in types}
        self.rows: dict[str, Rows] = {each.name: {} for each in types}

    def load(self, records: list[tuple[str, dict[str, Any]]], mode: str) -> None:
        """Loads records: append, merge or overwrite."""
        after = deepcopy(self.rows)
        if mode == "overwrite":
            for name, _ in records:
                after[name] = {}
        fresh: Counter[tuple[str, str]] = Counter()
        for name, given in records:
            type = self.types[name]
            identity = given["id"] if type.key is None else str(given.get(type.key))
            if type.key is not None and given.get(type.key) is None:
                raise Refused
            fresh[name, identity] += 1
            known = self.rows[name].get(identity) if mode == "merge" else None
            if mode == "append" and identity in self.rows[name]:
                raise Refused
            base = known or {**dict.fromkeys(type.properties), **type.defaults}
            after[name][identity] = {**base, **{key: value for key, value in given.items() if key != "id"}}
        if mode != "merge" and max(fresh.values(), default=0) > 1:
            raise Refused
        self._accept(after)

    def insert(self, name: str, given: dict[str, Any]) -> Rows:
        """One insert of a mutation, which must give every required value, whatever is there already.

        Returns what it leaves, as `returning` does.
        """
        type = self.types[name]
        if any(given.get(each, type.defaults.get(each)) is None for each in type.required):
            raise Refused
        after = deepcopy(self.rows)
        identity = given["id"] if type.key is None else str(given[type.key])
        known = after[name].get(identity)
        if type.key is None and known is not None:
            raise Refused
        base = known or {**dict.fromkeys(type.properties), **type.defaults}
        after[name][identity] = {**base, **{key: value for key, value in given.items() if key != "id"}}
        self._accept(after)
        return {identity: after[name][identity]}

    def update(self, name: str, value: int | None, below: int) -> Rows:
        """``update name set { n: value } where n < below``, and what it leaves of all that it finds."""
        if value is None and "n" in self.types[name].required:
            raise Refused
        after = deepcopy(self.rows)
        found = self._below(after[name], below)
        for row in found.values():
            row["n"] = value
        self._accept(after)
        return found

    def delete(self, name: str, below: int) -> Rows:
        """``delete name where n < below``, with the edges that touch what goes, and what it deletes itself."""
        after = deepcopy(self.rows)
        gone = self._below(after[name], below)
        after[name] = {identity: row for identity, row in after[name].items() if identity not in gone}
        for edge in self.types.values():
            ends = [end for end, node in (("src", edge.source), ("dst", edge.destination)) if node == name]
            after[edge.name] = {
                identity: row for identity, row in after[edge.name].items() if not any(row[end] in gone for end in ends)
            }
        self._accept(after)
        return gone

    def _below(self, rows: Rows, below: int) -> Rows:
        return {identity: row for identity, row in rows.items() if row["n"] is not None and row["n"] < below}

    def _accept(self, after: dict[str, Rows]) -> None:
        for type in self.types.values():
            rows = after[type.name].values()
            if any(row[name] is None for row in rows for name in type.required):
                raise Refused
            if type.low is not None and any(row["n"] is not None and row["n"] < type.low for row in rows):
                raise Refused
            if type.unique:
                values = [tuple(row[name] for name in type.unique) for row in rows]
                complete = [each for each in values if None not in each]
                if len(set(complete)) < len(complete):
                    raise Refused
            if type.source is not None and type.destination is not None:
                ends = [(row["src"] in after[type.source], row["dst"] in after[type.destination]) for row in rows]
                if not all(source and destination for source, destination in ends):
                    raise Refused
                counts = Counter(row["src"] for row in rows)
                if type.maximum is not None and max(counts.values(), default=0) > type.maximum:
                    raise Refused
        self.rows = after
