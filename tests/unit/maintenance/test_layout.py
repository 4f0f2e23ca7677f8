"""How a table is put in order, decided on facts alone."""

from collections.abc import Collection, Sequence

from hypothesis import given
from hypothesis import strategies as st
from lance.bitmap import Bitmap
from lance.dataset import Index

from omnigraph.catalog import IndexIntent, IndexKind
from omnigraph.maintenance.layout import (
    FULL_FRAGMENT,
    SMALL_FRAGMENT,
    TableFacts,
    TableWork,
    coverage_after,
    groups_of,
    work_on,
)
from omnigraph.storage.compaction import FragmentState, Segment

ID = IndexIntent("id", IndexKind.BTREE)
COLOR = IndexIntent("color", IndexKind.BITMAP)
NAME, WORDS = IndexIntent("name", IndexKind.BTREE), IndexIntent("name", IndexKind.FULL_TEXT)
LARGE = 4 * SMALL_FRAGMENT


def segment(intent: IndexIntent, fragments: Collection[int], identity: str = "", built_at: int = 5) -> Segment:
    index = Index(identity, intent.name, [0], built_at, Bitmap(fragments), 1)
    return Segment(
        identity=identity or f"{intent.name}{sorted(fragments)}",
        intent=intent,
        fragments=frozenset(fragments),
        built_at=built_at,
        by_address=intent.kind is IndexKind.BTREE,
        index=index,
    )


def decided(
    sizes: Sequence[int],
    segments: Sequence[Segment] = (),
    intents: Sequence[IndexIntent] = (),
    *,
    oldest: int = 9,
    pending: Collection[IndexIntent] = (),
) -> TableWork:
    return work_on(
        TableFacts(
            fragments=[FragmentState(number, rows, 0) for number, rows in enumerate(sizes)],
            segments=segments,
            intents=intents,
            oldest_row=lambda fragments: oldest if fragments else None,
            is_pending=lambda intent: intent in pending,
        )
    )


def test_an_empty_table_is_in_order() -> None:
    assert decided([], intents=[ID]).is_empty


def test_large_fragments_that_are_covered_are_in_order() -> None:
    assert decided([LARGE, LARGE], [segment(ID, {0, 1})], [ID]).is_empty


def test_two_segments_that_cover_everything_are_in_order() -> None:
    assert decided([LARGE, LARGE], [segment(ID, {0}), segment(ID, {1})], [ID]).is_empty


def test_three_segments_become_fewer() -> None:
    (work,) = decided([LARGE] * 3, [segment(ID, {each}) for each in range(3)], [ID]).indexes
    assert (work.kept, len(work.dropped)) == (None, 3)


def test_small_fragments_go_together_wherever_they_are() -> None:
    assert decided([10, LARGE, 20, LARGE, 30]).groups == ((0, 2, 4),)


def test_a_single_small_fragment_stays() -> None:
    assert decided([LARGE, 10]).groups == ()


def test_a_missing_index_is_written_unless_it_must_wait() -> None:
    assert [each.intent for each in decided([LARGE], intents=[ID, COLOR], pending=[COLOR]).indexes] == [ID]


def test_a_short_tail_extends_an_index_and_takes_the_place_of_the_last_extension() -> None:
    base, last = segment(ID, {0}), segment(ID, {1})
    (work,) = decided([LARGE, 5_000, 6_000], [base, last], [ID]).indexes
    assert (work.kept, work.dropped) == (base, (last,))


def test_a_long_tail_makes_one_index_of_all() -> None:
    (work,) = decided([LARGE, LARGE], [segment(ID, {0})], [ID]).indexes
    assert work.kept is None


def test_an_index_by_ids_is_extended_only_if_none_of_its_rows_went_to_the_tail() -> None:
    base = segment(COLOR, {0}, built_at=5)
    assert decided([LARGE, 5_000], [base], [COLOR], oldest=6).indexes[0].kept == base
    assert decided([LARGE, 5_000], [base], [COLOR], oldest=5).indexes[0].kept is None


def test_fragments_stay_apart_where_a_kept_index_by_ids_covers_only_some() -> None:
    segments = [segment(COLOR, {0, 1}), segment(ID, {0, 1})]
    work = decided([LARGE, 1_000, 1_000, 1_000], segments, [ID, COLOR])
    assert work.groups == ((2, 3),)


def test_an_index_by_places_does_not_keep_fragments_apart() -> None:
    work = decided([LARGE, 1_000, 1_000, 1_000], [segment(ID, {0, 1})], [ID])
    assert work.groups == ((1, 2, 3),)


def test_behind_an_index_for_conditions_the_others_of_its_column_are_written_anew() -> None:
    words = segment(WORDS, {0, 1})
    work = decided([LARGE, LARGE], [segment(NAME, {0}), words], [NAME, WORDS])
    assert [(each.intent, each.kept) for each in work.indexes] == [(NAME, None), (WORDS, None)]
    assert work.indexes[1].dropped == (words,)


def test_indexes_that_nobody_declares_keep_fragments_apart_and_stay() -> None:
    work = decided([LARGE, 1_000, 1_000], [segment(COLOR, {0, 1})], [])
    assert work == TableWork()


def test_what_is_rewritten_is_lost_to_an_index_by_places_and_kept_by_one_by_ids() -> None:
    groups: dict[tuple[int, ...], list[int]] = {(1, 2): [7], (3, 4): [8]}
    assert coverage_after(segment(ID, {0, 1, 2}), groups) == {0}
    assert coverage_after(segment(COLOR, {0, 1, 2}), groups) == {0, 7}
    assert coverage_after(None, groups) == frozenset()


@given(
    st.lists(
        st.tuples(st.integers(1, FULL_FRAGMENT * 2), st.floats(0, 0.9)).map(
            lambda pair: (pair[0], int(pair[0] * pair[1]))
        ),
        max_size=12,
    )
)
def test_what_was_put_together_is_not_put_together_again(sizes: list[tuple[int, int]]) -> None:
    fragments = [FragmentState(number, rows, deleted) for number, (rows, deleted) in enumerate(sizes)]
    groups = groups_of(fragments, [])
    live = {each.number: each.live for each in fragments}
    gone = {number for group in groups for number in group}
    after = [each for each in fragments if each.number not in gone]
    after += [FragmentState(100 + place, sum(live[n] for n in group), 0) for place, group in enumerate(groups)]
    assert groups_of(after, []) == ()
    assert sum(each.live for each in after) == sum(live.values())


def test_a_fragment_with_values_of_a_dropped_column_is_written_anew_however_large_it_is() -> None:
    fragments = [FragmentState(number, LARGE, 0) for number in range(3)]
    assert groups_of(fragments, []) == ()
    assert groups_of(fragments, [], outdated={1}) == ((1,),)
    assert groups_of([FragmentState(0, 10, 0)], [], outdated={0}) == ((0,),)
