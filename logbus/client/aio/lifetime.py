"""What clients for asyncio have in common: ``async with``, and a warning about one that was not closed."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Any, Self

from logbus.client.aio.cluster import Cluster, ClusterArguments


class Client:
    """
    A client of a cluster. It begins with :meth:`start` and ends with :meth:`close`, or both with ``async with``.

    :param cluster: where the brokers are, or a :class:`~logbus.client.aio.Cluster` that clients share, which its owner
        closes.
    :param options: of the cluster, if it is the client's own.
    """

    def __init__(self, cluster: Cluster | Any, options: dict[str, Any]) -> None:
        self._is_closed = True
        own = {name: options.pop(name) for name in ClusterArguments.__annotations__ if name in options}
        if isinstance(cluster, Cluster):
            if own:
                raise TypeError(f"{', '.join(sorted(own))} are options of the cluster that is given; give them to it")
            self._cluster, self._owns_cluster = cluster, False
        else:
            self._cluster, self._owns_cluster = Cluster(cluster, **own), True

    async def start(self) -> Self:
        """
        Connect to the cluster. Not needed before each of the other methods, but it tells at once what is wrong.

        :raises Unreachable: no broker answers.
        :raises ApiError: the broker refuses our login, or its certificate is not trusted.
        """
        await self._cluster.start()
        self._is_closed = False
        return self

    async def close(self) -> None:
        """End it."""
        self._is_closed = True
        if self._owns_cluster:
            await self._cluster.close()

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except BaseException:
            await self.close()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True):
            self._is_closed = True
            if self._owns_cluster:
                self._cluster.told_of = True
            warnings.warn(
                f"{type(self).__name__} was not closed; use 'async with', or await its close()",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )
            self._cluster.soon(self._abandon)

    def _abandon(self) -> None:
        """End at once what nobody can end any more."""
        if self._owns_cluster:
            self._cluster.core.close()

    def __repr__(self) -> str:
        return f"<logbus.client.aio.{type(self).__name__} of {self._cluster}>"
