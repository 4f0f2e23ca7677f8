"""The process that tries cases: one line of JSON for each case comes in, lines about its verbs go out.

It may be aborted by what it tries; who gave it the case sees then which verb it was at.
"""

import json
import os
import sys
from pathlib import Path

from tests.corruption.trying import WHOLE, Bench, Case


def main() -> None:
    """Tries what it is given until there is no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    bench = Bench(Path(sys.argv[1]))

    def say(**fields: object) -> None:
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    for line in sys.stdin:
        case = Case.from_json(json.loads(line))
        if case.damage != WHOLE and not bench.is_damage(case):
            say(skipped=True)
            continue
        for verb in case.verbs:
            say(begins=verb)
            findings = bench.try_verb(case, verb)
            say(verb=verb, findings=[[each.outcome, each.site, each.detail] for each in findings])
        say(done=True)


if __name__ == "__main__":
    main()
