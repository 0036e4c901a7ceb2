"""
What the console asks the schema registry, in one process with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from zope.interface import Interface

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from logbus.admin.authorization import HttpAccess


class ISchemaRegistry(Interface):
    """What the resource mounted at ``registry`` provides, so that pages can ask it in this process."""

    def ask(
        method: str, path: Sequence[str], query: Mapping[str, str], body: bytes, access: HttpAccess
    ) -> Deferred[tuple[int, bytes]]:
        """
        Return the status and the JSON that a client with these rights would get.

        :param path: the decoded segments below ``/registry``.
        :raise HttpProblem: the client has not logged in, which may help.
        """
