"""How long a person waits for `omnigraph --help`."""

import subprocess
import sys
from pathlib import Path

from benchmarks.measure import Figure, medians


def figures() -> list[Figure]:
    """The cold command line against a bare interpreter and Typer's own import."""

    def python(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True)

    def omnigraph_help() -> None:
        command = [str(Path(sys.executable).with_name("omnigraph")), "--help"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    seconds = medians(
        {"bare": lambda: python("pass"), "typer": lambda: python("import typer"), "help": omnigraph_help}, rounds=15
    )
    bare, typer = seconds["bare"], max(0.0, seconds["typer"] - seconds["bare"])
    return [
        Figure(
            name="cold `omnigraph --help` / (bare python + import typer)",
            value=seconds["help"] / (bare + typer),
            unit="x",
            bound=3.0,
            raw=f"{seconds['help'] * 1e3:.0f} ms; bare {bare * 1e3:.0f} ms, import typer {typer * 1e3:.0f} ms",
        ),
        Figure(
            name="cold `omnigraph --help` / (3 x bare python + import typer)",
            value=seconds["help"] / (3 * bare + typer),
            unit="x",
            bound=1.0,
            raw="the stricter reading of the same bound",
        ),
    ]
