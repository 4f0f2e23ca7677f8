"""Writes the parser tables of both languages beside their grammars: `python -m tools.grammars`.

Computing them takes longer than opening a graph. They fit one version of Lark; with another, or with a changed grammar,
they are computed by each process.
"""

import io
from pathlib import Path

from omnigraph.syntax import language


def main() -> None:
    """Writes both files."""
    folder = Path(language.__file__).parent
    for each in (language.SCHEMA, language.QUERY):
        tables = io.BytesIO()
        language.build_parser(each).save(tables)
        (folder / each.tables).write_bytes(language.fingerprint(each) + b"\n" + tables.getvalue())


if __name__ == "__main__":
    main()
