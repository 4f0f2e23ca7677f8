"""`python -m omnigraph` is `omnigraph`."""

from omnigraph.cli.main import run

run()
