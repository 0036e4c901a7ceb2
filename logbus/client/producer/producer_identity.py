"""The producer id of a producer without transactions (InitProducerId, KIP-98)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.client.cluster.cluster import Cluster
from logbus.client.producer.idempotence import ProducerId
from logbus.client.retry import api_error, is_retriable
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition
from logbus.wire.messages.transactions import InitProducerIdRequest, InitProducerIdResponse


class ProducerIdentity:
    """
    Gets a producer id from a broker, so that brokers recognise batches that are sent again.

    :param wanted: True: it is an error if brokers do not support idempotence; None: then go on without; False: use no
        producer id.
    :ivar idempotent: whether batches get sequence numbers.
    :ivar producer: producer id and epoch; None: not known yet.
    :ivar error: the reason why there will never be one.
    :ivar changed: called when one of these has changed.
    """

    transactional_id: str | None = None
    _log = Logger()

    def __init__(self, cluster: Cluster, wanted: bool | None) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self.idempotent = wanted is not False
        self.producer: ProducerId | None = None
        self.error: Exception | None = None
        self.changed: Callable[[], object] = lambda: None
        self._asking: Deferred[None] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether batches may be sent."""
        return not self.idempotent or self.producer is not None

    @property
    def refusal(self) -> Exception | None:
        """The error of records that are not in flight, now or later; None: they are sent."""
        return self.error

    def prepare(self) -> None:
        """Get a producer id if there is none yet."""
        if self._asking is None and self.error is None and not self.is_ready:
            asking = self._asking = Deferred.fromCoroutine(self._get_id())

            def ended(result: Any) -> None:
                self._asking = None
                if isinstance(result, Failure) and self.error is None and isinstance(result.value, Exception):
                    self.error = result.value
                self.changed()

            asking.addBoth(ended)

    def renew(self) -> None:
        """Drop the producer id, since all of its epochs are used up; :meth:`prepare` gets another one."""
        self.producer = None

    def admits(self, partition: TopicPartition) -> bool:
        """Whether a batch may be sent to a partition now. If not, :attr:`changed` is called later."""
        return True

    def produce_version(self, version: int) -> int:
        """
        The version of Produce to use.

        :param version: the highest that both sides support.
        """
        return version

    def failed(self, error: Exception) -> None:
        """Take note that a batch was not written."""

    def close(self) -> None:
        """Send no more batches."""
        self.error = self.error or LogbusError("the producer is closed")
        if self._asking is not None:
            self._asking.cancel()

    async def _get_id(self) -> None:
        attempts = self._cluster.attempts()
        while True:
            try:
                channel = await self._cluster.any_channel()
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
                answer: InitProducerIdResponse = await channel.request(request)
                if answer.error_code:
                    raise api_error(answer.error_code, "a producer id")
                self.producer = ProducerId(answer.producer_id, answer.producer_epoch)
                return
            except LogbusError as e:
                if isinstance(e, ApiError) and e.code is ErrorCode.UNSUPPORTED_VERSION and self._wanted is None:
                    self._log.info("no idempotence: records that are retried may be written twice: {error}", error=e)
                    self.idempotent = False
                    return
                if not is_retriable(e):
                    raise
                self._log.debug("no producer id yet: {error}; retrying", error=e)
            await attempts.again()
