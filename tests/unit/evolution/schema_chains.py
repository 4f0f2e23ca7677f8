"""Random chains of schemas, each of which could follow the one before it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

_NUMBERS = ("age", "years")
_TEXTS = ("bio", "text")
_CHOICES = ("city", "cityName", "cityname")
_LISTS = ("tags", "labels")
_VECTORS = ("vec", "meaning")
_NODES = ("Person", "Human", "Company", "HUMAN")
_EDGES = ("Knows", "WorksAt", "Likes")
_TYPES = {
    **dict.fromkeys(_NUMBERS, ("I32", "I64", "U32", "U64", "F32", "F64")),
    **dict.fromkeys(_TEXTS, ("String",)),
    **dict.fromkeys(_CHOICES, ("enum(a, b)", "enum(a, b, c)", "enum(c, d)", "String")),
    **dict.fromkeys(_LISTS, ("[I32]", "[I64]", "[enum(a, b)]", "[String]")),
    **dict.fromkeys(_VECTORS, ("Vector(3)",)),
}
_DEFAULTS = {**dict.fromkeys(("I32", "I64", "U32", "U64", "F32", "F64"), "7"), "String": '"a"', "enum(a, b)": '"a"'}
_WIDER = {
    "I32": ("I32", "I64"),
    "U32": ("U32", "U64", "I64"),
    "F32": ("F32", "F64"),
    "[I32]": ("[I32]", "[I64]"),
    "[enum(a, b)]": ("[enum(a, b)]", "[String]"),
    **{type: (type,) for type in ("I64", "U64", "F64", "[I64]", "[String]")},
}
_NAMED = ("interface Named { bio: String? }", 'interface Named { bio: String? @description("x") }')
_TAGGED = ("interface Tagged implements Named { age: I64? @index }", "interface Tagged { age: I64? }")
_SETS_OF_INTERFACES = [(), *((named,) for named in _NAMED), *((named, each) for named in _NAMED for each in _TAGGED)]


@dataclass(frozen=True)
class Column:
    """A property as it is written."""

    type: str
    nullable: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Type:
    """A node or edge type as it is written; `ends` has the names of node types."""

    columns: dict[str, Column]
    head: str = ""
    rules: tuple[str, ...] = ()
    ends: tuple[str, str] | None = None
    notes: tuple[str, ...] = ()
    key: str = ""


@dataclass(frozen=True)
class Schema:
    """A schema as it is written."""

    types: dict[str, Type] = field(default_factory=dict)
    interfaces: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        declared = list(self.interfaces)
        for name, each in self.types.items():
            columns = [_line(column, of) for column, of in each.columns.items()]
            lines = "\n".join(f"    {line}" for line in (*([each.key] if each.key else []), *columns, *each.rules))
            kind = "node" if each.ends is None else "edge"
            ends = "" if each.ends is None else f": {' -> '.join(each.ends)}"
            declared.append(f"{kind} {name}{ends} {each.head} {' '.join(each.notes)} {{\n{lines}\n}}")
        return "\n".join(declared)


def _line(name: str, column: Column) -> str:
    return f"{name}: {column.type}{'?' if column.nullable else ''} {' '.join(column.notes)}"


@st.composite
def columns(draw: st.DrawFn, before: dict[str, Column]) -> dict[str, Column]:
    """Some properties; most that were there stay, and a new one may have been another."""
    names = [name for name in _TYPES if draw(st.integers(0, 3)) >= (1 if name in before else 3)]
    if {"cityName", "cityname"} <= set(names):
        names.remove("cityname")
    free = [name for name in before if name not in names]
    made: dict[str, Column] = {}
    for name in names:
        source = name if name in before else None
        if source is None and free and draw(st.booleans()):
            source = free.pop(draw(st.integers(0, len(free) - 1)))
        made[name] = draw(_column(name, before.get(source) if source else None, names))
        if source not in (None, name):
            made[name] = replace(made[name], notes=(*made[name].notes, f'@rename_from("{source}")'))
    return made


@st.composite
def _column(draw: st.DrawFn, name: str, before: Column | None, names: Collection[str]) -> Column:
    type = draw(st.sampled_from(_TYPES[name]))
    if before is not None and draw(st.integers(0, 9)) > 0:
        type = draw(st.sampled_from(_WIDER.get(before.type, _TYPES[name] if name in _CHOICES else (before.type,))))
    nullable = (before.nullable if before is not None else True) or draw(st.booleans())
    notes = []
    sources = [each for each in _TEXTS if each in names] if type.startswith("Vector") else []
    is_embedded = draw(st.booleans()) if sources else False
    if is_embedded:
        notes.append(f'@embed("{draw(st.sampled_from(sources))}"{draw(st.sampled_from(["", _MODEL]))})')
    elif type in _DEFAULTS and draw(st.integers(0, 3)) == 0:
        notes.append(f"@default({_DEFAULTS[type]})")
        nullable = nullable and draw(st.booleans()) if before is None else nullable
    if draw(st.integers(0, 3)) == 0:
        notes.append(draw(st.sampled_from(["@index", '@description("x")', '@description("y")', "@mine"])))
    return Column(type, nullable, tuple(notes))


def _rules(columns: dict[str, Column], extra: Sequence[str]) -> st.SearchStrategy[tuple[str, ...]]:
    possible = [f"@range({name}, {bounds})" for name in _NUMBERS if _is_number(columns.get(name)) for bounds in _BOUNDS]
    possible += [f'@check({name}, "a")' for name in columns if columns[name].type == "String"]
    single = [name for name, each in columns.items() if not each.type.startswith(("[", "Vector"))]
    possible += [
        f"@unique({', '.join(names)})" for names in ([*single[:2]], [*reversed(single[:2])], single[:1]) if names
    ]
    possible += [f"@index({name})" for name in columns] + list(extra)
    return st.lists(st.sampled_from(possible), max_size=3).map(tuple) if possible else st.just(())


_MODEL = ', model="m"'
_BOUNDS = ("0..10", "0..", "..100", "0..50", "7..8")


def _is_number(column: Column | None) -> bool:
    return column is not None and column.type in _TYPES["age"]


@st.composite
def schemas(draw: st.DrawFn, before: Schema) -> Schema:
    """A schema that could follow another."""
    interfaces = draw(st.sampled_from(_SETS_OF_INTERFACES))
    types: dict[str, Type] = {}
    known = {name: each for name, each in before.types.items() if each.ends is None}
    for name, source in draw(_names(_NODES, known)):
        types[name] = draw(_node(known.get(source or ""), interfaces, _rename_note(name, source)))
    later = {source: name for name, source in _sources(types, known).items()}
    links = {name: each for name, each in before.types.items() if each.ends is not None}
    for name, source in draw(_names(_EDGES, links)):
        old = links.get(source or "")
        ends = tuple(later.get(end) for end in old.ends) if old is not None and old.ends else ()
        if old is not None and None in ends:
            continue
        if old is None:
            if not types:
                continue
            nodes = st.sampled_from([each for each in types if types[each].ends is None])
            ends = (draw(nodes), draw(nodes))
        types[name] = draw(_edge(old, (str(ends[0]), str(ends[1])), _rename_note(name, source)))
    return Schema(types, interfaces)


def _rename_note(name: str, source: str | None) -> tuple[str, ...]:
    return (f'@rename_from("{source}")',) if source not in (None, name) else ()


def _sources(types: dict[str, Type], known: Collection[str]) -> dict[str, str]:
    """For each type that was there before, under which name."""
    renamed = {
        name: note.split('"')[1]
        for name, each in types.items()
        for note in each.notes
        if note.startswith("@rename_from")
    }
    return {name: name for name in types if name in known} | renamed


@st.composite
def _names(draw: st.DrawFn, pool: Sequence[str], known: Collection[str]) -> list[tuple[str, str | None]]:
    """Names with what each was called before."""
    chosen: list[str] = []
    for name in pool:
        likely = draw(st.integers(0, 3)) >= (1 if name in known else 2)
        if likely and name.lower() not in {each.lower() for each in chosen}:
            chosen.append(name)
    free = [name for name in known if name not in chosen]
    made: list[tuple[str, str | None]] = []
    for name in chosen:
        source = name if name in known else None
        if source is None and free and draw(st.booleans()):
            source = free.pop()
        made.append((name, source))
    return made


@st.composite
def _node(draw: st.DrawFn, before: Type | None, interfaces: Sequence[str], renamed: tuple[str, ...]) -> Type:
    members = draw(columns(before.columns if before is not None else {}))
    names = [each.split()[1] for each in interfaces]
    fitting = [name for name in names if _fits(name, members)]
    implemented = [name for name in fitting if draw(st.booleans())]
    key = before.key if before is not None else draw(st.sampled_from(["", "slug: String @key", "id: String @key"]))
    return Type(
        columns=members,
        head=f"implements {', '.join(implemented)}" if implemented else "",
        rules=draw(_rules(members, [])),
        notes=(*renamed, *draw(st.sampled_from([(), ('@description("x")',), ("@mine(1)",)]))),
        key=key,
    )


def _fits(interface: str, members: dict[str, Column]) -> bool:
    """Whether the interface agrees with what the type declares itself; what it lacks it gets."""
    wanted = {"Named": {"bio": "String"}, "Tagged": {"bio": "String", "age": "I64"}}[interface]
    return all(name not in members or members[name].type == type for name, type in wanted.items())


@st.composite
def _edge(draw: st.DrawFn, before: Type | None, ends: tuple[str, str], renamed: tuple[str, ...]) -> Type:
    members = draw(columns(before.columns if before is not None else {}))
    rules = [rule for rule in draw(_rules(members, ["@unique(src, dst)", "@unique(dst, src)"])) if _on_edges(rule)]
    card = draw(st.sampled_from([(), ("@card(0..1)",), ("@card(0..3)",), ("@card(1..)",)]))
    return Type(columns=members, rules=tuple(rules), ends=ends, notes=(*renamed, *card))


def _on_edges(rule: str) -> bool:
    return not rule.startswith(("@range", "@check"))


@st.composite
def chains(draw: st.DrawFn, length: int = 4) -> list[str]:
    """The texts of schemas that follow each other; the first has no renames."""
    found = [draw(schemas(Schema()))]
    for _ in range(length - 1):
        found.append(draw(schemas(found[-1])))
    return [each.text for each in found]
