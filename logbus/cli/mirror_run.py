"""Runs a mirror, or its audit, for the command line: lines, progress, the end by a signal, and a summary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred

from logbus.cli.client_security import security_of_file
from logbus.cli.output import Progress, quantity
from logbus.cli.runner import CommandFailed, run
from logbus.client.cluster.cluster import Cluster
from logbus.client.retry import Unreachable
from logbus.coroutines import shield, sleep
from logbus.metrics import Registry
from logbus.mirror.audit.audit_options import AuditOptions
from logbus.mirror.audit.mirror_audit import MirrorAudit
from logbus.mirror.audit.partition_report import PartitionReport
from logbus.mirror.mirror import Mirror
from logbus.mirror.mirror_options import MirrorOptions
from logbus.mirror.mirror_status import MirrorStatus
from logbus.security.client_security import ClientSecurity
from logbus.wording import counted

_SHOWN = 1.0
"""Seconds between changes of the progress line."""


@frozen
class Side:
    """A cluster, and how to connect to it."""

    bootstrap: str
    security: ClientSecurity | None

    def cluster(self, reactor: Any, timeout: float) -> Cluster:
        """Its client."""
        return Cluster(
            reactor,
            self.bootstrap,
            client_id="logbus-mirror",
            timeout=timeout,
            connect_timeout=min(timeout, 10.0),
            security=self.security,
        )


@frozen
class MirrorSides:
    """
    Both clusters.

    :ivar timeout: seconds to wait for a response.
    """

    source: Side
    target: Side
    timeout: float

    @classmethod
    def of(
        cls, source: str, from_config: Path | None, target: str, to_config: Path | None, timeout: float
    ) -> MirrorSides:
        """
        The clusters that the options of a command name.

        :raises click.BadParameter: as :func:`.security_of_file`.
        """
        return cls(
            Side(source, security_of_file(from_config, "--from-config")),
            Side(target, security_of_file(to_config, "--to-config")),
            timeout,
        )


def run_mirror(sides: MirrorSides, options: MirrorOptions, metrics_port: int | None) -> MirrorStatus:
    """
    Run a mirror until its end, or until a signal; prints a summary.

    :param metrics_port: where to serve metrics; None: nowhere.
    :raises CommandFailed: it cannot begin.
    """

    async def work(reactor: Any) -> MirrorStatus:
        source, target = (side.cluster(reactor, sides.timeout) for side in (sides.source, sides.target))
        progress = Progress()

        def say(line: str) -> None:
            progress.clear()
            click.echo(line, err=True)

        mirror = Mirror(source, target, options, say=say)
        status, began = mirror.status, reactor.seconds()
        port = None if metrics_port is None else _serve_metrics(reactor, metrics_port, status, say)
        showing = Deferred.fromCoroutine(_show(reactor, progress, status))
        showing.addErrback(lambda failure: failure.trap(CancelledError))
        running: Deferred[None] = Deferred.fromCoroutine(mirror.run())
        try:
            try:
                await shield(running)
            except CancelledError:
                mirror.stop()
                await running
        except Unreachable as e:
            raise CommandFailed(
                f"{e}; are brokers running at {sides.source.bootstrap} and at {sides.target.bootstrap}?"
            ) from None
        finally:
            showing.cancel()
            progress.clear()
            if port is not None:
                await port.stopListening()
            await source.close()
            await target.close()
        _print_summary(status, reactor.seconds() - began)
        return status

    return run(work)


def run_audit(sides: MirrorSides, mirror: MirrorOptions, options: AuditOptions, wait: float) -> list[PartitionReport]:
    """
    Compare the topics of both sides.

    :param wait: seconds to wait for a mirror that runs.
    :raises CommandFailed: a side cannot be reached.
    """

    async def work(reactor: Any) -> list[PartitionReport]:
        source, target = (side.cluster(reactor, sides.timeout) for side in (sides.source, sides.target))
        progress, done = Progress(), 0

        def tell(report: PartitionReport) -> None:
            nonlocal done
            done += report.source
            progress.show(f"{quantity(done)} records compared, up to {report.topic}-{report.partition}")

        try:
            return await MirrorAudit(source, target, mirror, options, wait, tell).run()
        except Unreachable as e:
            raise CommandFailed(
                f"{e}; are brokers running at {sides.source.bootstrap} and at {sides.target.bootstrap}?"
            ) from None
        finally:
            progress.clear()
            await source.close()
            await target.close()

    return run(work)


def _print_summary(status: MirrorStatus, seconds: float) -> None:
    topics = len({each.topic for each in status.positions})
    rate = f", {quantity(status.size / seconds)}B/s" if seconds > 0 else ""
    click.echo(
        f"copied {counted(status.records, 'record')}, {quantity(status.size)}B{rate}, of {counted(topics, 'topic')} in "
        f"{seconds:.1f} s; "
        f"{status.lag} are left"
        + (f", and {status.skipped} were left out, since they are too large for the target" if status.skipped else "")
    )


async def _show(reactor: Any, progress: Progress, status: MirrorStatus) -> None:
    """Show how far the mirror is."""
    records = size = 0
    while progress.is_on:
        await sleep(reactor, _SHOWN)
        speed = (
            f"{quantity((status.records - records) / _SHOWN)} records/s, {quantity((status.size - size) / _SHOWN)}B/s"
        )
        records, size = status.records, status.size
        progress.show(f"{quantity(records)} records, {speed}, {quantity(status.lag)} to go")


def _serve_metrics(reactor: Any, port: int, status: MirrorStatus, say: Any) -> Any:
    """
    Listen for Prometheus.

    :raises CommandFailed: the port is taken.
    """
    from twisted.internet.error import CannotListenError
    from twisted.web.resource import Resource
    from twisted.web.server import Site

    from logbus.exposition import OPENMETRICS, TEXT, render, wants_openmetrics

    registry = Registry()
    registry.add_source(status.families)

    class Metrics(Resource):
        isLeaf = True

        def render_GET(self, request: Any) -> bytes:
            openmetrics = wants_openmetrics(request.getHeader("accept") or "")
            request.setHeader("content-type", OPENMETRICS if openmetrics else TEXT)
            return b"".join(render(registry.collect(), openmetrics))

    root = Resource()
    root.putChild(b"metrics", Metrics())
    try:
        listening = reactor.listenTCP(port, Site(root), interface="127.0.0.1")
    except CannotListenError as e:
        raise CommandFailed(f"--metrics-port {port}: {e.socketError}; give another one, or 0 for any") from None
    say(f"metrics: http://127.0.0.1:{listening.getHost().port}/metrics")
    return listening
