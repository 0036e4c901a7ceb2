"""A cluster on the running event loop, which producers, consumers and admin clients may share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Self

from typing_extensions import Unpack

from logbus.client.aio.awaiting import outcome
from logbus.client.aio.event_loop import EventLoop, current
from logbus.client.aio.lifetime import Lifetime
from logbus.client.aio.transport import LoopEndpoint
from logbus.client.cluster import cluster as core
from logbus.client.cluster.cluster import ClusterArguments
from logbus.client.cluster.cluster_metrics import ClusterMetrics

__all__ = ["Cluster", "ClusterArguments"]


class Cluster(Lifetime):
    """
    A cluster whose connections and metadata several clients share.

    .. code-block:: python

        async with Cluster("127.0.0.1:9092") as cluster, Producer(cluster) as producer, AdminClient(cluster) as admin:
            ...

    :param bootstrap: ``HOST:PORT``, or several, as a list or separated by commas; tried in order until one answers.
    :param options: of :class:`logbus.client.Cluster`.

    :ivar core: the cluster as the Twisted client has it.
    :ivar told_of: its client has warned that it was not closed.
    :raises ConfigError: ``bootstrap`` is not a list of addresses, or an option is wrong.
    """

    def __init__(self, bootstrap: str | Iterable[str], **options: Unpack[ClusterArguments]) -> None:
        self.told_of = False
        self.event_loop = event_loop = EventLoop()
        self.core = core.Cluster(
            event_loop, bootstrap, endpoint=lambda host, port: LoopEndpoint(event_loop, host, port), **options
        )

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running event loop, which is the one of its first use."""
        return current(self.event_loop)

    @property
    def metrics(self) -> ClusterMetrics:
        """Counts of connections and requests, and their latencies."""
        return self.core.metrics

    async def start(self) -> Self:
        """
        Connect to a broker.

        :raises Unreachable: none answers.
        :raises ApiError: it refuses our login, or its certificate is not trusted.
        """
        current(self.event_loop)
        if self._is_closed:
            await outcome(self.core.refresh())
            self._is_closed = False
        return self

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        await outcome(self.core.close())

    def __del__(self) -> None:
        if not self._is_closed and not self.told_of:
            self._warn_unclosed(repr(self))
            self.soon(self.core.close)

    def soon(self, fn: Callable[[], object]) -> None:
        """Call a function on the loop, if it still runs: what a collected client leaves behind."""
        if self.event_loop.is_running:
            self.event_loop.loop.call_soon_threadsafe(fn)

    def __repr__(self) -> str:
        where = ",".join(f"{host}:{port}" for host, port in self.core.bootstrap)
        return f"<logbus.client.aio.Cluster at {where}>"
