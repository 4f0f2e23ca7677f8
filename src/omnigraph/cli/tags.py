"""The commands that create, list and delete tags."""

import typer
from rich.table import Table

from omnigraph.cli.opening import opened
from omnigraph.cli.output import print_json
from omnigraph.cli.tables import id_column, print_wide, text_column


def run_create(
    uri: str, name: str, at: str, *, message: str | None, actor: str | None, durability: str | None, as_json: bool
) -> None:
    """Creates a tag."""
    commit = int(at) if at.isdecimal() else at
    with opened(uri, durability=durability) as graph:
        tag = graph.tags.create(name, commit, message=message, actor=actor)
    if as_json:
        print_json(tag.as_json())
    else:
        typer.echo(f"tagged commit {tag.commit_id} of {tag.place.branch} as {name}")


def run_list(uri: str, *, as_json: bool) -> None:
    """Lists the tags."""
    with opened(uri, "r") as graph:
        tags = graph.tags.list()
    if as_json:
        print_json([tag.as_json() for tag in tags])
        return
    table = Table(
        text_column("tag"),
        id_column("commit"),
        text_column("branch"),
        "time",
        text_column("by"),
        text_column("message"),
    )
    for tag in tags:
        made = tag.created_at.strftime("%Y-%m-%d %H:%M:%S")
        table.add_row(tag.name, tag.commit_id, tag.place.branch, made, tag.actor or "", tag.message or "")
    print_wide(table)


def run_delete(uri: str, name: str, *, durability: str | None, as_json: bool) -> None:
    """Deletes a tag."""
    with opened(uri, durability=durability) as graph:
        graph.tags.delete(name)
    if as_json:
        print_json({"deleted": name})
    else:
        typer.echo(f"deleted tag {name}")
