"""What came of all cases: counted by kind of file, with examples of each cause."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.corruption.graph import Variant
from tests.corruption.kinds import Kind
from tests.corruption.trying import FORBIDDEN, Case, Finding, Outcome


@dataclass(slots=True)
class Report:
    """What came of all cases."""

    files: set[tuple[Variant, str]] = field(default_factory=set)
    damages: set[str] = field(default_factory=set)
    verbs: set[str] = field(default_factory=set)
    tried: int = 0
    counts: Counter[tuple[Kind, Outcome]] = field(default_factory=Counter)
    examples: dict[tuple[Outcome, str], list[str]] = field(default_factory=dict)
    numbers: Counter[tuple[Outcome, str]] = field(default_factory=Counter)

    def add(self, case: Case, verb: str, findings: Iterable[Finding]) -> None:
        self.files.add((case.variant, case.file))
        self.damages.add(case.damage)
        self.verbs.add(verb)
        self.tried += 1
        for finding in findings:
            self.counts[case.kind, finding.outcome] += 1
            cause = (finding.outcome, finding.site)
            self.numbers[cause] += 1
            text = (
                f"{verb}; {case.kind} {case.damage} ({case.variant}: {case.file}, seed {case.seed}): {finding.detail}"
            )
            if len(self.examples.setdefault(cause, [])) < 2:
                self.examples[cause].append(text)

    @property
    def forbidden(self) -> int:
        """How often something happened that must not."""
        return sum(count for (_, outcome), count in self.counts.items() if outcome in FORBIDDEN)

    def table(self) -> str:
        """What was tried, and what came of it, by kind of file."""
        used = [
            outcome for outcome in Outcome if any(self.counts[kind, outcome] for kind in Kind) or outcome in FORBIDDEN
        ]
        lines = [
            f"{len(self.files)} files x {len(self.damages)} damages x {len(self.verbs)} verbs, {self.tried} tried",
            "| kind | " + " | ".join(used) + " |",
            "|---" * (len(used) + 1) + "|",
        ]
        for kind in Kind:
            row = [self.counts[kind, outcome] for outcome in used]
            if any(row):
                lines.append(f"| {kind} | " + " | ".join(map(str, row)) + " |")
        totals = [sum(self.counts[kind, outcome] for kind in Kind) for outcome in used]
        lines.append("| all | " + " | ".join(map(str, totals)) + " |")
        return "\n".join(lines)

    def causes(self, outcomes: Iterable[Outcome] = FORBIDDEN) -> str:
        """The first examples of each cause, the most frequent first."""
        lines = []
        for outcome in outcomes:
            for (each, site), number in self.numbers.most_common():
                if each is outcome:
                    lines.append(f"{outcome} x {number}: {site}")
                    lines += [f"    {example}" for example in self.examples[each, site]]
        return "\n".join(lines)
