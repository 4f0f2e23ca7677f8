"""`make bench`: every figure, with what was asked of it."""

import json
import sys

from rich.console import Console
from rich.table import Table

from benchmarks import languages, reads, recovery, startup, writes


def main() -> int:
    figures = [*languages.figures(), *startup.figures(), *writes.figures(), *recovery.figures(), *reads.figures()]
    if "--json" in sys.argv:
        print(
            json.dumps(
                [{"name": each.name, "value": each.value, "bound": each.bound, "raw": each.raw} for each in figures]
            )
        )
    else:
        table = Table("figure", "measured", "asked", "raw")
        for each in figures:
            color = "green" if each.holds else "red"
            table.add_row(
                each.name, f"[{color}]{each.value:.2f} {each.unit}", f"<= {each.bound:g} {each.unit}", each.raw
            )
        Console().print(table)
    return 0 if all(each.holds for each in figures) else 1


sys.exit(main())
