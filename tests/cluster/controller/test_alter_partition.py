"""Leaders' requests to change in-sync replicas (AlterPartition)."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.controller import broker_changes
from logbus.cluster.controller.alter_partition import altered_state
from logbus.cluster.controller.controller_context import PartitionRecord
from logbus.cluster.controller.topic_rules import TopicRules
from logbus.errors import ApiError, ErrorCode
from logbus.model import IsrChange, LeaderAndIsr, TopicPartition
from tests.cluster.controller.test_controller import T0, ControllerCase

REPLICAS = (1, 2, 3)
NAME = TopicPartition("t", 0)
NOW = LeaderAndIsr(1, 5, (1, 2), 2, 8)


def outcome(
    isr: tuple[int, ...],
    current: LeaderAndIsr | None = NOW,
    *,
    leader_epoch: int = 5,
    version: int = 8,
    broker: int = 1,
    fit: tuple[int, ...] = REPLICAS,
    min_insync: int = 1,
    epochs: tuple[int, ...] | None = None,
) -> LeaderAndIsr | ErrorCode:
    """The state after a wish, or the code it is refused with. Broker n is registered with the epoch 100 + n."""
    change = IsrChange(NAME, leader_epoch, version, isr, tuple(100 + n for n in isr) if epochs is None else epochs)

    def joins(one: int, epoch: int) -> bool:
        return one in fit and epoch == 100 + one

    try:
        return altered_state(
            change, PartitionRecord(REPLICAS, current), broker, joins, TopicRules(min_insync=min_insync), 9
        )
    except ApiError as error:
        return error.code


class GrantedTests(SynchronousTestCase):
    """The decision."""

    def test_granted(self) -> None:
        """A wish that builds on what is stored is granted: the next version, the same leader and epoch."""
        self.assertEqual(outcome((1, 2, 3)), LeaderAndIsr(1, 5, (1, 2, 3), 9, 9))
        self.assertEqual(outcome((1,)), LeaderAndIsr(1, 5, (1,), 9, 9))

    def test_refused(self) -> None:
        """Every other is refused, and says why."""
        for given_, code in (
            (outcome((1,), leader_epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
            (outcome((1,), broker=2), ErrorCode.FENCED_LEADER_EPOCH),
            (outcome((1,), None), ErrorCode.FENCED_LEADER_EPOCH),
            (outcome((1,), leader_epoch=6), ErrorCode.NOT_CONTROLLER),
            (outcome((1,), version=7), ErrorCode.INVALID_UPDATE_VERSION),
            (outcome((1,), version=9), ErrorCode.INVALID_UPDATE_VERSION),
            (outcome((2,)), ErrorCode.INVALID_REQUEST),
            (outcome(()), ErrorCode.INVALID_REQUEST),
            (outcome((1, 2, 2)), ErrorCode.INVALID_REQUEST),
            (outcome((1, 2, 4), fit=(1, 2, 3, 4)), ErrorCode.INELIGIBLE_REPLICA),
            (outcome((1, 2, 3), fit=(1, 2)), ErrorCode.INELIGIBLE_REPLICA),
        ):
            self.assertEqual(given_, code)

    def test_dead_members_may_stay(self) -> None:
        """Only replicas that are added must be alive; the controller itself removes dead ones from the ISR."""
        self.assertEqual(outcome((1, 2, 3), fit=(1, 3)), LeaderAndIsr(1, 5, (1, 2, 3), 9, 9))

    def test_stale_broker_epochs_are_refused(self) -> None:
        """
        A follower that restarted since it fetched, and may have lost what it had, is not let in: neither is one whose
        life nobody knows. Those in sync are not asked.
        """
        for epochs in ((101, 102, 97), (101, 102, 104), (101, 102, -1), (101, 102), ()):
            self.assertEqual(outcome((1, 2, 3), epochs=epochs), ErrorCode.INELIGIBLE_REPLICA, epochs)
        self.assertEqual(outcome((1, 2, 3), epochs=(-1, -1, 103)), LeaderAndIsr(1, 5, (1, 2, 3), 9, 9))

    def test_retry_after_a_lost_response(self) -> None:
        """A change whose response was lost is answered, when it is retried, with the state it led to."""
        self.assertEqual(outcome((2, 1), version=7), NOW)

    def test_eligible(self) -> None:
        """Who leaves while too few are in sync stays eligible, until enough are."""
        alone = outcome((1,), min_insync=2)
        assert isinstance(alone, LeaderAndIsr)
        self.assertEqual(alone.eligible, (2,))
        both = outcome((1, 3), alone, version=9, min_insync=2)
        assert isinstance(both, LeaderAndIsr)
        self.assertEqual(both.eligible, ())

    @given(
        st.lists(st.sampled_from(REPLICAS), min_size=1, unique=True).map(tuple),
        st.lists(st.lists(st.sampled_from(REPLICAS[1:]), unique=True), max_size=8),
        st.integers(1, 4),
    )
    def test_eligible_always(self, first: tuple[int, ...], wishes: list[list[int]], min_insync: int) -> None:
        """
        Through any sequence of wishes: nobody is both in sync and eligible; there are eligible ones only while too few
        are in sync; and as long as that lasts nobody who was in sync is forgotten.
        """
        state = LeaderAndIsr(1, 5, tuple(dict.fromkeys((1, *first))))
        having: set[int] = set()
        for wish in wishes:
            before = state
            after = outcome((1, *wish), state, version=state.version, min_insync=min_insync)
            assert isinstance(after, LeaderAndIsr)
            state = after
            self.assertFalse(set(state.isr) & set(state.eligible))
            if len(state.isr) >= min(min_insync, 3):
                self.assertEqual(state.eligible, ())
                having = set()
            else:
                having |= set(before.isr)
                self.assertEqual(set(state.eligible), having - set(state.isr))


class AlterPartitionsTests(ControllerCase):
    """The effect."""

    def setUp(self) -> None:
        super().setUp()
        self.nodes = [self.cluster.started(number) for number in range(3)]
        self.create(self.nodes[0], [1, 2, 0], [1, 0, 2], configs={"min.insync.replicas": "2"})

    def alter(self, broker: int, *changes: IsrChange, epoch: int | None = None) -> dict[TopicPartition, object]:
        """Ask the controller as a broker would."""
        its = self.nodes[broker].membership.epoch if epoch is None else epoch
        answer = self.nodes[0].controller.submit(
            lambda active: broker_changes.alter_partitions(active, broker, its, changes)
        )
        answers: dict[TopicPartition, object] = {}
        answer.addCallback(answers.update)
        self.assertTrue(answer.called)
        return answers

    def test_granted(self) -> None:
        """Those that can be are granted, in one transaction; everybody hears; the others are answered with errors."""
        other, absent = TopicPartition("t", 1), TopicPartition("t", 7)
        answers = self.alter(1, IsrChange(T0, 0, 0, (1,)), IsrChange(other, 3, 0, (1,)), IsrChange(absent, 0, 0, (1,)))
        expected = LeaderAndIsr(1, 0, (1,), 1, 1, (2, 0))
        self.assertEqual(answers[T0], expected)
        codes = [getattr(answers[name], "code", None) for name in (other, absent)]
        self.assertEqual(codes, [ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
        for node in self.nodes:
            self.assertEqual(self.seen(node), expected)

    def test_repeated_request(self) -> None:
        """A repeated request changes nothing."""
        wish = IsrChange(T0, 0, 0, (1, 2))
        first = self.alter(1, wish)
        self.assertEqual(self.alter(1, wish), first)
        self.assertEqual(self.stored().version, 1)

    def test_stale_broker_epoch_of_the_sender(self) -> None:
        """A sender that is not registered with its broker epoch is refused, and nothing changes."""
        answer = self.nodes[0].controller.submit(
            lambda active: broker_changes.alter_partitions(active, 1, 1, [IsrChange(T0, 0, 0, (1,))])
        )
        self.assertEqual(self.failureResultOf(answer, ApiError).value.code, ErrorCode.STALE_BROKER_EPOCH)
        self.assertEqual(self.stored().version, 0)

    def test_a_follower_restarts_before_the_decision(self) -> None:
        """It had all when the leader asked to have it in sync; whether it still has, only its next fetch shows."""
        epochs = tuple(node.membership.epoch for node in self.nodes)
        self.alter(1, IsrChange(T0, 0, 0, (1, 2)))
        wish = IsrChange(T0, 0, 1, (1, 2, 0), (epochs[1], epochs[2], epochs[0] - 1))
        refused = self.alter(1, wish)[T0]
        self.assertEqual(getattr(refused, "code", None), ErrorCode.INELIGIBLE_REPLICA)
        self.assertEqual(self.stored().isr, (1, 2))
        granted = self.alter(1, evolve(wish, epochs=(epochs[1], epochs[2], epochs[0])))[T0]
        self.assertEqual(getattr(granted, "isr", None), (1, 2, 0))

    def test_replaced_controller_writes_nothing(self) -> None:
        """A controller that was replaced overwrites nothing, and answers NOT_CONTROLLER."""
        active = self.nodes[0].controller.active
        assert active is not None
        self.nodes[0].store.suspend()
        self.nodes[0].store.expire()
        before = self.stored()
        self.nodes[0].store.resume()
        self.nodes[0].controller.active = active
        wish = IsrChange(T0, 0, 0, (1,))
        answer = self.nodes[0].controller.submit(
            lambda active: broker_changes.alter_partitions(active, 1, self.nodes[1].membership.epoch, [wish])
        )
        self.assertEqual(self.failureResultOf(answer, ApiError).value.code, ErrorCode.NOT_CONTROLLER)
        self.assertEqual(self.stored(), before)
