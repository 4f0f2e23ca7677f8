"""Compares what the processes were told with what the graph has. It knows acknowledgements, and nothing else."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tests.consistency.journal import Kind, Operation, Outcome


def violations_of(operations: Iterable[Operation], content: Mapping[str, Any]) -> list[str]:
    """What the content of all branches lacks, or has and should not."""
    known = [*operations]
    main = content["main"]
    if main.get("unreadable"):
        return []
    return [*_elements(known, main), *_entries(known, main), *_series(known, main), *_branches(known, content)]


def _merged(operations: Iterable[Operation]) -> dict[str, Outcome]:
    """What is known of the merge of each branch; the best of several attempts."""
    merged: dict[str, Outcome] = {}
    for each in operations:
        if each.kind is Kind.MERGE and each.what.get("strategy") != "ours":
            name = each.what["branch"]
            outcomes = {each.outcome, merged.get(name, Outcome.REFUSED)}
            ranked = (Outcome.DONE, Outcome.UNKNOWN, Outcome.REFUSED)
            merged[name] = next(outcome for outcome in ranked if outcome in outcomes)
    return merged


def _expected(operation: Operation, merged: Mapping[str, Outcome]) -> Outcome:
    """What is known of an operation's effect on `main`."""
    branch = operation.what["branch"]
    if branch == "main" or operation.outcome is Outcome.REFUSED:
        return operation.outcome
    on_main = merged.get(branch, Outcome.REFUSED)
    return operation.outcome if on_main is Outcome.DONE else on_main


def _verdict(name: str, expected: Outcome, counts: list[int], error: str) -> list[str]:
    """What is wrong with the parts of one operation, each of which is there so many times."""
    if len({*counts}) > 1:
        return [f"{name} is there in part: {counts}"]
    count = counts[0]
    if expected is Outcome.DONE and count != 1:
        return [f"{name} was acknowledged, and is there {count} times"]
    if expected is Outcome.REFUSED and count != 0:
        return [f"{name} was refused ({error or 'never merged'}), and is there {count} times"]
    return [f"{name}, of unknown outcome, is there {count} times"] if count > 1 else []


def _elements(operations: list[Operation], main: Mapping[str, Any]) -> list[str]:
    there = Counter(main["elements"])
    merged, found, known = _merged(operations), [], set()
    for each in operations:
        if each.kind in (Kind.ADD, Kind.LOAD):
            values = each.what["values"]
            known |= {*values}
            name = f"{each.kind} of {values} on {each.what['branch']}"
            found += _verdict(name, _expected(each, merged), [there[value] for value in values], each.error)
    return found + [f"element {value} is there, and nobody has added it" for value in there.keys() - known]


def _entries(operations: list[Operation], main: Mapping[str, Any]) -> list[str]:
    there = Counter((id, by) for id, by in main["entries"])
    merged, found, known = _merged(operations), [], set()
    for each in operations:
        if each.kind is Kind.TRANSFER:
            keys = [(id, each.what["by"]) for id in each.what["entries"]]
            known |= {*keys}
            name = f"transfer {each.what['by']} on {each.what['branch']}, {each.what['entries']}"
            found += _verdict(name, _expected(each, merged), [there[key] for key in keys], each.error)
    return found + [f"entry {key} is there, and nobody has made it" for key in there.keys() - known]


def _series(operations: list[Operation], main: Mapping[str, Any]) -> list[str]:
    found, known = [], set()
    series: Mapping[str, list[str]] = main["series"]
    for each in operations:
        if each.kind is Kind.APPEND:
            name, token, index = each.what["series"], each.what["token"], each.what["index"]
            known.add(token)
            items = series[name]
            text = f"append of {token} to {name} at {index}"
            found += _verdict(text, each.outcome, [items.count(token)], each.error)
            if token in items and items.index(token) != index:
                found.append(f"{text} is at {items.index(token)}")
    tokens = {token for items in series.values() for token in items}
    return found + [f"item {token} is there, and nobody has appended it" for token in tokens - known]


def _branches(operations: list[Operation], content: Mapping[str, Any]) -> list[str]:
    """Branches that are there were created and not deleted, and have what was added to them."""
    found = []
    created = {each.what["create"]: each.outcome for each in operations if "create" in each.what}
    deleted = {each.what["delete"]: each.outcome for each in operations if "delete" in each.what}
    for name in content.keys() - {"main"}:
        if created.get(name, Outcome.REFUSED) is Outcome.REFUSED:
            found.append(f"branch {name} is there, and its creation was refused, or nobody asked for it")
        if deleted.get(name) is Outcome.DONE:
            found.append(f"branch {name} was deleted, and is there")
    for name, outcome in created.items():
        gone = name not in content and name not in deleted and not name.startswith("t")
        if outcome is Outcome.DONE and gone:
            found.append(f"branch {name} was created and never deleted, and is gone")
    for each in operations:
        branch: str = each.what.get("branch", "main")
        if each.kind in (Kind.ADD, Kind.LOAD) and branch != "main" and branch in content:
            there: Counter[str] = Counter(content[branch]["elements"])
            name = f"{each.kind} of {each.what['values']} on {branch}"
            found += _verdict(name, each.outcome, [there[value] for value in each.what["values"]], each.error)
    return found


def tag_violations(operations: Iterable[Operation], noted: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Tags that are gone or have another content than when they were made."""
    deleted = {each.what["delete"] for each in operations if each.kind is Kind.TAG and "delete" in each.what}
    return [
        f"tag {name} had {digest} when it was made, and has {found.get(name, 'nothing')}"
        for name, digest in noted.items()
        if found.get(name) != digest and (name in found or name not in deleted)
    ]
