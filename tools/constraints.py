"""Writes the versions that are installed to `constraints.txt`: names and numbers only.

`python -m tools.constraints` is run by `make constraints`. `pip freeze` would also write the addresses of packages that
were installed from a file or a repository.
"""

import re
import sys
from importlib.metadata import distributions
from pathlib import Path

TARGET = Path(__file__).parents[1] / "constraints.txt"
_HEADING = """\
# The versions that the tests passed with; `make` installs them. Refresh this file with `make constraints`.
"""
_NOT_CONSTRAINED = {"omnigraph", "pip", "setuptools", "wheel"}


def installed_versions() -> dict[str, str]:
    """The version of every distribution that is installed here, by its normalized name."""
    found = {re.sub(r"[-_.]+", "-", each.name).lower(): each.version for each in distributions()}
    return {name: found[name] for name in sorted(found.keys() - _NOT_CONSTRAINED)}


def main() -> int:
    """Writes the file; gives the exit code."""
    lines = [f"{name}=={version}\n" for name, version in installed_versions().items()]
    TARGET.write_text(_HEADING + "".join(lines))
    sys.stdout.write(f"{len(lines)} versions written to {TARGET.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
