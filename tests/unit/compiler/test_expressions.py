"""How conditions and computed values are typechecked and lowered."""

from typing import Any

import pytest

from omnigraph.catalog import Catalog, List, PropertyType, Scalar
from omnigraph.codes import Code
from omnigraph.compiler import check_queries, compile_query, ir
from omnigraph.diagnostics import Diagnostic, Source
from omnigraph.operations import Duration, parse_duration

_P = "$p: Person"


def findings(catalog: Catalog, match: str, returns: str = "$p.name", parameters: str = "") -> tuple[Diagnostic, ...]:
    text = f"query q({parameters}) {{ match {{ {_P}  {match} }} return {{ {returns} }} }}"
    return check_queries(Source("test.gq", text), catalog).diagnostics


def only_column(catalog: Catalog, written: str, match: str = "$p knows $q  $p $w:worksAt $c") -> Any:
    returns = f"{written} as c, $q.id, $c.id, $n, $s"
    text = f"query q($n: I64?, $s: String) {{ match {{ {_P}  {match} }} return {{ {returns} }} }}"
    body = compile_query(text, catalog).body
    assert isinstance(body, ir.Read)
    return body.shape.columns[0].expression


@pytest.mark.parametrize(
    ("written", "type", "nullable"),
    [
        ("$p.age + 1", Scalar.I64, True),
        ("$c.size * $c.size", Scalar.I64, True),
        ("1 / 2", Scalar.F64, True),
        ("$p.age % 2.0", Scalar.F64, True),
        ("-$p.age", Scalar.I64, True),
        ("$p.age > 3 or $p.name = $s", Scalar.BOOL, True),
        ("$p.name = $s and $p.id != $q.id", Scalar.BOOL, False),
        ("$p.age is null", Scalar.BOOL, False),
        ("lower($p.city)", Scalar.STRING, True),
        ("length($p.name)", Scalar.I64, False),
        ("substring($p.name, 0, $n)", Scalar.STRING, True),
        ("split($p.name, $s)", List(Scalar.STRING), True),
        ("concat($p.name, $s, $p.id)", Scalar.STRING, False),
        ("size($p.tags)", Scalar.I64, True),
        ("round($p.age / 3)", Scalar.F64, True),
        ("round($p.age / 3, 2)", Scalar.F64, True),
        ("floor($p.age)", Scalar.I64, True),
        ("year($w.since)", Scalar.I64, True),
        ("hour(now())", Scalar.I64, False),
        ('date_diff("month", $w.since, now())', Scalar.I64, True),
        ('date_trunc("week", $w.since)', Scalar.DATE, True),
        ('date_trunc("week", now())', Scalar.DATETIME, False),
        ('$w.since + duration("P1M")', Scalar.DATE, True),
        ('now() - duration("PT1H")', Scalar.DATETIME, True),
        ("coalesce($p.age, $n, 0)", Scalar.I64, False),
        ('coalesce($p.city, "nowhere")', Scalar.STRING, False),
        ("coalesce($p.age, 0.5)", Scalar.F64, False),
        ("case when $p.age > 3 then 1 else 2 end", Scalar.I64, False),
        ("case when $p.age > 3 then 1 end", Scalar.I64, True),
        ("case when $p.age > 3 then null else 1 end", Scalar.I64, True),
        ("cast($p.name as I32)", Scalar.I32, True),
        ("cast($p.age as String)", Scalar.STRING, True),
        ("exists { $p knows $_ }", Scalar.BOOL, False),
        ("count { $p knows $_ }", Scalar.I64, False),
    ],
)
def test_a_computed_value_has_a_type(catalog: Catalog, written: str, type: PropertyType, nullable: bool) -> None:
    found = only_column(catalog, written)
    assert (found.type, found.nullable) == (type, nullable)


def test_conditions_joined_by_and_are_conditions_of_the_pattern(catalog: Catalog) -> None:
    joined = compile_query(
        "query q { match { $p: Person  $p.age > 3 and ($p.age < 9 and $p.name != $p.id) } return { $p } }", catalog
    )
    apart = compile_query(
        "query q { match { $p: Person  $p.age > 3  $p.age < 9  $p.name != $p.id } return { $p } }", catalog
    )
    assert joined.body == apart.body


def test_in_means_what_contains_means(catalog: Catalog) -> None:
    one = compile_query('query q { match { $p: Person  $p.city in ["oslo"] } return { $p } }', catalog)
    other = compile_query('query q { match { $p: Person  ["oslo"] contains $p.city } return { $p } }', catalog)
    assert one.body == other.body


def test_an_expression_reads_the_columns_it_is_computed_of(catalog: Catalog) -> None:
    query = compile_query(
        """
        query q {
            match { $p: Person  length($p.bio) > 3 or exists { $p $k:knows $f  $f.age > $p.age  $k.since is null } }
            return { $p.id, count($p.city) as n }
        }
        """,
        catalog,
    )
    assert query.access.reads == {
        "edge:Knows": ("dst", "id", "since", "src"),
        "node:Person": ("age", "bio", "city", "id"),
    }
    assert query.access.asks == ("edge:Knows", "node:Person")


@pytest.mark.parametrize(
    ("match", "returns", "code", "advice"),
    [
        ("lowr($p.name) = 1", "1", Code.UNKNOWN_FUNCTION, "did you mean `lower`?"),
        ("$p.age", "1", Code.NOT_A_CONDITION, "compare it"),
        ("$p.age or $p.name = $p.id", "1", Code.NOT_A_CONDITION, None),
        ("not $p.age", "1", Code.NOT_A_CONDITION, None),
        ("$p.name + $p.name = $p.id", "1", Code.OPERATOR_NOT_DEFINED, "`concat`"),
        ("$p $w:worksAt $_", "$w.since - $w.since", Code.OPERATOR_NOT_DEFINED, "date_diff"),
        ("$p $w:worksAt $_", '$w.since + duration("PT1H")', Code.OPERATOR_NOT_DEFINED, "cast"),
        ("$p.name in $p.name", "1", Code.OPERATOR_NOT_DEFINED, None),
        ("length($p.age) > 1", "1", Code.WRONG_ARGUMENTS, "length($x.text)"),
        ("lower($p.name, $p.name) = $p.id", "1", Code.WRONG_ARGUMENTS, "lower($x.text)"),
        ('date_trunc("mnth", now()) < now()', "1", Code.WRONG_ARGUMENTS, "did you mean `month`?"),
        ('now() - duration("1 day") < now()', "1", Code.WRONG_ARGUMENTS, "PT0.5S"),
        ("", "round($p.age, 99)", Code.WRONG_ARGUMENTS, None),
        ("", "coalesce($p.age)", Code.WRONG_ARGUMENTS, None),
        ("", "coalesce($p.age, $p.name)", Code.INCOMPARABLE, None),
        ("", "case when $p.age > 1 then $p else 1 end", Code.INCOMPARABLE, None),
        ("", "cast($p.name as Person)", Code.PARAMETER_TYPE, None),
        ("", "cast($p.tags as String)", Code.CAST_NOT_POSSIBLE, None),
        ("", "cast(1.5 as String)", Code.CAST_NOT_POSSIBLE, "I64"),
        ("", "cast($p.age as I64?)", Code.CAST_NOT_POSSIBLE, "without `?`"),
        ("", "cast($p.age)", Code.WRONG_ARGUMENTS, "as I64"),
        ("", "count($p) + $p.age", Code.NOT_GROUPED, "return the value"),
        ("", "sum(count($p))", Code.FUNCTION_NOT_ALLOWED, None),
        ("count($p) > 3", "1", Code.FUNCTION_NOT_ALLOWED, None),
        ("exists { $q knows $p  $q.nme = 1 }", "1", Code.UNKNOWN_PROPERTY, "did you mean `name`?"),
        ("exists { $p knows $q }", "$q.name", Code.UNKNOWN_VARIABLE, None),
        ("$p = 3 or $p.age = 1", "1", Code.ENTITY_AS_VALUE, None),
        ("$p.age = 99999999999 or $p.age = 1", "1", Code.VALUE_OUT_OF_RANGE, None),
    ],
)
def test_what_cannot_be_computed_is_reported_with_advice(
    catalog: Catalog, match: str, returns: str, code: Code, advice: str | None
) -> None:
    found = [each for each in findings(catalog, match, returns) if each.is_error]
    assert [each.code for each in found] == [code]
    assert advice is None or advice in f"{found[0].message} {found[0].hint}"


def test_a_condition_on_two_variables_connects_them(catalog: Catalog) -> None:
    assert findings(catalog, "$q: Person  $p.age + $q.age > 3", "$p.name, $q.name") == ()
    apart = findings(catalog, "$q: Person  $p.age > 3 or $p.age is null", "$p.name, $q.name")
    assert [each.code for each in apart] == [Code.CROSS_PRODUCT]


def test_a_nested_pattern_is_looked_at_by_lint(catalog: Catalog) -> None:
    assert {each.code for each in findings(catalog, "exists { $p knows{1,} $q }")} == {
        Code.UNUSED_VARIABLE,
        Code.UNBOUNDED_HOPS,
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P1Y2M10DT2H30M", Duration(14, 10, 9_000_000)),
        ("P2W", Duration(0, 14, 0)),
        ("-PT0.5S", Duration(0, 0, -500)),
        ("PT0S", Duration()),
        ("P", None),
        ("P1DT", None),
        ("1D", None),
        ("P1.5D", None),
        ("P99999Y", None),
    ],
)
def test_a_duration_is_written_as_in_iso_8601(text: str, expected: Duration | None) -> None:
    assert parse_duration(text) == expected
