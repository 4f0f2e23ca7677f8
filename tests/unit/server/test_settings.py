"""What a server may be told when it starts."""

import math
from typing import Any

import pytest

from omnigraph.cli.serve import size_in_bytes
from omnigraph.errors import UsageError
from omnigraph.server.auth import Tokens, parse_tokens
from omnigraph.server.settings import ServerSettings, parse_address, parse_graphs

TOKENS = parse_tokens('{"ada": "0123456789abcdef"}', "tokens")


def settings(**given: Any) -> ServerSettings:
    return ServerSettings(**{"graphs": {"people": "people.omni"}, "tokens": TOKENS, **given})


def test_graphs_are_named_by_their_places_or_as_they_are_told() -> None:
    given = ["people.omni", "s3://bucket/deep/towns.omni/", "mine=/a=b/people.omni", "a/b"]
    assert parse_graphs(given) == {
        "people": "people.omni",
        "towns": "s3://bucket/deep/towns.omni/",
        "mine": "/a=b/people.omni",
        "b": "a/b",
    }


@pytest.mark.parametrize("given", [["a/x.omni", "b/x.omni"], ["x=a", "x=b"], ["x", "x=b"]])
def test_two_graphs_need_two_ids(given: list[str]) -> None:
    with pytest.raises(UsageError, match="two graphs have the id `x`"):
        parse_graphs(given)


@pytest.mark.parametrize("given", ["..", ".", "a/ü", "a b", "x" * 65, ".hidden=a"])
def test_what_cannot_be_an_id_needs_one(given: str) -> None:
    with pytest.raises(UsageError, match="ID=URI"):
        parse_graphs([given])


def test_a_server_is_never_open_by_accident() -> None:
    with pytest.raises(UsageError, match="no tokens"):
        settings(tokens=Tokens())
    with pytest.raises(UsageError, match="not both"):
        settings(unauthenticated=True)
    assert settings(tokens=Tokens(), unauthenticated=True).unauthenticated


@pytest.mark.parametrize("name", ["max_body_bytes", "actor_requests", "query_timeout", "threads", "client_timeout"])
@pytest.mark.parametrize("value", [0, -1, math.nan])
def test_limits_are_above_zero(name: str, value: float) -> None:
    with pytest.raises(UsageError, match="above 0"):
        settings(**{name: value})


def test_there_is_a_graph_and_grace_may_be_none() -> None:
    with pytest.raises(UsageError, match="at least one"):
        settings(graphs={})
    with pytest.raises(UsageError, match="grace"):
        settings(grace_seconds=-1)
    assert settings(grace_seconds=0).grace_seconds == 0


@pytest.mark.parametrize(
    ("bind", "address"),
    [("127.0.0.1:8080", ("127.0.0.1", 8080)), ("[::1]:0", ("::1", 0)), ("localhost:65535", ("localhost", 65535))],
)
def test_an_address_is_a_host_and_a_port(bind: str, address: tuple[str, int]) -> None:
    assert parse_address(bind) == address


@pytest.mark.parametrize("bind", ["", "8080", ":8080", "host:", "host:x", "host:65536", "host:-1", "host:٣"])
def test_what_is_no_address_is_refused(bind: str) -> None:
    with pytest.raises(UsageError, match="--bind"):
        parse_address(bind)


@pytest.mark.parametrize(
    ("size", "count"), [("1", 1), ("16M", 16 * 2**20), ("1.5g", 3 * 2**29), ("64KiB", 2**16), ("2TB", 2**41)]
)
def test_sizes_have_units(size: str, count: int) -> None:
    assert size_in_bytes(size, "--max-body") == count


@pytest.mark.parametrize("size", ["", "0", "-1", "M", "1X", "nan", "inf", "1e400", "9999999T"])
def test_what_is_no_size_is_refused(size: str) -> None:
    with pytest.raises(UsageError, match="--max-body"):
        size_in_bytes(size, "--max-body")
