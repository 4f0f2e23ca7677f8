"""What people write who know Cypher or SQL is answered with what to write here."""

import pytest

from omnigraph.catalog import Catalog, compile_schema
from omnigraph.compiler import check_queries
from omnigraph.diagnostics import Source
from omnigraph.errors import SchemaError
from omnigraph.syntax.habits import hint_of_case

READ = "return { $p.name }"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("MATCH (p:Person) RETURN p.name", "in lower case: `match`"),
        (f"match (p:Person) {READ}", "`match` has braces"),
        ("match { $p: Person } return $p.name", "`return` has braces"),
        ("match { $p: Person } with $p return { $p.name }", "`with` has braces"),
        ("match { $p: Person } return { p.name }", "a variable begins with a dollar"),
        ("match { p: Person } return { 1 }", "a variable begins with a dollar"),
        ("match { $p: Person } return { p.* }", "a variable begins with a dollar"),
        ("match { ($p: Person)-[:KNOWS]->($q) } return { 1 }", "without brackets"),
        (f"match {{ $p: Person  $p -[knows]-> $q }} {READ}", "an edge is a word"),
        (f'match {{ $p: Person(name: "Ada") }} {READ}', "properties stand in braces"),
        (f'match {{ $p: Person {{ name = "Ada" }} }} {READ}', "a colon"),
        (f"match {{ $p: Person }} where $p.age > 3 {READ}", "clauses of `match`"),
        (f"match {{ $p: Person  where $p.age > 3 }} {READ}", "clauses of `match`"),
        (f"match {{ $p: Person  $p.age > 3 AND $p.age < 9 }} {READ}", "in lower case: `and`"),
        ("match { $p: Person } return { $p.name AS n }", "in lower case: `as`"),
        ("match { $p: Person } RETURN { $p.name }", "in lower case: `return`"),
        (f"match {{ $p: Person  $p.age between 3 and 9 }} {READ}", "a range is written"),
        (f'match {{ $p: Person  $p.name starts with "A" }} {READ}', "`starts_with`"),
        (f'match {{ $p: Person  $p.name ends with "a" }} {READ}', "the end of a text"),
        (f'match {{ $p: Person  $p.name =~ "A.*" }} {READ}', "no regular expressions"),
        (f'match {{ $p: Person  $p.name in ("a", "b") }} {READ}', "square brackets"),
        (f"match {{ $p: Person  $p.age > 3 xor $p.age < 9 }} {READ}", "(…) != (…)"),
        (f"match {{ $p: Person  !($p.age > 3) }} {READ}", "negated by `not`"),
        (f"match {{ $p: Person  not $p knows $q }} {READ}", "not { $a knows $b }"),
        (f"match {{ $p: Person  $p knows $q or $p worksAt $c }} {READ}", "exists { … } or exists { … }"),
        (f"match {{ $p: Person  exists($p knows $q) }} {READ}", "exists { $a knows $b }"),
        (f'match {{ $p: Person  $p.age = "36" }} {READ}', "without quotes: `36`"),
        ("match { $c: Company  $c.founded > now() } return { 1 }", "cast(now() as Date)"),
        ("match { $x = shortest $p knows{1,3} $q } return { 1 }", "bound by a colon"),
        ("match { $x: shortestPath($p knows $q) } return { 1 }", "$path: shortest $a knows{1,6} $b"),
        ("match { $x: shortest path $p knows{1,3} $q } return { 1 }", "$path: shortest $a knows{1,6} $b"),
        ("match { $x: shortest $p knows{1,3} $q } return { length($x) }", "`$x.length`"),
        (f"match {{ $p: Person }} match {{ $p knows $q }} {READ}", "one `match` for all its clauses"),
        (f"match {{ $p: Person }} {READ} limit 10 skip 5", "`offset`"),
        (f"match {{ $p: Person }} {READ} limit 10, 5", "limit 10 offset 20"),
        (f"match {{ $p: Person }} {READ} group by $p.age", "grouped by the columns"),
        ("match { $p: Person } return { $p.age, count($p) as n } having n > 3", "`having` has braces"),
        ("match { $p: Person } return { $p.age, count($p) as n } having { $n > 3 }", "no dollar: `n`"),
        ("match { $p: Person } with { $p.age as a } order { $a } return { $a }", "no dollar: `a`"),
        ("match { $p: Person  $p knows $q } return { max(count($q)) }", "after a stage"),
        ("match { $p: Person } return { distinct $p.name }", "return distinct { … }"),
        ('match { $p: Person } return { $p.name as "a name" }', "no quotes"),
        ("match { $p: Person } return { case $p.age when 3 then 1 end }", "each condition is written out"),
        ("match { $p: Person } return { $p.joined.year }", "year($x.date)"),
        ("match { $p: Person } return { date($p.joined) }", "cast($x.p as Date)"),
        ("match { $p: Person } return { $p.age::text }", "cast($x.p as String)"),
        ("match { $p: Person } return { cast($p.age as varchar) }", "`String`"),
        ("match { $p: Person } return { $p.name || $p.bio }", "texts by `concat`"),
        ("match { $p: Person } return { toUpper($p.name) }", "upper(…)"),
        ("match { $p: Person } return { to_upper($p.name) }", "upper(…)"),
        ("match { $p: Person } return { ifnull($p.age, 0) }", "coalesce(…)"),
        ("match { $p: Person } return { sqrt($p.age) }", "last digits"),
        ("match { $p: Person } return { labels($p) }", "`$x.*`"),
        ("match { $p: Person } return { size($p.name) }", "length($x.text)"),
        ("match { $p: Person } return { length($p.tags) }", "size($x.list)"),
        ("SELECT name FROM Person", "match { $x: Type } return { $x.p }"),
        ("return { 1 }", "match { $x: Type } return { $x.p }"),
        ("merge Person { name: 1 }", "changes the one that is there"),
        ("set $p.age = 3", "update Type set"),
        ("delete Note", "`where` says which"),
        ("update Person set { age: 3 }", "`where` says which"),
        ('update Person set { age = 3 } where name = "Ada"', "a colon"),
    ],
)
def test_a_habit_gets_the_hint_that_mends_it(catalog: Catalog, text: str, hint: str) -> None:
    finding = check_queries(Source("test.gq", text), catalog).diagnostics[0]
    assert finding.is_error
    assert finding.hint is not None
    assert hint in finding.hint


@pytest.mark.parametrize(
    "word", ["MATCH", "Optional", "EXISTS", "Count", "RETURNING", "Is", "CASE", "UNION", "Shortest"]
)
def test_every_keyword_is_known_in_capital_letters(word: str) -> None:
    assert f"`{word.lower()}`" in (hint_of_case(word) or "")
    assert hint_of_case(word.lower()) is None
    assert hint_of_case("Person") is None


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("NODE Person { name: String }", "in lower case: `node`"),
        ("create table Person (name text)", "node Person { name: String @key }"),
        ("node Person (name: String)", "properties stand in braces"),
        ("node Person { name String }", "a colon stands between"),
        ("node Person { age: I32, name String }", "a colon stands between"),
        ("node Person { name: text }", "`String`"),
        ("node Person { name: String NOT NULL }", "ends with `?`"),
        ("node Person { tags: String[] }", "`[String]`"),
        ("node Person { tags: List<String> }", "`[String]`"),
        ("edge Knows from Person to Person", "edge Knows: Person -> Company"),
        ("edge Knows: Person to Person", "edge Knows: Person -> Company"),
        ("edge Knows: (Person)-[]->(Person)", "edge Knows: Person -> Company"),
        ("edge Knows: Person <- Person", "edge Knows: Person -> Company"),
    ],
)
def test_a_habit_in_a_schema_gets_the_hint_that_mends_it(text: str, hint: str) -> None:
    with pytest.raises(SchemaError) as refused:
        compile_schema(text)
    assert hint in (refused.value.diagnostics[0].hint or "")
