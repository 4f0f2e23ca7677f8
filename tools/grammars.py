"""Writes the parser tables of both languages beside their grammars: `python -m tools.grammars`.

Computing them takes longer than opening a graph. They fit one grammar, and those of Lark fit one version of Lark. With
another, they are computed by each process that needs them.
"""

import json
import re
from io import BytesIO
from pathlib import Path
from typing import Any

from lark import Lark
from lark.lexer import PatternStr

from omnigraph.syntax import Language, language, lark_parser


def main() -> None:
    """Writes both files."""
    folder = Path(language.__file__).parent
    for each in (language.SCHEMA, language.QUERY):
        (folder / each.tables).write_bytes(encode_tables(each))


def encode_tables(spoken: Language) -> bytes:
    """The file of the tables of a language.

    The first line is the fingerprint of Lark's own tables, which are the last part. Between these are two lines for
    `tables.py`: the fingerprint of the grammar, and its tables.
    """
    parser = lark_parser.build_parser(spoken)
    saved = BytesIO()
    parser.save(saved)
    plain = json.dumps(_plain_tables(parser), separators=(",", ":")).encode()
    return b"\n".join([lark_parser.fingerprint(spoken), language.grammar_print(spoken), plain, saved.getvalue()])


def _plain_tables(parser: Lark) -> dict[str, Any]:
    table: Any = parser.parser.parser._parse_table
    rules = {rule: number for number, rule in enumerate(parser.rules)}
    states: list[dict[str, int]] = [{} for _ in table.states]
    for state, actions in table.states.items():
        for symbol, (action, argument) in actions.items():
            states[state][symbol] = argument if action.name == "Shift" else -rules[argument] - 1
    ordered = sorted(parser.terminals, key=lambda each: (-each.pattern.max_width, -len(each.pattern.value), each.name))
    assert not any(each.priority or each.pattern.flags for each in ordered)
    ignored = [each for each in ordered if each.name in parser.ignore_tokens]
    ordered = [each for each in ordered if each not in ignored]
    fixed = {each.name: each.pattern.value for each in ordered if isinstance(each.pattern, PatternStr)}
    patterns = {each.name: each.pattern.to_regexp() for each in ordered if each.name not in fixed}
    return {
        "start": table.start_states["start"],
        "end": table.end_states["start"],
        "order": [each.name for each in ordered],
        "fixed": fixed,
        "patterns": patterns,
        "words": {
            name: words
            for name, pattern in patterns.items()
            if (words := {text: word for word, text in fixed.items() if re.fullmatch(pattern, text)})
        },
        "blank": f"(?:{'|'.join(each.pattern.to_regexp() for each in ignored)})+",
        "rules": [_plain_rule(rule) for rule in parser.rules],
        "states": states,
    }


def _plain_rule(rule: Any) -> list[Any]:
    """A rule as `tables.Reduction` has it."""
    plan = []
    missing = "".join("1" if each else "0" for each in rule.options.empty_indices or ()) or "0" * len(rule.expansion)
    left_out = [len(ones) for ones in missing.split("0")]
    for at, symbol in enumerate(rule.expansion):
        plan += [-1] * left_out[at]
        if not (symbol.is_term and symbol.filter_out):
            plan.append(2 * at + (not symbol.is_term and symbol.name.startswith("_")))
    plan += [-1] * left_out[len(rule.expansion)]
    stays = plan == [2 * at for at in range(len(rule.expansion))]
    return [
        rule.origin.name,
        len(rule.expansion),
        None if rule.origin.name.startswith("_") else rule.alias or rule.origin.name,
        rule.options.expand1 and not rule.alias,
        None if stays else plan,
    ]


if __name__ == "__main__":
    main()
