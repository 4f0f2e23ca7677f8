"""What people write who know Cypher, SQL or the like, and what to write in one of the two languages."""

import re
from functools import cache

from omnigraph.dataclass_later import dataclass
from omnigraph.syntax.language import QUERY, SCHEMA, Language, grammar_of

_RANGE = "a range is written `$x.p >= 1 and $x.p <= 9`"
_CONDITION = (
    "conditions are clauses of `match`: `match { $x: Type  $x.p > 3 }`; those of groups stand in `having { … }`"
)
READ_HINT = "a query is written `match { $x: Type } return { $x.p }`"
WHICH_HINT = "`where` says which; for all nodes of a type, write `match { $x: Type }` before, and `$x` for the type"
_END_OF_TEXT = 'the end of a text is compared by `substring($x.p, length($x.p) - 2) = "ly"`'
_EDGE = "an edge is a word between two variables: `$a knows $b`"
_PATH = "a path is written `$path: shortest $a knows{1,6} $b`"
_PART_OF_TIME = "a part of a day or an instant is computed: `year($x.date)`"
_CAST = "a value is converted by `cast($x.p as String)`"
_DOLLAR = "a variable begins with a dollar: `$x`, `$x.p`"
_LIKE = "parts of a text are found by `contains` and `starts_with`"
_NO_DIGITS = "there is none, because its last digits would differ between engines; compute it of the result"
_TYPES = "types are known from the query, and all properties are `$x.*`"
_PATH_VALUES = "a path has values: `$path.nodes`, `$path.edges`, `$path.length`"
_PATTERN = "a pattern is asked for by `exists { … }` and `count { … }`"

_DECLARED_EDGE = "an edge is declared `edge Knows: Person -> Company`"
_DECLARED_NODE = "a type is declared `node Person { name: String @key }`"
_NULLABLE = "a property may be null if its type ends with `?`, and has a value otherwise"
_LIST = "a list is written `[String]`"

_WORDS_OF_QUERIES = {
    "is": "null is found by `is null` and `is not null`",
    "between": _RANGE,
    "by": "the order is written in braces: `order { $x.p desc }`",
    "exist": "a pattern is asked for by `exists { … }`",
    "optional": "what may be missing is written `optional { … }`",
    "like": _LIKE,
    "ilike": f"{_LIKE}, of `lower($x.p)` in any case",
    "where": _CONDITION,
    "select": READ_HINT,
    "from": READ_HINT,
    "create": "a node or an edge is added by `insert Type { … }`",
    "merge": "`insert` of a node with a key changes the one that is there",
    "set": "values are changed by `update Type set { … } where …`",
    "skip": "the first rows are left out by `offset`",
    "group": "rows are grouped by the columns without an aggregate",
    "starts": "this operator is one word: `starts_with`",
    "ends": _END_OF_TEXT,
    "ends_with": _END_OF_TEXT,
    "xor": "write `(…) != (…)`",
    "unwind": "what is in a list is found by `$x.p in $list`",
    "call": "there are no procedures; a stage ends by `with { … }`",
    "or": "patterns are joined by `exists { … } or exists { … }`",
    "and": "clauses follow each other, and patterns in a condition are joined by `exists { … } and exists { … }`",
}
_WORDS_OF_SCHEMAS = {
    "create": _DECLARED_NODE,
    "table": _DECLARED_NODE,
    "type": _DECLARED_NODE,
    "from": _DECLARED_EDGE,
    "to": _DECLARED_EDGE,
    "not": _NULLABLE,
    "null": _NULLABLE,
    "primary": "the key of a node is marked by `@key`",
    "unique": "values that differ are marked by `@unique`",
    "default": "a default is written `@default(…)`",
    "references": _DECLARED_EDGE,
}
_WORD_HINTS = {QUERY: _WORDS_OF_QUERIES, SCHEMA: _WORDS_OF_SCHEMAS}

_NAMES_OF_FUNCTIONS = {
    "lower": "tolower lcase",
    "upper": "toupper ucase",
    "length": "len charlength characterlength strlen",
    "substring": "substr mid left right",
    "ceil": "ceiling",
    "avg": "mean average",
    "coalesce": "nvl ifnull",
    "collect": "arrayagg list grouparray listagg",
    "date_diff": "datediff timestampdiff datesub daysbetween",
    "date_trunc": "datetrunc trunc truncate",
    "now": "currenttimestamp timestamp getdate localtime",
}
_HINTS_OF_FUNCTIONS = {
    _NO_DIGITS: "sqrt exp log ln log10 pow power sin cos tan pi stdev stddev variance median percentilecont",
    "there is none, because an answer follows from the graph and the parameters": "rand random randomuuid uuid",
    "write `case when … then … else … end`": "if iif ifelse decode switch",
    "write `$x.p is null`": "isnull",
    _TYPES: "type typeof label labels keys properties",
    _PATH_VALUES: "nodes edges relationships path",
    _PATH: "shortestpath allshortestpaths",
    "the id is `$x.id`": "id elementid",
    "the ends are the variables of the step; their ids are `$w.src` and `$w.dst`": "startnode endnode",
    _CAST: "tointeger toint int integer tofloat float tostring str text toboolean todate todatetime convert",
    _PART_OF_TIME: "datepart extract dayofweek week quarter",
    "write `cast(now() as Date)`": "currentdate today curdate",
    f"{_LIKE}; there are no regular expressions": "strpos instr indexof position regexpmatch like matches",
    "this operator stands between two values: `$x.p starts_with $y`": "startswith",
    _END_OF_TEXT: "endswith endswithstring",
    "the remainder is `$x.p % 3`": "mod",
    _PATTERN: "any all none single exists",
    "texts are joined by `concat` in a row; those of a group are listed by `collect`": "stringagg groupconcat",
}
_FUNCTION_HINTS = {
    **{name: f"write `{ours}(…)`" for ours, names in _NAMES_OF_FUNCTIONS.items() for name in names.split()},
    **{name: hint for hint, names in _HINTS_OF_FUNCTIONS.items() for name in names.split()},
}

_TYPE_NAMES = {
    "String": "text varchar char str string",
    "Bool": "boolean bool",
    "I32": "int int32 integer i32",
    "I64": "bigint long int64 i64",
    "F32": "real float32 f32",
    "F64": "double float float64 number decimal numeric f64",
    "DateTime": "timestamp datetime instant time",
    "Date": "date day",
    "Blob": "bytes binary bytea blob",
}
_TYPES_BY_NAME = {name: ours for ours, names in _TYPE_NAMES.items() for name in names.split()}


@dataclass(frozen=True, slots=True)
class _Habit:
    """A way to write something: what stands before the fault, what begins there, and what to write instead."""

    before: str
    found: str
    hint: str


_HABITS_OF_QUERIES = (
    _Habit(r"(?i)shortest(?:paths?)?\s*\(?\s*\$?\w*", r"[\w(]", _PATH),
    _Habit(r"\bexists\s*\(\s*\$\w+", r"\w", "a pattern stands in braces: `exists { $a knows $b }`"),
    _Habit(r"\$\w+\s*\.\s*\w+", r"\.", _PART_OF_TIME),
    _Habit(r"(?<![$.\w])[A-Za-z_]\w*", r"\.", _DOLLAR),
    _Habit(r"", r"::", _CAST),
    _Habit(r"\w\(\s*\w+", r":", "properties stand in braces: `$x: Type { name: … }`"),
    _Habit(r"\(\s*\$?\w*", r":", f"a variable is bound without brackets: `$x: Type`; {_EDGE}"),
    _Habit(r"\{\s*[A-Za-z_]\w*", r":", "a variable begins with a dollar: `$x: Type`"),
    _Habit(r"-", r"[>\[(]", _EDGE),
    _Habit(r"", r"\|\|", "conditions are joined by `or`, and texts by `concat`"),
    _Habit(r"\bas", r'"', "a name consists of letters, digits and `_`, and has no quotes"),
    _Habit(r"\bcase\b.*", r"when\b", "each condition is written out: `case when $x.p = 1 then … end`"),
    _Habit(r"", r"~", f"there are no regular expressions; {_LIKE}"),
    _Habit(r"\bin\s*\([^()]*", r",", 'a list is written in square brackets: `["a", "b"]`'),
    _Habit(r"\blimit\s+[\d$\w]+", r",", "write `limit 10 offset 20`"),
    _Habit(r"\b(?:set|[A-Z]\w*)\s*\{[^{}]*\w", r"=", "a value follows the name and a colon: `name: value`"),
)


_HABITS_OF_SCHEMAS = (
    _Habit(r"\bedge\b[^{]*", r"[(<-]", _DECLARED_EDGE),
    _Habit(r"\bnode\s+\w+", r"\(", "properties stand in braces: `node Person { name: String }`"),
    _Habit(r":\s*\w+", r"[\[<]", _LIST),
    _Habit(r"[{,]\s*\w+", r"[A-Z]", "a colon stands between a name and its type: `name: String`"),
)
_HABITS = {QUERY: _HABITS_OF_QUERIES, SCHEMA: _HABITS_OF_SCHEMAS}


def hint_of_habit(before: str, found: str, language: Language) -> str | None:
    """What to write where a text cannot be continued, if it looks like one in another language."""
    before = before.rstrip()
    for habit in _HABITS[language]:
        if re.match(habit.found, found) and re.search(rf"{habit.before}\Z", before):
            return habit.hint
    return None


def hint_of_function(name: str) -> str | None:
    """What to write instead of a function that other languages have."""
    return _FUNCTION_HINTS.get(name.lower().replace("_", ""))


def type_of_habit(name: str) -> str | None:
    """The type that other languages call by this name."""
    return _TYPES_BY_NAME.get(name.lower())


def hint_of_word(name: str, language: Language = QUERY) -> str | None:
    """What to write instead of a word, if it is a keyword in capital letters, or one of other languages."""
    return hint_of_case(name, language) or _WORD_HINTS[language].get(name.lower())


def hint_of_case(name: str, language: Language = QUERY) -> str | None:
    """What to write instead of a keyword in capital letters."""
    word = name.lower()
    return f"keywords are written in lower case: `{word}`" if name != word and word in _keywords(language) else None


@cache
def _keywords(language: Language) -> frozenset[str]:
    """The words of a language, as its grammar has them: in quotes, or in a pattern with white space."""
    grammar = grammar_of(language)
    patterns = " ".join(re.findall(r"^[A-Z_]+: /(.*)/$", grammar, re.MULTILINE))
    return frozenset((*re.findall(r'"([a-z_]+)"', grammar), *re.findall(r"[a-z]{2,}", patterns)))
