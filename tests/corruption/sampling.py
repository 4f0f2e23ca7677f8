"""Which cases are tried.

- `every_kind`: every kind of file, every damage, every verb; the files of a kind in turn. This is the whole suite.
- `every_file`: every file, every damage, every verb. This takes a day.
- `sampled_cases`: for each kind of file and each damage a verb that is likely to matter. This is for `make test`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from random import Random

from tests.corruption.damages import ANY_FLIP, DAMAGES, REMOVED, REPLACED
from tests.corruption.graph import Variant
from tests.corruption.kinds import Kind
from tests.corruption.touching import Touched
from tests.corruption.trying import WHOLE, Bench, Case
from tests.corruption.verbs import VERBS
from tests.corruption.world import World

_READS_ALL = ("query all", "export", "read old states", "load merge", "update", "optimize", "verify")
_MANIFEST = ("open for reading", "commits", "insert", "open for writing", "cleanup confirm", "changes", "GET /commits")
_BRANCH = (
    "branches and tags",
    "insert on a branch",
    "merge",
    "cleanup confirm",
    "delete a branch",
    "status",
    "first insert on a branch",
)
_SETTLING = ("open for writing", "insert", "recoveries", "cleanup confirm", "repair force", "status")
_TURNS = 4
NEAR: dict[Kind, tuple[str, ...]] = {
    Kind.MANIFEST_VERSION: (*_MANIFEST, "read old commits", "merge", "verify"),
    Kind.BRANCH_REF: (*_BRANCH, "export a branch"),
    Kind.TABLE_VERSION: (
        "query all",
        "insert",
        "cleanup confirm",
        "status",
        "repair force",
        "read old states",
        "merge",
    ),
    Kind.TABLE_DATA: (*_READS_ALL, "entities", "traverse", "diff"),
    Kind.TABLE_DELETIONS: (*_READS_ALL, "delete", "diff", "cleanup confirm", "merge"),
    Kind.TABLE_TRANSACTION: ("repair preview", "repair confirm", "insert", "optimize", *_SETTLING),
    Kind.TABLE_HINT: ("insert", "status"),
    Kind.FORK_REF: _BRANCH,
    Kind.BTREE: (
        "filter by BTREE",
        "filter by range",
        "query by key",
        "insert",
        "update",
        "load merge",
        "traverse from one",
    ),
    Kind.BITMAP: ("filter by BITMAP", "traverse", "optimize"),
    Kind.LABEL_LIST: ("filter by LABEL_LIST", "optimize"),
    Kind.NGRAM: ("filter by NGRAM", "optimize"),
    Kind.FULL_TEXT: ("search words", "rank by words", "optimize"),
    Kind.VECTOR: ("nearest", "optimize"),
    Kind.TOPOLOGY: (
        "traverse from one",
        "traverse",
        "delete",
        "analyze",
        "optimize",
        "build indexes",
        "cleanup confirm",
        "verify",
        "indexes",
    ),
    Kind.AUDIT_VERSION: _SETTLING,
    Kind.AUDIT_DATA: _SETTLING,
    Kind.AUDIT_TRANSACTION: _SETTLING,
    Kind.AUDIT_HINT: _SETTLING,
    Kind.HEAD_NOTE: ("open for reading", "insert", "cleanup confirm", "export a branch"),
    Kind.RETAINED_NOTE: (
        "read old states",
        "commits",
        "cleanup confirm",
        "insert",
        "read old commits",
        "open for reading",
    ),
    Kind.ARCHIVE: ("commits", "merge", "cleanup confirm", "status", "branches and tags"),
    Kind.SCHEMA: ("open for reading", "read old states", "schemas", "apply a schema", "merge", "open for writing"),
    Kind.QUERIES: ("stored queries", "store a query", "apply a schema", "merge", "diff"),
    Kind.SCHEMA_FILE: ("status", "apply a schema", "open for writing"),
    Kind.STAGED_SCHEMA_FILE: ("open for writing", "insert", "apply a schema"),
    Kind.TAG: ("branches and tags", "cleanup confirm", "read old states", "delete a tag", "delete a branch"),
    Kind.SIDECAR: _SETTLING,
    Kind.CHECKSUMS: ("verify", "insert", "cleanup confirm"),
    Kind.LOCK: ("insert", "cleanup confirm"),
}
"""The verbs that are most likely to read a file of a kind, for samples."""

TOLD_OF: tuple[tuple[Kind, str, str], ...] = (
    (Kind.MANIFEST_VERSION, "last byte flipped", "insert"),
    (Kind.MANIFEST_VERSION, "cut by 1 byte", "open for writing"),
    (Kind.MANIFEST_VERSION, "emptied", "commits"),
    (Kind.MANIFEST_VERSION, "cut by half", "cleanup confirm"),
    (Kind.MANIFEST_VERSION, REMOVED, "insert"),
    (Kind.MANIFEST_VERSION, REPLACED, "open for reading"),
    (Kind.TABLE_VERSION, "cut by 20 bytes", "cleanup confirm"),
    (Kind.TABLE_VERSION, REMOVED, "insert"),
    (Kind.TABLE_VERSION, "emptied", "status"),
    (Kind.TABLE_VERSION, "middle byte flipped", "apply a schema"),
    (Kind.TABLE_DELETIONS, "cut by 20 bytes", "optimize"),
    (Kind.FORK_REF, REMOVED, "cleanup confirm"),
    (Kind.FORK_REF, "cut by half", "cleanup confirm"),
    (Kind.BRANCH_REF, "cut by 20 bytes", "cleanup confirm"),
    (Kind.BRANCH_REF, REMOVED, "cleanup confirm"),
    (Kind.BRANCH_REF, "first byte flipped", "branches and tags"),
    (Kind.BRANCH_REF, "empty list", "insert on a branch"),
    (Kind.AUDIT_VERSION, "emptied", "cleanup confirm"),
    (Kind.AUDIT_VERSION, "garbage", "recoveries"),
    (Kind.RETAINED_NOTE, "emptied", "open for reading"),
    (Kind.RETAINED_NOTE, "empty list", "read old states"),
    (Kind.RETAINED_NOTE, "number as text", "cleanup confirm"),
    (Kind.SCHEMA, "cut by 1 byte", "open for reading"),
    (Kind.SCHEMA, REPLACED, "schemas"),
    (Kind.SCHEMA, "another text", "open for reading"),
    (Kind.QUERIES, "emptied", "stored queries"),
    (Kind.QUERIES, REPLACED, "apply a schema"),
    (Kind.ARCHIVE, "middle byte flipped", "commits"),
    (Kind.ARCHIVE, REMOVED, "branches and tags"),
    (Kind.TAG, REPLACED, "branches and tags"),
    (Kind.SIDECAR, "number as text", "open for writing"),
    (Kind.SIDECAR, "empty list", "open for writing"),
    (Kind.SIDECAR, "another number", "open for writing"),
    (Kind.SIDECAR, "another text", "open for writing"),
    (Kind.SIDECAR, "object as list", "open for writing"),
    (Kind.SIDECAR, REPLACED, "open for writing"),
)
"""What was once found to lose data, to lie or to fail without a typed error: always among the cases of a sample."""


def files_by_kind(world: World) -> Iterator[tuple[Variant, Kind, list[str]]]:
    """The files of each kind; of the variants with an unfinished write, only those that it left."""
    settled = world.kinds[Variant.SETTLED]
    for variant, kinds in world.kinds.items():
        grouped: dict[Kind, list[str]] = defaultdict(list)
        for file, kind in kinds.items():
            if variant is Variant.SETTLED or file not in settled or kind is Kind.HEAD_NOTE:
                grouped[kind].append(file)
        for kind, files in grouped.items():
            yield variant, kind, sorted(files)


def all_verbs(variant: Variant) -> list[str]:
    """The verbs that can be tried; opening a graph before the damage would settle an unfinished write."""
    return [name for name, verb in VERBS.items() if variant is Variant.SETTLED or not verb.is_prepared]


def whole_cases(world: World) -> list[Case]:
    """Every verb on every variant without a damage."""
    return [
        Case(variant, next(iter(kinds)), next(iter(kinds.values())), WHOLE, 0, tuple(all_verbs(variant)))
        for variant, kinds in world.kinds.items()
    ]


def every_file(world: World, seed: int) -> list[Case]:
    """Every file, every damage, every verb."""
    numbers = Random(seed)  # noqa: S311
    cases = [
        Case(variant, file, kind, damage, numbers.randrange(1 << 32), tuple(all_verbs(variant)))
        for variant, kind, files in files_by_kind(world)
        for file in files
        for damage in DAMAGES
    ]
    numbers.shuffle(cases)
    return [*cases, *flipped_cases(world, seed, times=20)]


def every_kind(world: World, seed: int, touched: Mapping[tuple[Variant, str], Touched] | None) -> list[Case]:
    """Every kind of file, every damage, every verb; for each of them the next file of the kind.

    Taken are the files that the verb touches, those in use first. A verb that touches no file of a kind cannot tell
    how that file is damaged: it gets one of the damages, in turn. A verb that is slow, or another door to one that is
    tried with all damages, gets every fourth. A file that no verb was tried with then gets all damages with a verb
    that reads its kind. Head notes, which an unfinished write leaves as they are, get the verbs that read them there.
    """
    numbers = Random(seed)  # noqa: S311
    bench = Bench(world.work)
    chosen: dict[tuple[Variant, Kind, str, str], list[str]] = defaultdict(list)
    for variant, kind, files in files_by_kind(world):
        ordered = sorted(files, key=lambda file: file not in world.in_use[variant])
        damages = {
            damage: possible
            for damage in DAMAGES
            if (possible := [f for f in ordered if bench.is_damage(Case(variant, f, kind, damage, seed, ()))])
        }
        turns: Counter[tuple[str, ...]] = Counter()
        near = [verb for verb in (*NEAR[kind], *_SETTLING) if verb in all_verbs(variant)]
        is_left_alone = variant is not Variant.SETTLED and kind is Kind.HEAD_NOTE
        for at, verb in enumerate(dict.fromkeys(near) if is_left_alone else all_verbs(variant)):
            for number, (damage, possible) in enumerate(damages.items()):
                seen = [f for f in possible if touched is None or touched[variant, verb].is_seen(f, damage)]
                is_due = not VERBS[verb].is_sampled or (at + number) % _TURNS == 0
                if (seen and is_due) or number == at % len(damages):
                    taken = tuple(seen or possible)
                    chosen[variant, kind, taken[(at + turns[taken]) % len(taken)], damage].append(verb)
                    turns[taken] += 1
        left = [file for file in ordered if not any((variant, kind, file, damage) in chosen for damage in damages)]
        for number, file in enumerate(left):
            for damage, possible in damages.items():
                if file in possible:
                    chosen[variant, kind, file, damage].append(near[number % len(near)])
    cases = [Case(v, file, k, d, numbers.randrange(1 << 32), tuple(verbs)) for (v, k, file, d), verbs in chosen.items()]
    numbers.shuffle(cases)
    # One variant after the other, because restoring another one takes time; the one with most cases last.
    return sorted(cases, key=lambda case: (case.variant is Variant.SETTLED, case.variant))


def flipped_cases(world: World, seed: int, times: int) -> list[Case]:
    """Files in use of each kind with a bit flipped anywhere, so many of each, and the verbs that may read them."""
    numbers = Random(seed)  # noqa: S311
    cases = []
    for variant, kind, files in files_by_kind(world):
        used = [file for file in files if file in world.in_use[variant]] or files
        near = tuple(name for name in NEAR[kind] if name in all_verbs(variant) and not VERBS[name].is_sampled)
        for file in numbers.choices(used, k=times):
            cases.append(Case(variant, file, kind, ANY_FLIP, numbers.randrange(1 << 32), near))
    return cases


def sampled_cases(world: World, seed: int, count: int) -> list[Case]:
    """What was found before, and then so many cases: files mostly in use, verbs mostly likely to read them."""
    numbers = Random(seed)  # noqa: S311
    told_of, others = [], []
    for variant, kind, files in files_by_kind(world):
        used = [file for file in files if file in world.in_use[variant]] or files
        possible = all_verbs(variant)
        for damage, verb in ((damage, verb) for each, damage, verb in TOLD_OF if each is kind):
            if variant is Variant.SETTLED or kind is Kind.SIDECAR:
                told_of.append(Case(variant, used[0], kind, damage, numbers.randrange(1 << 32), (verb,)))
        near = [name for name in NEAR[kind] if name in possible and not VERBS[name].is_sampled]
        for damage in DAMAGES:
            file = numbers.choice(used if numbers.random() < 0.75 else files)
            verb = numbers.choice(near if numbers.random() < 0.75 else possible)
            others.append(Case(variant, file, kind, damage, numbers.randrange(1 << 32), (verb,)))
    numbers.shuffle(others)
    return [*told_of, *others[:count]]
