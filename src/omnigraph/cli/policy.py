"""The commands that check, test and ask a rule file."""

from pathlib import Path

import typer

from omnigraph.cli.output import plural, print_diagnostic, print_json
from omnigraph.diagnostics import did_you_mean, printable, quoted
from omnigraph.errors import UsageError
from omnigraph.policy import Action, Decision, Policy, policy_of
from omnigraph.policy.cedar import cedar_entities, cedar_schema
from omnigraph.policy.checking import Checked, checked_file
from omnigraph.policy.rules import TYPED_ACTIONS
from omnigraph.policy.testing import Outcome, outcomes


def run_validate(file: Path, *, as_json: bool) -> int:
    """Prints all findings and a summary, and returns the exit code."""
    result = checked_file(file)
    if result.book is not None:
        Policy(result.book)
    errors = sum(finding.is_error for finding in result.diagnostics)
    counts = _counts(result)
    if as_json:
        warnings = len(result.diagnostics) - errors
        findings = [finding.as_json() for finding in result.diagnostics]
        print_json({"ok": errors == 0, "errors": errors, "warnings": warnings, **counts, "findings": findings})
        return 1 if errors else 0
    for finding in result.diagnostics:
        print_diagnostic(finding)
    shown = [plural(count, noun.removesuffix("s")) for noun, count in counts.items() if count is not None]
    summary = [*shown, plural(errors, "error"), plural(len(result.diagnostics) - errors, "warning")]
    typer.secho(", ".join(summary), fg=typer.colors.RED if errors else typer.colors.GREEN)
    return 1 if errors else 0


def run_test(file: Path, *, as_json: bool) -> int:
    """Prints the tests that fail and a summary, and returns the exit code."""
    found = outcomes(policy_of(file))
    failed = [outcome for outcome in found if not outcome.passed]
    if as_json:
        tests = [outcome.as_json() for outcome in found]
        print_json({"ok": not failed, "passed": len(found) - len(failed), "failed": len(failed), "tests": tests})
        return 1 if failed else 0
    for outcome in failed:
        _print_failure(file, outcome)
    summary = f"{plural(len(found), 'test')}, {len(failed)} failed"
    typer.secho(summary, fg=typer.colors.RED if failed else typer.colors.GREEN)
    return 1 if failed else 0


def run_explain(
    file: Path,
    *,
    action: str,
    actor: str | None,
    graph: str,
    branch: str | None,
    type: str | None,
    cedar: bool,
    as_json: bool,
) -> None:
    """Prints what becomes of one request and why."""
    asked = _action(action)
    if type is not None and asked not in TYPED_ACTIONS:
        raise UsageError(f"{quoted(asked)} is not about types; --type goes with {', '.join(TYPED_ACTIONS)}")
    policy = policy_of(file)
    decision = policy.decide(actor, asked, graph=graph, branch=branch, type=type)
    if as_json:
        request = {"actor": actor, "action": asked.value, "graph": graph, "branch": branch, "type": type}
        answer = {"decision": _word(decision), "rules": list(decision.rules)}
        print_json({**request, **answer, **(_cedar_documents(policy) if cedar else {})})
        return
    typer.secho(_explained(decision), fg=typer.colors.GREEN if decision.allowed else typer.colors.RED)
    if cedar:
        typer.echo(f"\n{policy.cedar}", nl=False)


def _counts(result: Checked) -> dict[str, int | None]:
    """How much there is of everything, if the file could be read."""
    book = result.book
    if book is None:
        return dict.fromkeys(("rules", "groups", "actors", "tests"))
    named = {actor for rule in book.rules for actor in rule.actors or ()}
    actors = named.union(*book.groups.values())
    return {"rules": len(book.rules), "groups": len(book.groups), "actors": len(actors), "tests": len(book.tests)}


def _action(name: str) -> Action:
    if name not in list(Action):
        raise UsageError(f"there is no action {quoted(name)}; {did_you_mean(name, list(Action))}")
    return Action(name)


def _word(decision: Decision) -> str:
    return "permit" if decision.allowed else "deny"


def _explained(decision: Decision) -> str:
    if not decision.rules:
        return "deny: no rule permits it"
    return f"{_word(decision)}, because of {', '.join(quoted(rule) for rule in decision.rules)}"


def _cedar_documents(policy: Policy) -> dict[str, str]:
    """What Cedar's own tools need to decide the same."""
    entities = cedar_entities(policy.book.groups)
    return {"cedar": policy.cedar, "cedar_schema": cedar_schema(), "cedar_entities": entities}


def _print_failure(file: Path, outcome: Outcome) -> None:
    asked, test = outcome.test.request, outcome.test
    parts = {"actor": asked.actor, "graph": asked.graph or None, "branch": asked.branch, "type": asked.type}
    request = ", ".join([asked.action.value, *(f"{key} {value}" for key, value in parts.items() if value is not None)])
    expected = ("permit" if test.allowed else "deny") + (f" because of {quoted(test.rule)}" if test.rule else "")
    typer.echo(f"{file}:{test.line}: {printable(request)}")
    typer.echo(f"  expected {expected}, and is {_explained(outcome.decision)}")
