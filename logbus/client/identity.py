"""Who a producer is to brokers: nobody, or an id by which they know its batches again (InitProducerId, KIP-98)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.client.cluster import Cluster
from logbus.client.idempotence import ProducerId
from logbus.client.retry import api_error, is_retriable
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition
from logbus.wire.messages.transactions import InitProducerIdRequest, InitProducerIdResponse


class Identity:
    """
    The identity of a producer without transactions.

    :param wanted: True: no idempotence is an error; None: do without where brokers know nothing of it; False: be
        nobody.
    :ivar idempotent: whether batches have numbers.
    :ivar producer: the id to number with; None: there is none yet.
    :ivar error: why there will never be one.
    :ivar changed: called when any of this has changed.
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
        """Whether batches may leave."""
        return not self.idempotent or self.producer is not None

    @property
    def is_over(self) -> bool:
        """Whether batches that come back are not to be sent again."""
        return self.error is not None

    def prepare(self) -> None:
        """Batches are to leave: see that they may."""
        if self._asking is None and self.error is None and not self.is_ready:
            asking = self._asking = Deferred.fromCoroutine(self._get_id())

            def ended(result: Any) -> None:
                self._asking = None
                if isinstance(result, Failure) and self.error is None and isinstance(result.value, Exception):
                    self.error = result.value
                self.changed()

            asking.addBoth(ended)

    def renew(self) -> None:
        """All epochs of the id are used up: get another one."""
        self.producer = None

    def admits(self, partition: TopicPartition) -> bool:
        """Whether a batch may be sent to a partition now; if not, :attr:`changed` is called when it may."""
        return True

    def produce_version(self, version: int) -> int:
        """
        The version of Produce to use.

        :param version: the highest that both sides speak.
        """
        return version

    def failed(self, error: Exception) -> None:
        """A batch was not written."""

    def close(self) -> None:
        """No more batches will leave."""
        self.error = self.error or LogbusError("the producer is closed")
        if self._asking is not None:
            self._asking.cancel()

    async def _get_id(self) -> None:
        attempt = 0
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
                    self._log.info("records that are sent again may be in the log twice: {error}", error=e)
                    self.idempotent = False
                    return
                if not is_retriable(e):
                    raise
                self._log.debug("no producer id yet: {error}", error=e)
            attempt += 1
            await deferLater(self._cluster.reactor, self._cluster.backoff.before(attempt))
