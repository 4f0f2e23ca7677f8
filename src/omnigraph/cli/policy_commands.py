"""Declares the commands about rule files.

As in `main`, a command imports what it needs in its body, and only there.
"""
# ruff: noqa: PLC0415, FBT002, PLR0917 - a flag of a command is a keyword for its user

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.options import AsJson

policies = typer.Typer(help="The rules on who may do what.", no_args_is_help=True, rich_markup_mode=None)

RuleFile = Annotated[Path, typer.Argument(metavar="FILE", help="The rule file (YAML).")]


def declare(app: typer.Typer) -> None:
    """Adds the commands to an application."""
    app.add_typer(policies, name="policy")


@policies.command("validate")
def policy_validate(file: RuleFile, as_json: AsJson = False) -> None:
    """Say all that is wrong with a rule file, and what is probably not meant.

    The exit code is 1 if something is wrong, else 0.
    """
    from omnigraph.cli import policy

    raise typer.Exit(policy.run_validate(file, as_json=as_json))


@policies.command("test")
def policy_test(file: RuleFile, as_json: AsJson = False) -> None:
    """Run the tests of a rule file, and show those that fail.

    The exit code is 1 if one fails, else 0.
    """
    from omnigraph.cli import policy

    raise typer.Exit(policy.run_test(file, as_json=as_json))


@policies.command("explain")
def policy_explain(
    file: RuleFile,
    action: Annotated[str, typer.Option(metavar="ACTION", help="What is asked for: read, change, ...")],
    actor: Annotated[
        str | None, typer.Option(metavar="ACTOR", help="Who asks; else somebody without a name.", show_default=False)
    ] = None,
    graph: Annotated[
        str, typer.Option(metavar="ID", help="In which graph; else one that no rule names.", show_default=False)
    ] = "",
    branch: Annotated[
        str | None, typer.Option(metavar="BRANCH", help="On which branch; else none in particular.", show_default=False)
    ] = None,
    type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Of which type; else none in particular.", show_default=False)
    ] = None,
    cedar: Annotated[bool, typer.Option("--cedar", help="Show the rules in the language of Cedar too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show whether a request would be allowed, and by which rules."""
    from omnigraph.cli import policy

    policy.run_explain(
        file, action=action, actor=actor, graph=graph, branch=branch, type=type, cedar=cedar, as_json=as_json
    )
