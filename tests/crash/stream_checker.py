"""Finds what is missing or doubled after streams were killed; it reads only their input and what was exported.

`python -m tests.crash.stream_checker KIND INPUT EXPORT COMMITS`: `INPUT` is the folder of the lines that were streamed
(one file a batch), or with `copies` the export of the graph whose changes were; `EXPORT` is what `omnigraph export`
wrote of the graph that was streamed to, and `COMMITS` is `omnigraph commit list --json`.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def check_appended(inputs: Path, exported: Path, commits: Path) -> list[str]:
    """Every line of the input is in the graph exactly once, and each file is the batch of one commit."""
    given = Counter(_text(row) for file in _files(inputs) for row in _rows(file))
    found = Counter(_text(row) for row in _entities(exported))
    return [*_differences(given, found), *check_batches(len(_files(inputs)), commits)]


def check_merged(inputs: Path, exported: Path, commits: Path) -> list[str]:
    """Every entity is there once, as the last line about it says, and each file is the batch of one commit."""
    last = {row["name"]: row for file in _files(inputs) for row in _rows(file)}
    found = Counter(_text(row) for row in _entities(exported))
    return [*_differences(Counter(map(_text, last.values())), found), *check_batches(len(_files(inputs)), commits)]


def check_copied(source: Path, exported: Path, commits: Path) -> list[str]:
    """The graph is equal to the one whose changes were streamed, and has one commit for each of its batches."""
    given, found = (Counter(_text(row) for row in _entities(file)) for file in (source, exported))
    return [*_differences(given, found), *check_batches(None, commits)]


def check_changes(changes: Iterable[Row], diffs: Iterable[Row]) -> list[str]:
    """A stream of changes has exactly the changes that lead from each state to the next one."""
    given, found = (Counter(map(_text, each)) for each in (diffs, changes))
    return _differences(given, found)


def check_batches(batches: int | None, commits: Path) -> list[str]:
    """Each batch of each application has one commit, in order; of one application there are so many batches."""
    keys: dict[str, list[int]] = {}
    for commit in reversed(json.loads(commits.read_text())):
        if commit.get("application") is not None:
            keys.setdefault(commit["application"], []).append(commit["batch"])
    problems = []
    for name, numbers in keys.items():
        if sorted(set(numbers)) != numbers:
            problems.append(f"the batches of {name} are not in order, or are there twice: {numbers}")
        if batches is not None and numbers != list(range(batches)):
            problems.append(f"{name} has the batches {numbers}, and not the {batches} of its input")
    return problems if keys else [*problems, "no commit has a batch"]


CHECKS: dict[str, Callable[[Path, Path, Path], list[str]]] = {
    "appended": check_appended,
    "merged": check_merged,
    "copies": check_copied,
}


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"), key=lambda file: int(file.stem))


def _rows(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text().splitlines() if line]


def _entities(exported: Path) -> list[Row]:
    """The values of exported entities, without ids that were made up, and without nulls, which inputs may leave out."""
    found = []
    for record in _rows(exported):
        values = record["data"] if "type" in record else {**record["data"], "from": record["from"], "to": record["to"]}
        found.append({name: value for name, value in values.items() if name != "id" and value is not None})
    return found


def _text(row: Row) -> str:
    return json.dumps({name: value for name, value in row.items() if value is not None}, sort_keys=True, default=str)


def _differences(given: Counter[str], found: Counter[str]) -> list[str]:
    missing, doubled = given - found, found - given
    return [
        *(f"missing {count} times: {row}" for row, count in sorted(missing.items())),
        *(f"there {count} times too often: {row}" for row, count in sorted(doubled.items())),
    ]


if __name__ == "__main__":
    kind, *paths = sys.argv[1:]
    problems = CHECKS[kind](*map(Path, paths))
    sys.stdout.write("\n".join(problems or ["every row is there exactly once"]) + "\n")
    sys.exit(bool(problems))
