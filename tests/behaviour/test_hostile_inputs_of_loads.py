"""Whatever is given to loaders, decoders of parameters and options, the answer is a result or a typed error."""

import json
import math
import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import omnigraph as og
from omnigraph.cli.main import app
from tests.behaviour.contents import lines_of

SCHEMA = """
node Thing {
    name: String @key, flag: Bool?, small: I32?, big: U64?, wide: F64?, narrow: F32?, day: Date?, at: DateTime?,
    bytes: Blob?, place: Vector(2)?, tags: [String]?, numbers: [I64]?, moments: [DateTime]?, kind: enum(a, b)?
}
node Room { building: String, number: I32, @key(building, number) }
edge Has: Thing -> Room { since: Date? }
"""
NAMES = ("name", "flag", "small", "big", "wide", "narrow", "day", "at", "bytes", "place", "tags", "numbers", "moments")
TRIALS = 60
MOMENT = datetime(1, 1, 1)  # noqa: DTZ001 - without a zone on purpose


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return og.init(tmp_path_factory.mktemp("hostile") / "graph.omni", SCHEMA, durability="fast")


def value(dice: random.Random, depth: int = 0) -> Any:
    """Something that may come as JSON, or as a Python object."""
    plain: list[Any] = [
        None, True, 0, -1, 2**31, 2**63, -(2**200), 10**400, 1.5, math.nan, math.inf, 1e300, "", "a", "\ud800", "\0",
        "2026-01-31", "2026-13-99", "9999-12-31T23:59:59.999999-14:00", "base64:", "base64:!", "base64:YQ==", "٣",
        "1" * 5_000, "NaN", "[" * 2_000, b"\xff", date(1, 1, 1), MOMENT, datetime(9999, 12, 31, tzinfo=UTC),
        1 + 2j, object(), (), {1, 2},
    ]  # fmt: skip
    if depth < 3 and dice.random() < 0.3:
        inner = [value(dice, depth + 1) for _ in range(dice.randrange(4))]
        return inner if dice.random() < 0.7 else {str(each)[:5]: each for each in inner}
    return dice.choice(plain)


def record(dice: random.Random) -> dict[Any, Any]:
    names: list[Any] = [*NAMES, "id", "", "no such", 1, None, b"x", ("a",)]
    weights = [8] * (len(NAMES) + 1) + [1] * 6
    return {name: value(dice) for name in dice.choices(names, weights, k=dice.randrange(1, 6))}


def damaged(dice: random.Random, content: bytes) -> bytes:
    """Some bytes changed, inserted, repeated or left out."""
    changed = bytearray(content)
    for _ in range(dice.choice([1, 1, 2, 5])):
        at = dice.randrange(len(changed) + 1)
        match dice.randrange(4):
            case 0 if at < len(changed):
                changed[at] ^= 1 << dice.randrange(8)
            case 1:
                changed[at:at] = dice.choice(
                    [b"\xff", b"\0", b'"', b"\n", b"{", b"}", b",", b"\\ud800", b"1e999", b"NaN"]
                )
            case 2:
                changed[at:at] = changed[: dice.randrange(len(changed) + 1)]
            case _:
                del changed[at : at + dice.choice([1, 8, len(changed)])]
    return bytes(changed)


ROW = {"name": "x", "small": 1, "wide": 1.5, "place": [1.0, 2.0], "tags": ["a"], "day": "2026-01-31", "flag": True}
LINES = b"".join(
    json.dumps(each).encode() + b"\n"
    for each in (
        {"type": "Thing", "data": ROW},
        {"type": "Room", "data": {"building": "b", "number": 1}},
        {"edge": "Has", "from": "x", "to": ["b", 1], "data": {"since": "2026-01-31"}},
    )
)
CELLS = b'name,small,wide,place,tags\nx,1,1.5,"[1, 2]","[""a""]"\ny,,,,\n'


def as_lines(dice: random.Random, folder: Path) -> Any:
    path = folder / "rows.jsonl"
    path.write_bytes(damaged(dice, LINES))
    return path


def as_cells(dice: random.Random, folder: Path) -> Any:
    path = folder / "rows.csv"
    path.write_bytes(damaged(dice, CELLS))
    return {"Thing": path}


def as_compressed(dice: random.Random, folder: Path) -> Any:
    path = folder / f"rows.jsonl{dice.choice(['.gz', '.zst', '.bz2'])}"
    with pa.CompressedOutputStream(path, {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}[path.suffix]) as stream:
        stream.write(LINES)
    path.write_bytes(damaged(dice, path.read_bytes()))
    return path


def as_parquet(dice: random.Random, folder: Path) -> Any:
    path = folder / "rows.parquet"
    pq.write_table(pa.Table.from_pylist([ROW]), path)
    path.write_bytes(damaged(dice, path.read_bytes()))
    return {"Thing": path}


def as_dictionaries(dice: random.Random, folder: Path) -> Any:
    return {"Thing": [record(dice) for _ in range(dice.randrange(1, 4))]}


def as_frame(dice: random.Random, folder: Path) -> Any:
    return {"Thing": pd.DataFrame([record(dice)])}


def as_anything(dice: random.Random, folder: Path) -> Any:
    given = value(dice)
    return given if dice.random() < 0.5 else {dice.choice(["Thing", "Has", "No", 1, None]): given}


FORMS = (as_lines, as_cells, as_compressed, as_parquet, as_dictionaries, as_frame, as_anything)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", FORMS)
def test_a_load_of_anything_is_a_result_or_a_typed_error(
    graph: og.Graph, tmp_path: Path, form: Callable[[random.Random, Path], Any]
) -> None:
    for seed in range(TRIALS):
        dice = random.Random(seed)  # noqa: S311 - not for secrets
        try:
            data = form(dice, tmp_path)
        except (ValueError, OverflowError, pa.ArrowException):
            continue  # what the other library itself refuses to make
        try:
            graph.load(data, mode=dice.choice(["append", "merge", "overwrite"]))
        except og.OmnigraphError:
            continue
        except Exception as error:
            raise AssertionError(f"seed {seed}: {data!r:.500}") from error
    assert all(json.loads(line) for line in lines_of(graph))


TYPES = (
    "String",
    "Bool",
    "I32",
    "U64",
    "F32",
    "F64",
    "Date",
    "DateTime",
    "Blob",
    "Vector(2)",
    "[String]",
    "[DateTime]",
)


@pytest.mark.parametrize("kind", TYPES)
def test_a_parameter_of_anything_is_a_result_or_a_typed_error(graph: og.Graph, kind: str) -> None:
    source = f"query q($x: {kind}?) {{ match {{ $t: Thing }} return {{ $t.name }} limit 1 }}"
    for seed in range(TRIALS):
        dice = random.Random(seed)  # noqa: S311 - not for secrets
        given: Any = {dice.choice(["x", "x", "x", "", 1, None, "\ud800"]): value(dice)}
        try:
            graph.query(source, "q", given)
        except og.OmnigraphError as error:
            str(error).encode(errors="surrogatepass")
        except Exception as error:
            raise AssertionError(f"seed {seed}: {given!r:.500}") from error


@pytest.mark.parametrize("option", ["--params", "--param"])
def test_an_option_of_anything_is_a_result_or_a_typed_error(graph: og.Graph, option: str) -> None:
    source = "query q($x: F64?) { match { $t: Thing } return { $t.name } limit 1 }"
    for seed in range(TRIALS // 2):
        dice = random.Random(seed)  # noqa: S311 - not for secrets
        text = damaged(dice, b'{"x": [1.5, {"a": null}]}' if option == "--params" else b"x=1.5").decode(
            errors="replace"
        )
        outcome = CliRunner().invoke(app, ["query", "-e", source, option, text, "--store", graph.uri])
        error = outcome.exception
        assert error is None or isinstance(error, og.OmnigraphError | SystemExit), (seed, text)
