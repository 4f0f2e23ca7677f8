"""Makes a policy of a rule file, or of its text."""

from pathlib import Path

from omnigraph.diagnostics import Source
from omnigraph.errors import PolicyError, UsageError
from omnigraph.policy.deciding import Policy


def policy_of(path_or_text: Path | str) -> Policy:
    """The policy of a rule file, or of a text, which has `rules:` or a line break in it where a path has none.

    Raises PolicyError with all that is wrong with it.
    """
    from omnigraph.policy.checking import checked, checked_file  # noqa: PLC0415 - loads pyyaml

    if not isinstance(path_or_text, str | Path) or not str(path_or_text).strip():
        raise UsageError(f"a policy is the path of a rule file, or its text, and not {path_or_text!r}")
    if isinstance(path_or_text, str) and ("\n" in path_or_text or "rules:" in path_or_text):
        result = checked(Source("<policy>", path_or_text))
    else:
        result = checked_file(Path(path_or_text))
    if result.book is None:
        raise PolicyError([finding for finding in result.diagnostics if finding.is_error])
    return Policy(result.book)
