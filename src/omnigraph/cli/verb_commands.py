"""The commands that are one verb each: which request they are, and what prints the result."""

import typer

from omnigraph.api import data, history, schema, upkeep
from omnigraph.cli.derived import VerbCommand, declare

branches = typer.Typer(help="The branches of a graph.", no_args_is_help=True, rich_markup_mode=None)
commits = typer.Typer(help="The history of a graph.", no_args_is_help=True, rich_markup_mode=None)
schemas = typer.Typer(help="The schema of a graph.", no_args_is_help=True, rich_markup_mode=None)
tags = typer.Typer(help="Names for commits, which they keep.", no_args_is_help=True, rich_markup_mode=None)

_GROUPS = {"branch": branches, "commit": commits, "schema": schemas, "tag": tags}
_COMMANDS = {
    "branch create": VerbCommand(
        request=history.BranchCreateRequest, module="branches", show="show_created", positional=("name",)
    ),
    "branch list": VerbCommand(request=history.BranchListRequest, module="branches", show="show_list"),
    "branch delete": VerbCommand(
        request=history.BranchDeleteRequest, module="branches", show="show_deleted", positional=("name",)
    ),
    "branch merge": VerbCommand(
        request=history.MergeRequest,
        module="branches",
        show="show_merged",
        positional=("source",),
        help="Merge a branch as one commit, or show all conflicts and exit with 3.",
    ),
    "tag create": VerbCommand(
        request=history.TagCreateRequest, module="tags", show="show_created", positional=("name",)
    ),
    "tag list": VerbCommand(request=history.TagListRequest, module="tags", show="show_list"),
    "tag show": VerbCommand(request=history.TagShowRequest, module="tags", show="show_one", positional=("name",)),
    "tag delete": VerbCommand(
        request=history.TagDeleteRequest, module="tags", show="show_deleted", positional=("name",)
    ),
    "commit show": VerbCommand(
        request=history.CommitShowRequest, module="graphs", show="show_commit", positional=("commit_id",)
    ),
    "schema show": VerbCommand(request=schema.SchemaShowRequest, module="schema", show="show_text"),
    "schema plan": VerbCommand(
        request=schema.SchemaPlanRequest,
        module="schema",
        show="show_plan",
        positional=("new",),
        help="Plan a change of the schema: its steps, what each costs, and the rows in the way. Nothing is changed. "
        "The exit code is 3 if the change is refused or rows are in the way.",
    ),
    "schema apply": VerbCommand(
        request=schema.SchemaApplyRequest, module="schema", show="show_applied", positional=("new",)
    ),
    "schema catch-up": VerbCommand(
        request=schema.SchemaCatchUpRequest, module="schema", show="show_applied", positional=("branch",)
    ),
    "embed": VerbCommand(request=data.EmbedRequest, module="embed", positional=("type",)),
    "status": VerbCommand(request=upkeep.StatusRequest, module="status"),
    "verify": VerbCommand(
        request=upkeep.VerifyRequest,
        module="verify",
        help="Find damaged files, and report which commits are whole; exit with 1 if anything is damaged.",
    ),
    "optimize": VerbCommand(request=upkeep.OptimizeRequest, module="optimize"),
    "repair": VerbCommand(
        request=upkeep.RepairRequest,
        module="repair",
        help="Report tables with versions that no commit made, or repair them; exit with 3 if one is refused.",
    ),
    "cleanup": VerbCommand(
        request=upkeep.CleanupRequest,
        module="cleanup",
        help="Report data that nobody needs any more, or remove it; exit with 3 if that is still to be confirmed.",
    ),
}


def declare_all(app: typer.Typer) -> None:
    """Adds the commands to an application."""
    for name, group in _GROUPS.items():
        app.add_typer(group, name=name)
    for words, command in _COMMANDS.items():
        group_name, _, name = words.rpartition(" ")
        declare(_GROUPS[group_name] if group_name else app, name, command)
