"""
Fetch fast path: a request that repeats an earlier one is served without decoding it, and is answered without building
messages. Most are consumers'; followers have theirs in a session, and prove with each who they are.

Those that wait for the same records are woken together; the first that gets them reads and encodes them for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from attrs import define, frozen
from twisted.internet.defer import Deferred

from logbus.cluster.replication.broker_topic_stats import BrokerTopicStats
from logbus.cluster.replication.partition_fetch import FetchParams, PartitionFetchResult
from logbus.cluster.replication.replica_reader import ReplicaReader
from logbus.errors import ApiError
from logbus.handlers.current_leaders import CurrentLeaders
from logbus.handlers.fetch_contexts import MANY_PARTITIONS, TOPIC_ID_VERSION, ZSTD_VERSION, FetchContexts
from logbus.handlers.fetch_response import FetchResponseBuilder
from logbus.handlers.fetch_sessions import CachedPartition, FetchSession
from logbus.metrics import metric
from logbus.net.prepared_fetches import (
    ENOUGH_BYTES,
    LEAST_PREPARED,
    MOST_RANGES,
    SMALL,
    AnsweredFetches,
    PreparedFetches,
)
from logbus.net.request_context import RequestContext
from logbus.net.request_errors import RequestErrors
from logbus.quotas.quota_managers import QuotaManagers
from logbus.records.file_slice import Parts, joined, total_length
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.wire.fetch_template import FETCH, FetchTemplate, RepeatedFetch
from logbus.wire.messages.records import FetchResponse

#: The most bytes of records that are read into memory, to be sent to several clients.
MOST_SHARED = 16 * 1024
READ_COMMITTED = 1
#: The first version whose consumers may fetch from a follower (KIP-392).
FOLLOWS_VERSION = 11


@define(eq=False)
class FetchTotals:
    """
    Counts.

    :ivar bytes_sent: bytes of batches sent to consumers so far; ``bytes_replicated``: to followers.
    """

    bytes_sent: int = metric("logbus_fetched_bytes_total", "Bytes of batches sent to consumers.")
    bytes_replicated: int = metric("logbus_replica_sent_bytes_total", "Bytes of batches sent to followers.")


@frozen
class _Prepared:
    """
    The parameters that all requests of a template share, in the terms of :meth:`.ReplicaReader.fetch`.

    :ivar fetch_params: without what a follower proves with each request.
    """

    fetch_params: FetchParams
    topic_id: UUID | None
    min_bytes: int
    max_bytes: int


@define(eq=False)
class RepeatedFetches:
    """Serves Fetch requests of one partition that were recognized."""

    _reader: ReplicaReader
    _contexts: FetchContexts
    _leaders: CurrentLeaders
    _max_bytes: int
    _quotas: QuotaManagers
    _totals: FetchTotals
    _stats: BrokerTopicStats
    _errors: RequestErrors

    def fetch(self, context: RequestContext, request: RepeatedFetch) -> Parts | Deferred[Parts] | None:
        """The encoded response, or a Deferred of it; None, without any effect: the request must be decoded."""
        template, contexts, session_id = request.template, self._contexts, request.session_id
        if self._quotas.fetch.is_active or (
            session_id and contexts.sessions.dirty_count(session_id) >= MANY_PARTITIONS
        ):
            return None
        prepared: _Prepared = template.prepared or self._prepare(template)
        topic, fetch_params = template.topic, prepared.fetch_params
        if template.follower is not None:
            try:
                fetch_params = contexts.follower(context, template.follower.replica_id, template.follower.replica_epoch)
            except ApiError:
                return None  # Found again, and answered, by the general way.
        if prepared.topic_id is not None and not (topic := contexts.topic_name(prepared.topic_id)):
            return None
        asked, version = template.partition, template.api_version
        access = contexts.access(context, fetch_params)
        if access is not None and not access.may(AclOperation.READ, ResourceType.TOPIC, topic):
            return None
        if version < ZSTD_VERSION and contexts.unreadable(topic, asked.partition) is not None:
            return None
        session: FetchSession | None = None
        if session_id:
            try:
                session = contexts.sessions.resume(
                    session_id,
                    request.session_epoch,
                    by_id=version >= TOPIC_ID_VERSION,
                    follower=fetch_params.broker_id,
                )
                if session.repeat(template, request.offset):
                    contexts.resolve_again(session)
                else:
                    partition = self._partition(request, topic, prepared)
                    contexts.update(session, (partition,))
                    session.repeats(template, partition)
            except ApiError as e:
                self._errors.count(FETCH, e.code)
                return template.unusual(request.correlation_id, FetchResponse(error_code=e.code, responses=[]))
            if access is not None:
                contexts.authorize_again(session, access)
        results = self._reader.fetch(
            session or contexts.sessionless((self._partition(request, topic, prepared),), fetch_params),
            min_bytes=prepared.min_bytes,
            max_bytes=prepared.max_bytes,
            max_wait_ms=template.message.max_wait_ms,
            fetch_params=fetch_params,
        )
        if isinstance(results, list):
            return self._respond(results, context, request, session)
        return results.addCallback(self._respond, context, request, session)

    @staticmethod
    def _partition(request: RepeatedFetch, topic: str, prepared: _Prepared) -> CachedPartition:
        template = request.template
        asked = template.partition
        return CachedPartition(
            topic,
            asked.partition,
            request.offset,
            asked.partition_max_bytes,
            asked.current_leader_epoch,
            asked.last_fetched_epoch,
            topic_id=prepared.topic_id,
            log_start_offset=asked.log_start_offset,
            topic_key=template.topic_key,
        )

    def _prepare(self, template: FetchTemplate) -> _Prepared:
        version, message = template.api_version, template.message
        fetch_params = FetchParams(
            message.isolation_level == READ_COMMITTED, follows=version >= FOLLOWS_VERSION, rack=message.rack_id
        )
        topic_id = UUID(bytes=template.topic_id) if version >= TOPIC_ID_VERSION else None
        most = max(0, message.max_bytes if template.follower else min(message.max_bytes, self._max_bytes))
        template.prepared = _Prepared(fetch_params, topic_id, min(message.min_bytes, max(most, 1)), most)
        return template.prepared  # type: ignore[no-any-return]

    def _respond(
        self,
        results: Sequence[PartitionFetchResult],
        context: RequestContext,
        request: RepeatedFetch,
        session: FetchSession | None,
    ) -> Parts:
        template, shared = request.template, self._reader.shared
        key = id(results), template.shape
        selected = results if session is None else session.changed_results(results, everything=False)
        if len(selected) != 1 or not self._is_usual(selected[0], template):
            return self._respond_in_full(selected, context, request, session)
        result = selected[0]
        data = result.data
        if data is not None and template.follower is not None:
            self._totals.bytes_replicated += data.length
        elif data is not None:
            self._totals.bytes_sent += data.length
            self._stats.sent(result.fetch.topic, data.length)
            # Threads know nothing of followers, whose offsets must be noted.
            if 0 <= result.read_to < result.end:
                request.read_to = result.read_to
        if shared is None or data is None or data.length > MOST_SHARED:
            found = template.found(result.high_watermark, result.last_stable_offset, result.log_start_offset, data)
            return template.response(request.correlation_id, request.session_id, found, total_length(found))
        if key not in shared:
            found = template.found(result.high_watermark, result.last_stable_offset, result.log_start_offset, data)
            # The results are kept, so that no others get their id.
            shared[key] = joined(found), results
        encoded: bytes = shared[key][0]
        return template.response(request.correlation_id, request.session_id, [encoded], len(encoded))

    def prepare(self, context: RequestContext, request: RepeatedFetch) -> PreparedFetches | None:
        """The responses to the fetches that will follow one that was just answered, if they are usual ones."""
        template, contexts, session_id = request.template, self._contexts, request.session_id
        prepared: _Prepared | None = template.prepared
        if prepared is None or template.follower is not None or self._quotas.fetch.is_active:
            return None
        session = None
        if session_id:
            session = contexts.sessions.followed(session_id, request.session_epoch, template)
            if session is None:
                return None
        topic = template.topic if prepared.topic_id is None else contexts.topic_name(prepared.topic_id)
        access = contexts.access(context, prepared.fetch_params)
        if (
            not topic
            or (access is not None and not access.may(AclOperation.READ, ResourceType.TOPIC, topic))
            or (template.api_version < ZSTD_VERSION and contexts.unreadable(topic, template.partition.partition))
        ):
            return None
        fetch = self._partition(request, topic, prepared)
        fetch.offset = request.read_to
        # The first batch is sent however little is asked for.
        fetch.max_bytes = most = max(1, min(prepared.max_bytes, fetch.max_bytes))
        enough = max(ENOUGH_BYTES, LEAST_PREPARED * most)
        ahead = self._reader.read_ahead(fetch, prepared.fetch_params, MOST_RANGES, enough)
        result, ranges = ahead.result, ahead.ranges
        left = sum([one.end - one.position for one in ranges])
        if left < LEAST_PREPARED * most or not self._is_usual(result, template):
            return None
        head, tail, compact = template.around_records(
            session_id, result.high_watermark, result.last_stable_offset, result.log_start_offset
        )
        epoch_at, offset_at = template.places()

        def answered(done: AnsweredFetches) -> None:
            self._totals.bytes_sent += done.record_bytes
            self._stats.sent(topic, done.record_bytes)
            if session is not None:
                session.answered(done.requests, done.offset)

        return PreparedFetches(
            template.repeated(request),
            epoch_at if session_id else 0,
            offset_at,
            head,
            tail,
            compact,
            ranges,
            # What lies before it may have aborted transactions.
            fetch.offset if prepared.fetch_params.committed else result.log_start_offset,
            most,
            # Small ones get what has come meanwhile; of large ones, who asks for more bytes waits.
            left + 1 if most <= SMALL else prepared.min_bytes,
            answered,
        )

    @staticmethod
    def _is_usual(result: PartitionFetchResult, template: FetchTemplate) -> bool:
        fetch: Any = result.fetch
        return (
            result.error is None
            and not result.aborted
            and result.preferred == -1
            and result.diverging is None
            and fetch.partition == template.partition.partition
            and fetch.topic_key == template.topic_key
        )

    def _respond_in_full(
        self,
        results: Sequence[PartitionFetchResult],
        context: RequestContext,
        request: RepeatedFetch,
        session: FetchSession | None,
    ) -> Parts:
        version, follows = request.template.api_version, request.template.follower is not None
        stats = None if follows else self._stats
        builder = FetchResponseBuilder(version, context.listener, self._leaders, session, False, stats)
        builder.add(results)
        for result in results:
            if result.error is not None:
                self._errors.count(FETCH, result.error.code)
        if follows:
            self._totals.bytes_replicated += builder.size
        else:
            self._totals.bytes_sent += builder.size
        return request.template.unusual(request.correlation_id, builder.build())
