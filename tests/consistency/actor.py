"""A process of a scripted schedule: does one thing after the other as it is asked to, and says how each ended."""

import json
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import omnigraph as og
from omnigraph import failpoints
from tests.consistency import clocks, world
from tests.consistency.journal import Outcome, outcome_of


def _transfer(graph: og.Graph, by: str) -> None:
    """One from the first account to the second."""
    accounts = world.read_accounts(graph, graph.snapshot())
    (a_balance, a_seq), (b_balance, b_seq) = accounts["a0"], accounts["a1"]
    params = {
        "a": "a0",
        "a_id": f"a0/{a_seq + 1}",
        "a_balance": a_balance - 1,
        "a_seq": a_seq + 1,
        "b": "a1",
        "b_id": f"a1/{b_seq + 1}",
        "b_balance": b_balance + 1,
        "b_seq": b_seq + 1,
        "taken": -1,
        "given": 1,
        "by": by,
    }
    graph.mutate(world.TRANSFER, params=params)


def _load(graph: og.Graph, value: str) -> None:
    graph.load({"Element": pa.table({"value": [value], "batch": [value]})})


def _clean_up(graph: og.Graph, _: str) -> None:
    result = graph.cleanup(keep=1, grace="0s", confirm=True)
    if result.failed:
        raise og.StorageError(graph.uri, f"cleanup reports {result.failed}")


_VERBS: dict[str, Callable[[og.Graph, str], Any]] = {
    "transfer": _transfer,
    "add": lambda graph, value: graph.mutate(world.ADD, params={"value": value, "batch": value}),
    "load": _load,
    "clean up": _clean_up,
    "optimize": lambda graph, _: graph.optimize(),
    "repair": lambda graph, _: graph.repair(confirm=True, force=True),
    "open": lambda graph, _: graph.refresh(),
}


def main() -> None:
    clocks.mend_sleep()
    graph: og.Graph | None = None
    for line in sys.stdin:
        job = json.loads(line)
        try:
            with failpoints.armed(job.get("failpoints", "")):
                if graph is None or job["do"] == "open":
                    graph = og.open(job["uri"], storage_options=job["options"])
                _VERBS[job["do"]](graph, job.get("value", ""))
        except og.OmnigraphError as error:
            ended = {"outcome": outcome_of(error), "error": error.code, "text": str(error)}
        else:
            ended = {"outcome": Outcome.DONE, "error": "", "text": ""}
        sys.stdout.write(json.dumps(ended) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
