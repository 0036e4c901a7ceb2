"""The share coordinator's APIs, as clients could send them."""

from __future__ import annotations

from gc import collect
from uuid import UUID

from twisted.internet.defer import Deferred

from logbus.coordination.share_state.share_coordinator import ShareCoordinator
from logbus.coordination.share_state.share_state import SharePartitionKey
from logbus.coordination.share_state.share_state_calls import Call, Initialize, Read, Result, request_of, results_of
from logbus.errors import ApiError, ErrorCode
from logbus.wire.messages.groups import FindCoordinatorRequest
from tests.handlers.kit import HandlerCase


class ShareStateTests(HandlerCase):
    """One broker."""

    config = {"share.coordinator.state.topic.num.partitions": "1"}

    def setUp(self) -> None:
        super().setUp()
        self.keys = [SharePartitionKey("g", UUID(bytes=self.server.topic_id()), number) for number in (0, 99)]
        self.client.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[str(self.keys[0])]), 6)

    def results(self, *calls: Call) -> list[Result]:
        found = results_of(calls, self.client.ask(request_of(calls), 0))
        return [found[call.key] for call in calls]

    def test_clients(self) -> None:
        """Who has not proved to be a broker is refused."""
        (result,) = self.results(Initialize(self.keys[0], 0, 0))
        assert isinstance(result, ApiError)
        self.assertIs(result.code, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        (shard,) = self.server.broker.coordinators.share_states.shards.values()
        self.assertEqual(shard.entries, {})

    def test_each_has_its_own_result(self) -> None:
        """One partition is refused, another not."""
        self.client.protocol.context.broker = 1
        done, refused = self.results(*[Initialize(key, 0, 0) for key in self.keys])
        self.assertIsNone(done)
        assert isinstance(refused, ApiError)
        self.assertIs(refused.code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def test_no_coordinator(self) -> None:
        """While the partition is loaded, and where it is not led, the sender tries again."""
        self.client.protocol.context.broker = 1
        coordinator = self.server.broker.coordinators.share_states
        coordinator.shards[0].loading = True
        (result,) = self.results(Read(self.keys[0], 0))
        assert isinstance(result, ApiError)
        self.assertIs(result.code, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        del coordinator.shards[0]
        (result,) = self.results(Read(self.keys[0], 0))
        assert isinstance(result, ApiError)
        self.assertIs(result.code, ErrorCode.NOT_COORDINATOR)

    def test_a_connection_is_lost(self) -> None:
        """What its requests have begun goes on; nobody is told, and nothing is logged."""
        self.client.protocol.context.broker = 1
        pending: list[Deferred[None]] = []

        def carry_out(coordinator: object, call: Call) -> Deferred[None]:
            pending.append(Deferred())
            return pending[-1]

        self.patch(ShareCoordinator, "carry_out", carry_out)
        self.client.send(request_of([Initialize(key, 0, 0) for key in self.keys]), 0)
        self.client.turn()
        self.client.transport.loseConnection()
        self.client.turn()
        self.assertEqual([each.called for each in pending], [False, False])
        pending[0].callback(None)
        pending[1].errback(ApiError(ErrorCode.NOT_COORDINATOR))
        collect()
        self.assertEqual(self.flushLoggedErrors(), [])
