"""The plan from one schema to another: its steps, their order and costs, identities, and what is refused."""

import json
from collections.abc import Collection
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings

from omnigraph.catalog import Catalog, catalog_from_json, catalog_to_json, compile_schema
from omnigraph.codes import Code
from omnigraph.diagnostics import Source
from omnigraph.errors import SchemaError
from omnigraph.evolution import migration
from omnigraph.evolution.migration import DropProperty, DropType, MigrationPlan, Step, migration_plan
from tests.unit.evolution.applied import apply, check_whole, world
from tests.unit.evolution.schema_chains import chains


def plan(old: str | Catalog, new: str) -> MigrationPlan:
    before = compile_schema(old) if isinstance(old, str) else old
    return migration_plan(before, Source("new.pg", new))


def kinds(plan: MigrationPlan) -> list[str]:
    return [step.kind for step in plan.steps]


def assert_leads_there(old: Catalog, found: MigrationPlan) -> None:
    """The steps, one after the other, lead to what the plan promises, and nothing is broken in between."""
    here = world(old)
    for step in found.steps:
        apply(here, step)
        check_whole(here)
    assert here == world(found.catalog)


# --- each kind of step ---

STEPS = [
    ("node A { a: I32? }", "node A { a: I32? } node B { b: I32 }", [("add_type", "node B", "metadata only")]),
    (
        "node A { a: I32? }",
        "node A { a: I32? } edge E: A -> A",
        [("add_type", "edge E: A -> A", "metadata only")],
    ),
    (
        "node A { a: I32? }",
        "node A { a: I32? } node B { b: I32 } edge E: A -> A @card(1..) edge F: B -> A @card(1..)",
        [
            ("add_type", "node B", "metadata only"),
            ("add_type", "edge E: A -> A", "reads column id"),
            ("add_type", "edge F: B -> A", "metadata only"),
        ],
    ),
    ("node A { a: I32? } node B { b: I32 }", "node A { a: I32? }", [("drop_type", "node B", "data loss: all columns")]),
    (
        "node A { a: I32? } edge E: A -> A",
        'node B @rename_from("A") { a: I32? } edge E: B -> B',
        [("rename_type", "A → B", "metadata only")],
    ),
    ("node A { a: I32? }", "node A { a: I32?, b: I32? }", [("add_property", "A.b: I32?", "metadata only")]),
    (
        "node A { a: I32? }",
        'node A { a: I32?, b: String @default("x") }',
        [("add_property", 'A.b: String, "x" in every row', "writes column b")],
    ),
    (
        "node A { t: String? }",
        'node A { t: String?, v: Vector(3)? @embed("t") }',
        [("add_property", "A.v: Vector(3)?, from `t`, for `omnigraph embed` to fill", "metadata only")],
    ),
    (
        "node A { t: String }",
        'node A { t: String, v: Vector(3) @embed("t") }',
        [("add_property", "A.v: Vector(3), computed from `t`", "writes column v")],
    ),
    ("node A { a: I32?, b: I32? }", "node A { a: I32? }", [("drop_property", "A.b", "data loss: column b")]),
    (
        "node A { a: I32 @key, @unique(a) }",
        'node A { b: I32 @key @rename_from("a"), @unique(b) }',
        [("rename_property", "A.a → b", "metadata only")],
    ),
    ("node A { a: I32 }", "node A { a: I32? }", [("relax_to_nullable", "A.a may be null", "metadata only")]),
    ("node A { a: I32? }", "node A { a: I64? }", [("widen_number", "A.a: I32 → I64", "writes column a")]),
    ("node A { a: U32? }", "node A { a: I64? }", [("widen_number", "A.a: U32 → I64", "writes column a")]),
    ("node A { a: [F32]? }", "node A { a: [F64]? }", [("widen_number", "A.a: [F32] → [F64]", "writes column a")]),
    ("node A { a: I32 @key }", "node A { a: I64 @key }", [("widen_number", "A.a: I32 → I64", "writes column a")]),
    (
        "node A { a: enum(x, y)? }",
        "node A { a: enum(z, y, x)? }",
        [("widen_enum", "A.a: enum(x, y) → enum(x, y, z)", "metadata only")],
    ),
    ("node A { a: enum(x)? }", "node A { a: String? }", [("widen_enum", "A.a: enum(x) → String", "metadata only")]),
    (
        "node A { a: enum(x, y)? }",
        "node A { a: enum(x)? }",
        [("narrow_enum", "A.a: enum(x, y) → enum(x)", "reads column a")],
    ),
    (
        "node A { a: I32? }",
        "node A { a: I32? @default(3) }",
        [("change_default", "A.a: nothing → 3", "metadata only")],
    ),
    ("node A { a: I32? }", "node A { a: I32? @index }", [("add_index", "A.a: BTREE", "metadata only")]),
    (
        'node A { a: String? @index("substring") }',
        "node A { a: String? @index }",
        [("drop_index", "A.a: NGRAM", "metadata only"), ("add_index", "A.a: BTREE", "metadata only")],
    ),
    (
        "node A { a: I32?, b: I32? }",
        "node A { a: I32?, b: I32?, @unique(a, b) }",
        [("add_constraint", "A: @unique(a, b)", "reads columns a, b")],
    ),
    (
        "node A { a: I32? @unique, b: I32? }",
        "node A { a: I32?, b: I32?, @unique(b, a) }",
        [
            ("drop_constraint", "A: @unique(a)", "metadata only"),
            ("add_constraint", "A: @unique(b, a)", "metadata only"),
        ],
    ),
    (
        "node A { a: I32?, @range(a, 0..9) }",
        "node A { a: I32?, @range(a, 0..) }",
        [("relax_constraint", "A: @range(a, 0..9) → @range(a, 0..)", "metadata only")],
    ),
    (
        "node A { a: I32?, @range(a, 0..9) }",
        "node A { a: I32?, @range(a, 1..10) }",
        [("add_constraint", "A: @range(a, 1..10), which was @range(a, 0..9)", "reads column a")],
    ),
    (
        "node A { a: String? }",
        'node A { a: String?, @check(a, "^\\"x") }',
        [("add_constraint", 'A: @check(a, "^\\"x")', "reads column a")],
    ),
    (
        "node A { a: I32? }",
        'node A { a: I32?, b: I32? @default(1), c: String?, @range(b, 0..) @check(c, "x") @unique(c) }',
        [
            ("add_property", "A.b: I32?, 1 in every row", "writes column b"),
            ("add_property", "A.c: String?", "metadata only"),
            ("add_constraint", "A: @unique(c)", "metadata only"),
            ("add_constraint", "A: @range(b, 0..)", "metadata only"),
            ("add_constraint", 'A: @check(c, "x")', "metadata only"),
        ],
    ),
    (
        "node A { a: I32? } edge E: A -> A @card(0..2)",
        "node A { a: I32? } edge E: A -> A",
        [("relax_constraint", "E: @card(0..2) → @card(0..)", "metadata only")],
    ),
    (
        "node A { a: I32? } edge E: A -> A",
        "node A { a: I32? } edge E: A -> A @card(1..)",
        [("add_constraint", "E: @card(1..), which was @card(0..)", "reads column src")],
    ),
    (
        'node A { a: I32? @description("x") @mine }',
        'node A @instruction("y") { a: I32? @description("z") @mine }',
        [
            ("change_annotations", "A.a: @description", "metadata only"),
            ("change_annotations", "A: @instruction", "metadata only"),
        ],
    ),
    (
        "interface I { a: I32? } node A { a: I32? }",
        "interface I { a: I32? } node A implements I { a: I32? }",
        [("change_implements", "A implements I", "metadata only")],
    ),
    (
        "interface I { a: I32? } node A implements I { a: I32? }",
        "interface J { a: I32? } node A implements J { }",
        [
            ("drop_interface", "interface I", "metadata only"),
            ("add_interface", "interface J", "metadata only"),
            ("change_implements", "A implements J", "metadata only"),
        ],
    ),
    (
        "interface I { a: I32? } node A implements I { }",
        "interface I { a: I64? } node A implements I { }",
        [("widen_number", "A.a: I32 → I64", "writes column a"), ("change_interface", "interface I", "metadata only")],
    ),
    (
        'node A { s: String?, t: String?, v: Vector(3)? @embed("s") }',
        'node A { s: String?, t: String?, v: Vector(3)? @embed("t") }',
        [("change_embedding", "A.v: `s` → `t`, recomputed", "writes column v")],
    ),
    (
        "node A { s: String?, v: Vector(3)? }",
        'node A { s: String?, v: Vector(3)? @embed("s", model="m") }',
        [("change_embedding", "A.v: not embedded → `s` by m", "metadata only")],
    ),
    (
        'node A { s: String?, t: String?, v: Vector(3)? @embed("s") }',
        'node A { t: String?, v: Vector(3)? @embed("t") }',
        [
            ("change_embedding", "A.v: `s` → not embedded", "metadata only"),
            ("drop_property", "A.s", "data loss: column s"),
            ("change_embedding", "A.v: not embedded → `t`, recomputed", "writes column v"),
        ],
    ),
    (
        "node A { a: I32?, b: I32?, @unique(a, b) @range(b, 0..) }",
        "node A { a: I32? }",
        [
            ("drop_constraint", "A: @unique(a, b)", "metadata only"),
            ("drop_constraint", "A: @range(b, 0..)", "metadata only"),
            ("drop_property", "A.b", "data loss: column b"),
        ],
    ),
]


@pytest.mark.parametrize(
    ("old", "new", "expected"), STEPS, ids=[f"{at}-{step[2][0][0]}" for at, step in enumerate(STEPS)]
)
def test_a_change_has_its_steps_in_order_each_with_its_cost(
    old: str, new: str, expected: list[tuple[str, str, str]]
) -> None:
    found = plan(old, new)
    assert [(step.kind, step.what, str(step.cost)) for step in found.steps] == expected
    assert found.refused == ()
    assert_leads_there(compile_schema(old), found)


def test_every_kind_of_step_is_tried_here() -> None:
    steps = [each for each in vars(migration).values() if isinstance(each, type) and issubclass(each, Step)]
    assert {kind for _, _, expected in STEPS for kind, _, _ in expected} == {each.kind for each in steps if each.kind}


def test_only_steps_that_lose_data_say_that_they_do() -> None:
    dropping = plan("node A { a: I32?, b: I32? } node B { b: I32 }", "node A { a: I64? }")
    assert [(step.kind, step.loses_data) for step in dropping.steps] == [
        ("drop_type", True),
        ("drop_property", True),
        ("widen_number", False),
    ]
    assert dropping.loses_data
    assert not plan("node A { a: I32? }", "node A { a: I64? }").loses_data


def test_a_name_that_differs_in_case_only_is_free_before_it_is_taken() -> None:
    found = plan(
        "node Aa { ab: I32? } node B { xy: I32? }", 'node AA { c: I32? } node B { xY: I32? @rename_from("xy") }'
    )
    assert kinds(found) == ["drop_type", "rename_property", "add_type"]
    found = plan("node A { ab: I32?, xy: I32? }", 'node A { aB: I32? @rename_from("xy") }')
    assert kinds(found) == ["drop_property", "rename_property"]


# --- what is the same ---


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("node A { a: I32?, b: I32? }", "// other words\nnode A\n{\n  b: I32?\n  a: I32? /* another order */ }"),
        ("node A { a: I32?, b: I32?, @unique(a, b) }", "node A { a: I32?, b: I32?, @unique(b, a) }"),
        ("node A { a: enum(x, y)? }", "node A { a: enum(y, x)? }"),
        ("node A { a: I32?, @index(a) }", "node A { a: I32? @index }"),
        ("node A {} node B {} edge E: A -> B", "edge E: A -> B @card(0..) node B {} node A {}"),
    ],
)
def test_schemas_that_mean_the_same_need_nothing(old: str, new: str) -> None:
    for found in (plan(old, new), plan(old, old), plan(new, old)):
        assert found.is_empty
        assert str(found) == "nothing to do"
        assert not found.loses_data


def test_a_vector_that_names_no_model_keeps_the_one_that_is_recorded() -> None:
    text = 'node A { s: String?, v: Vector(3)? @embed("s") }'
    recorded = compile_schema(text.replace('"s")', '"s", model="m")'))
    found = plan(recorded, text)
    assert found.is_empty
    assert found.catalog.nodes["A"].properties["v"].embedding == recorded.nodes["A"].properties["v"].embedding


def test_what_is_settled_about_a_new_vector_is_part_of_the_plan() -> None:
    old = compile_schema("node A { s: String? }")

    def settled(catalog: Catalog, _filled: Collection[int]) -> Catalog:
        return replace(catalog, next_identity=catalog.next_identity + 100)

    found = migration_plan(old, Source("new.pg", "node A { s: String?, t: String? }"), settled=settled)
    assert found.catalog.next_identity == old.next_identity + 101


# --- identities ---


def test_a_rename_keeps_the_identity_and_everything_that_speaks_of_it() -> None:
    old = compile_schema(
        """
        node A { k: String @key, s: String? @index, v: Vector(3)? @embed("s"), n: I32?, @range(n, 0..) @unique(n, s) }
        edge E: A -> A
        """
    )
    found = plan(
        old,
        """
        node B @rename_from("A") {
            key: String @key @rename_from("k"), t: String? @index @rename_from("s")
            w: Vector(3)? @embed("t") @rename_from("v"), m: I32? @rename_from("n"), @range(m, 0..) @unique(m, t)
        }
        edge F: B -> B @rename_from("E")
        """,
    )
    assert kinds(found) == ["rename_type"] * 2 + ["rename_property"] * 4
    assert [each.identity for each in found.catalog.nodes["B"].properties.values()] == [
        each.identity for each in old.nodes["A"].properties.values()
    ]
    assert_leads_there(old, found)


def test_a_rename_that_was_done_needs_nothing_and_is_noted() -> None:
    text = 'node B @rename_from("A") { b: I32? @rename_from("a") }'
    done = plan("node A { a: I32? }", text)
    again = plan(done.catalog, text)
    assert again.is_empty
    assert again.catalog == done.catalog
    assert [(note.code, note.line, note.column) for note in again.notes] == [("L009", 1, 6), ("L009", 1, 28)]
    assert done.notes == ()
    assert plan(done.catalog, "node B { b: I32? }").is_empty


@pytest.mark.parametrize(
    ("new", "way_out"),
    [
        ('node A { a: I32? @rename_from("b"), b: I32? @rename_from("a") }', "in one schema change"),
        ('node A { c: I32? @rename_from("b"), b: I32? @rename_from("a") }', "in one schema change"),
        ('node A { c: I32? @rename_from("a"), d: I32? @rename_from("a") }', ""),
        ('node A { a: I32?, c: I32? @rename_from("bb") }', "did you mean `b`?"),
    ],
    ids=["swap", "chain", "twice", "unknown"],
)
def test_renames_that_cannot_be_followed_are_errors_of_the_new_schema(new: str, way_out: str) -> None:
    with pytest.raises(SchemaError) as refused:
        plan("node A { a: I32?, b: I32? }", new)
    assert {finding.code for finding in refused.value.diagnostics} == {Code.INVALID_RENAME}
    assert way_out in (refused.value.diagnostics[0].hint or "")


@pytest.mark.parametrize(
    ("code", "new"),
    [
        ("S107", 'node B { t: String?, v: Vector(3)? @embed("t") } edge E: A -> B'),
        ("S115", 'node A { } node B { v: Vector(3)? @embed("t") } edge E: A -> B'),
    ],
)
def test_what_is_still_spoken_of_cannot_be_dropped(code: str, new: str) -> None:
    with pytest.raises(SchemaError) as wrong:
        plan('node A { } node B { t: String?, v: Vector(3)? @embed("t") } edge E: A -> B', new)
    assert [finding.code for finding in wrong.value.diagnostics] == [code]


def test_what_is_dropped_and_comes_back_is_new_and_no_number_is_used_twice() -> None:
    """Also that of the newest property or type, and also after the catalog was written and read."""
    catalog = compile_schema("node A { a: I32? } node B { b: I32? }")
    seen = {each.identity: name for name, each in catalog.nodes.items()} | {
        declared.identity: declared.name for each in catalog.nodes.values() for declared in each.properties.values()
    }
    for new in ("node A { }", "node A { a: I32? } node B { b: I32? }") * 2:
        catalog = catalog_from_json(json.loads(json.dumps(catalog_to_json(plan(catalog, new).catalog))))
        if "node B" in new:
            fresh = {catalog.nodes["B"].identity, catalog.nodes["A"].properties["a"].identity}
            fresh |= {each.identity for each in catalog.nodes["B"].properties.values()}
            assert len(fresh) == 3
            assert not fresh & seen.keys()
            seen |= dict.fromkeys(fresh, "")


# --- what is refused ---

REFUSALS = [
    ("OG-M001", "node A { a: I32? }", "node A {\n    a: I32?\n    b: I32\n}", (3, 5), "`b: I32?`"),
    ("OG-M001", "node A { }", "interface I {\n    b: I32\n}\nnode A implements I { }", (2, 5), "@default"),
    ("OG-M002", "node A { a: String? }", "node A {\n    a: I32?\n}", (2, 8), "under another name"),
    ("OG-M002", "node A { a: I64? }", "node A { a: I32? }", (1, 13), "drop `a`"),
    ("OG-M002", "node A { a: U64? }", "node A { a: I64? }", (1, 13), "drop `a`"),
    ("OG-M002", "node A { a: I32? }", "node A { a: [I32]? }", (1, 13), "[I32]?"),
    ("OG-M002", "node A { a: Vector(3)? }", "node A { a: Vector(4)? }", (1, 13), "Vector(4)?"),
    ("OG-M003", "node A { a: I32? }", "node A { a: I32 @default(1) }", (1, 13), "keep the `?`"),
    ("OG-M004", "node A { a: I32 @key, b: I32 }", "node A { a: I32, b: I32 @key }", (1, 26), "another name"),
    ("OG-M004", "node A { a: I32 @key, b: I32 }", "node A { b: I32 }", (1, 6), "another name"),
    ("OG-M004", "node A { a: I32 }", "node A { a: I32, id: String @key }", (1, 30), "another name"),
    ("OG-M004", "node A { a: I32, b: I32, @key(a, b) }", "node A { a: I32, b: I32, @key(b, a) }", (1, 27), "export"),
    ("OG-M004", "node A { a: F32 @key }", "node A { a: F64 @key }", (1, 18), "another name"),
    ("OG-M005", "node A {} node B {} edge E: A -> A", "node A {} node B {} edge E: A -> B", (1, 34), "another edge"),
    ("OG-M006", "node A {} node B {}", "node A {} interface B {}", (1, 21), "change of its own"),
]


@pytest.mark.parametrize(("code", "old", "new", "place", "way_out"), REFUSALS)
def test_what_cannot_be_done_is_refused_with_its_place_and_a_way_around(
    code: str, old: str, new: str, place: tuple[int, int], way_out: str
) -> None:
    [refusal] = plan(old, new).refused
    assert (refusal.code, refusal.line, refusal.column) == (code, *place)
    assert refusal.is_error
    assert way_out in (refusal.hint or "")


def test_all_refusals_are_told_at_once_with_the_steps_that_could_be_done() -> None:
    found = plan(
        "node A { a: String?, b: I32? } node B { } edge E: A -> B",
        "node A { a: I32?, b: I32, c: I32, d: I32? }\nnode B { }\nedge E: A -> A",
    )
    assert [refusal.code for refusal in found.refused] == ["OG-M002", "OG-M003", "OG-M001", "OG-M005"]
    assert kinds(found) == ["add_property"]
    assert not found.is_empty
    assert "add property  A.d: I32?" in str(found)
    assert "error[OG-M005]" in str(found)
    assert "error[OG-M002]" in found._repr_html_()


def test_an_edge_does_not_follow_a_name_that_another_type_has_taken() -> None:
    """Its ends are known by their identity: the type `A` of the new schema is not the one that it began at."""
    old = compile_schema("node A {} edge E: A -> A")
    later = plan(plan(old, 'node B @rename_from("A") {} edge E: B -> B').catalog, "node B {} node A {} edge E: B -> A")
    assert [refusal.code for refusal in later.refused] == ["OG-M005"]


def test_a_text_that_is_no_schema_is_an_error_of_the_schema() -> None:
    with pytest.raises(SchemaError) as wrong:
        plan("node A { }", "node A { a: Strng }")
    assert [finding.code for finding in wrong.value.diagnostics] == ["S101"]


# --- what is shown ---


def test_a_plan_is_a_table_and_a_document_with_the_rows_of_each_type() -> None:
    old = compile_schema("node A { a: I32?, b: I32? } node B { }")
    found = plan(old, "node A { a: I64? } node B { c: I32? }").with_rows({old.nodes["A"].identity: 1_234})
    assert str(found).splitlines() == [
        "   step           what            cost                 rows",
        "1  drop property  A.b             data loss: column b  1,234",
        "2  widen number   A.a: I32 → I64  writes column a      1,234",
        "3  add property   B.c: I32?       metadata only",
    ]
    document = json.loads(json.dumps(found.as_json()))
    assert (document["possible"], document["loses_data"]) == (True, True)
    assert document["steps"][1] == {
        "step": "widen_number",
        "type": "A",
        "identity": old.nodes["A"].identity,
        "property": "a",
        "property_identity": old.nodes["A"].properties["a"].identity,
        "before": "I32",
        "after": "I64",
        "what": "A.a: I32 → I64",
        "cost": {"kind": "writes", "columns": ["a"], "rows": 1_234},
        "loses_data": False,
    }
    assert "<td>A.a: I32 → I64</td>" in found._repr_html_()


def test_what_rows_were_filled_with_is_kept_though_the_enum_does_not_allow_it_any_more() -> None:
    old = compile_schema("node A { a: I32? }")
    filled = plan(old, 'node A { a: I32?, e: enum(x, y) @default("x"), l: [enum(x)] @default(["x"]) }').catalog
    narrow = plan(filled, "node A { a: I32?, e: enum(y), l: [enum(y)] }").catalog
    assert catalog_from_json(json.loads(json.dumps(catalog_to_json(narrow)))) == narrow
    properties = narrow.nodes["A"].properties
    assert (properties["e"].filling, properties["l"].filling) == ("x", ("x",))
    late = migration.plan_between(old, narrow, Source("new.pg", "node A { a: I32?, e: enum(y), l: [enum(y)] }"))
    assert [finding.code for finding in late.refused] == [Code.REQUIRED_ADDED, Code.REQUIRED_ADDED]


# --- any schemas ---


@settings(max_examples=50, deadline=None)
@given(chains())
def test_the_steps_of_any_chain_of_schemas_lead_from_each_to_the_next(texts: list[str]) -> None:
    catalog = _first(texts[0])
    used = _identities(catalog)
    for text in texts[1:]:
        try:
            found = plan(catalog, text)
        except SchemaError:
            return
        assert plan(catalog, text) == found
        json.dumps(found.as_json())
        if found.refused:
            return
        assert_leads_there(catalog, found)
        later = _identities(found.catalog)
        assert max(later - used, default=0) < found.catalog.next_identity
        assert min(later - used, default=catalog.next_identity) >= catalog.next_identity
        _assert_losses_are_told(catalog, found)
        assert plan(found.catalog, text).is_empty
        catalog, used = found.catalog, used | later


def _first(text: str) -> Catalog:
    try:
        return compile_schema(text)
    except SchemaError:
        assume(False)
        raise


def _columns(catalog: Catalog) -> set[tuple[int, int]]:
    entities = (*catalog.nodes.values(), *catalog.edges.values())
    return {(each.identity, declared.identity) for each in entities for declared in each.properties.values()}


def _identities(catalog: Catalog) -> set[int]:
    types = {each.identity for each in (*catalog.nodes.values(), *catalog.edges.values())}
    return types | {declared for _, declared in _columns(catalog)}


def _assert_losses_are_told(old: Catalog, found: MigrationPlan) -> None:
    """Every column that is gone is lost by a step that says so, and no other step says it."""
    gone = _columns(old) - _columns(found.catalog)
    told: set[tuple[int, int]] = set()
    for step in found.steps:
        assert step.loses_data == isinstance(step, DropType | DropProperty)
        if isinstance(step, DropProperty):
            told.add((step.identity, step.property_identity))
        elif isinstance(step, DropType):
            told |= {(step.identity, each.identity) for each in step.entity.properties.values()}
    assert told == gone
