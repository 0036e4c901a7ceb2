"""The base of the clients for asyncio: a cluster, shared or their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from logbus.client.aio.cluster import Cluster, ClusterArguments
from logbus.client.aio.event_loop import current
from logbus.client.aio.lifetime import Lifetime
from logbus.client.validators import unknown_options


class Client(Lifetime):
    """
    A client of a cluster.

    :param cluster: where the brokers are, or a :class:`~logbus.client.aio.Cluster` that clients share, which its owner
        closes.
    :param options: the options given; those of the cluster, if it is the client's own, are taken out.
    :param what: what has the options, such as ``a producer``.
    :param known: the names of those that there are, besides the cluster's.
    :raises TypeError: there is no such option, or it is one of a cluster that is shared.
    """

    def __init__(self, cluster: Cluster | Any, options: dict[str, Any], what: str, known: Iterable[str]) -> None:
        known = {*known, *ClusterArguments.__annotations__}
        if unknown := options.keys() - known:
            raise unknown_options(what, unknown, known)
        own = {name: options.pop(name) for name in ClusterArguments.__annotations__ if name in options}
        if isinstance(cluster, Cluster):
            if own:
                raise TypeError(f"{', '.join(sorted(own))} are options of the cluster that is given; give them to it")
            self._cluster, self._owns_cluster = cluster, False
        else:
            self._cluster, self._owns_cluster = Cluster(cluster, **own), True

    @property
    def cluster(self) -> Cluster:
        """The cluster, which other clients may share."""
        return self._cluster

    async def start(self) -> Self:
        """
        Connect to the cluster. Not needed before each of the other methods, but it tells at once what is wrong.

        :raises Unreachable: no broker answers.
        :raises ApiError: the broker refuses our login, or its certificate is not trusted.
        """
        await self._cluster.start()
        self._is_closed = False
        return self

    def _check_loop(self) -> None:
        """
        Check that the client is used in its own event loop: in another one nothing would ever wake the tasks that wait.

        :raises RuntimeError: another one runs.
        """
        current(self._cluster.event_loop)

    async def close(self) -> None:
        """End it."""
        self._is_closed = True
        if self._owns_cluster:
            await self._cluster.close()

    def __del__(self) -> None:
        if not self._is_closed:
            if self._owns_cluster:
                self._cluster.told_of = True
            self._warn_unclosed(type(self).__name__)
            self._cluster.soon(self._abandon)

    def _abandon(self) -> None:
        """End at once what nobody can end any more."""
        if self._owns_cluster:
            self._cluster.core.close()

    def __repr__(self) -> str:
        return f"<logbus.client.aio.{type(self).__name__} of {self._cluster}>"
