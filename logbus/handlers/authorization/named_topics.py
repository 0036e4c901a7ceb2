"""Guards of requests whose elements are topics."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from logbus.errors import ErrorCode
from logbus.handlers.authorization.access import Access
from logbus.handlers.authorization.guard import Guard, Serve, divided, on
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.wire.connection import Request

FORBIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def topics_need(
    operation: AclOperation,
    response: Callable[..., Any],
    refused: Callable[[Any], Any],
    *,
    results: str = "topics",
    name: str = "name",
) -> Guard:
    """
    Build the guard of an API whose requests have a list ``topics``.

    :param response: makes a response of the results of topics only, for a request of which nothing is left.
    :param refused: the result for a topic that is refused, with :data:`FORBIDDEN`.
    :param results: the list of the response; ``name``: the attribute of a topic with its name.
    """
    name_of = attrgetter(name)

    async def guard(access: Access, request: Request, serve: Serve) -> Any:
        message = request.message
        allowed = on(access, operation, ResourceType.TOPIC)
        message.topics, gone = await divided(access, request, message.topics, lambda each: allowed(name_of(each)))
        if not gone:
            return await serve()
        answer = await serve() if message.topics else response(**{results: []})
        getattr(answer, results).extend(map(refused, gone))
        return answer

    return guard
