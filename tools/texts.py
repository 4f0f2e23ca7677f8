"""Words that readers in a hurry stumble over, in the strings, docstrings and comments of the sources and in the docs.

`python -m tools.texts [PATH ...]` lists them with what to write instead and ends with 1 if there are any; `make lint`
runs it over everything. Code in Markdown is not looked at.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
AVOIDED: dict[str, str] = {
    r"\banew\b": "again",
    r"(?<![Tt]here )\b(?:is|are|was|be) no (?!(?:longer|more|less|later|earlier|other)\b)[a-z]\w*": "is not a …",
    r"(?<!or )(?<!thing )(?<!one )(?<!body )(?<!where )\belse\b(?! (?:if|where|true)\b)": "otherwise",
    r"\bput aside\b": "staged, spilled",
    r"\btold\b": "given, reported",
    r"\bso many\b": "a number, or the parameter's name",
    r"\ba lot\b": "the number or the threshold",
    r"\bnobody in particular\b": "the anonymous actor",
    r"\bas it should be\b": "what was expected",
    r"\b[Ww]hat becomes of\b": "how … is treated",
    r"\bHow (?:a|the) \w+ is\b": "the health, the state",
    r"\bof (?:its|their) own accord\b": "automatically",
    r"\bnought\b|\bwhence\b|\bthereof\b|\bhitherto\b|\blest\b|\bere\b": "a plain word",
}
_PATTERNS = [(re.compile(pattern), instead) for pattern, instead in AVOIDED.items()]
_FENCE = re.compile(r"^\s*(```|~~~)")
_INLINE_CODE = re.compile(r"`[^`]*`")


def find_in_text(text: str) -> Iterator[tuple[str, str]]:
    """The words to avoid in one piece of text, with what to write instead."""
    for pattern, instead in _PATTERNS:
        for match in pattern.finditer(text):
            yield match[0], instead


def _python_texts(source: str) -> Iterator[tuple[int, str]]:
    """The texts of a module line by line: strings that read as prose, and comments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            for offset, line in enumerate(node.value.splitlines()):
                yield node.lineno + offset, _INLINE_CODE.sub("", line)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _markdown_texts(source: str) -> Iterator[tuple[int, str]]:
    inside = False
    for number, line in enumerate(source.splitlines(), 1):
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            yield number, _INLINE_CODE.sub("", line)


def find_in_file(path: Path) -> Iterator[str]:
    """The words to avoid in a file, each with its line."""
    source = path.read_text()
    texts = _markdown_texts(source) if path.suffix == ".md" else _python_texts(source)
    for number, text in texts:
        for word, instead in find_in_text(text):
            yield f"{path}:{number}: {word!r}: write {instead}"


def _files(arguments: list[str]) -> Iterator[Path]:
    roots = [Path(each) for each in arguments] or [ROOT / "src", ROOT / "docs", *ROOT.glob("*.md")]
    for root in roots:
        yield from [root] if root.is_file() else sorted([*root.rglob("*.py"), *root.rglob("*.md")])


def main(arguments: list[str]) -> int:
    """Lists what was found; gives the exit code."""
    findings = sorted({finding for path in _files(arguments) for finding in find_in_file(path)})
    sys.stdout.write("\n".join([*findings, f"{len(findings)} words to avoid"]) + "\n")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
