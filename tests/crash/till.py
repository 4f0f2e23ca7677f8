"""A shop whose tills write files, the pipeline that brings them into a graph, and a checker that knows only both ends.

Receipts and sales have no ids, and are appended: a row that is loaded twice is there twice, and one that is lost is
missing. Each batch reads one more file of receipts.
"""

import csv
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph import failpoints
from omnigraph.pipelines import inputs, read_pipeline

SCHEMA = """
node Customer { number: I64 @key, name: String }
node Product { sku: String @key }
node Receipt { number: I64, price: F64 }
edge Bought: Customer -> Product { receipt: I64 }
"""
TEXT = """
pipeline: till
sources:
  customers: {files: landing/customers.csv, increment: files, columns: {number: bigint, name: string}}
  products: {files: landing/products.csv, increment: files}
  receipts:
    files: landing/receipts-*.jsonl
    increment: files
    columns: {number: bigint, customer: bigint, sku: string, price: double}
nodes:
  Customer: {view: customers}
  Product: {view: products}
  Receipt: {view: receipts}
edges:
  Bought: {view: receipts, from: customer, to: sku, properties: {receipt: number}}
expectations:
  - {name: priced, view: receipts, check: price > 0, action: quarantine}
missing_ends: quarantine
quarantine: rejected
publish: {mode: append, review: REVIEW}
"""
CUSTOMERS, PRODUCTS, ROWS = 5, 3, 8
PROGRAM = """
import json, sys
from tests.crash.till import work
work(json.loads(sys.stdin.readline()))
"""


def make_till(folder: Path, files: int, *, is_reviewed: bool = False) -> Path:
    """An empty graph, the pipeline and its input; some receipts are wrong, unless the batches are reviewed."""
    (folder / "landing").mkdir(parents=True)
    customers = [f"{number},c{number}\n" for number in range(CUSTOMERS)]
    (folder / "landing/customers.csv").write_text("".join(["number,name\n", *customers]))
    products = [f"s{number}\n" for number in range(PRODUCTS)]
    (folder / "landing/products.csv").write_text("".join(["sku\n", *products]))
    for file in range(files):
        rows = [_receipt(file * ROWS + row, is_sound=is_reviewed) for row in range(ROWS)]
        (folder / f"landing/receipts-{file:03}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "till.yaml").write_text(TEXT.replace("REVIEW", "automatic" if is_reviewed else "none"))
    og.init(folder / "till.omni", SCHEMA, durability="fast").close()
    return folder


def _receipt(number: int, *, is_sound: bool) -> dict[str, Any]:
    unpriced, unknown = not is_sound and number % 11 == 3, not is_sound and number % 7 == 2
    return {
        "number": number,
        "customer": 999 if unknown else number % CUSTOMERS,
        "sku": f"s{number % PRODUCTS}",
        "price": 0.0 if unpriced else 1.5 * (number + 1),
    }


def work(job: dict[str, Any]) -> None:
    """What a process does: runs until nothing is new, unless it dies on the way."""
    inputs.MOST_FILES = 1
    folder = Path(job["folder"])
    sys.stdout.write("working\n")
    sys.stdout.flush()
    with failpoints.armed(job["failpoints"]), og.open(folder / "till.omni", durability="fast") as graph:
        pipeline = read_pipeline(folder / "till.yaml")
        while True:
            done = pipeline.run(graph, engine=job["engine"])
            if done.commit is None and not done.has_more:
                break
            sys.stdout.write(f"{done.batch}\n")
            sys.stdout.flush()
    sys.stdout.write("done\n")


# --- the checker ---


def problems_of(landing: Path, export: Iterable[str], batches: Iterable[int]) -> list[str]:
    """What is wrong with an export and a history, given the input: each row is there once, and each batch once."""
    expected, found = Counter(_expected(landing)), Counter(_found(export))
    lost = [f"lost {count} times: {row}" for row, count in (expected - found).items()]
    repeated = [f"there {count} times too often: {row}" for row, count in (found - expected).items()]
    files = len([*landing.glob("receipts-*.jsonl")])
    numbers = sorted(batches)
    history = [] if numbers == [*range(1, files + 1)] else [f"{files} files, and the batches {numbers}"]
    return [*lost, *repeated, *history]


def _expected(landing: Path) -> Iterator[tuple[Any, ...]]:
    """The rows of the graph that follow from the files."""
    known = set()
    with (landing / "customers.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            known.add(int(row["number"]))
            yield "Customer", int(row["number"]), row["name"]
    with (landing / "products.csv").open(newline="") as file:
        yield from (("Product", row["sku"]) for row in csv.DictReader(file))
    for path in sorted(landing.glob("receipts-*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if row["price"] > 0:
                yield "Receipt", row["number"], row["price"]
                if row["customer"] in known:
                    yield "Bought", str(row["customer"]), row["sku"], row["number"]


def _found(export: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """The rows of an export, without the ids that were made up."""
    for line in export:
        record = json.loads(line)
        data = record["data"]
        match record.get("type") or record["edge"]:
            case "Customer":
                yield "Customer", data["number"], data["name"]
            case "Product":
                yield "Product", data["sku"]
            case "Receipt":
                yield "Receipt", data["number"], data["price"]
            case edge:
                yield edge, record["from"], record["to"], data["receipt"]
