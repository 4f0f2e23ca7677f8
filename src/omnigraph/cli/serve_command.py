"""Declares the command that serves graphs over HTTP."""
# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated

import typer


def declare(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("serve")(serve)


def serve(
    graphs: Annotated[
        list[str],
        typer.Argument(metavar="[ID=]URI...", help="The graphs; an id is else the last part of the URI."),
    ],
    *,
    bind: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 is any.")] = "127.0.0.1:8080",
    unauthenticated: Annotated[
        bool, typer.Option("--unauthenticated", help="Ask nobody for a token: everybody may do everything.")
    ] = False,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="OMNIGRAPH_POLICY", help="Rules: who may do what.", show_default=False),
    ] = None,
    max_body: Annotated[str, typer.Option(metavar="SIZE", help="The largest body of a request.")] = "16M",
    max_load: Annotated[str, typer.Option(metavar="SIZE", help="The largest body of a load.")] = "64G",
    actor_requests: Annotated[int, typer.Option(metavar="N", help="Requests of one actor at once.")] = 16,
    actor_bytes: Annotated[
        str, typer.Option(metavar="SIZE", help="Bodies of one actor at once, and rows of its queries.")
    ] = "1G",
    total_requests: Annotated[int, typer.Option(metavar="N", help="Requests of all at once.")] = 512,
    query_timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long a query may take.")] = 60,
    max_query_memory: Annotated[str, typer.Option(metavar="SIZE", help="Rows that a query reads and answers.")] = "2G",
    client_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long a client may neither send nor read.")
    ] = 60,
    grace: Annotated[float, typer.Option(metavar="SECONDS", help="How long requests may go on after SIGTERM.")] = 30,
    threads: Annotated[int, typer.Option(metavar="N", help="How much is worked on at once.")] = 32,
    spark: Annotated[
        bool, typer.Option("--spark", help="Let requests start Spark, which else none can: all runs in the process.")
    ] = False,
) -> None:
    """Serve graphs over HTTP.

    Tokens are given in $OMNIGRAPH_SERVER_BEARER_TOKENS_FILE or $OMNIGRAPH_SERVER_BEARER_TOKENS_JSON, as an object with
    a token, or a list of tokens, for each actor. The first line on stdout says where the server listens.
    """
    from omnigraph.cli.serve import run_serve

    run_serve(
        graphs,
        bind=bind,
        unauthenticated=unauthenticated,
        policy=policy,
        max_body=max_body,
        max_load=max_load,
        max_query_memory=max_query_memory,
        actor_bytes=actor_bytes,
        actor_requests=actor_requests,
        total_requests=total_requests,
        query_timeout=query_timeout,
        client_timeout=client_timeout,
        grace=grace,
        threads=threads,
        spark=spark,
    )
