"""A schema of the size that people really have, and queries over it: 17 node types, 67 edge types, 300 queries."""

NODE_TYPES = 17
EDGE_TYPES = 67
QUERIES = 300


def schema_text() -> str:
    """Node types with every kind of property, edge types between all of them, and comments in between."""
    nodes = [_node(number) for number in range(NODE_TYPES)]
    edges = [_edge(number) for number in range(EDGE_TYPES)]
    return "interface Named { name: String @index }\n" + "\n".join(nodes) + "\n" + "\n".join(edges)


def query_text() -> str:
    """Reads and mutations of the shapes that applications use."""
    return "\n".join(_SHAPES[number % len(_SHAPES)](number) for number in range(QUERIES))


def _node(number: int) -> str:
    return f"""
// Node type {number}: everything a property can be.
node Kind{number} implements Named @description("kind {number}") {{
    slug: String @key          // the key
    name: String @index
    age: I32?
    score: F64? @index
    big: U64 @default({number})
    state: enum(open, in-progress, done)? @index
    tags: [String]?
    active: Bool @default(true)
    born: Date?
    seen: DateTime?
    photo: Blob?
    bio: String @index
    embedding: Vector(256)? @embed("bio", model="small")
    email: String? @unique
    /* and what must hold of it */
    @range(age, 0..200)
    @check(slug, "^[a-z0-9-]+$")
    @unique(name, born)
}}"""


def _edge(number: int) -> str:
    source, destination = number % NODE_TYPES, (number * 5 + number // NODE_TYPES) % NODE_TYPES
    if number < NODE_TYPES:
        destination = source
    return f"""
// Edge type {number}
edge Link{number}: Kind{source} -> Kind{destination} @card(0..) {{
    since: Date?
    weight: F32? @index
    @unique(src, dst)
}}"""


def _lookup(number: int) -> str:
    kind = number % NODE_TYPES
    return f"""
query lookup{number}($slug: String) @description("one entity") {{
    match {{ $x: Kind{kind} {{ slug: $slug }} }}
    return {{ $x.name, $x.age, $x.tags, $x }}
}}"""


def _hops(number: int) -> str:
    kind = number % NODE_TYPES
    return f"""
query hops{number}($slug: String, $least: I32?) {{
    match {{
        $x: Kind{kind} {{ slug: $slug }}
        $x link{kind}{{1,3}} $y
        $y $w:link{kind} $z
        $y.age >= $least
        $z.state != "done"
        not {{ $z link{kind} $x }}
    }}
    return {{ $z.name as name, $z.score, $w.since, count($y) as paths }}
    order {{ paths desc, name }}
    limit 20
}}"""


def _search(number: int) -> str:
    kind = number % NODE_TYPES
    return f"""
query search{number}($words: String, $since: DateTime) {{
    match {{
        $x: Kind{kind}
        $x.seen > $since
        ["open", "in-progress"] contains $x.state
        search($x.bio, $words)
    }}
    return {{ $x.slug, $x.bio, nearest($x.embedding, $words) as distance }}
    order {{ rrf(nearest($x.embedding, $words), bm25($x.bio, $words), k=60) }}
    limit 10
}}"""


def _named(number: int) -> str:
    return f"""
query named{number}($start: String) {{
    match {{ $x: Named  $x.name starts_with $start }}
    return {{ $x.name }}
    order {{ $x.name }}
    limit {number}
}}"""


def _change(number: int) -> str:
    kind = number % NODE_TYPES
    return f"""
query change{number}($slug: String, $name: String, $when: Date) {{
    insert Kind{kind} {{ slug: $slug, name: $name, bio: "new", age: 30, born: date("2000-01-31") }}
    insert Link{kind} {{ from: $slug, to: $slug, since: $when }}
    update Kind{kind} set {{ seen: now(), state: "done" }} where slug = $slug and age < 40
    delete Link{kind} where since < $when
}}"""


_SHAPES = (_lookup, _hops, _search, _named, _change)
