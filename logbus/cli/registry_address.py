"""The address of a schema registry, and requests to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from attrs import frozen

if TYPE_CHECKING:
    from logbus.client.schema.registry_http import RegistryHttp

FRAME = 5
"""Bytes before a value that has a schema: a zero, and the schema's id in four bytes (Confluent's wire format)."""


@frozen
class RegistryAddress:
    """
    The address of a schema registry.

    :ivar urls: separated by commas.
    :ivar credentials: ``USER:PASSWORD``; None: it asks for none.
    """

    urls: str
    credentials: str | None

    def open(self, reactor: Any, timeout: float) -> Registry:
        """Return what asks it."""
        from logbus.client.schema.registry_http import RegistryHttp, basic_auth  # twisted.web is a third of a start

        user, _, password = (self.credentials or "").partition(":")
        auth = basic_auth((user, password) if self.credentials else None)
        urls = self.urls.split(",")
        return Registry(
            RegistryHttp(reactor, urls, headers=auth, timeout=timeout, attempts=3, backoff=None, agent=None)
        )


@frozen
class Subjects:
    """
    Whose schemas are used, such as ``orders-value`` or ``orders-value:3``; None: the topic's, of which keys need have
    none.
    """

    key: str | None = None
    value: str | None = None


@frozen
class Registry:
    """Asks a registry."""

    _http: RegistryHttp

    async def get(self, *segments: str, **query: str) -> Mapping[str, Any]:
        """
        Return what it answers.

        :param segments: of the path.
        :raise RegistryError: it answers with an error.
        :raise RegistryUnreachable: no registry answers.
        """
        path = "/".join(["", *(quote(each, safe="") for each in segments)])
        found: Mapping[str, Any] = await self._http.ask("GET", f"{path}?{urlencode(query)}" if query else path)
        return found

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()
