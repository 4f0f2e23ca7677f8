"""What is known of a compiled query: what it touches, what it takes, what could be better."""

import pytest

from omnigraph.catalog import Catalog
from omnigraph.codes import Code
from omnigraph.compiler import bound_parameters, check_queries, compile_queries, compile_query
from omnigraph.diagnostics import Source
from omnigraph.errors import NotFound, ParameterError, QueryError


def test_a_read_touches_the_columns_it_uses_and_no_other(catalog: Catalog) -> None:
    query = compile_query(
        """
        query q($n: String) {
            match { $p: Person { name: $n }  $p $w:knows $f  $f worksAt $c  not { $f knows{1,2} $_  $c.size > 3 } }
            return { $f.bio, $w.since, count($c) }
        }
        """,
        catalog,
    )
    assert query.access.reads == {
        "edge:Knows": ("dst", "id", "since", "src"),
        "edge:WorksAt": ("dst", "src"),
        "node:Company": ("id", "size"),
        "node:Person": ("bio", "id", "name"),
    }
    assert query.access.writes == ()
    assert not query.is_mutation


def test_a_query_without_a_header_is_the_only_one_of_its_source(catalog: Catalog) -> None:
    text = "match { $p knows $f } return { $f.id }"
    query = compile_query(text, catalog)
    assert (query.name, query.title, query.parameters) == ("", "this query", ())
    assert query.body == compile_query(f"query q {{ {text} }}", catalog).body
    with pytest.raises(NotFound, match="has no name"):
        compile_query(text, catalog, "q")


@pytest.mark.parametrize(
    ("text", "hints"),
    [
        (
            "match { $p: Person { name: $name }  $p.age > $min } return { $p.age + $more } limit $n",
            [f"`query NAME(${name}: Type) {{ … }}`" for name in ("name", "min", "more", "n")],
        ),
        ("insert Person { name: $name, bio: $bio }", ["`query NAME($name: Type)", "`query NAME($bio: Type)"]),
        ("delete Person where age in [1, $age]", ["`query NAME($age: Type)"]),
        ("match { $person: Person } return { $persn.name }", ["did you mean `$person`?"]),
        # What is certainly no parameter.
        ("match { $p: Person } with { $p.age as age } return { $p.name }", ["add `$p` to it"]),
        ("match { $p knows $_ } return { $_ }", ["placeholder"]),
    ],
)
def test_a_query_without_a_header_is_shown_where_parameters_are_declared(
    catalog: Catalog, text: str, hints: list[str]
) -> None:
    found = check_queries(Source("test.gq", text), catalog).diagnostics
    assert [each.code for each in found] == [Code.UNKNOWN_VARIABLE] * len(hints)
    for finding, hint in zip(found, hints, strict=True):
        assert hint in (finding.hint or "")
        assert finding.subject is None


def test_values_for_a_query_without_a_header_are_refused_with_the_header_to_write(catalog: Catalog) -> None:
    query = compile_query("match { $p: Person } return { $p.name }", catalog)
    with pytest.raises(ParameterError, match=r"^query: parameter `\$n` is not declared; .*`query NAME\(\$n: Type\)"):
        bound_parameters(query, {"n": 1})


def test_a_query_without_a_header_is_linted(catalog: Catalog) -> None:
    found = check_queries(Source("test.gq", "match { $p: Person  $c: Company } return { $p.name, $c.name }"), catalog)
    assert [each.code for each in found.diagnostics] == [Code.CROSS_PRODUCT]


def test_an_end_of_which_only_the_id_matters_is_not_read(catalog: Catalog) -> None:
    query = compile_query("query q { match { $p knows $f } return { $f.id, count($p) } }", catalog)
    assert query.access.reads == {"edge:Knows": ("dst", "src")}


def test_a_path_of_no_edge_reads_the_nodes(catalog: Catalog) -> None:
    query = compile_query("query q { match { $p knows{0,2} $f } return { $f.id, $p.id } }", catalog)
    assert query.access.reads == {"edge:Knows": ("dst", "src"), "node:Person": ("id",)}


def test_a_whole_entity_reads_every_column(catalog: Catalog) -> None:
    query = compile_query("query q { match { $x: Named } return { $x } }", catalog)
    assert query.access.reads["node:Company"] == ("founded", "id", "name", "size")
    assert "photo" in query.access.reads["node:Person"]


def test_deleting_a_node_writes_the_edges_that_touch_it(catalog: Catalog) -> None:
    query = compile_query('query q { delete Company where name = "x" }', catalog)
    assert query.is_mutation
    assert query.access.writes == ("edge:Contains", "edge:WorksAt", "node:Company")
    assert query.access.reads["edge:WorksAt"] == ("dst", "id", "src")


def test_inserting_an_edge_reads_its_ends(catalog: Catalog) -> None:
    query = compile_query('query q { insert WorksAt { from: "a", to: "b" } }', catalog)
    assert query.access.writes == ("edge:WorksAt",)
    assert query.access.reads["node:Company"] == ("id",)


# --- choosing a query ---

TWO = "query one { match { $p: Person } return { $p.name } } query two { match { $p: Person } return { $p.age } }"


def test_a_query_is_chosen_by_its_name(catalog: Catalog) -> None:
    assert compile_query(TWO, catalog, "two").name == "two"
    assert [query.name for query in compile_queries(TWO, catalog)] == ["one", "two"]


def test_an_unknown_query_is_not_found(catalog: Catalog) -> None:
    with pytest.raises(NotFound, match="did you mean `two`"):
        compile_query(TWO, catalog, "tow")
    with pytest.raises(NotFound, match="name one of `one` or `two`"):
        compile_query(TWO, catalog)


def test_a_wrong_query_raises_with_all_findings(catalog: Catalog) -> None:
    with pytest.raises(QueryError) as caught:
        compile_queries("query a { match { $p: X } return { 1 } }\nquery b { oops", catalog, name="file.gq")
    assert [finding.code for finding in caught.value.diagnostics] == [Code.UNKNOWN_TYPE, Code.QUERY_SYNTAX]
    assert "file.gq:1:23" in str(caught.value)


def test_only_the_later_of_two_equal_names_is_reported(catalog: Catalog) -> None:
    one = "query one { match { $p: Person } return { $p.name } }"
    findings = check_queries(Source("test.gq", f"{one}\n{one}"), catalog).diagnostics
    assert [(finding.code, finding.line) for finding in findings] == [(Code.DUPLICATE_QUERY, 2)]


# --- parameters ---

PARAMETERS = (
    "query q($name: String, $age: I32?, $v: Vector(2)?) { match { $p: Person { name: $name } } return { $age, $v } }"
)


def test_parameters_become_values_of_their_type(catalog: Catalog) -> None:
    query = compile_query(PARAMETERS, catalog)
    assert bound_parameters(query, {"name": "Ada", "age": "36", "v": [1, 2]}) == {
        "name": "Ada",
        "age": 36,
        "v": (1.0, 2.0),
    }
    assert bound_parameters(query, {"name": "Ada"}) == {"name": "Ada", "age": None, "v": None}


def test_every_wrong_parameter_is_named(catalog: Catalog) -> None:
    with pytest.raises(ParameterError) as caught:
        bound_parameters(compile_query(PARAMETERS, catalog), {"age": "x", "v": [1], "nme": "Ada"})
    assert [name for name, _ in caught.value.problems] == ["name", "age", "v", "nme"]
    message = str(caught.value)
    assert "`$name` is missing; it is String" in message
    assert "`$nme` is not declared; did you mean `name`?" in message


def test_null_is_no_value_for_a_required_parameter(catalog: Catalog) -> None:
    with pytest.raises(ParameterError, match="cannot be null"):
        bound_parameters(compile_query(PARAMETERS, catalog), {"name": None})


# --- advice ---


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("query q($x: I32) { match { $p: Person } return { $p.name } }", [Code.UNUSED_PARAMETER]),
        ("query q { match { $p: Person  $p knows $f } return { $p.name } }", [Code.UNUSED_VARIABLE]),
        ("query q { match { $p: Person  $p knows{1,} $f } return { $f.name } }", [Code.UNBOUNDED_HOPS]),
        ("query q { match { $p: Person  $c: Company } return { $p.name, $c.name } }", [Code.CROSS_PRODUCT]),
        ("query q { match { $p: Person  $c: Company  $p.name = $c.name } return { $p.name } }", []),
        ("query q { match { $p: Person  $q: Person  $p != $q } return { $p.name, $q.name } }", []),
        ('query q { match { $n: Note  search($n.text, "x") } return { $n.text } }', [Code.SEARCH_WITHOUT_INDEX]),
        ('query q { match { $p: Person  search($p.name, "x") } return { $p.name } }', []),
        ("query q { match { $p: Person  $p.age = null } return { $p.name } }", [Code.NULL_COMPARISON]),
        ("query q { match { $p: Person  1 < 2 } return { $p.name } }", [Code.CONSTANT_CONDITION]),
        ('query q @descripton("x") { match { $p: Person } return { $p.name } }', [Code.MISSPELT_ANNOTATION]),
    ],
)
def test_advice_is_given_on_what_is_right_but_odd(catalog: Catalog, text: str, codes: list[Code]) -> None:
    checked = check_queries(Source("test.gq", text), catalog)
    assert [finding.code for finding in checked.diagnostics] == codes
    assert len(checked.queries) == 1


def test_there_is_no_advice_on_a_query_that_is_wrong(catalog: Catalog) -> None:
    text = "query q($unused: I32) { match { $p: Person  1 < 2 } return { $p.nme } }"
    findings = check_queries(Source("test.gq", text), catalog).diagnostics
    assert [finding.code for finding in findings] == [Code.UNKNOWN_PROPERTY]


@pytest.mark.parametrize("shape", ["$a{i} knows $a{j}", "$a{i} knows $b{i}", "$a{i}: Person { age: {i} }"])
def test_a_pattern_of_thousands_of_clauses_is_read_in_one_go(catalog: Catalog, shape: str) -> None:
    clauses = " ".join(shape.replace("{i}", str(i)).replace("{j}", str(i + 1)) for i in range(3_000))
    checked = check_queries(Source("test.gq", f"query q {{ match {{ {clauses} }} return {{ $a0.name }} }}"), catalog)
    assert len(checked.queries) == 1
