"""Tries a verb on a damaged graph, and says what is wrong with what happened."""

import json
import traceback
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any

import lance
import omnigraph as og
from omnigraph.storage import searches, soundness, tables
from omnigraph.versioning import file_checksums
from tests.corruption.damages import DAMAGES, REMOVED, SUBTLE, NothingToDamage
from tests.corruption.graph import Variant
from tests.corruption.kinds import CHANGING, OURS, Kind, kinds_of
from tests.corruption.touching import mark_begin, mark_end
from tests.corruption.trees import Changed, Tree
from tests.corruption.verbs import VERBS, NeighbourHarmed, Place, ServerError, Verb, digest, findings_of_verify

WHOLE = "none"
"""The damage of a graph that is whole: then everything has to be right."""

_SOURCE = str(Path(og.__file__).parent)


class Outcome(StrEnum):
    """What can come of a verb on a damaged graph."""

    RIGHT = "right answer"
    TYPED = "typed error"
    UNTELLABLE = "cannot be told"
    SILENT = "silent, verify does not find it"
    FOUND_BY_VERIFY = "silent, verify finds it"
    WRONG = "wrong answer"
    TRACEBACK = "traceback"
    ABORT = "abort"
    HANG = "hang"
    DELETION = "deletion"
    LOST = "lost commit"
    UNTRUE = "untrue message"
    NEIGHBOUR = "another graph harmed"


FORBIDDEN = (
    Outcome.WRONG,
    Outcome.TRACEBACK,
    Outcome.ABORT,
    Outcome.HANG,
    Outcome.DELETION,
    Outcome.LOST,
    Outcome.UNTRUE,
    Outcome.NEIGHBOUR,
)

SILENT_OUTCOMES = (Outcome.UNTELLABLE, Outcome.SILENT, Outcome.FOUND_BY_VERIFY)
"""Wrong answers that are allowed because nothing that is read for an answer could tell."""

_UNTELLABLE = frozenset({(Kind.TAG, REMOVED), (Kind.SIDECAR, REMOVED)})
"""Nothing but the file itself says that it was there."""

_REFERRED_TO = frozenset({"data", "_deletions", "_indices", "_transactions"})
"""Folders of a table whose files are only found by what a version says."""

_HINT = "latest_version_hint.json"

_TRUE_ERRORS = (og.StorageError, og.RecoveryFailed, og.RecoveryRequired, og.RecoveryPending, og.EngineFailed)
_NOT_DAMAGE = (og.HeadMoved, og.NotDurable)
_TRUE_CODES = frozenset(error.code for error in _TRUE_ERRORS) | {"damaged"}
_UNTRUE_WORDS = (
    "cleanup has removed",
    "there is no graph here",
    "was deleted",
    "newer version",
    "changed by hand",
    "upgrade omnigraph",
)


@dataclass(frozen=True, slots=True)
class Case:
    """A file, what is done to it, and the verbs to try then."""

    variant: Variant
    file: str
    kind: Kind
    damage: str
    seed: int
    verbs: tuple[str, ...]

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Case":
        return Case(
            Variant(data["variant"]),
            data["file"],
            Kind(data["kind"]),
            data["damage"],
            data["seed"],
            tuple(data["verbs"]),
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def only(self, verbs: Collection[str] | None) -> "Case":
        """The same with none but these verbs."""
        return self if verbs is None else replace(self, verbs=tuple(each for each in self.verbs if each in verbs))


@dataclass(frozen=True, slots=True)
class Finding:
    """One outcome of a verb, with what tells it from others of its class: a place in the source, a message."""

    outcome: Outcome
    site: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a verb does on a whole graph."""

    answer: str | None
    error: str | None
    removed: frozenset[str]
    altered: frozenset[str]
    state: Mapping[str, Any]

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Expected":
        files = {name: frozenset(data[name]) for name in ("removed", "altered")}
        return Expected(**{**data, **files})

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "removed": sorted(self.removed), "altered": sorted(self.altered)}


class Bench:
    """A graph in all its variants, where cases are tried one after the other."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._place = Place(work / "graph.omni", work / "beside.omni", work)
        self._trees = {
            variant: Tree(self._place.uri, work / "copies" / variant)
            for variant in Variant
            if (work / "copies" / variant).exists()
        }
        self._current: Variant | None = None
        self._made: tuple[tuple[Variant, str, str, int], bytes | None] | None = None
        self._expected: dict[tuple[Variant, str], Expected] = {}
        self._before: dict[Variant, Mapping[str, Any]] = {}
        self._read_tables: dict[Variant, dict[Hashable, str]] = {}
        self._acknowledged = frozenset(self._trees[Variant.SETTLED].files)
        self._kinds = {variant: dict(json.loads((work / f"{variant}.kinds").read_text())) for variant in self._trees}

    def damaged_content(self, case: Case) -> bytes | None:
        """What the file of a case has then; `NothingToDamage` if that is what it has."""
        key = (case.variant, case.file, case.damage, case.seed)
        if self._made is None or self._made[0] != key:
            self._made = (key, self._damage_content(case))
        return self._made[1]

    def is_damage(self, case: Case) -> bool:
        """Whether the damage of a case is one for its file."""
        try:
            self.damaged_content(case)
        except NothingToDamage:
            return False
        return True

    def _damage_content(self, case: Case) -> bytes | None:
        tree = self._trees[case.variant]
        content = tree.content(case.file)
        others = [each for each in self._others(case) if each != content]
        damaged = DAMAGES[case.damage](content, Random(case.seed), others)  # noqa: S311
        if damaged == content:
            raise NothingToDamage
        return damaged

    def _others(self, case: Case) -> Sequence[bytes]:
        """The contents of files of the same kind: those in the same folder, or else all, of all variants."""
        found = [
            (file, tree)
            for variant, tree in self._trees.items()
            for file, kind in self._kinds[variant].items()
            if kind == case.kind and (variant is case.variant or case.kind is Kind.SIDECAR)
        ]
        folder = case.file.rpartition("/")[0]
        near = [(file, tree) for file, tree in found if file.rpartition("/")[0] == folder and file != case.file]
        return [tree.content(file) for file, tree in sorted(near or found, key=lambda each: each[0])]

    def try_verb(self, case: Case, name: str) -> list[Finding]:
        """What comes of a verb after the damage."""
        # All that is compared with is tried first: that uses the same place.
        self._expect(case.variant, "open for writing")
        if self._may_be_undone(case):
            self._undone(name)
        expected = self._expect(case.variant, name)
        tree = self._tree(case.variant)
        with ExitStack() as stack:
            prepared = VERBS[name].prepared(self._place, stack)
            if case.damage != WHOLE:
                tree.damage(case.file, self.damaged_content(case))
            answer, error = _ask(VERBS[name], self._place, prepared, case.variant)
        changed = tree.look()
        findings = [*self._judge_answer(case, name, expected, answer, error)]
        if changed:
            findings += self._judge_tree(case, name, tree, expected, changed, is_error=error is not None)
        return self._weighed(case, tree, findings)

    def _weighed(self, case: Case, tree: Tree, findings: list[Finding]) -> list[Finding]:
        """Wrong answers count as silent where the file can still be read as what it is not; `verify` is asked then."""
        if (case.kind, case.damage) in _UNTELLABLE:
            return [
                Finding(Outcome.UNTELLABLE, each.site, each.detail)
                if each.outcome in (Outcome.WRONG, Outcome.UNTRUE, Outcome.DELETION)
                else each
                for each in findings
            ]
        could_be_told = case.kind in OURS or case.damage not in SUBTLE
        if could_be_told or all(each.outcome is not Outcome.WRONG for each in findings):
            return findings
        tree.restore()
        if case.damage != WHOLE:
            tree.damage(case.file, self.damaged_content(case))
        _forget()
        outcome = Outcome.FOUND_BY_VERIFY if findings_of_verify(self._place) else Outcome.SILENT
        return [Finding(outcome, e.site, e.detail) if e.outcome is Outcome.WRONG else e for e in findings]

    def _judge_answer(
        self, case: Case, name: str, expected: Expected, answer: str | None, error: BaseException | None
    ) -> Iterator[Finding]:
        if error is None:
            if answer == expected.answer or (self._may_be_undone(case) and answer == self._undone(name).answer):
                yield Finding(Outcome.RIGHT)
            else:
                yield Finding(Outcome.WRONG, "answer", _difference(str(expected.answer or expected.error), str(answer)))
            return
        text = f"{type(error).__name__}: {error}"
        if text.partition(":")[0] == (expected.error or "").partition(":")[0]:
            yield Finding(Outcome.RIGHT)
        elif isinstance(error, NeighbourHarmed):
            yield Finding(Outcome.NEIGHBOUR, "", text[:300])
        elif isinstance(error, ServerError) and error.code == "internal_error":
            yield Finding(Outcome.TRACEBACK, "server: internal_error", text[:300])
        elif not isinstance(error, (og.OmnigraphError, ServerError)):
            yield Finding(Outcome.TRACEBACK, _site(error), text[:300])
        else:
            is_true = (
                error.code in _TRUE_CODES
                if isinstance(error, ServerError)
                else isinstance(error, _TRUE_ERRORS) and not isinstance(error, _NOT_DAMAGE)
            )
            untrue = next((words for words in _UNTRUE_WORDS if words in text), None)
            if is_true and untrue is None:
                yield Finding(Outcome.TYPED, _site(error), text[:300])
            else:
                yield Finding(Outcome.UNTRUE, f"{_site(error)} {untrue or type(error).__name__}", text[:300])

    def _judge_tree(
        self, case: Case, name: str, tree: Tree, expected: Expected, changed: Changed, *, is_error: bool
    ) -> Iterator[Finding]:
        """What became of files that nobody may touch, and what the graph holds once the damaged file is back."""
        kinds = self._kinds[case.variant]
        gone = changed.removed - expected.removed
        if self._may_be_undone(case):
            gone &= self._acknowledged
        if lost := sorted(file for file in gone if not _comes_and_goes(kinds[file])):
            what = "the damaged file" if lost == [case.file] else ", ".join(sorted({kinds[file] for file in lost}))
            yield Finding(Outcome.DELETION, what, f"{len(lost)} files, {lost[0]}")
        for file in sorted((changed.altered | changed.added) & tree.files - expected.altered):
            if self._may_be_undone(case) and file not in self._acknowledged:
                continue
            if kinds[file] not in CHANGING and (tree.place / file).read_bytes() != tree.content(file):
                own = " (the damaged file)" if file == case.file else ""
                yield Finding(Outcome.LOST, f"{kinds[file]} overwritten{own}", file)
        if case.damage != WHOLE:
            self._put_back(case, tree, expected, changed)
        if _adds_only_what_nobody_refers_to(changed, tree):
            now = self._before[case.variant]
        else:
            _forget()
            try:
                now = self._read_state(tree)
            except Exception as error:
                yield Finding(Outcome.LOST, f"unreadable after the file is back: {_site(error)}", f"{error}"[:300])
                return
        yield from self._judge_state(case, name, expected, now, is_error=is_error)

    def _put_back(self, case: Case, tree: Tree, expected: Expected, changed: Changed) -> None:
        """The damaged file as it was; one that the verb could replace or remove stays as the verb left it."""
        is_due = case.file in expected.removed | expected.altered or self._may_be_undone(case)
        was_touched = case.file in changed.removed | changed.altered | changed.added
        if not (is_due and was_touched):
            tree.restore_file(case.file)

    def _judge_state(
        self, case: Case, name: str, expected: Expected, now: Mapping[str, Any], *, is_error: bool
    ) -> Iterator[Finding]:
        before = self._before[case.variant]
        allowed = [expected.state, before, self._expect(case.variant, "open for writing").state]
        for branch in now["commits"].keys() & before["commits"].keys():
            missing = [each for each in before["commits"][branch] if each not in now["commits"][branch]]
            if missing:
                yield Finding(Outcome.LOST, f"commits of {'main' if branch == 'main' else 'a branch'}", str(missing))
        if not is_error:
            allowed = [expected.state, *([self._undone(name).state] if self._may_be_undone(case) else [])]
        if _content(now) not in [_content(each) for each in allowed]:
            what = "after an error" if is_error else "after success"
            yield Finding(Outcome.WRONG, f"content {what}", _difference(str(_content(allowed[0])), str(_content(now))))

    def _may_be_undone(self, case: Case) -> bool:
        """Whether what was damaged is part of a write that nobody was told of, which may be undone then."""
        return case.file not in self._acknowledged and case.kind is not Kind.SIDECAR

    def _undone(self, name: str) -> Expected:
        """What a verb does when the unfinished write has never been."""
        return self._expect(Variant.SETTLED, name)

    def _expect(self, variant: Variant, name: str) -> Expected:
        """What a verb does on the whole graph; it is tried when it is first needed."""
        kept = self._work / "expected" / f"{variant} {digest([name])}.json"
        if (variant, name) not in self._expected and kept.exists():
            self._expected[variant, name] = Expected.from_json(json.loads(kept.read_text()))
        if (variant, name) not in self._expected:
            tree = self._tree(variant)
            with ExitStack() as stack:
                prepared = VERBS[name].prepared(self._place, stack)
                answer, error = _ask(VERBS[name], self._place, prepared, variant)
            changed = tree.look()
            _forget()
            spelled = None if error is None else f"{type(error).__name__}: {error}"
            if error is not None and (
                variant is Variant.SETTLED or not isinstance(error, (og.OmnigraphError, ServerError))
            ):
                raise error  # a verb that fails on a whole graph tells nothing about a damaged one
            state = self._read_state(tree) if changed else self._before[variant]
            self._expected[variant, name] = Expected(answer, spelled, changed.removed, changed.altered, state)
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(json.dumps(self._expected[variant, name].as_json()))
        return self._expected[variant, name]

    def _tree(self, variant: Variant) -> Tree:
        """The graph of a variant, whole."""
        tree = self._trees[variant]
        if self._current is not variant:
            tree.forget()
            self._current = variant
        tree.restore()
        _forget()
        if variant not in self._before:
            self._read_tables[variant] = {}
            self._before[variant] = _read_state(self._place, self._read_tables[variant], ())
        return tree

    def _read_state(self, tree: Tree) -> dict[str, Any]:
        assert self._current is not None
        changed = tree.look()
        altered = changed.removed | changed.altered | changed.added
        return _read_state(self._place, dict(self._read_tables[self._current]), altered & tree.files)


def write_kinds(work: Path, variants: Collection[Variant]) -> dict[Variant, dict[str, Kind]]:
    """The kinds of all files of all variants, for those who try cases."""
    found = {}
    for variant in variants:
        found[variant] = kinds_of(work / "copies" / variant)
        (work / f"{variant}.kinds").write_text(json.dumps(found[variant]))
    return found


def _ask(verb: Verb, place: Place, prepared: Any, variant: Variant) -> tuple[str | None, BaseException | None]:
    if prepared is None:
        _forget()
    mark_begin(variant, verb.name)
    try:
        return json.dumps(verb.ask(place, prepared), sort_keys=True, default=str), None
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic of Rust is no Exception
        return None, error
    finally:
        mark_end()


def _forget() -> None:
    """What a process remembers of files is by their names, which the damaged ones have too: as if it were a new one."""
    tables._session = lance.Session()  # type: ignore[attr-defined]
    soundness._known.clear()
    file_checksums._known.clear()
    searches._counts.clear()


def _read_state(place: Place, known: dict[Hashable, str], altered: Collection[str]) -> dict[str, Any]:
    """All that the graph holds, and its commits.

    A table is not read again if it is at a version that was read before, and no file of it has changed since.
    """
    graph = og.open(place.uri, mode="r")
    branches = [each.name for each in graph.branches.list()]
    schemas = {branch: graph.schema.at(branch).text for branch in branches}
    content: dict[str, dict[str, str]] = {branch: {} for branch in branches}
    folders = {"/".join(file.split("/")[:2]) for file in altered if not file.endswith(_HINT)}
    for branch in branches:
        for table, pin in graph.snapshot(branch).manifest.pins.items():
            key = (table, pin.path, pin.version, schemas[branch])
            if key not in known or "/".join(pin.path.split("/")[:2]) in folders:
                lines = graph.export(branch=branch, types=[table.partition(":")[2]])
                assert not isinstance(lines, int)
                content[branch][table] = digest(sorted(lines))
            else:
                content[branch][table] = known[key]
            if not altered:
                known[key] = content[branch][table]
    return {
        "content": content,
        "schemas": schemas,
        "tags": [[tag.name, tag.place.branch] for tag in graph.tags.list()],
        "commits": {branch: [each.graph_commit_id for each in graph.commits.list(branch)] for branch in branches},
    }


def _content(state: Mapping[str, Any]) -> list[Any]:
    return [state["content"], state["schemas"], state["tags"]]


def _adds_only_what_nobody_refers_to(changed: Changed, tree: Tree) -> bool:
    """Whether all that changed is new files that are found by what refers to them, and none of that changed."""
    if changed.removed or changed.altered or changed.added & tree.files:
        return False
    return all(not _REFERRED_TO.isdisjoint(file.split("/")) for file in changed.added)


def _comes_and_goes(kind: Kind) -> bool:
    return kind in CHANGING and kind is not Kind.SIDECAR


def _site(error: BaseException) -> str:
    """Where in the sources of the product an error came from, and what it was."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename.startswith(_SOURCE)]
    last = frames[-1] if frames else None
    where = "outside" if last is None else f"{last.filename.removeprefix(_SOURCE + '/')}:{last.lineno} {last.name}"
    return f"{where} {type(error).__name__}"


def _difference(expected: str, found: str) -> str:
    """The first place at which two texts differ."""
    at = next(
        (i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), min(len(expected), len(found))
    )
    start = max(0, at - 40)
    return f"expected …{expected[start : at + 80]}… found …{found[start : at + 80]}…"
