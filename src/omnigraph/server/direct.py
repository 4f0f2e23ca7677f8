"""Answers routes that take one document of JSON, and nothing else, without FastAPI's general way to a parameter.

That way costs more than the rest of the server, and as much as a short query. FastAPI still describes these routes, and
what they take is checked by the same fields, in the same order.
"""

from collections.abc import Callable
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.types import Receive, Scope, Send

from omnigraph.server.bodies import JsonRequest, JsonRoute, check_media_type
from omnigraph.server.models.parameters import known_parameters
from omnigraph.server.serving import serving

_SERVED, _BODY = "served", "body"


class DirectRoute(JsonRoute):
    """A route below a graph. Its endpoint calls what it is served with `served`, and its document `body`."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        if self._takes_one_document():
            self.app = self._answer

    def _takes_one_document(self) -> bool:
        found = self.dependant
        others = (found.path_params, found.query_params, found.header_params, found.cookie_params)
        return (
            not any(others)
            and [(field.name, field.field_info.is_required()) for field in found.body_params] == [(_BODY, True)]
            and [each.name for each in found.dependencies if each.call is serving] == [_SERVED]
        )

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = JsonRequest(scope, receive)
        check_media_type(request)
        document = await request.json() if await request.body() else None
        await known_parameters(request)
        given: dict[str, Any] = {_SERVED: await serving(request, scope["path_params"]["id"])}
        given[_BODY] = self._checked(document)
        if self.dependant.request_param_name is not None:
            given[self.dependant.request_param_name] = request
        response = await self.endpoint(**given)
        await response(scope, receive, send)

    def _checked(self, document: Any) -> Any:
        """The document as the model of the route; raises `RequestValidationError`."""
        if document is None:
            raise RequestValidationError([{"type": "missing", "loc": (_BODY,), "msg": "Field required", "input": None}])
        assert self.body_field is not None
        value, errors = self.body_field.validate(document, loc=(_BODY,))
        if errors:
            raise RequestValidationError(errors)
        return value
