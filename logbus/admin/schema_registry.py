"""
The console's access to the schema registry of the same process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen
from zope.interface import Interface

from logbus.errors import LogbusError

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from logbus.admin.authorization import HttpAccess


class SchemaNotUsed(LogbusError):
    """A schema cannot be used to show values; the message says why."""


@frozen
class ValueSchema:
    """
    A schema, for values to be shown.

    :ivar form: of its values: ``Avro``, ``JSON`` or ``Protobuf``.
    :ivar read: makes JSON of the bytes of a value, or raises ValueError if they are none; None: they are JSON.
    """

    form: str
    read: Callable[[bytes], Any] | None = None


class ISchemaRegistry(Interface):
    """The interface of the resource mounted at ``registry``, for pages of the same process."""

    def ask(
        method: str, path: Sequence[str], query: Mapping[str, str], body: bytes, access: HttpAccess
    ) -> Deferred[tuple[int, bytes]]:
        """
        Return the status and the JSON that a client with these rights would get.

        :param path: the decoded segments below ``/registry``.
        :raise HttpProblem: the client has not logged in, which may help.
        """

    def value_schema(number: int, access: HttpAccess) -> Deferred[ValueSchema | None]:
        """
        Return the schema of an id; None if there is none.

        :raise SchemaNotUsed: (in the Deferred) it cannot be used, or the client may not see it.
        """
