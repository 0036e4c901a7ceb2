"""Runs a benchmark of ``logbus bench``, and reports the figures of the broker and of the client."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import click
from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.cli.load_generator import LoadGenerator, LoadResult, percentiles
from logbus.cli.output import PROGRESS_INTERVAL, Progress, quantity
from logbus.cli.process_usage import ProcessUsage, listener_pid, process_usage
from logbus.cli.runner import CommandFailed
from logbus.client.admin.admin_client import AdminClient, NewTopic
from logbus.client.cluster.cluster import Cluster
from logbus.errors import ErrorCode

Latencies = Mapping[str, list[float]]
Load = Callable[[LoadGenerator], Coroutine[Deferred[Any], Any, tuple[LoadResult, Latencies]]]


@frozen(kw_only=True)
class Benchmark:
    """
    A load on one topic, which is created if it does not exist, and deleted at the end.

    :ivar partitions: of a new topic.
    :ivar load: generates the load; returns its totals, and latencies in seconds by name.
    :ivar prepare: fills a new topic.
    :ivar pid: the broker's process; None: the one that listens at the bootstrap address.
    :ivar keep: do not delete the topic.
    """

    name: str
    topic: str
    partitions: int
    connections: int
    depth: int
    load: Load
    prepare: Callable[[LoadGenerator], Coroutine[Deferred[Any], Any, object]] | None
    pid: int | None
    keep: bool
    timeout: float

    async def run(self, cluster: Cluster) -> dict[str, Any]:
        """
        Run the load.

        :returns: the figures, as JSON values.
        """
        progress = Progress(PROGRESS_INTERVAL)

        def show(result: LoadResult) -> None:
            progress.show(f"{self.name}: {quantity(result.records)} records, {quantity(result.bytes)}B")

        admin = AdminClient(cluster, timeout=self.timeout)
        error = (await admin.create_topics([NewTopic(self.topic, self.partitions)]))[self.topic]
        if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise error
        try:
            generator = LoadGenerator(cluster, await cluster.topic(self.topic), self.connections, self.depth, show)
            await generator.ready()
            if self.prepare is not None and error is None:
                await self.prepare(generator)
            return await self._measure(generator, self.pid or listener_pid(*cluster.bootstrap[0]))
        finally:
            progress.clear()
            if error is None and not self.keep:
                await admin.delete_topics([self.topic])

    async def _measure(self, generator: LoadGenerator, pid: int | None) -> dict[str, Any]:
        before = None if pid is None else process_usage(pid)
        if self.pid is not None and before is None:
            raise CommandFailed(f"there is no process {self.pid}")
        client_before = time.process_time()
        result, latencies = await self.load(generator)
        client_seconds = time.process_time() - client_before
        after = None if pid is None else process_usage(pid)
        seconds = max(result.seconds, 1e-9)
        found: dict[str, Any] = {
            "bench": self.name,
            "topic": self.topic,
            "seconds": round(seconds, 3),
            "requests": result.requests,
            "records": result.records,
            "bytes": result.bytes,
            "requests_per_second": round(result.requests / seconds, 1),
            "records_per_second": round(result.records / seconds, 1),
            "mb_per_second": round(result.bytes / seconds / 1e6, 3),
            "latency_ms": {what: percentiles(each) for what, each in latencies.items() if each},
            "client_cpu_seconds": round(client_seconds, 3),
        }
        if before is not None and after is not None:
            found["broker"] = {"pid": pid, **_broker_usage(before, after, result)}
        return found


def _broker_usage(before: ProcessUsage, after: ProcessUsage, result: LoadResult) -> dict[str, float]:
    cpu = after.cpu_seconds - before.cpu_seconds
    return {
        "cpu_seconds": round(cpu, 3),
        "cpu_seconds_per_gb": round(cpu / max(result.bytes, 1) * 1e9, 3),
        "cpu_us_per_request": round(cpu / max(result.requests, 1) * 1e6, 2),
        "resident_mb": round(after.resident_bytes / 1e6, 1),
    }


def print_figures(found: Mapping[str, Any]) -> None:
    """Print the figures of a benchmark."""
    click.echo(
        f"{found['bench']}: {found['records_per_second']:,.0f} records/s, {found['mb_per_second']:,.1f} MB/s, "
        f"{found['requests_per_second']:,.0f} requests/s in {found['seconds']:g} s"
    )
    for what, each in found["latency_ms"].items():
        spelled = "  ".join(f"{point} {value:g}" for point, value in each.items())
        click.echo(f"  until {'the answer' if what == 'answer' else 'it is read'}, ms:  {spelled}")
    broker = found.get("broker")
    if broker is not None:
        click.echo(
            f"  broker (process {broker['pid']}): {broker['cpu_seconds_per_gb']:g} CPU s/GB, "
            f"{broker['cpu_us_per_request']:g} µs/request, {broker['resident_mb']:g} MB resident"
        )
    share = found["client_cpu_seconds"] / found["seconds"]
    limit = "; this client is the limit" if share > 0.9 else ""
    click.echo(f"  client: {share:.0%} of a core{limit}")
