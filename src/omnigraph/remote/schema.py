"""The schema of a remote graph: what it is, what it was, and how it changes.

A plan is worked out here once more, from the catalogs that the server tells: so its steps are those that they are
anywhere else. How many rows they are about, and which are in the way, only the server knows.
"""

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from omnigraph.catalog import Catalog, catalog_from_json
from omnigraph.diagnostics import Diagnostic, Source
from omnigraph.errors import SchemaChanged, UsageError
from omnigraph.evolution.apply import SchemaApplyResult
from omnigraph.evolution.migration import MigrationPlan, plan_between
from omnigraph.parts.engine import Report, no_report
from omnigraph.remote.asking import At, Door, known_engine, refuse_actor, state
from omnigraph.remote.decoding import decoded
from omnigraph.remote.values import Rows
from omnigraph.source_files import schema_text
from omnigraph.versioning import MAIN, Commit
from omnigraph.versioning.schemas import AcceptedSchema
from omnigraph.violations import Violation

_SENT = "<schema>"
"""What a server calls a text that it was sent."""
_ATTEMPTS = 3


class RemoteSchema:
    """The schema of a graph that a server has."""

    def __init__(self, door: Door) -> None:
        self._door = door

    @property
    def text(self) -> str:
        """The accepted schema of `main`, as it was written."""
        return self.at().text

    @property
    def catalog(self) -> Catalog:
        """What it means."""
        return self.at().catalog

    def at(self, at: At = None) -> AcceptedSchema:
        """The schema of `main`, or of a branch, a snapshot, commit, version or time."""
        document = self._door.get("schema", at=state(at))
        return AcceptedSchema(document["schema_id"], document["schema"], catalog_from_json(document["catalog"]))

    def plan(self, new: str | Path | Source, branch: str = MAIN) -> MigrationPlan:
        """What leads to another schema, a text or the path of one, with the rows that a branch has; changes nothing.

        The rows are checked by the rules that come.
        """
        source = _source(new)
        for _ in range(_ATTEMPTS):
            old = self.at(branch).catalog
            ask = self._door.ask(
                "schema",
                "plan",
                method="POST",
                body={"schema": source.text, "branch": branch},
                names={_SENT: source.name},
            )
            document = self._door.wire.document(ask)
            plan = _plan(document, old, source)
            if [step.as_json() for step in plan.steps] == document["steps"]:
                return plan
        raise SchemaChanged(branch)

    def diff(self, left: At, right: At) -> MigrationPlan:
        """What leads from the schema of one commit, branch or snapshot to that of another."""
        before, after = self.at(left), self.at(right)
        return plan_between(before.catalog, after.catalog, Source(f"schema {after.number}", after.text))

    def apply(
        self,
        new: str | Path | Source,
        *,
        allow_data_loss: bool = False,
        actor: str | None = None,
        if_commit: str | None = None,
        engine: str = "auto",
        report: Report = no_report,  # noqa: ARG002 - the work is done elsewhere
    ) -> SchemaApplyResult:
        """Makes a text, or the file that a path leads to, the schema of `main`, with its data, as one commit.

        What is dropped can still be read in the history; with `allow_data_loss`, it is removed from there too. Other
        branches keep the schema that they have. With `if_commit`, it is done only on top of that commit.
        """
        refuse_actor(actor)
        source = _source(new)
        body = {
            "schema": source.text,
            "allow_data_loss": allow_data_loss,
            "if_commit": if_commit,
            "engine": known_engine(engine),
        }
        document = self._door.post("schema", "apply", body=body, names={_SENT: source.name})
        return self._applied(document, MAIN, source)

    def catch_up(
        self,
        branch: str,
        *,
        actor: str | None = None,
        engine: str = "auto",
        report: Report = no_report,  # noqa: ARG002 - the work is done elsewhere
    ) -> SchemaApplyResult:
        """Gives a branch the schema of `main`, with its data, as one commit."""
        refuse_actor(actor)
        if branch == MAIN:
            raise UsageError(f"`{MAIN}` has no schema to catch up with; it is the one that others catch up with")
        document = self._door.post("schema", "catch-up", body={"branch": branch, "engine": known_engine(engine)})
        return self._applied(document, branch, None)

    def _applied(self, document: Mapping[str, Any], branch: str, source: Source | None) -> SchemaApplyResult:
        """What was done to a branch; its schemas before and after are those of the commit and of its parent."""
        commit = None if document["commit"] is None else decoded(Commit, document["commit"])
        accepted = self.at(branch if commit is None else commit.graph_commit_id)
        old = accepted if commit is None else self.at(commit.parent_commit_id)
        text = source or Source(f"schema of {MAIN}", accepted.text)
        return SchemaApplyResult(
            plan=_plan(document, old.catalog, text),
            schema=accepted,
            commit=commit,
            purged=tuple(document["purged"]),
        )


class KnownRows:
    """Makes rows out of JSON, by the schemas that states of a graph have. Any number of threads may ask."""

    def __init__(self, schema: RemoteSchema) -> None:
        self._schema = schema
        self._catalogs: dict[str, Catalog] = {}
        self._lock = threading.Lock()

    def at(self, *states: At) -> Rows:
        """Rows of these states; the last one has the names."""
        return Rows(*(self._schema.at(each).catalog for each in states))

    def of(self, *commits: Commit) -> Rows:
        """Rows of commits, by the schemas that they name, each of which is asked for once."""
        return Rows(*(self._catalog(each) for each in commits))

    def _catalog(self, commit: Commit) -> Catalog:
        with self._lock:
            known = self._catalogs.get(commit.schema_id)
        if known is None:
            known = self._schema.at(commit.graph_commit_id).catalog
            with self._lock:
                self._catalogs[commit.schema_id] = known
        return known


def _source(new: str | Path | Source) -> Source:
    text, name = schema_text(new)
    return Source(name, text)


def _plan(document: Mapping[str, Any], old: Catalog, source: Source) -> MigrationPlan:
    """The plan that leads from the old schema to that of the document."""
    rows: dict[int, int] = {}
    for step in document["steps"]:
        if step["cost"]["rows"] is not None:
            rows[step["identity"]] = step["cost"]["rows"]
    notes = [decoded(Diagnostic, each) for each in document["notes"]]
    return replace(
        plan_between(old, catalog_from_json(document["catalog"]), source).with_rows(rows),
        notes=tuple(replace(each, file=source.name if each.file == _SENT else each.file) for each in notes),
        violations=tuple(decoded(Violation, each) for each in document["violations"]),
        violation_count=document["violation_count"],
    )
