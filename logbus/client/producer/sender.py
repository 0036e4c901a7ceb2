"""
Sends batches from the accumulator in Produce requests, and retries them until they time out (Kafka: Sender).

Each broker has several requests in flight, with at most one batch of a partition in each.
:class:`~logbus.client.producer.partition_queue.PartitionQueue` decides which batch of a partition may be sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.client.background_tasks import BackgroundTasks
from logbus.client.cluster.cluster import Cluster
from logbus.client.producer.batch_deadlines import BatchDeadlines
from logbus.client.producer.idempotence import NotSent
from logbus.client.producer.produce_requests import LAST_VERSION_BY_NAME, is_of_leader, outcomes_of, produce_request
from logbus.client.producer.producer_identity import ProducerIdentity
from logbus.client.producer.producer_metrics import ProducerMetrics
from logbus.client.producer.producer_options import ProducerOptions
from logbus.client.producer.producer_record import DeliveryFailed
from logbus.client.producer.record_accumulator import (
    BatchOutcome,
    BatchWritten,
    PartitionQueue,
    ProducerBatch,
    RecordAccumulator,
)
from logbus.client.retry import ClientClosed
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition
from logbus.net.channel import Channel
from logbus.wire.messages.api_versions import ApiVersionsRequest

_PRODUCE = 0
_MOST_REQUESTS = 5
_EARLY = 0.0012
"""
Seconds subtracted from the linger time. The reactor rounds waits up to whole milliseconds and runs a timer one turn
later, so a timer fires about this much too late.
"""
_PROGRESS = 1e-6
"""Seconds that the linger timer waits at least: more than what is lost by rounding."""
_MISSING_SECONDS = 5.0
"""Seconds for which a partition may be missing that was there: a broker may not know yet that it was added."""
_LEADER_SHARE = 0.9
"""
The part of the request timeout that the leader may use, so that it answers with its own timeout error before the client
gives up the connection.
"""


class Sender:
    """
    Sends batches, and handles their responses and timeouts.

    :param accumulator: the source of batches.
    :param identity: gives the producer id and epoch.
    """

    _log = Logger()

    def __init__(
        self,
        cluster: Cluster,
        accumulator: RecordAccumulator,
        identity: ProducerIdentity,
        options: ProducerOptions,
        metrics: ProducerMetrics,
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.reactor
        self._accumulator = accumulator
        self._identity = identity
        self._options = options
        self._linger = max(0.0, options.linger - _EARLY)
        self._metrics = metrics
        self._lane = cluster.lane("produce")
        self._requests: dict[int, int] = {}
        self._looking_up: set[str] = set()
        self._asked: dict[str, float] = {}
        self._tasks = BackgroundTasks(self._task_failed)
        self._deadlines = BatchDeadlines(self._clock, options.delivery_timeout, self._expired)
        self._linger_timer: IDelayedCall | None = None
        self._wake_timer: IDelayedCall | None = None
        self._pumping = False
        self._stopped = False
        self.hurried = 0
        identity.changed = self.pump

    # Called by the producer.

    def begun(self, batch: ProducerBatch) -> None:
        """Start the timers of a batch that got its first record."""
        self._deadlines.add(batch)
        topic = batch.partition.topic
        if batch.created - self._asked.setdefault(topic, batch.created) > self._options.metadata_max_age:
            self._asked[topic] = batch.created
            self._tasks.start(self._refresh_topic(topic))
        if self._linger_timer is None:
            self._linger_timer = self._clock.callLater(0 if self.hurried else self._linger, self._linger_expired)
        elif self.hurried:
            self._linger_timer.reset(0)

    def hurry(self) -> None:
        """Send batches without waiting for them to fill, until :meth:`relax` was called as often."""
        self.hurried += 1
        self._accumulator.make_all_ready()
        self.pump()

    def relax(self) -> None:
        """Undo one :meth:`hurry`."""
        self.hurried -= 1

    def give_up(self, error: Exception, partition: TopicPartition | None = None) -> None:
        """
        Fail the batches that are not in flight. Batches in flight fail when their responses come.

        :param partition: None: those of all partitions.
        """
        failed: list[ProducerBatch] = []
        for queue in self._accumulator.queues() if partition is None else [self._accumulator.queue(partition)]:
            self._accumulator.seal(queue)
            for batch in list(queue.waiting):
                queue.give_up(batch)
                failed.append(batch)
        for batch in failed:
            self._finish(batch, error)

    def stop(self, error: Exception) -> None:
        """Send nothing more, and fail everything, batches in flight included."""
        self._stopped = True
        self._deadlines.stop()
        for timer in (self._linger_timer, self._wake_timer):
            if timer is not None and timer.active():
                timer.cancel()
        self._tasks.cancel()
        self._identity.close()
        self.give_up(error)
        for queue in self._accumulator.queues():
            for batch in list(queue.in_flight):
                self._finish(batch, error)
        self._cluster.close_lane(self._lane)

    # Requests.

    def pump(self) -> None:
        """Send all batches that can be sent now."""
        if self._pumping or self._stopped:
            return
        self._pumping = True
        try:
            while self._pump_once():
                pass
        finally:
            self._pumping = False

    def _pump_once(self) -> bool:
        """Send at most one batch of each partition; returns whether there may be more to send."""
        identity = self._identity
        packs: dict[int, list[ProducerBatch]] = {}
        sizes: dict[int, int] = {}
        sent = False
        now = self._clock.seconds()
        for queue in self._accumulator.ready():
            if not identity.is_ready:
                if identity.refusal is None:
                    identity.prepare()
                    # At once, without a broker to ask: then its change was not heard, since this is at work.
                    return identity.is_ready or identity.refusal is not None
                self.give_up(identity.refusal)
                return False
            if queue.not_before > now:
                continue
            partition = queue.partition
            leader = self._cluster.leader(partition)
            if leader is None:
                self._look_up(partition.topic)
                continue
            if self._requests.get(leader, 0) >= _MOST_REQUESTS:
                continue
            if not queue.may_send(leader, idempotent=identity.idempotent) or not identity.admits(partition):
                continue
            if identity.transactional_id is None and queue.has_exhausted(identity.producer):
                identity.renew()
                return True
            batch = queue.take_next(leader, identity.producer if identity.idempotent else None)
            self._accumulator.mark_served(queue)
            self._count(batch, now)
            sent = True
            pack = packs.setdefault(leader, [])
            if pack and sizes[leader] + batch.size > self._options.request_bytes:
                self._dispatch(leader, pack)
                pack = packs[leader] = []
            sizes[leader] = batch.size + (sizes[leader] if pack else 0)
            pack.append(batch)
        for leader, pack in packs.items():
            self._dispatch(leader, pack)
        return sent

    def _count(self, batch: ProducerBatch, now: float) -> None:
        if batch.attempts > 1:
            self._metrics.retries += 1
        else:
            self._metrics.batches += 1
            self._metrics.queue_us += int((now - batch.created) * 1e6)

    def _dispatch(self, leader: int, batches: list[ProducerBatch]) -> None:
        self._requests[leader] = self._requests.get(leader, 0) + 1
        self._metrics.requests += 1
        self._tasks.start(self._deliver(leader, batches))

    async def _deliver(self, leader: int, batches: list[ProducerBatch]) -> None:
        outcomes: Sequence[BatchOutcome]
        channel: Channel | None = None
        try:
            try:
                channel = await self._cluster.channel(leader, self._lane)
                request, by_id = produce_request(
                    self._cluster,
                    batches,
                    acks=self._options.acks,
                    timeout=self._options.request_timeout * _LEADER_SHARE,
                    transactional_id=self._identity.transactional_id,
                )
                self._metrics.bytes += sum(len(p.records or b"") for t in request.topic_data for p in t.partition_data)
                version = self._identity.produce_version(channel.version(_PRODUCE))
                version = version if by_id else min(version, LAST_VERSION_BY_NAME)
            except LogbusError as e:
                raise NotSent(e) from e
            if self._options.acks:
                answer = await channel.request(request, version, self._options.request_timeout)
                outcomes = outcomes_of(self._cluster, batches, request, answer)
            else:
                channel.send(request, version)
                outcomes = [BatchWritten(-1, -1)] * len(batches)
        except CancelledError:
            outcomes = [DeliveryFailed("the producer was stopped")] * len(batches)
        except (LogbusError, NotSent) as e:
            outcomes = [e] * len(batches)
        except Exception as e:
            self._log.failure("a Produce request could not be made")
            outcomes = [e] * len(batches)
        if self._options.acks or channel is None:
            self._requests[leader] -= 1
            self._handle_results(batches, outcomes)
            return
        self._handle_results(batches, outcomes)
        try:
            # acks=0 has no response: the response to another request after it shows that the broker read it.
            await channel.request(ApiVersionsRequest(), 0, self._options.request_timeout)
        except LogbusError as e:
            self._log.debug("records sent with acks=0 may be lost: {error}", error=e)
        finally:
            self._requests[leader] -= 1
        self.pump()

    def _handle_results(self, batches: Iterable[ProducerBatch], outcomes: Iterable[BatchOutcome]) -> None:
        finished: list[tuple[ProducerBatch, BatchOutcome]] = []
        for batch, outcome in zip(batches, outcomes, strict=True):
            queue = self._accumulator.queue(batch.partition)
            leader = self._cluster.leader(batch.partition)
            is_transactional = self._identity.transactional_id is not None
            count = len(queue.waiting)
            is_over = self._stopped or self._identity.refusal is not None
            done = queue.handle_result(batch, outcome, final=is_over, transactional=is_transactional)
            finished += done
            if done:
                continue
            assert isinstance(outcome, Exception)
            self._metrics.splits += len(queue.waiting) - count - 1
            self._log.debug("{partition}: {error}; retrying", partition=str(batch.partition), error=outcome)
            queue.last_error = outcome
            if leader is not None and leader == queue.broker and not is_of_leader(outcome):
                # The broker did not name another leader.
                self._cluster.forget(batch.partition.topic)
            self._accumulator.requeue(queue)
            if leader is None or leader == queue.broker:
                self._pause(queue)
        if all(isinstance(outcome, BatchWritten) for _, outcome in finished):
            # Send more before the callbacks run, so that the broker is busy meanwhile. After a failure the callbacks
            # come first, since they may cancel what would be sent.
            self.pump()
        for batch, outcome in finished:
            self._finish(batch, outcome)
        self.pump()

    def _pause(self, queue: PartitionQueue) -> None:
        """Delay the next attempt for a partition."""
        if queue.attempts:
            wait = self._cluster.backoff.before(queue.attempts)
            queue.not_before = self._clock.seconds() + wait
            self._wake_after(wait)

    def _wake_after(self, seconds: float) -> None:
        timer = self._wake_timer
        if timer is not None and timer.active():
            if timer.getTime() <= self._clock.seconds() + seconds:
                return
            timer.cancel()
        self._wake_timer = self._clock.callLater(seconds, self._wake)

    def _wake(self) -> None:
        now = self._clock.seconds()
        later = [queue.not_before for queue in self._accumulator.ready() if queue.not_before > now]
        if later:
            self._wake_timer = self._clock.callLater(min(later) - now, self._wake)
        self.pump()

    def _finish(self, batch: ProducerBatch, outcome: BatchOutcome) -> None:
        if isinstance(outcome, Exception) and batch.outcome is None:
            self._metrics.errors += 1
            self._metrics.failed_records += batch.builder.count
            self._identity.failed(outcome)
        batch.finish(outcome)

    # Leaders.

    def _look_up(self, name: str) -> None:
        if name not in self._looking_up:
            self._looking_up.add(name)
            self._tasks.start(self._find_leaders(name))

    async def _refresh_topic(self, name: str) -> None:
        """
        Refresh a topic's metadata: a topic that is written to without errors would not show new partitions otherwise.
        """
        try:
            await self._cluster.refresh_topics([name])
        except LogbusError as e:
            self._log.debug("the metadata of topic {name} could not be refreshed: {error}", name=name, error=e)

    async def _find_leaders(self, name: str) -> None:
        """Look up the leaders of a topic's partitions; fail the batches of partitions that do not exist."""
        gone: Exception | None = None
        last_error: Exception | None = None
        indexes: Iterable[int] = ()
        try:
            self._cluster.forget(name)
            indexes = (await self._cluster.topic(name)).partitions
        except ApiError as e:
            if e.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not e.code.retriable:
                gone = e
            last_error = e
        except ClientClosed as e:
            gone = last_error = e
        except LogbusError as e:
            last_error = e
        finally:
            self._looking_up.discard(name)
        for queue in self._accumulator.queues():
            partition = queue.partition
            if partition.topic != name:
                continue
            if self._cluster.leader(partition) is not None:
                queue.missing_since = None
                continue
            final, problem = gone, last_error
            if problem is None and partition.partition not in indexes:
                problem = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition}")
                if self._is_missing_for_long(queue):
                    final = problem
            if final is not None:
                self.give_up(final, partition)
            else:
                queue.last_error = problem or ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
                queue.attempts += 1
                self._pause(queue)
        self.pump()

    def _is_missing_for_long(self, queue: PartitionQueue) -> bool:
        """Whether brokers have answered for a while that there is no such partition."""
        now: float = self._clock.seconds()
        if queue.missing_since is None:
            queue.missing_since = now
        return now - queue.missing_since >= _MISSING_SECONDS

    # Time.

    def _linger_expired(self) -> None:
        """Release batches that have lingered long enough."""
        self._linger_timer = None
        now = self._clock.seconds()
        linger = 0.0 if self.hurried else self._linger
        oldest = self._accumulator.make_ready(now - linger)
        if oldest is not None:
            # Time must pass: by rounding, a batch may lack less than what the clock can add to its time.
            self._linger_timer = self._clock.callLater(max(_PROGRESS, oldest + linger - now), self._linger_expired)
        self.pump()

    def _expired(self, partitions: Sequence[TopicPartition], latest: float) -> None:
        """Fail batches that have exceeded the delivery timeout."""
        for partition in partitions:
            queue = self._accumulator.queue(partition)
            if queue.growing is not None and queue.growing.created <= latest:
                self._accumulator.seal(queue)
            overdue = [each for each in (*queue.in_flight, *queue.waiting) if each.created <= latest]
            for batch in overdue:
                if batch in queue.waiting:
                    queue.give_up(batch)
            for batch in overdue:
                self._finish(batch, self._timeout_error(queue, batch))
        self.pump()

    def _timeout_error(self, queue: PartitionQueue, batch: ProducerBatch) -> DeliveryFailed:
        seconds = self._clock.seconds() - batch.created
        tried = f"{batch.attempts} attempts" if batch.attempts else "it was never sent"
        why = f": {queue.last_error}" if queue.last_error is not None else ""
        return DeliveryFailed(f"{batch.partition}: given up after {seconds:.1f} s, {tried}{why}")

    def _task_failed(self, failure: Failure) -> None:
        self._log.failure("sending failed", failure=failure)
