"""Three-way merges of one type: every pair of things that two sides can do to an entity."""

import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.api.history import ConflictKind, MergeConflict
from omnigraph.api.values import same_row
from omnigraph.catalog import EntityType, compile_schema, table_schema
from omnigraph.merging.three_way import Strategy, TableMerge, merge_table
from omnigraph.storage.differences import Differences

CATALOG = compile_schema(
    """
    node Thing { x: I32?, y: I32?, tags: [String]?, size: F64?, day: Date?, photo: Blob? }
    edge Link: Thing -> Thing { weight: I32? }
    """
)
THING, LINK = CATALOG.nodes["Thing"], CATALOG.edges["Link"]

Row = dict[str, Any]
Content = dict[str, Row]
STRATEGIES: tuple[Strategy, Strategy] = ("ours", "theirs")


def thing(id: str = "a", **values: Any) -> Row:
    return {**dict.fromkeys(table_schema(THING).names), "id": id, **values}


def content(*rows: Row) -> Content:
    return {row["id"]: row for row in rows}


def differences(left: Content, right: Content, entity: EntityType = THING) -> Differences:
    schema = table_schema(entity)
    both = [name for name in left if name in right and not same_row(left[name], right[name])]

    def table(rows: list[Row]) -> pa.Table:
        return pa.Table.from_pylist(rows, schema=schema)

    return Differences(
        inserted=table([right[name] for name in right if name not in left]),
        deleted=table([left[name] for name in left if name not in right]),
        before=table([left[name] for name in both]),
        after=table([right[name] for name in both]),
    )


def merged(base: Content, ours: Content, theirs: Content, entity: EntityType = THING, **options: Any) -> TableMerge:
    return merge_table(entity, differences(base, ours, entity), differences(base, theirs, entity), **options)


def applied(ours: Content, merge: TableMerge) -> Content:
    """Our table after the merge; says whether the merge is as small as it can be."""
    rows = content(*merge.rows.to_pylist())
    deleted = merge.deleted.to_pylist()
    assert len(rows) == merge.rows.num_rows, "no id comes twice"
    assert set(merge.new.to_pylist()) == rows.keys() - ours.keys()
    assert all(name in ours and name not in rows for name in deleted)
    assert not any(same_row(ours.get(name), row) for name, row in rows.items()), "what is there already is left alone"
    return {name: row for name, row in {**ours, **rows}.items() if name not in deleted}


# --- every pair of changes ---

BASE = thing(x=0, y=0)
CHANGES: dict[str, Row | None] = {
    "nothing": BASE,
    "x=1": thing(x=1, y=0),
    "x=2": thing(x=2, y=0),
    "y=1": thing(x=0, y=1),
    "x=1,y=1": thing(x=1, y=1),
    "x=2,y=1": thing(x=2, y=1),
    "delete": None,
}
UPDATE, DELETE = ConflictKind.DIVERGENT_UPDATE, ConflictKind.DELETE_VS_UPDATE
# Whatever is not here is merged: both did the same, or only one did something. What cells make of a pair comes second.
CONFLICTS: dict[frozenset[str], tuple[ConflictKind, str | ConflictKind]] = {
    frozenset({"x=1", "x=2"}): (UPDATE, UPDATE),
    frozenset({"x=1", "y=1"}): (UPDATE, "x=1,y=1"),
    frozenset({"x=1", "x=1,y=1"}): (UPDATE, "x=1,y=1"),
    frozenset({"x=1", "x=2,y=1"}): (UPDATE, UPDATE),
    frozenset({"x=2", "y=1"}): (UPDATE, "x=2,y=1"),
    frozenset({"x=2", "x=1,y=1"}): (UPDATE, UPDATE),
    frozenset({"x=2", "x=2,y=1"}): (UPDATE, "x=2,y=1"),
    frozenset({"y=1", "x=1,y=1"}): (UPDATE, "x=1,y=1"),
    frozenset({"y=1", "x=2,y=1"}): (UPDATE, "x=2,y=1"),
    frozenset({"x=1,y=1", "x=2,y=1"}): (UPDATE, UPDATE),
    **{frozenset({change, "delete"}): (DELETE, DELETE) for change in CHANGES if "=" in change},
}
PAIRS = list(itertools.product(CHANGES, CHANGES))


def side(change: str) -> Content:
    row = CHANGES[change]
    return {} if row is None else {"a": row}


def plain_result(ours: str, theirs: str) -> str:
    """The change that a pair without a conflict comes to."""
    return theirs if ours == "nothing" else ours


@pytest.mark.parametrize("cells", [False, True])
@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_a_pair_of_changes_is_merged_or_in_conflict(ours: str, theirs: str, cells: bool) -> None:
    merge = merged({"a": BASE}, side(ours), side(theirs), cells=cells)
    expected = CONFLICTS.get(frozenset({ours, theirs}), (plain_result(ours, theirs),) * 2)[cells]
    if isinstance(expected, ConflictKind):
        assert {(each.kind, each.type, each.id) for each in merge.conflicts} == {(expected, "Thing", "a")}
        assert applied(side(ours), merge) == side(ours), "what is in conflict stays as it is"
    else:
        assert merge.conflicts == ()
        assert applied(side(ours), merge) == side(expected)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("cells", [False, True])
@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_a_strategy_decides_what_would_be_in_conflict(ours: str, theirs: str, cells: bool, strategy: Strategy) -> None:
    merge = merged({"a": BASE}, side(ours), side(theirs), cells=cells, strategy=strategy)
    assert merge.conflicts == ()
    chosen = ours if strategy == "ours" else theirs
    expected = CONFLICTS.get(frozenset({ours, theirs}), (plain_result(ours, theirs),) * 2)[cells]
    if expected is UPDATE and cells:
        # Only x is in conflict. What else either side did is kept: each that sets y sets it to the same.
        y = 1 if "y=1" in ours + theirs else 0
        row = CHANGES[chosen]
        assert row is not None
        assert applied(side(ours), merge) == {"a": {**row, "y": y}}
    elif isinstance(expected, ConflictKind):
        assert applied(side(ours), merge) == side(chosen)
    else:
        assert applied(side(ours), merge) == side(expected)


@pytest.mark.parametrize("cells", [False, True])
@pytest.mark.parametrize("strategy", [None, *STRATEGIES])
def test_two_inserts_of_one_id_are_merged_only_when_they_are_the_same(strategy: Strategy | None, cells: bool) -> None:
    one, other = content(thing(x=1, tags=["t"])), content(thing(x=2, y=1))
    same = merged({}, one, dict(one), cells=cells, strategy=strategy)
    assert (same.conflicts, applied(one, same)) == ((), one)
    new = merged({}, {}, other, cells=cells, strategy=strategy)
    assert (new.conflicts, applied({}, new)) == ((), other)
    kept = merged({}, one, {}, cells=cells, strategy=strategy)
    assert (kept.conflicts, applied(one, kept)) == ((), one)
    merge = merged({}, one, other, cells=cells, strategy=strategy)
    if strategy is None:
        assert merge.conflicts == (
            MergeConflict(ConflictKind.DIVERGENT_INSERT, "Thing", "a", None, None, one["a"], other["a"]),
        )
    assert applied(one, merge) == (other if strategy == "theirs" else one)


# --- what a conflict says ---


def test_a_conflict_has_the_rows_of_all_three() -> None:
    (conflict,) = merged({"a": BASE}, side("x=1"), side("x=2")).conflicts
    assert conflict == MergeConflict(UPDATE, "Thing", "a", None, BASE, CHANGES["x=1"], CHANGES["x=2"])
    (conflict,) = merged({"a": BASE}, side("delete"), side("x=2")).conflicts
    assert conflict == MergeConflict(DELETE, "Thing", "a", None, BASE, None, CHANGES["x=2"])
    assert conflict.as_json()["ours"] is None


def test_a_conflict_of_cells_has_the_property_and_its_values() -> None:
    ours, theirs = thing(x=1, y=5, tags=["ours"]), thing(x=2, y=0, tags=["theirs"])
    conflicts = merged({"a": BASE}, content(ours), content(theirs), cells=True).conflicts
    assert conflicts == (
        MergeConflict(UPDATE, "Thing", "a", "x", 0, 1, 2),
        MergeConflict(UPDATE, "Thing", "a", "tags", None, ["ours"], ["theirs"]),
    )


def test_a_conflict_is_json_as_an_export_writes_it() -> None:
    ours, theirs = thing(photo=b"hi", size=1.5), thing(tags=["a"])
    (conflict,) = merged({}, content(ours), content(theirs)).conflicts
    assert conflict.as_json() == {
        "kind": "DivergentInsert",
        "type": "Thing",
        "id": "a",
        "property": None,
        "base": None,
        "ours": {**ours, "photo": "base64:aGk="},
        "theirs": theirs,
    }
    (cell,) = merged(
        {"a": BASE}, content({**BASE, "photo": b"hi"}), content({**BASE, "photo": b"ho"}), cells=True
    ).conflicts
    assert (cell.as_json()["property"], cell.as_json()["ours"]) == ("photo", "base64:aGk=")


def test_conflicts_come_in_the_order_of_ids() -> None:
    names = ["c", "a", "b", "a2"]
    ours, theirs = content(*(thing(name, x=1) for name in names)), content(*(thing(name, x=2) for name in names[::-1]))
    assert [each.id for each in merged({}, ours, theirs).conflicts] == sorted(names)


def test_a_conflict_of_one_entity_leaves_the_others_merged() -> None:
    base = content(*(thing(name, x=0) for name in "abcde"))
    ours = content(thing("a", x=1), thing("b", x=1), thing("c", x=0), thing("d", x=0), thing("ours"))
    theirs = content(thing("a", x=2), thing("b", x=0), thing("c", x=2), thing("e", x=0), thing("theirs"))
    merge = merged(base, ours, theirs)
    assert [each.id for each in merge.conflicts] == ["a"]
    expected = content(thing("a", x=1), thing("b", x=1), thing("c", x=2), thing("ours"), thing("theirs"))
    assert applied(ours, merge) == expected


# --- values ---


def test_values_are_the_same_as_storage_sees_them() -> None:
    nan = float("nan")
    one, other = thing(tags=["a"], size=nan), thing(tags=["a"], size=nan)
    merge = merged({}, content(one), content(other))
    assert (merge.conflicts, merge.rows.num_rows) == ((), 0)
    base = thing(size=nan, x=0, tags=["a"])
    merge = merged({"a": base}, content({**base, "x": 1}), content({**base, "y": 1}), cells=True)
    assert merge.conflicts == ()
    assert [(row["x"], row["y"]) for row in merge.rows.to_pylist()] == [(1, 1)]


def test_a_list_is_one_cell() -> None:
    base = thing(tags=["a"])
    ours, theirs = thing(tags=["a", "b"]), thing(tags=["c", "a"])
    assert [each.property for each in merged({"a": base}, content(ours), content(theirs), cells=True).conflicts] == [
        "tags"
    ]


def test_the_ends_of_an_edge_are_properties_like_others() -> None:
    base = {"id": "e", "src": "a", "dst": "b", "weight": 0}
    ours, theirs = {**base, "dst": "c"}, {**base, "src": "z", "weight": 1}
    merge = merged({"e": base}, {"e": ours}, {"e": theirs}, LINK, cells=True)
    assert merge.rows.to_pylist() == [{"id": "e", "src": "z", "dst": "c", "weight": 1}]
    conflicts = merged({"e": base}, {"e": ours}, {"e": {**base, "dst": "d"}}, LINK, cells=True).conflicts
    assert [(each.type, each.property, each.ours, each.theirs) for each in conflicts] == [("Link", "dst", "c", "d")]


def test_a_merge_becomes_a_change_that_can_be_written() -> None:
    ours = content(thing("a", x=0))
    merge = merged(ours, ours, content(thing("a", x=1), thing("b")))
    assert merge.change.rows.schema == table_schema(THING)
    assert merge.change.strict.to_pylist() == ["b"]
    assert not merge.change.is_empty
    assert merged(ours, ours, ours).change.is_empty


# --- several bases ---


@pytest.mark.parametrize("cells", [False, True])
@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_where_the_bases_disagree_only_what_is_the_same_is_merged(ours: str, theirs: str, cells: bool) -> None:
    merge = merged({"a": BASE}, side(ours), side(theirs), disputed={"a"}, cells=cells)
    assert {each.kind for each in merge.conflicts} == (set() if ours == theirs else {UPDATE})
    assert all(each.base is None for each in merge.conflicts)
    assert applied(side(ours), merge) == side(ours)
    for strategy in STRATEGIES:
        merge = merged({"a": BASE}, side(ours), side(theirs), disputed={"a"}, cells=cells, strategy=strategy)
        assert merge.conflicts == ()
        assert applied(side(ours), merge) == side(ours if strategy == "ours" else theirs)


def test_cells_that_are_the_same_are_no_conflict_whatever_the_bases_say() -> None:
    conflicts = merged({"a": BASE}, side("x=1,y=1"), side("x=2,y=1"), disputed={"a"}, cells=True).conflicts
    assert conflicts == (MergeConflict(UPDATE, "Thing", "a", "x", None, 1, 2),)


def test_a_dispute_about_one_entity_is_no_matter_to_others() -> None:
    base = content(thing("a", x=0), thing("b", x=0), thing("c", x=0))
    theirs = content(thing("a", x=1), thing("b", x=1), thing("c", x=0))
    merge = merged(base, base, theirs, disputed={"a", "c", "nobody"})
    assert [each.id for each in merge.conflicts] == ["a"]
    assert applied(base, merge)["b"]["x"] == 1


# --- symmetry ---

VALUES = st.one_of(st.none(), st.integers(0, 2))
STATES = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.fixed_dictionaries({"x": VALUES, "y": VALUES, "tags": st.sampled_from([None, [], ["a"]])}),
)


def opposite(strategy: Strategy | None) -> Strategy | None:
    return None if strategy is None else STRATEGIES[strategy == "ours"]


@given(
    states=st.tuples(STATES, STATES, STATES),
    cells=st.booleans(),
    strategy=st.sampled_from([None, *STRATEGIES]),
    disputed=st.sets(st.sampled_from("abc")),
)
def test_the_sides_are_equal_but_for_the_strategy(
    states: tuple[Content, Content, Content], cells: bool, strategy: Strategy | None, disputed: set[str]
) -> None:
    base, ours, theirs = ({name: thing(name, **row) for name, row in state.items()} for state in states)
    forth = merged(base, ours, theirs, cells=cells, strategy=strategy, disputed=disputed)
    back = merged(base, theirs, ours, cells=cells, strategy=opposite(strategy), disputed=disputed)
    mirrored = [(each.kind, each.id, each.property, each.theirs, each.ours) for each in back.conflicts]
    assert [(each.kind, each.id, each.property, each.ours, each.theirs) for each in forth.conflicts] == mirrored
    open_questions = {each.id for each in forth.conflicts}
    assert not (open_questions and strategy)
    one, other = applied(ours, forth), applied(theirs, back)
    for name in {*one, *other} - open_questions:
        assert same_row(one.get(name), other.get(name))
    for name in open_questions:
        assert same_row(one.get(name), ours.get(name))
        assert same_row(other.get(name), theirs.get(name))
