"""
Fetches the partitions that one broker leads, in a loop (Kafka: ReplicaFetcherThread).

All records of an answer are appended before the next fetch, in the reactor turn in which the answer came: they are
appended from the receive buffer without a copy. A partition with a slow operation is left out meanwhile
(:class:`~logbus.cluster.follower.followed_partitions.FollowedPartitions`).

The loop waits a little for syncs, so that one fetch acknowledges many partitions; it does not wait for slow ones.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectError
from twisted.logger import Logger

from logbus.cluster.follower.fetch_session_handler import FINAL_EPOCH
from logbus.cluster.follower.fetch_settings import ReplicaFetchCounters, ReplicaFetchSettings
from logbus.cluster.follower.followed_partitions import FollowedPartitions
from logbus.cluster.follower.partition_fetch_state import retry_delay
from logbus.errors import ErrorCode, LogbusError, error_of
from logbus.net.channel import Channel
from logbus.timers import Timers
from logbus.wire.messages.records import FetchRequest, FetchResponse, ReplicaState

MAX_SYNC_WAITS = 4
"""Multiple of ``replica.fetch.max.bytes`` that may be fetched of one partition: more would hold up others."""

ChannelFor = Callable[[int, str], Deferred[Channel]]
"""Returns the connection to a broker for a purpose."""

_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


@define(eq=False)
class ReplicaFetcher:
    """
    The loop that fetches from one broker.

    :ivar leader: its broker id.
    :ivar broker_epoch: returns that of this broker's registration.
    :ivar partitions: those that are fetched.
    :ivar failures: of fetches as a whole, in a row.
    :ivar problem: why the last fetch failed, for people; empty if it did not.
    """

    leader: int
    broker_id: int
    broker_epoch: Callable[[], int]
    channel_for: ChannelFor
    timers: Timers
    settings: Callable[[], ReplicaFetchSettings]
    counters: ReplicaFetchCounters
    partitions: FollowedPartitions
    failures: int = field(default=0, init=False)
    problem: str = field(default="", init=False)
    _fetched_in: int = field(default=-1, init=False)
    _channel: Channel | None = field(default=None, init=False)
    _log = Logger()

    async def run(self) -> None:
        """Fetch until cancelled."""
        partitions = self.partitions
        while True:
            try:
                await partitions.await_syncs()
                if len(partitions.session):
                    await self._fetch_once()
                else:
                    await partitions.changed()
            except CancelledError:
                self._close_session()
                raise
            except Exception as e:
                await self._pause_after_error(e)

    async def _fetch_once(self) -> None:
        partitions, session = self.partitions, self.partitions.session
        response = await self._request()
        self.counters.fetches += 1
        if response.error_code in _SESSION_ERRORS and not self.failures:
            # The leader restarted, or dropped the session: begin a new one.
            self.failures = 1
            session.reset()
            return
        if response.error_code:
            raise error_of(response.error_code, f"broker {self.leader} refuses the fetch")
        if self.problem:
            self._log.info("fetching from broker {leader} works again", leader=self.leader)
        self.failures, self.problem = 0, ""
        session.answered(response.session_id)
        for topic in response.responses:
            topic_id = bytes(topic.topic_id)
            for data in topic.partitions:
                partitions.take(topic_id, data)

    async def _request(self) -> FetchResponse:
        settings = self.settings()
        channel = self._channel = await self.channel_for(self.leader, "fetch")
        wait_ms = self._wait_ms(settings)
        session, broker_epoch = self.partitions.session, self.broker_epoch()
        if broker_epoch != self._fetched_in:
            # The leader needs a fetch of every partition with the new broker epoch; a continued session would not name
            # idle partitions.
            session.reset()
            self._fetched_in = broker_epoch
        topics, forgotten = session.next_fetch(self._share(settings))
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self.broker_id, replica_epoch=broker_epoch),
            max_wait_ms=wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        response: FetchResponse = await channel.request(request, timeout=wait_ms / 1000 + settings.timeout)
        return response

    def _share(self, settings: ReplicaFetchSettings) -> int:
        """Bytes to fetch of one partition: more than usual where few are busy, since every fetch has a cost."""
        fair = settings.response_max_bytes // max(1, self.partitions.session.named)
        return max(settings.max_bytes, min(MAX_SYNC_WAITS * settings.max_bytes, fair))

    def _wait_ms(self, settings: ReplicaFetchSettings) -> int:
        """Maximum wait of the fetch at the leader: at most until another partition is ready to be fetched."""
        return int(self.partitions.ready_within(settings.wait_max_ms / 1000) * 1000)

    async def _pause_after_error(self, error: Exception) -> None:
        self.partitions.session.reset()
        self.failures += 1
        self.counters.failed_fetches += 1
        problem = str(error)
        if problem != self.problem:
            self.problem = problem
            self._log.warn("cannot fetch from broker {leader}: {problem}", leader=self.leader, problem=problem)
        if not isinstance(error, (LogbusError, OSError, ConnectError)):
            self._log.failure("fetching from broker {leader}", leader=self.leader)
        paused: Deferred[None] = Deferred()
        pause = retry_delay(self.failures, self.settings().backoff)
        timer = self.timers.call_later(pause, lambda: paused.callback(None))
        try:
            await paused
        finally:
            timer.cancel()

    def _close_session(self) -> None:
        """Close the fetch session at the leader, without waiting for the answer."""
        session, channel = self.partitions.session, self._channel
        if session.session_id and channel is not None and channel.usable:
            request = FetchRequest(
                replica_state=ReplicaState(replica_id=self.broker_id, replica_epoch=self.broker_epoch()),
                max_wait_ms=0, min_bytes=0, session_id=session.session_id, session_epoch=FINAL_EPOCH, topics=[],
            )  # fmt: skip
            channel.request(request).addErrback(lambda _: None)
