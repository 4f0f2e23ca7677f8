"""What a change of a schema is tried with: data, its plan, and what is asked before and after it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omnigraph.embedding.fill import MockModel

Rows = Mapping[str, Sequence[Mapping[str, Any]]]

METADATA = "metadata only"


@dataclass(frozen=True, slots=True)
class Asked:
    """A query without its name, and the rows that answer it."""

    text: str
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One change of a schema.

    `branch` is loaded on a branch under the old schema, and `merged` says what the row with that id is in `main` after
    a merge. `later` is loaded under the new schema.
    """

    title: str
    old: str
    new: str
    steps: tuple[tuple[str, str, str], ...]
    """Their kinds, what they do, and their costs."""
    data: Rows
    before: Asked
    after: Asked
    branch: Rows
    merged: tuple[str, str, Mapping[str, Any]]
    later: Rows
    changed: tuple[tuple[str, str, str], ...] = ()
    """What a diff across the change shows: types, kinds of changes and ids."""
    refills: tuple[str, ...] = field(default=())
    """Vectors that a load under the new schema computes, though an export has them as null."""


def vectors(*texts: str, dimension: int = 3) -> list[Any]:
    """What the model of the tests computes for texts."""
    return [[float(number) for number in vector] for vector in MockModel().vectors(texts, dimension)]


def people(columns: Mapping[str, Sequence[Any]]) -> Asked:
    """Asks for some properties of Ada and Bob, whose values are given in this order."""
    shown = ", ".join(f"$p.{name}" for name in columns)
    text = f'{{ match {{ $p: Person  ["Ada", "Bob"] contains $p.name }} return {{ {shown} }} order {{ $p.name }} }}'
    return Asked(text, tuple(zip(*columns.values(), strict=True)))


def knows(person: str = "Person", edge: str = "knows", **columns: Any) -> Asked:
    """Asks for some properties of the edge from Ada to Bob."""
    shown = ", ".join(["$q.name", *(f"$k.{name}" for name in columns)])
    ends = f'$p: {person} {{ name: "Ada" }}  $q: {person} {{ name: "Bob" }}  $p $k:{edge} $q'
    return Asked(f"{{ match {{ {ends} }} return {{ {shown} }} }}", (("Bob", *columns.values()),))


def schema(body: str, *, type: str = "Person", head: str = "", knows: str = "", rest: str = "") -> str:
    """A schema of people who know each other."""
    edge = f"edge Knows: {type} -> {type} {knows}"
    return f"node {type} {head} {{\n    name: String @key\n    {body}\n}}\n{edge}\n{rest}\n"


def start(ada: Mapping[str, Any], bob: Mapping[str, Any] | None = None, **others: Any) -> Rows:
    """Ada, who knows Bob."""
    rows = [{"name": "Ada", **ada}, {"name": "Bob", **(bob or {})}]
    return {"Person": rows, "Knows": [{"id": "ab", "from": "Ada", "to": "Bob"}], **others}


def of_person(
    title: str,
    old: str,
    new: str,
    steps: Sequence[tuple[str, str, str]],
    *,
    ada: Mapping[str, Any],
    before: Mapping[str, Sequence[Any]],
    after: Mapping[str, Sequence[Any]],
    bob: Mapping[str, Any] | None = None,
    zoe: Mapping[str, Any] | None = None,
    merged: Mapping[str, Any] | None = None,
    later: Mapping[str, Any] | None = None,
    changed: Sequence[tuple[str, str, str]] = (),
    refills: tuple[str, ...] = (),
) -> Case:
    """A change of the properties of a person. Zoe comes on the branch, and Eve later."""
    return Case(
        title=title,
        old=schema(old),
        new=schema(new),
        steps=tuple(steps),
        data=start(ada, bob),
        before=people(before),
        after=people(after),
        branch={"Person": [{"name": "Zoe", **(zoe or {})}], "Knows": [{"id": "zb", "from": "Zoe", "to": "Bob"}]},
        merged=("Person", "Zoe", merged or {}),
        later={"Person": [{"name": "Eve", **(later or {})}], "Knows": [{"id": "ea", "from": "Eve", "to": "Ada"}]},
        changed=tuple(changed),
        refills=refills,
    )


def of_types(
    title: str,
    old: str,
    new: str,
    steps: Sequence[tuple[str, str, str]],
    *,
    before: Asked,
    after: Asked,
    later: Rows,
    data: Rows | None = None,
    branch: Rows | None = None,
    merged: tuple[str, str, Mapping[str, Any]] = ("Person", "Zoe", {}),
    changed: Sequence[tuple[str, str, str]] = (),
) -> Case:
    """A change that is about whole types, or about edges."""
    return Case(
        title=title,
        old=old,
        new=new,
        steps=tuple(steps),
        data=data or start({"age": 36}),
        before=before,
        after=after,
        branch=branch or {"Person": [{"name": "Zoe"}]},
        merged=merged,
        later=later,
        changed=tuple(changed),
    )
