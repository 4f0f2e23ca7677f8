"""What commands about tags print."""

from collections.abc import Sequence

import typer
from rich.table import Table

from omnigraph.api.history import Tag, TagCreateRequest, TagDeleteRequest, TagListRequest, TagShowRequest
from omnigraph.cli.tables import id_column, print_wide, text_column


def show_created(result: Tag, request: TagCreateRequest) -> None:
    typer.echo(f"tagged commit {result.commit_id} of {result.branch} as {request.name}")


def show_one(result: Tag, request: TagShowRequest) -> None:  # noqa: ARG001 - the tag says it all
    for name, value in result.as_json().items():
        if value is not None:
            typer.echo(f"{name:24} {value}")


def show_list(result: Sequence[Tag], request: TagListRequest) -> None:  # noqa: ARG001 - it asks for all
    names = ("branch", "time", "by", "message")
    table = Table(text_column("tag"), id_column("commit"), *(text_column(name) for name in names))
    for tag in result:
        made = tag.created_at.strftime("%Y-%m-%d %H:%M:%S")
        table.add_row(tag.name, tag.commit_id, tag.branch, made, tag.actor or "", tag.message or "")
    print_wide(table)


def show_deleted(result: None, request: TagDeleteRequest) -> None:  # noqa: ARG001 - there is none
    typer.echo(f"deleted tag {request.name}")
