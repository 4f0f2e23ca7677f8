"""Names that say too little: functions named by a bare participle, and public classes that share a name.

`python -m tools.names` lists them and ends with 1 if there are any; `make lint` runs it. With `--lines` it also counts
the lines of the sources without docstrings.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

SOURCES = Path(__file__).parents[1] / "src"
_REGULAR = re.compile(r"[a-z]+ed")
_IRREGULAR = frozenset(
    [
        "begun",
        "bound",
        "broken",
        "brought",
        "built",
        "caught",
        "chosen",
        "done",
        "drawn",
        "driven",
        "forgotten",
        "found",
        "given",
        "gone",
        "got",
        "grown",
        "held",
        "hidden",
        "kept",
        "known",
        "laid",
        "led",
        "left",
        "lost",
        "made",
        "met",
        "paid",
        "said",
        "seen",
        "sent",
        "shown",
        "shut",
        "sought",
        "spent",
        "spoken",
        "stood",
        "stuck",
        "swept",
        "taken",
        "thought",
        "thrown",
        "told",
        "torn",
        "understood",
        "won",
        "worn",
        "written",
    ]
)
_NOT_PARTICIPLES = frozenset({"embed", "exceed", "feed", "need", "proceed", "seed", "speed"})
_STATES = frozenset({"property", "cached_property"})
"""A property that answers yes or no is named as the standard library names it: `file.closed`."""

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def is_bare_participle(name: str) -> bool:
    """Whether a name is one word that says what happened to something, and not what."""
    word = name.strip("_")
    return word in _IRREGULAR or (bool(_REGULAR.fullmatch(word)) and word not in _NOT_PARTICIPLES)


def _answers_a_state(function: _Function) -> bool:
    decorators = {ast.unparse(decorator) for decorator in function.decorator_list}
    return bool(decorators & _STATES) and function.returns is not None and ast.unparse(function.returns) == "bool"


def _definitions(sources: Path) -> Iterator[tuple[Path, _Function | ast.ClassDef]]:
    for path in sorted(sources.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, _Function | ast.ClassDef):
                yield path.relative_to(sources), node


def bare_participles(sources: Path = SOURCES) -> list[str]:
    """The functions whose name is a bare participle, each with its place."""
    return [
        f"{path}:{node.lineno} {node.name}"
        for path, node in _definitions(sources)
        if isinstance(node, _Function) and is_bare_participle(node.name) and not _answers_a_state(node)
    ]


def shared_class_names(sources: Path = SOURCES) -> list[str]:
    """The names that two public classes have, each with the modules."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, node in _definitions(sources):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            places[node.name].append(str(path))
    return [f"{name}: {', '.join(paths)}" for name, paths in sorted(places.items()) if len(paths) > 1]


def lines_without_docstrings(sources: Path = SOURCES) -> int:
    """How many lines the sources have, not counting docstrings."""
    count = 0
    for path in sources.rglob("*.py"):
        text = path.read_text()
        count += len(text.splitlines())
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | _Function):
                for statement in node.body:
                    match statement:
                        case ast.Expr(value=ast.Constant(value=str()), end_lineno=int(end)):
                            count -= end - statement.lineno + 1
    return count


def main(arguments: list[str]) -> int:
    """Lists what was found; gives the exit code."""
    participles, shared = bare_participles(), shared_class_names()
    report = [*participles, *shared, f"{len(participles)} bare participles, {len(shared)} shared class names"]
    if "--lines" in arguments:
        report.append(f"{lines_without_docstrings()} lines without docstrings")
    sys.stdout.write("\n".join(report) + "\n")
    return int(bool(participles or shared))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
