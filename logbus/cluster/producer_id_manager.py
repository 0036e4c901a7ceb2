"""Allocates producer ids, from blocks that are claimed in the metadata store (Kafka: ProducerIdManager)."""

from __future__ import annotations

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.errors import ApiError, ErrorCode
from logbus.metastore.cluster_znodes import ProducerIdBlock, ProducerIdBlockZnode
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.operations import BadVersion, ConnectionLost, NodeExists, NoNode, SessionLost, StoreUnusable
from logbus.metastore.znodes import PRODUCER_ID_BLOCK

BLOCK_SIZE = 1000
LAST_ID = 2**63 - 1


@define(eq=False)
class ProducerIdManager:
    """
    Allocates ids that are unique in the cluster.

    The rest of a claimed block is lost when the broker stops, and a whole block if the store's answer is lost.
    """

    store: IMetadataStore
    broker_id: int
    _next: int = field(default=0, init=False)
    _end: int = field(default=0, init=False)
    _waiting: list[Deferred[int]] = field(factory=list, init=False)
    _claiming: bool = field(default=False, init=False)
    _log = Logger()

    def allocate(self) -> Deferred[int]:
        """
        A new producer id.

        :raise ApiError: COORDINATOR_LOAD_IN_PROGRESS while the metadata store is out of reach or has no room.
        """
        if self._next < self._end:
            self._next += 1
            return succeed(self._next - 1)
        waiting: Deferred[int] = Deferred()
        self._waiting.append(waiting)
        if not self._claiming:
            self._claiming = True
            Deferred.fromCoroutine(self._claim()).addCallbacks(self._claimed, self._failed)
        return waiting

    def _claimed(self, block: ProducerIdBlock) -> None:
        self._claiming = False
        self._next, self._end = block.first, block.last + 1
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self.allocate().chainDeferred(one)

    def _failed(self, failure: Failure) -> None:
        self._claiming = False
        if failure.check(ConnectionLost, SessionLost, StoreUnusable) is not None:
            # As in Kafka: all clients try again after this one, those without a transactional id, too, which have no
            # coordinator that they could look for.
            failure = Failure(ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(failure.value)))
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.errback(failure)

    async def _claim(self) -> ProducerIdBlock:
        while True:
            try:
                data, stat = await self.store.get(PRODUCER_ID_BLOCK)
            except NoNode:
                first, version = 0, None
            else:
                first, version = ProducerIdBlockZnode.decode(data).last + 1, stat.version
            if first > LAST_ID - BLOCK_SIZE:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids have been handed out")
            block = ProducerIdBlock(self.broker_id, first, first + BLOCK_SIZE - 1)
            try:
                if version is None:
                    await self.store.create(PRODUCER_ID_BLOCK, ProducerIdBlockZnode.encode(block))
                else:
                    await self.store.set(PRODUCER_ID_BLOCK, ProducerIdBlockZnode.encode(block), version)
            except (NodeExists, BadVersion):
                continue  # Another broker claimed this one; go on from there.
            self._log.info("claimed producer ids {first} to {last}", first=block.first, last=block.last)
            return block
