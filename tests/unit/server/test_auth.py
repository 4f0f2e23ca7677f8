"""Whose token is whose, and what cannot be a token."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import UsageError
from omnigraph.server.auth import FILE_VARIABLE, JSON_VARIABLE, Tokens, environment_tokens, parse_tokens, read_tokens

ADA, BOB, OLD = "ada-0123456789abcdef", "bob-0123456789abcdef", "old-0123456789abcdef"


def given(**tokens: Any) -> Tokens:
    return parse_tokens(json.dumps(tokens), "tokens.json")


def test_a_token_says_who_its_actor_is() -> None:
    tokens = given(ada=ADA, bob=BOB)
    assert tokens.actor_of(ADA) == "ada"
    assert tokens.actor_of(BOB) == "bob"


def test_an_actor_may_have_several_tokens() -> None:
    tokens = given(ada=[ADA, OLD])
    assert tokens.actor_of(ADA) == tokens.actor_of(OLD) == "ada"


@pytest.mark.parametrize("token", ["", "ada", ADA[:-1], ADA + "x", ADA.upper(), "é" * 20, "\udc80" * 20])
def test_what_is_nobodys_token_has_no_actor(token: str) -> None:
    assert given(ada=ADA).actor_of(token) is None


def test_no_token_is_kept() -> None:
    assert ADA not in repr(given(ada=ADA))
    assert ADA.encode() not in repr(given(ada=ADA)).encode()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("", "not JSON"),
        ("[]", "an object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"ada": 1}', "not a string"),
        ('{"ada": null}', "not a string"),
        ('{"ada": ""}', "fewer than 16"),
        ('{"ada": "short"}', "fewer than 16"),
        ('{"ada": []}', "empty list"),
        ('{"ada": [["0123456789abcdef"]]}', "not a string"),
        ('{"ada": "0123456789 abcdef"}', "other than printable ASCII"),
        ('{"ada": "0123456789abcdefé"}', "other than printable ASCII"),
        ('{"": "0123456789abcdef"}', "name of an actor"),
        ('{"a\\nb": "0123456789abcdef"}', "name of an actor"),
        ('{"\\ud800": "0123456789abcdef"}', "surrogate"),
        ('{"ada": "0123456789abcdef", "bob": "0123456789abcdef"}', "`ada` and `bob` have the same token"),
        ('{"ada": "0123456789abcdef", "ada": "0123456789abcdeg"}', "twice"),
    ],
)
def test_what_cannot_be_tokens_is_refused_without_repeating_them(words: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as caught:
        parse_tokens(words, "tokens.json")
    assert "0123456789" not in str(caught.value)


def test_tokens_come_from_a_file_or_from_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"ada": ADA}))
    assert environment_tokens({FILE_VARIABLE: str(file)}).actor_of(ADA) == "ada"
    assert environment_tokens({JSON_VARIABLE: json.dumps({"bob": BOB})}).actor_of(BOB) == "bob"
    assert environment_tokens({}).is_empty
    with pytest.raises(UsageError, match="not both"):
        environment_tokens({FILE_VARIABLE: str(file), JSON_VARIABLE: "{}"})


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_tokens(tmp_path / "none")


@pytest.mark.parametrize(("mode", "warnings"), [(0o600, 0), (0o640, 0), (0o644, 1)])
def test_a_file_that_everybody_may_read_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warnings: int
) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"ada": ADA}))
    file.chmod(mode)
    with caplog.at_level(logging.WARNING):
        read_tokens(file)
    assert len(caplog.records) == warnings
