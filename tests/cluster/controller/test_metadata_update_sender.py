"""Metadata updates to a broker that may be unreachable."""

from __future__ import annotations

from typing import Any

from attrs import define, evolve, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.controller.metadata_update_sender import (
    MAX_QUEUED_UPDATES,
    MAX_WAITING,
    MetadataUpdateSender,
    update_receivers,
)
from logbus.cluster.icluster import IMetadataUpdateReceiver
from logbus.cluster.images import BrokerImage
from logbus.cluster.metadata_update import DeletedTopic, MetadataUpdate
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.wire.messages.inter_broker import FailedPartition, MetadataUpdateRequest, MetadataUpdateResponse
from tests.cluster.encoded_updates import decode_update
from tests.cluster.test_metadata_update_codec import NO_ID

UNREACHABLE = ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "it is not there")


@define(eq=False)
class FakePeers:
    """Keeps what was asked until the test answers."""

    asked: list[tuple[MetadataUpdate, Deferred[Any]]] = field(factory=list)
    forgotten: list[int] = field(factory=list)

    def request(
        self, broker: BrokerImage, message: MetadataUpdateRequest, purpose: str, timeout: float
    ) -> Deferred[Any]:
        answer: Deferred[Any] = Deferred()
        self.asked.append((decode_update(message), answer))
        return answer

    def forget(self, broker: BrokerImage, purpose: str) -> None:
        self.forgotten.append(broker.broker_id)


class RemoteReceiverTests(SynchronousTestCase):
    """Broker 1, and what it is told."""

    def setUp(self) -> None:
        self.clock, self.peers = Clock(), FakePeers()
        self.all: MetadataUpdate | None = MetadataUpdate(0, 3, 5, full=True)
        self.receiver: IMetadataUpdateReceiver = MetadataUpdateSender(
            BrokerImage(1, {}, epoch=5), lambda: self.all, self.peers, self.clock, 30.0
        )  # type: ignore[arg-type]

    def update(self, name: str) -> Deferred[Any]:
        """Something that can be told from other things."""
        return self.receiver.apply(MetadataUpdate(0, 3, 5, deleted=(DeletedTopic(name, NO_ID, 1),)))

    def told(self) -> list[str]:
        """What was asked so far: names, or ``all``."""
        return ["all" if one.full else one.deleted[0].name for one, _ in self.peers.asked]

    def answer(self, error: ApiError | None = None, **response: Any) -> None:
        """Answer the request that is under way."""
        waiting = self.peers.asked[-1][1]
        if error is not None:
            waiting.errback(error)
        else:
            waiting.callback(MetadataUpdateResponse(**response))

    def test_in_order(self) -> None:
        """One at a time; each answer is for its sender."""
        first, second = self.update("a"), self.update("b")
        self.assertEqual(self.told(), ["a"])
        self.answer(failed=[FailedPartition(topic="a", partition=2, error_code=56, error_message="the disk")])
        self.assertEqual(self.told(), ["a", "b"])
        errors = self.successResultOf(first)
        self.assertEqual((list(errors), errors["a", 2].message), ([TopicPartition("a", 2)], "the disk"))
        self.assertNoResult(second)
        self.answer()
        self.assertEqual(self.successResultOf(second), {})

    def test_out_of_reach(self) -> None:
        """What could not be said is made up for by everything, as often as it takes; nobody is forgotten."""
        waiting = [self.update("a"), self.update("b")]
        self.answer(UNREACHABLE)
        waiting.append(self.update("c"))
        self.assertEqual(self.told(), ["a"])
        for attempt in range(1, 6):
            self.clock.advance(1)
            self.assertEqual(self.told(), ["a", *["all"] * attempt])
            self.answer(UNREACHABLE)
        self.clock.advance(1)
        self.answer()
        for one in waiting:
            self.assertEqual(self.successResultOf(one), {})
        self.update("d")
        self.assertEqual(self.told()[-1], "d")

    def test_retries_send_the_present_state(self) -> None:
        """Each attempt sends the state of that moment; later changes follow, in full again."""
        self.update("a")
        self.answer(UNREACHABLE)
        self.all = MetadataUpdate(0, 3, 5, brokers={1: BrokerImage(1, {})}, full=True)
        self.clock.advance(1)
        self.assertEqual(evolve(self.peers.asked[-1][0], number=0), self.all)
        self.update("b")
        self.answer()
        self.assertEqual(self.told(), ["a", "all", "b"])

    def test_numbers(self) -> None:
        """Each attempt has a greater number, over all brokers and elections: one that arrives late can be told."""
        broker = BrokerImage(1, {}, epoch=5)
        receiver_for = update_receivers(None, 0, self.peers, self.clock, 30.0)  # type: ignore[arg-type]
        for _ in range(2):
            self.receiver = receiver_for(broker, lambda: self.all)
            self.update("a")
            self.answer(UNREACHABLE)
            self.clock.advance(1)
            self.answer()
        self.assertEqual([update.number for update, _ in self.peers.asked], [1, 2, 3, 4])

    def test_refused_for_now(self) -> None:
        """A broker that could not check who we are is asked again."""
        self.update("a")
        self.answer(error_code=ErrorCode.BROKER_NOT_AVAILABLE)
        self.clock.advance(1)
        self.assertEqual(self.told(), ["a", "all"])

    def test_the_end(self) -> None:
        """It ends when the broker, or the tenure, is gone: who waits is told, and nothing is tried any more."""
        waiting = self.update("a")
        self.answer(UNREACHABLE)
        self.all = None
        self.clock.advance(1)
        self.failureResultOf(waiting, ApiError)
        self.failureResultOf(self.update("b"), ApiError)
        self.assertEqual((self.told(), self.peers.forgotten, self.clock.getDelayedCalls()), (["a"], [1], []))

    def test_replaced(self) -> None:
        """It ends when the broker says that another controller, or another life of it, is what counts."""
        for code in (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH):
            self.setUp()
            waiting = [self.update("a"), self.update("b")]
            self.answer(error_code=code)
            for one in waiting:
                self.assertEqual(self.failureResultOf(one, ApiError).value.code, code)
            self.assertEqual((self.told(), self.clock.getDelayedCalls()), (["a"], []))

    def test_bounded(self) -> None:
        """A slow broker is told everything rather than very many things; of very many who wait the first give up."""
        waiting = [self.update(f"t{n}") for n in range(MAX_QUEUED_UPDATES + 2)]
        self.answer()
        self.successResultOf(waiting[0])
        self.assertEqual(self.told(), ["t0", "all"])
        self.answer(UNREACHABLE)
        more = [self.update("x") for _ in range(MAX_WAITING)]
        self.assertEqual(self.failureResultOf(waiting[1], ApiError).value.code, ErrorCode.REQUEST_TIMED_OUT)
        self.assertNoResult(more[-1])
        self.clock.advance(1)
        self.answer()
        self.assertEqual(self.successResultOf(more[-1]), {})
