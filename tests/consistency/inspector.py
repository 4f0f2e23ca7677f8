"""A fresh process that reads all of the graph when the others have ended, and tries each verb once.

It prints one JSON object: what is there, what it found wrong by itself, and which verbs no longer work.
"""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa

import omnigraph as og
from tests.consistency import world


def inspect(uri: str, options: dict[str, str] | None) -> dict[str, Any]:
    """What the graph has, once everything that dead processes left is settled."""
    problems: list[str] = []
    graph = og.open(uri, storage_options=options)
    if pending := graph.recoveries.pending():
        problems.append(f"{len(pending)} sidecars are left after the graph was opened for writing: {pending}")
    content = {info.name: _content(graph, info.name, problems) for info in graph.branches.list()}
    tags = {}
    for tag in graph.tags.list():
        try:
            tags[tag.name] = world.read_state(graph, tag.name, everything=True).digest()
        except og.OmnigraphError as error:
            problems.append(f"tag {tag.name} cannot be read: {error.code}: {error}")
    for recovery in graph.recoveries.list():
        if recovery.recovery_kind == "RolledBack" and _has_commit(graph, recovery.operation_id):
            problems.append(f"the audit says that {recovery.operation_id} was undone, and the history has it")
    drifted = [each.as_json() for each in graph.repair().tables if each.action != "none"]
    if drifted:
        problems.append(f"tables have versions that no commit made: {drifted}")
    problems += _try_verbs(graph)
    after = _content(graph, "main", problems)
    for name in ("entries", "elements"):
        lost = {*map(str, content["main"][name])} - {*map(str, after[name])}
        if lost:
            problems.append(f"{name} that upkeep at the end has lost: {sorted(lost)}")
    return {"content": content, "tags": tags, "problems": problems}


def _content(graph: og.Graph, branch: str, problems: list[str]) -> dict[str, Any]:
    try:
        state = world.read_state(graph, graph.snapshot(branch), everything=True)
    except og.OmnigraphError as error:
        problems.append(f"branch {branch} cannot be read: {error.code}: {error}")
        return {"elements": [], "entries": [], "series": {}, "unreadable": True}
    problems += [f"branch {branch}: {problem}" for problem in state.problems()]
    return {"elements": state.elements, "entries": state.entries, "series": state.series}


def _has_commit(graph: og.Graph, commit_id: str) -> bool:
    with suppress(og.NotFound):
        return graph.commits.show(commit_id).graph_commit_id == commit_id
    return False


def _try_verbs(graph: og.Graph) -> list[str]:
    """Every verb works, now that nobody is in its way."""
    graph.refresh()
    step = world.schema_step(graph.schema.catalog) + 1
    table = pa.table({"value": ["last loaded"], "batch": ["last"]})
    accounts = world.read_accounts(graph, graph.snapshot())
    (balance, seq), name = accounts["a0"], "a0"
    entry = f'insert Entry {{ id: "{name}/{seq + 1}", account: "{name}", seq: {seq + 1}, amount: 0, by: "last" }}'
    account = f'update Account set {{ balance: {balance}, seq: {seq + 1} }} where name = "{name}"'
    series = world.read_series(graph, graph.snapshot(), "s0")
    verbs: dict[str, Callable[[], object]] = {
        "mutate": lambda: graph.mutate(f"query last {{ {account} {entry} }}"),
        "add": lambda: graph.mutate(world.ADD, params={"value": "last added", "batch": "last"}),
        "append": lambda: graph.mutate(world.APPEND, params={"name": "s0", "items": [*series, "last"]}),
        "put": lambda: graph.mutate(world.PUT, params={"name": "last", "value": "last"}),
        "load": lambda: graph.load({"Element": table}),
        "create a branch": lambda: graph.branches.create("last"),
        "write to a branch": lambda: graph.mutate(
            world.ADD, params={"value": "last merged", "batch": "last"}, branch="last"
        ),
        "merge": lambda: graph.merge("last"),
        "delete a branch": lambda: graph.branches.delete("last"),
        "change the schema": lambda: graph.schema.apply(world.schema_text(step)),
        "optimize": graph.optimize,
        "index": graph.ensure_indices,
        "tag": lambda: graph.tags.create("last"),
        "clean up": lambda: _cleaned(graph),
    }
    failed = []
    for verb, run in verbs.items():
        try:
            run()
        except og.OmnigraphError as error:
            failed.append(f"nobody else is at work, and it is not possible to {verb}: {error.code}: {error}")
    return failed


def _cleaned(graph: og.Graph) -> None:
    result = graph.cleanup(keep=1, grace="0s", confirm=True)
    if result.failed:
        raise og.StorageError(graph.uri, f"cleanup reports {result.failed}")


def main() -> None:
    job = json.loads(sys.argv[1])
    sys.stdout.write(json.dumps(inspect(job["uri"], job["options"])))


if __name__ == "__main__":
    main()
