"""
One flow from a source to a target (Kafka: MirrorMaker): copies, begins anew after errors, publishes checkpoints and
heartbeats.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.client.background_tasks import BackgroundTasks
from logbus.client.cluster.cluster import Cluster
from logbus.client.producer.producer import Producer
from logbus.client.producer.transaction_errors import Fenced
from logbus.client.retry import Backoff, is_retriable
from logbus.coroutines import sleep
from logbus.errors import ApiError, LogbusError
from logbus.mirror.checkpoints import Checkpoints
from logbus.mirror.copy_session import CopySession
from logbus.mirror.mirror_options import MirrorOptions, Taken, nobody
from logbus.mirror.mirror_records import Heartbeat
from logbus.mirror.mirror_status import MirrorState, MirrorStatus
from logbus.mirror.missing_rights import what_session_lacks
from logbus.mirror.replication_policy import HEARTBEATS
from logbus.mirror.source_reader import update_ends
from logbus.mirror.start_positions import Begun
from logbus.mirror.topic_sync import TopicSync, check_different

_BACKOFF = Backoff(1.0, 30.0)
"""Between sessions that fail."""


class Mirror:
    """
    Copies until it is stopped.

    :param source: the cluster to read; its owner closes it, likewise ``target``.
    :param target: the cluster to write to.
    :param say: called with one line about what a user should know.
    :param wall_clock: seconds since 1970.
    :param taken: the name of another mirror that copies a topic of the source, which this one leaves alone, then.
    :ivar status: counts, lag and problems.
    """

    _log = Logger()

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        options: MirrorOptions,
        *,
        say: Callable[[str], object] | None = None,
        wall_clock: Callable[[], float] = time.time,
        taken: Taken = nobody,
    ) -> None:
        self._source = source
        self._target = target
        self._options = options
        self._wall_clock = wall_clock
        self._taken = taken
        self.status = MirrorStatus(options.flow, wall_clock=wall_clock)
        if say is not None:
            self.status.say = say
        self._checkpoints = Checkpoints(source, target, options, self.status, wall_clock)
        self._session: CopySession | None = None
        self._begun: Begun = {}
        self._tasks = BackgroundTasks(self._task_failed)
        self._stopping = False
        self._pausing: Deferred[None] | None = None

    async def run(self) -> None:
        """
        Copy until :meth:`stop`, or with ``until_end`` until everything is copied.

        :raises ConfigError: source and target are the same cluster.
        :raises Fenced: another mirror of this flow has begun.
        :raises LogbusError: it could not begin.
        """
        try:
            await self._run()
        except LogbusError as e:
            # Whoever runs it tells of its end.
            self.status.fail(str(e))
            raise
        self.status.state = MirrorState.STOPPED

    async def _run(self) -> None:
        options, failures, has_worked = self._options, 0, False
        await self._check_clusters()
        self._begin_background()
        try:
            while not self._stopping:
                session = self._session = CopySession(
                    self._source, self._target, options, self.status, self._wall_clock, self._taken, self._begun
                )
                try:
                    await session.run()
                    break
                except Fenced as e:
                    raise Fenced(
                        f"another mirror from {options.source} to {options.target} has begun, and this one ends: {e}"
                    ) from e
                except LogbusError as e:
                    has_worked = has_worked or bool(session.reader.topics)
                    missing = what_session_lacks(e, options, self._target)
                    if not has_worked and not is_retriable(e):
                        if missing is None:
                            raise
                        raise (ApiError(e.code, missing) if isinstance(e, ApiError) else LogbusError(missing)) from e
                    failures = 1 if session.reader.topics else failures + 1
                    wait = _BACKOFF.before(failures)
                    self.status.restarts += 1
                    self.status.state = MirrorState.RESTARTING
                    self.status.problem("session", f"{missing or e}; beginning anew")
                    await update_ends(self._source, self.status, list(self.status.positions))
                    await self._pause(wait)
            if self._session is not None and options.checkpoint_interval:
                await self._emit_checkpoints()
        finally:
            self._tasks.cancel()

    def stop(self) -> None:
        """End in order: the open transaction is committed first."""
        self._stopping = True
        if self._session is not None:
            self._session.stop()
        if self._pausing is not None:
            self._pausing.cancel()

    async def _check_clusters(self) -> None:
        """
        :raises ConfigError: a mirror onto itself would copy what it has copied.
        """
        sides = ((self._source, f"source {self._options.source}"), (self._target, f"target {self._options.target}"))
        for cluster, side in sides:
            try:
                await cluster.refresh()
            except ApiError as e:
                raise ApiError(e.code, f"the {side}: {e}") from e
        check_different(self._source, self._target, "which would have copies of its copies; give another target")

    # In the background.

    def _begin_background(self) -> None:
        if self._options.until_end:
            return
        if self._options.checkpoint_interval:
            self._tasks.start(self._repeat(self._options.checkpoint_interval, self._emit_checkpoints))
        if self._options.heartbeat_interval:
            self._tasks.start(self._repeat(self._options.heartbeat_interval, self._beat))

    async def _repeat(self, interval: float, work: Callable[[], Any]) -> None:
        while True:
            await sleep(self._source.reactor, interval)
            try:
                await work()
            except CancelledError:
                raise
            except Exception:
                # Of one round; the next one may go well.
                self._log.failure("a task of a mirror failed, and is tried again")

    async def _emit_checkpoints(self) -> None:
        session = self._session
        if session is None or not session.reader.topics:
            return
        try:
            await self._topic_sync.create_internal(self._options.policy.checkpoints_topic)
            await self._checkpoints.emit(session.reader.topics, session.reader.copied)
        except LogbusError as e:
            self.status.problem("checkpoints", f"checkpoints of groups cannot be written: {e}; records are copied")
        else:
            self.status.solved("checkpoints")

    async def _beat(self) -> None:
        """Write a heartbeat at the source, from where it is copied, and at the target."""
        beat = Heartbeat(self._options.source, self._options.target, int(self._wall_clock() * 1000))
        for cluster, where in ((self._source, "source"), (self._target, "target")):
            try:
                await TopicSync(self._source, cluster, self._options, self.status).create_internal(HEARTBEATS)
                producer = Producer(cluster, linger=0.0, wall_clock=self._wall_clock, delivery_timeout=10.0)
                try:
                    await producer.send(HEARTBEATS, beat.value, beat.key, partition=0)
                finally:
                    await producer.close()
            except LogbusError as e:
                self.status.problem(
                    f"heartbeats of the {where}", f"no heartbeats at the {where}: {e}; records are copied all the same"
                )
            else:
                self.status.solved(f"heartbeats of the {where}")

    @property
    def _topic_sync(self) -> TopicSync:
        return TopicSync(self._source, self._target, self._options, self.status)

    async def _pause(self, seconds: float) -> None:
        self._pausing = sleep(self._source.reactor, seconds)
        try:
            await self._pausing
        except CancelledError:
            if not self._stopping:
                raise
        finally:
            self._pausing = None

    def _task_failed(self, failure: Failure) -> None:
        self._log.failure("a task of a mirror failed", failure=failure)
