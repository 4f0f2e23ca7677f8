"""The commands that check, test and explain a rule file."""

from pathlib import Path

import typer

from omnigraph.cli.output import FAILED, plural, print_diagnostic, print_json, print_summary
from omnigraph.diagnostics import did_you_mean, printable, quoted
from omnigraph.errors import UsageError
from omnigraph.policy import Action, Decision, Policy, policy_of
from omnigraph.policy.actions import TYPED_ACTIONS
from omnigraph.policy.cedar import cedar_entities, cedar_schema
from omnigraph.policy.checking import CheckedRules, check_rules_file
from omnigraph.policy.deciding import ExpectationResult, run_expectations


def run_validate(file: Path, *, as_json: bool) -> int:
    """Prints all findings and a summary, and returns the exit code."""
    result = check_rules_file(file)
    if result.book is not None:
        Policy(result.book)
    errors = sum(finding.is_error for finding in result.diagnostics)
    problems = {"errors": errors, "warnings": len(result.diagnostics) - errors}
    counts = _counts(result)
    if as_json:
        findings = [finding.as_json() for finding in result.diagnostics]
        print_json({"ok": errors == 0, **problems, **counts, "findings": findings})
    else:
        for finding in result.diagnostics:
            print_diagnostic(finding)
        shown = {noun: count for noun, count in {**counts, **problems}.items() if count is not None}
        print_summary({noun.removesuffix("s"): count for noun, count in shown.items()}, failed=errors > 0)
    return FAILED if errors else 0


def run_test(file: Path, *, as_json: bool) -> int:
    """Prints the tests that fail and a summary, and returns the exit code."""
    found = run_expectations(policy_of(file))
    failed = [outcome for outcome in found if not outcome.passed]
    if as_json:
        tests = [outcome.as_json() for outcome in found]
        print_json({"ok": not failed, "passed": len(found) - len(failed), "failed": len(failed), "tests": tests})
    else:
        for outcome in failed:
            _print_failure(file, outcome)
        summary = f"{plural(len(found), 'test')}, {len(failed)} failed"
        typer.secho(summary, fg=typer.colors.RED if failed else typer.colors.GREEN)
    return FAILED if failed else 0


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
    """Prints whether one request would be allowed, and why."""
    if action not in list(Action):
        raise UsageError(f"there is no action {quoted(action)}; {did_you_mean(action, list(Action))}")
    asked = Action(action)
    if type is not None and asked not in TYPED_ACTIONS:
        raise UsageError(f"{quoted(asked)} is not about types; --type goes with {', '.join(TYPED_ACTIONS)}")
    policy = policy_of(file)
    decision = policy.decide(actor, asked, graph=graph, branch=branch, type=type)
    if as_json:
        request = {"actor": actor, "action": asked.value, "graph": graph, "branch": branch, "type": type}
        answer = {"decision": decision.word, "rules": list(decision.rules)}
        print_json({**request, **answer, **(_cedar_documents(policy) if cedar else {})})
        return
    typer.secho(_decision_text(decision), fg=typer.colors.GREEN if decision.allowed else typer.colors.RED)
    if cedar:
        typer.echo(f"\n{policy.cedar}", nl=False)


def _counts(result: CheckedRules) -> dict[str, int | None]:
    """How many rules, groups, actors and tests there are, if the file could be read."""
    book = result.book
    if book is None:
        return dict.fromkeys(("rules", "groups", "actors", "tests"))
    named = {actor for rule in book.rules for actor in rule.actors or ()}
    actors = named.union(*book.groups.values())
    return {"rules": len(book.rules), "groups": len(book.groups), "actors": len(actors), "tests": len(book.tests)}


def _decision_text(decision: Decision) -> str:
    if not decision.rules:
        return "deny: no rule permits it"
    return f"{decision.word}, because of {', '.join(quoted(rule) for rule in decision.rules)}"


def _cedar_documents(policy: Policy) -> dict[str, str]:
    """The inputs with which Cedar's own tools decide the same."""
    entities = cedar_entities(policy.book.groups)
    return {"cedar": policy.cedar, "cedar_schema": cedar_schema(), "cedar_entities": entities}


def _print_failure(file: Path, outcome: ExpectationResult) -> None:
    asked, test = outcome.test.request, outcome.test
    parts = {"actor": asked.actor, "graph": asked.graph or None, "branch": asked.branch, "type": asked.type}
    request = ", ".join([asked.action.value, *(f"{key} {value}" for key, value in parts.items() if value is not None)])
    expected = ("permit" if test.allowed else "deny") + (f" because of {quoted(test.rule)}" if test.rule else "")
    typer.echo(f"{file}:{test.line}: {printable(request)}")
    typer.echo(f"  expected {expected}, found {_decision_text(outcome.decision)}")
