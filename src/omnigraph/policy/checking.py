"""Reads a rule file into rules, and reports all of its errors at once."""

from collections.abc import Iterable
from pathlib import Path

from omnigraph.codes import Code
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import NOWHERE, Diagnostic, Findings, Source, any_of, did_you_mean, quoted
from omnigraph.policy.actions import TYPED_ACTIONS, Action
from omnigraph.policy.rules import (
    WILDCARD,
    AccessRequest,
    BranchKind,
    Effect,
    Expectation,
    Names,
    PolicyRule,
    QueryNames,
    Rulebook,
    names_of,
)
from omnigraph.yaml_reader import (
    Node,
    ScalarNode,
    SequenceNode,
    YamlKind,
    YamlReader,
    is_null,
    read_yaml,
    read_yaml_file,
    span_of,
)

MAX_BYTES = 256 << 10
MAX_PATTERNS = 100
"""Of one list. They become a chain of comparisons, and Cedar cannot evaluate a chain that exceeds its stack."""
ANY, GROUP, TAG = "any", "group:", "tag:"
_PROTECTED_BY_DEFAULT = Names(("main",), ())
_RULE_FILE = YamlKind(
    name="rule file",
    max_bytes=MAX_BYTES,
    alias_hint="use a group, or repeat the value",
    syntax=Code.POLICY_SYNTAX,
    too_large=Code.POLICY_TOO_LARGE,
    unreadable=Code.POLICY_UNREADABLE,
    shape=Code.POLICY_SHAPE,
    key=Code.POLICY_KEY,
    duplicate=Code.POLICY_DUPLICATE,
    missing=Code.POLICY_MISSING,
    word=Code.POLICY_WORD,
)


@dataclass(frozen=True, slots=True)
class CheckedRules:
    """The findings about a rule file, and its content if none of them is an error."""

    book: Rulebook | None
    diagnostics: tuple[Diagnostic, ...]


def check_rules_file(path: Path) -> CheckedRules:
    """The rules of a file, with all findings about them; one of them may be that it is not text."""
    source, problem = read_yaml_file(path, _RULE_FILE)
    return check_rules(source) if problem is None else CheckedRules(None, (problem,))


def check_rules(source: Source) -> CheckedRules:
    """The rules of a source, with all findings about them."""
    root, problem = read_yaml(source, _RULE_FILE)
    if problem is not None:
        return CheckedRules(None, (problem,))
    findings = Findings(source)
    reader = _Reader(source, findings)
    book = reader.book(root)
    if findings.has_errors:
        return CheckedRules(None, findings.diagnostics)
    _advise(book, reader.group_keys, findings)
    return CheckedRules(book, findings.diagnostics)


class _Reader(YamlReader):
    """Turns nodes into rules; it reports errors and continues."""

    def __init__(self, source: Source, findings: Findings) -> None:
        super().__init__(_RULE_FILE, source, findings)
        self._groups: dict[str, tuple[str, ...]] = {}
        self.group_keys: dict[str, Node] = {}
        self._ids: set[str] = set()

    def book(self, root: Node | None) -> Rulebook:
        if root is None:
            self._report(Code.POLICY_MISSING, "`rules` is missing", NOWHERE)
            return Rulebook(groups={}, protected=_PROTECTED_BY_DEFAULT, rules=())
        parts = self._mapping(root, ("groups", "protected", "rules", "tests"), required=("rules",))
        if "groups" in parts:
            self._groups = self._members(parts["groups"])
        protected = self._patterns(parts["protected"], may_be_empty=True) if "protected" in parts else None
        rules = tuple(self._rule(node) for node in self._items(parts.get("rules")))
        return Rulebook(
            groups=self._groups,
            protected=protected or _PROTECTED_BY_DEFAULT,
            rules=rules,
            tests=tuple(self._expectation(node) for node in self._items(parts.get("tests"))),
        )

    def _members(self, node: Node) -> dict[str, tuple[str, ...]]:
        members = {}
        for key, listed in self._pairs(node):
            group = self._name(key, "a group")
            self.group_keys[group] = key
            members[group] = tuple(self._name(item, "an actor") for item in self._items(listed))
        return members

    # --- rules ---

    def _rule(self, node: Node) -> PolicyRule:
        keys = ("id", "effect", "actors", "actions", "graphs", "branches", "types", "queries")
        parts = self._mapping(node, keys, required=("id", "actors", "actions"))
        actors, groups = self._actors(parts.get("actors"))
        actions = self._actions(parts.get("actions"))
        if "types" in parts:
            self._check_typed(actions, parts["types"])
        if "queries" in parts:
            self._check_calls(actions, parts["queries"])
        return PolicyRule(
            id=self._id(parts.get("id")),
            effect=Effect(self._word(parts.get("effect"), tuple(Effect)) or Effect.PERMIT),
            actors=actors,
            groups=groups,
            actions=actions,
            graphs=self._any_or_patterns(parts.get("graphs")),
            branches=self._branches(parts.get("branches")),
            types=self._types(parts.get("types")),
            queries=self._queries(parts.get("queries")),
            span=span_of(parts.get("id", node)),
        )

    def _id(self, node: Node | None) -> str:
        name = self._text(node)
        if node is not None and name in self._ids:
            self._report(Code.POLICY_DUPLICATE, f"the rule {quoted(name)} is defined twice", span_of(node))
        self._ids.add(name)
        return name

    def _actors(self, node: Node | None) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
        if node is None or self._is_any(node):
            return None, ()
        actors, groups = [], []
        for item in self._nonempty_items(node):
            name = self._text(item)
            if name.startswith(GROUP):
                groups.append(self._known_group(name.removeprefix(GROUP), item))
            else:
                actors.append(self._name(item, "an actor"))
        return tuple(dict.fromkeys(actors)), tuple(dict.fromkeys(groups))

    def _known_group(self, group: str, node: Node) -> str:
        if group not in self._groups:
            hint = did_you_mean(group, self._groups)
            self._report(Code.POLICY_GROUP, f"unknown group {quoted(group)}", span_of(node), hint)
        return group

    def _actions(self, node: Node | None) -> tuple[Action, ...] | None:
        if node is None or self._is_any(node):
            return None
        actions = [self._action(item) for item in self._nonempty_items(node)]
        return tuple(dict.fromkeys(action for action in actions if action is not None))

    def _action(self, node: Node | None) -> Action | None:
        name = self._text(node)
        if node is None or name in list(Action):
            return Action(name) if node is not None else None
        if name == ANY:
            self._report_reserved(name, node)
        elif name:
            hint = did_you_mean(name, list(Action))
            self._report(Code.POLICY_ACTION, f"unknown action {quoted(name)}", span_of(node), hint)
        return None

    def _branches(self, node: Node | None) -> Names | BranchKind | None:
        if isinstance(node, ScalarNode) and node.value in list(BranchKind):
            return BranchKind(node.value)
        return self._any_or_patterns(node, also=tuple(BranchKind))

    def _any_or_patterns(self, node: Node | None, also: tuple[str, ...] = ()) -> Names | None:
        return None if node is None or self._is_any(node, also) else self._patterns(node, also)

    def _types(self, node: Node | None) -> tuple[str, ...] | None:
        if node is None or self._is_any(node):
            return None
        return tuple(dict.fromkeys(self._name(item, "a type") for item in self._nonempty_items(node)))

    def _check_typed(self, actions: Iterable[Action] | None, node: Node) -> None:
        """A rule with types that also permits `admin` would permit it for the whole graph."""
        if isinstance(node, ScalarNode) and node.value == ANY:
            return
        wrong = [action for action in (Action if actions is None else actions) if action not in TYPED_ACTIONS]
        if wrong:
            which = "any action" if actions is None else ", ".join(quoted(action) for action in wrong)
            hint = f"`types` is for {', '.join(quoted(action) for action in TYPED_ACTIONS)}; write another rule"
            self._report(Code.POLICY_TYPES, f"{which} does not apply to types", span_of(node), hint)

    def _queries(self, node: Node | None) -> QueryNames | None:
        if node is None or self._is_any(node):
            return None
        written = [self._text(item) for item in self._nonempty_items(node)]
        tags = tuple(dict.fromkeys(each.removeprefix(TAG) for each in written if each.startswith(TAG)))
        names = names_of(each for each in written if not each.startswith(TAG))
        self._check_few(names, node)
        return QueryNames(names, tags)

    def _check_calls(self, actions: Iterable[Action] | None, node: Node) -> None:
        """A rule with queries that also permits `read` would permit it for the whole graph."""
        if isinstance(node, ScalarNode) and node.value == ANY:
            return
        wrong = [action for action in (Action if actions is None else actions) if action is not Action.INVOKE]
        if wrong:
            which = "any action" if actions is None else ", ".join(quoted(action) for action in wrong)
            hint = f"`queries` is for {quoted(Action.INVOKE)}; write another rule"
            self._report(Code.POLICY_QUERIES, f"{which} does not apply to stored queries", span_of(node), hint)

    # --- tests ---

    def _expectation(self, node: Node) -> Expectation:
        keys = ("actor", "action", "graph", "branch", "type", "query", "tags", "expect", "rule")
        parts = self._mapping(node, keys, required=("action", "expect"))
        actor = parts.get("actor")
        action = self._action(parts.get("action")) or Action.READ
        if "type" in parts and action not in TYPED_ACTIONS:
            self._check_typed([action], parts["type"])
        for key in ("query", "tags"):
            if key in parts:
                self._check_calls([action], parts[key])
        request = AccessRequest(
            actor=self._text(actor) if actor is not None and not is_null(actor) else None,
            action=action,
            graph=self._text(parts.get("graph")),
            branch=self._text(parts["branch"]) if "branch" in parts else None,
            type=self._text(parts["type"]) if "type" in parts else None,
            query=self._text(parts["query"]) if "query" in parts else None,
            tags=tuple(self._text(item) for item in self._items(parts.get("tags"))),
        )
        return Expectation(
            request=request,
            allowed=self._word(parts.get("expect"), ("permit", "deny")) == "permit",
            rule=self._known_rule(parts["rule"]) if "rule" in parts else None,
            line=self._source.position(node.start_mark.index).line,
        )

    def _known_rule(self, node: Node) -> str:
        name = self._text(node)
        if name and name not in self._ids:
            hint = did_you_mean(name, self._ids - {""})
            self._report(Code.POLICY_RULE, f"unknown rule {quoted(name)}", span_of(node), hint)
        return name

    # --- names ---

    def _nonempty_items(self, node: Node | None) -> list[Node]:
        """The items of a list that may not be empty."""
        if isinstance(node, SequenceNode) and not node.value:
            self._report(Code.POLICY_SHAPE, "the list is empty, so the rule would match nothing", span_of(node))
        return self._items(node)

    def _name(self, node: Node, kind: str) -> str:
        name = self._text(node)
        if name == ANY:
            self._report_reserved(name, node)
        elif WILDCARD in name:
            hint = "patterns are allowed in `graphs`, `branches` and `protected`"
            self._report(Code.POLICY_PATTERN, f"expected the name of {kind}, found a pattern", span_of(node), hint)
        elif name.startswith(GROUP):
            self._report(Code.POLICY_PATTERN, "a group cannot be a member of a group", span_of(node))
        return name

    def _patterns(self, node: Node, also: tuple[str, ...] = (), *, may_be_empty: bool = False) -> Names:
        written = []
        for item in self._items(node) if may_be_empty else self._nonempty_items(node):
            name = self._text(item)
            if name in (ANY, *also):
                self._report_reserved(name, item)
            written.append(name)
        names = names_of(written)
        self._check_few(names, node)
        return names

    def _check_few(self, names: Names, node: Node) -> None:
        if len(names.patterns) > MAX_PATTERNS:
            message = f"{len(names.patterns)} patterns in one list (limit: {MAX_PATTERNS})"
            self._report(Code.POLICY_TOO_MANY, message, span_of(node), "write several rules")

    # --- words ---

    def _is_any(self, node: Node, also: tuple[str, ...] = ()) -> bool:
        """Whether a value is one word in place of a list; any other word than `any` is reported."""
        if not isinstance(node, ScalarNode) or is_null(node):
            return False
        if node.value != ANY:
            hint = f"write a list, or {any_of((ANY, *also))}"
            self._report(Code.POLICY_WORD, f"unknown word {quoted(node.value)}", span_of(node), hint)
        return True

    def _report_reserved(self, word: str, node: Node) -> None:
        hint = f"write {quoted(word)} in place of the list"
        self._report(
            Code.POLICY_WORD, f"{quoted(word)} is a reserved word and cannot be in a list", span_of(node), hint
        )


# --- warnings: what is valid, but probably a mistake ---


def _advise(book: Rulebook, groups: dict[str, Node], findings: Findings) -> None:
    """Reports unused groups, actors that are named like groups, and rules without effect."""
    used = {group for rule in book.rules for group in rule.groups}
    for group, node in groups.items():
        if group not in used:
            findings.report(Code.UNUSED_GROUP, f"the group {quoted(group)} is not used by any rule", span_of(node))
    for rule in book.rules:
        for actor in rule.actors or ():
            if actor in book.groups:
                message = f"{quoted(actor)} is read as an actor, but a group has that name"
                hint = f"write {quoted(f'group:{actor}')} if the group is meant"
                findings.report(Code.GROUP_AS_ACTOR, message, rule.span, hint)
        reason = _reason_idle(rule, book)
        if reason is not None:
            findings.report(Code.IDLE_RULE, f"the rule {quoted(rule.id)} has no effect: {reason}", rule.span)


def _reason_idle(rule: PolicyRule, book: Rulebook) -> str | None:
    if rule.actors == () and not any(book.groups[group] for group in rule.groups):
        return "its groups have no members"
    if rule.branches is BranchKind.PROTECTED and book.protected == Names((), ()):
        return "no branch is protected"
    if rule.branches is BranchKind.UNPROTECTED and WILDCARD in book.protected.patterns:
        return "every branch is protected"
    for other in book.rules:
        if rule.effect is Effect.PERMIT and other.effect is Effect.FORBID and _covers(other, rule, book):
            return f"{quoted(other.id)} forbids all of it"
    return None


def _covers(forbidding: PolicyRule, permitting: PolicyRule, book: Rulebook) -> bool:
    """Whether a rule certainly forbids everything that another permits.

    A rule for some branches, types or queries never does: it does not forbid requests without them.
    """
    return (
        forbidding.branches is None
        and forbidding.types is None
        and forbidding.queries is None
        and _within(_all_actors(permitting, book), _all_actors(forbidding, book))
        and _within(permitting.actions, forbidding.actions)
        and _within(_names_and_patterns(permitting.graphs), _names_and_patterns(forbidding.graphs))
    )


def _all_actors(rule: PolicyRule, book: Rulebook) -> tuple[str, ...] | None:
    if rule.actors is None:
        return None
    return (*rule.actors, *(member for group in rule.groups for member in book.groups[group]))


def _names_and_patterns(names: Names | None) -> tuple[str, ...] | None:
    """A pattern matches the same names in two lists, so patterns are compared like names."""
    return None if names is None or WILDCARD in names.patterns else (*names.exact, *names.patterns)


def _within(part: tuple[str, ...] | None, whole: tuple[str, ...] | None) -> bool:
    return whole is None or (part is not None and set(part) <= set(whole))
