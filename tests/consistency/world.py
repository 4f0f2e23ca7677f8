"""The graph of the consistency suite: what is in it, how it is read, and what holds in each of its commits."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

import omnigraph as og
from omnigraph.versioning import Snapshot

ACCOUNTS = tuple(f"a{number}" for number in range(8))
SERIES = tuple(f"s{number}" for number in range(16))
GADGETS = {f"g{number}": 7 * number for number in range(12)}
OPENING_BALANCE = 1000
SCHEMA_STEPS = 5
_FIXED = """
node Account { name: String @key, balance: I64, seq: I64 }
node Entry { account: String, seq: I64, amount: I64, by: String }
node Element { value: String @index, batch: String }
node Series { name: String @key, items: [String] }
node Cell { name: String @key, value: String }
"""
_GADGETS = (
    ("Gadget", "node Gadget@FROM { name: String @key, value: I64 }", ' @rename_from("Gizmo")'),
    ("Gadget", "node Gadget { name: String @key, value: I64, extra: String? }", ""),
    ("Gadget", 'node Gadget { name: String @key, worth: I64 @rename_from("value") }', ""),
    ("Gizmo", 'node Gizmo @rename_from("Gadget") { name: String @key, worth: I64 }', ""),
    ("Gizmo", 'node Gizmo { name: String @key, value: I64 @rename_from("worth") }', ""),
)

TRANSFER = """
query transfer($a: String, $a_id: String, $a_balance: I64, $a_seq: I64, $b: String, $b_id: String, $b_balance: I64,
               $b_seq: I64, $taken: I64, $given: I64, $by: String) {
    update Account set { balance: $a_balance, seq: $a_seq } where name = $a
    update Account set { balance: $b_balance, seq: $b_seq } where name = $b
    insert Entry { id: $a_id, account: $a, seq: $a_seq, amount: $taken, by: $by }
    insert Entry { id: $b_id, account: $b, seq: $b_seq, amount: $given, by: $by }
}
"""
"""Two accounts and an entry for each, in two tables. A stale one meets an entry of its number, and is refused."""
ADD = "query add($value: String, $batch: String) { insert Element { value: $value, batch: $batch } }"
APPEND = "query append($name: String, $items: [String]) { update Series set { items: $items } where name = $name }"
PUT = "query put($name: String, $value: String) { insert Cell { name: $name, value: $value } }"
_ACCOUNTS = "query q { match { $a: Account } return { $a.name as name, $a.balance as balance, $a.seq as seq } }"
_LEDGER = """query q { match { $e: Entry } return {
    $e.account as name, sum($e.amount) as moved, count($e) as entries, max($e.seq) as last } }"""
_ENTRIES = "query q { match { $e: Entry } return { $e.id as id, $e.by as by } }"
_ELEMENTS = "query q { match { $e: Element } return { $e.value as value } }"
_SERIES = "query q { match { $s: Series } return { $s.name as name, $s.items as items } }"
_CELL = "query q($name: String) { match { $c: Cell { name: $name } } return { $c.value as value } }"


def schema_text(step: int, *, first: bool = False) -> str:
    """The schema at a step of the circle that it goes through; the first one has no name to come from."""
    _, text, origin = _GADGETS[step % SCHEMA_STEPS]
    return _FIXED + text.replace("@FROM", "" if first else origin) + "\n"


def schema_step(catalog: Any) -> int:
    """At which step of the circle a schema is."""
    name = "Gizmo" if "Gizmo" in catalog.nodes else "Gadget"
    properties = catalog.nodes[name].properties
    if name == "Gizmo":
        return 3 if "worth" in properties else 4
    return 2 if "worth" in properties else 1 if "extra" in properties else 0


def create(uri: str, options: dict[str, str] | None) -> None:
    """A new graph with its accounts, series and gadgets, and no elements."""
    graph = og.init(uri, schema_text(0, first=True), storage_options=options)
    accounts = [f'insert Account {{ name: "{name}", balance: {OPENING_BALANCE}, seq: 0 }}' for name in ACCOUNTS]
    series = [f'insert Series {{ name: "{name}", items: [] }}' for name in SERIES]
    gadgets = [f'insert Gadget {{ name: "{name}", value: {value} }}' for name, value in GADGETS.items()]
    graph.mutate(f"query begin {{ {' '.join([*accounts, *series, *gadgets])} }}")
    graph.ensure_indices()


@dataclass(frozen=True, slots=True)
class Account:
    """An account as its own row says, and what its entries add up to."""

    balance: int
    seq: int
    moved: int
    entries: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a commit of the graph has. `entries` and `elements` are read only where all is asked for."""

    accounts: dict[str, Account]
    series: dict[str, list[str]]
    gadgets: dict[str, int]
    entries: list[tuple[str, str]] = field(default_factory=list)
    elements: list[str] = field(default_factory=list)

    def digest(self) -> str:
        """The same for two states with the same content."""
        content = [
            sorted((name, each.balance, each.seq, each.moved, each.entries) for name, each in self.accounts.items()),
            sorted(self.series.items()),
            sorted(self.gadgets.items()),
            sorted(self.entries),
            sorted(self.elements),
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]

    def problems(self) -> list[str]:
        """What must hold in every commit of every branch, and does not."""
        found = []
        total = sum(each.balance for each in self.accounts.values())
        if sorted(self.accounts) != sorted(ACCOUNTS):
            found.append(f"the accounts are {sorted(self.accounts)}")
        if total != OPENING_BALANCE * len(ACCOUNTS):
            found.append(f"the accounts hold {total}")
        for name, each in self.accounts.items():
            if each.balance != OPENING_BALANCE + each.moved:
                found.append(f"{name} holds {each.balance}, and its entries add up to {OPENING_BALANCE + each.moved}")
            if not each.seq == each.entries == each.last:
                found.append(f"{name} is at {each.seq} and has {each.entries} entries up to {each.last}")
        if sorted(self.series) != sorted(SERIES):
            found.append(f"the series are {sorted(self.series)}")
        if self.gadgets != GADGETS:
            found.append(f"the gadgets are {self.gadgets}")
        return found


def read_state(graph: og.Graph, at: Snapshot | str, *, everything: bool = False) -> State:
    """What a snapshot, or a commit or tag by its name, has."""

    def rows(source: str) -> list[dict[str, Any]]:
        return graph.query(source, snapshot=at).rows()

    ledger = {row["name"]: row for row in rows(_LEDGER)}
    none = {"moved": 0, "entries": 0, "last": 0}
    accounts = {}
    for row in rows(_ACCOUNTS):
        sums = ledger.get(row["name"], none)
        if row["name"] in accounts:
            raise AssertionError(f"there are two accounts {row['name']}")
        accounts[row["name"]] = Account(row["balance"], row["seq"], sums["moved"], sums["entries"], sums["last"])
    return State(
        accounts=accounts,
        series={row["name"]: [*row["items"]] for row in rows(_SERIES)},
        gadgets=_gadgets(graph, at),
        entries=[(row["id"], row["by"]) for row in rows(_ENTRIES)] if everything else [],
        elements=[row["value"] for row in rows(_ELEMENTS)] if everything else [],
    )


def _gadgets(graph: og.Graph, at: Snapshot | str) -> dict[str, int]:
    step = schema_step(graph.schema.at(at).catalog)
    kind, value = _GADGETS[step][0], "worth" if step in (2, 3) else "value"
    source = f"query q {{ match {{ $g: {kind} }} return {{ $g.name as name, $g.{value} as value }} }}"
    return {row["name"]: row["value"] for row in graph.query(source, snapshot=at).rows()}


def read_accounts(graph: og.Graph, at: Snapshot) -> dict[str, tuple[int, int]]:
    """Balance and number of the last entry of each account."""
    rows = graph.query(_ACCOUNTS, snapshot=at).rows()
    return {row["name"]: (row["balance"], row["seq"]) for row in rows}


def read_series(graph: og.Graph, at: Snapshot, name: str) -> list[str]:
    """The items of a series."""
    (items,) = (row["items"] for row in graph.query(_SERIES, snapshot=at).rows() if row["name"] == name)
    return [*items]


def read_cell(graph: og.Graph, name: str, branch: str) -> str | None:
    """The value of a cell, if it is there."""
    rows = graph.query(_CELL, params={"name": name}, branch=branch).rows()
    return rows[0]["value"] if rows else None
