"""Cedar with the rules of one file: parsed once, checked against the schema, asked for each request."""

import logging

import cedarpy

from omnigraph.policy.cedar import cedar_entities, cedar_request, cedar_schema, cedar_text
from omnigraph.policy.rules import Request, Rulebook

_logger = logging.getLogger("omnigraph.policy")


class Engine:
    """What decides. It keeps nothing of a request."""

    def __init__(self, book: Rulebook) -> None:
        self.text = cedar_text(book)
        found = cedarpy.validate_policies(self.text, cedar_schema())
        if not found.validation_passed:
            # Not a mistake in the file, which was checked before: a rule that Cedar could not evaluate would be left
            # out of its decisions, and that may be one that forbids.
            problems = "; ".join(str(each) for each in found.errors)
            raise RuntimeError(f"the rules were not compiled to valid Cedar: {problems}")
        self._policies = cedarpy.PolicySet.from_str(self.text)
        self._entities = cedarpy.Entities.from_json_str(cedar_entities(book.groups))
        self._order = {rule.id: at for at, rule in enumerate(book.rules)}

    def decision(self, request: Request) -> tuple[bool, tuple[str, ...]]:
        """Whether a request is allowed, and by which rules.

        One that Cedar cannot evaluate completely is denied: a rule that fails there is as if it were not in the file,
        also if it forbids.
        """
        try:
            answer = cedarpy.is_authorized(cedar_request(request), self._policies, self._entities)
        except UnicodeEncodeError:
            return False, ()  # half of a surrogate pair is no text, and so no name of anything
        if answer.diagnostics.errors:
            _logger.error("a request was denied because it could not be decided: %s", answer.diagnostics.errors)
            return False, ()
        ids = (answer.diagnostics.id_annotations_by_reason[each] for each in answer.diagnostics.reasons)
        return answer.allowed, tuple(sorted(ids, key=self._order.__getitem__))
