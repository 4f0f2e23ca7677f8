"""A shop whose customers and orders come as files, and the pipeline that brings them into a graph."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.pipelines import Pipeline, read_pipeline

SCHEMA = """
node Customer { number: I64 @key, name: String, country: String? }
node Product { sku: String @key }
edge Bought: Customer -> Product { quantity: I64, total: F64 }
"""
TEXT = """
pipeline: shop
sources:
  customers:
    files: landing/customers-*.csv
    increment: files
    columns: {number: bigint, name: string, country: string}
  orders:
    files: landing/orders-*.jsonl
    increment: files
    columns: {customer: bigint, sku: string, quantity: bigint, price: double}
views:
  products: select distinct sku from orders
  bought: |
    select customer, sku, sum(quantity) as quantity, sum(quantity * price) as total
    from orders group by customer, sku
nodes:
  Customer:
    view: customers
    properties: {number: number, name: trim(name), country: upper(country)}
  Product: {view: products}
edges:
  Bought:
    view: bought
    from: customer
    to: sku
    id: concat(customer, ' ', sku)
    properties: {quantity: quantity, total: total}
expectations:
  - {name: named, view: customers, check: "length(name) > 0", action: quarantine, allowed: 50%}
  - {name: priced, view: orders, check: price > 0}
missing_ends: quarantine
quarantine: rejected
"""


def make_shop(folder: Path, text: str = TEXT) -> tuple[og.Graph, Pipeline]:
    """An empty graph, and the pipeline with its first files."""
    (folder / "landing").mkdir()
    write_customers(folder, 1, [(1, "Ada", "uk"), (2, "", "de"), (3, " Bob ", "")])
    write_orders(folder, 1, [(1, "A", 2, 1.5), (1, "A", 1, 1.5), (3, "B", 5, 2.0), (9, "B", 1, 2.0)])
    (folder / "shop.yaml").write_text(text)
    return og.init(folder / "shop.omni", SCHEMA), read_pipeline(folder / "shop.yaml")


def write_customers(folder: Path, number: int, rows: Iterable[tuple[int, str, str]]) -> None:
    """A file of customers."""
    lines = [f'{key},"{name}",{country}' if name else f"{key},,{country}" for key, name, country in rows]
    (folder / f"landing/customers-{number}.csv").write_text("\n".join(["number,name,country", *lines]) + "\n")


def write_orders(folder: Path, number: int, rows: Iterable[tuple[int, str, int, float]]) -> None:
    """A file of orders."""
    names = ("customer", "sku", "quantity", "price")
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    (folder / f"landing/orders-{number}.jsonl").write_text("\n".join(lines) + "\n")


def content(graph: og.Graph) -> list[Mapping[str, Any]]:
    """Everything in the graph."""
    lines = graph.export(ordered=True)
    assert not isinstance(lines, int)
    return [json.loads(line) for line in lines]
