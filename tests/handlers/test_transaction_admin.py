"""DescribeTransactions, ListTransactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from logbus.coordination.transactions.marker_channel_manager import MarkerChannelManager
from logbus.coordination.transactions.transaction_coordinator import TransactionCoordinator
from logbus.coordination.transactions.transaction_metadata import TransactionMetadata
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.transaction_admin import CHARACTERS_A_TURN, CHARACTERS_AN_ID, slices
from logbus.model import TopicPartition
from logbus.wire.messages.transaction_admin import DescribeTransactionsRequest, ListTransactionsRequest
from tests.handlers.kit import NOW_MS, HandlerCase
from tests.handlers.transaction_kit import transaction


class TransactionAdminTests(HandlerCase):
    """The coordinator knows what ``known`` has, or has a problem."""

    def setUp(self) -> None:
        super().setUp()
        self.known: list[TransactionMetadata] = []
        self.problem: ApiError | None = None
        self.loading = False
        self.client = self.server.connect()
        for name, stand_in in (
            ("transactions", lambda coordinator: self.transactions()),
            ("describe", lambda coordinator, name: self.described(name)),
            ("loading", property(lambda coordinator: self.loading)),
        ):
            patcher = mock.patch.object(TransactionCoordinator, name, stand_in)
            patcher.start()
            self.addCleanup(patcher.stop)

    def transactions(self) -> Sequence[TransactionMetadata]:
        if self.problem is not None:
            raise self.problem
        return self.known

    def described(self, name: str) -> TransactionMetadata:
        if self.problem is not None:
            raise self.problem
        for each in self.known:
            if each.transactional_id == name:
                return each
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)

    def listed(self, states: Sequence[str] = (), producer_ids: Sequence[int] = (), **given: Any) -> Any:
        request = ListTransactionsRequest(state_filters=list(states), producer_id_filters=list(producer_ids), **given)
        return self.client.ask(request, 2)

    def names(self, *filters: Any, **given: Any) -> list[str]:
        answer = self.listed(*filters, **given)
        self.assertEqual(answer.error_code, 0)
        return sorted(each.transactional_id for each in answer.transaction_states)

    def describe(self, *names: str) -> Any:
        return self.client.ask(DescribeTransactionsRequest(transactional_ids=list(names)), 0).transaction_states

    def test_a_transaction(self) -> None:
        """A transaction with its producer, start and partitions; repeated ids are described once."""
        partitions = {TopicPartition("t", 1), TopicPartition("u", 0), TopicPartition("t", 0)}
        self.known = [transaction("a", TransactionState.ONGOING, partitions=frozenset(partitions), started_ms=5)]
        (found,) = self.describe("a", "a")
        self.assertEqual(
            (found.error_code, found.transactional_id, found.transaction_state, found.transaction_timeout_ms),
            (0, "a", "Ongoing", 60_000),
        )
        self.assertEqual((found.producer_id, found.producer_epoch, found.transaction_start_time_ms), (7, 3, 5))
        self.assertEqual([(each.topic, each.partitions) for each in found.topics], [("t", [0, 1]), ("u", [0])])

    def test_ending_transaction(self) -> None:
        """Partitions that have their marker are left out."""
        partitions = frozenset({TopicPartition("t", 0), TopicPartition("t", 1)})
        self.known = [transaction("a", TransactionState.PREPARE_COMMIT, partitions=partitions, started_ms=5)]
        with mock.patch.object(
            MarkerChannelManager, "left", lambda sender, name: partitions - {TopicPartition("t", 0)}
        ):
            (found,) = self.describe("a")
        self.assertEqual([(each.topic, each.partitions) for each in found.topics], [("t", [1])])

    def test_errors_per_id(self) -> None:
        """Each has an error, and the others are described."""
        self.known = [transaction("a")]
        nobody, found = self.describe("nobody", "a")
        self.assertEqual((nobody.transactional_id, nobody.error_code), ("nobody", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))
        self.assertEqual(found.error_code, 0)
        self.problem = ApiError(ErrorCode.NOT_COORDINATOR)
        self.assertEqual(self.describe("a")[0].error_code, ErrorCode.NOT_COORDINATOR)

    def test_lists(self) -> None:
        """All but those that are about to be forgotten, each with its producer and its state."""
        self.known = [transaction("a"), transaction("b", TransactionState.DEAD)]
        (found,) = self.listed().transaction_states
        self.assertEqual((found.transactional_id, found.producer_id, found.transaction_state), ("a", 7, "Empty"))

    def test_filters(self) -> None:
        """By state, by producer, by age and by name; all that are given must fit."""
        begun = NOW_MS - 1000
        self.known = [
            transaction("idle", started_ms=begun),
            transaction("open", TransactionState.ONGOING, started_ms=begun, producer_id=8),
            transaction("ending", TransactionState.PREPARE_ABORT, started_ms=begun + 1),
            transaction("over", TransactionState.COMPLETE_COMMIT, started_ms=begun),
        ]
        self.assertEqual(self.names(), ["ending", "idle", "open", "over"])
        self.assertEqual(self.names(["Empty", "Ongoing"]), ["idle", "open"])
        self.assertEqual(self.names((), [8, 9]), ["open"])
        for no_filter in (-1, 0):
            self.assertEqual(self.names(duration_filter=no_filter), ["ending", "idle", "open", "over"])
        self.assertEqual(self.names(duration_filter=1), ["ending", "open"])
        self.assertEqual(self.names(duration_filter=999), ["open"])
        self.assertEqual(self.names(duration_filter=1000), [])
        self.assertEqual(self.names(transactional_id_pattern="o.*"), ["open", "over"])
        self.assertEqual(self.names(transactional_id_pattern="pe"), [])
        self.assertEqual(self.names(transactional_id_pattern=""), ["ending", "idle", "open", "over"])
        self.assertEqual(self.names(["Ongoing"], [7]), [])

    def test_unknown_states(self) -> None:
        """Unknown states are reported, and match nothing."""
        self.known = [transaction("a")]
        answer = self.listed(["Hopeful", "Empty", "empty", "Hopeful"])
        self.assertEqual(answer.unknown_state_filters, ["Hopeful", "empty"])
        self.assertEqual(len(answer.transaction_states), 1)
        self.assertEqual(self.names(["Hopeful"]), [])

    def test_invalid_expressions(self) -> None:
        """They are refused, as are those that are too long, or whose matching may take more than linear time."""
        for pattern in ("(", "a" * 3000, r"(a)\1"):
            answer = self.listed(transactional_id_pattern=pattern)
            self.assertEqual(answer.error_code, ErrorCode.INVALID_REGULAR_EXPRESSION)

    def test_not_yet(self) -> None:
        """While transactions are read back there is no list, which would lack some."""
        self.known = [transaction("a")]
        self.loading = True
        answer = self.listed()
        self.assertEqual((answer.error_code, answer.transaction_states), (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, []))
        self.loading, self.problem = False, ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.assertEqual(self.listed().error_code, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    @given(st.lists(st.integers(0, 2 * CHARACTERS_A_TURN), max_size=30))
    def test_slices(self, lengths: list[int]) -> None:
        """However long ids are, a turn of the reactor has so many characters to look at, and all ids get their turn."""
        found = [transaction("x" * length) for length in lengths]
        cut = list(slices(found))
        self.assertEqual([each for some in cut for each in some], found)
        for some in cut:
            before_the_last = sum(CHARACTERS_AN_ID + len(each.transactional_id) for each in some[:-1])
            self.assertLess(before_the_last, CHARACTERS_A_TURN)

    def test_many(self) -> None:
        """A list of several slices is whole."""
        self.known = [transaction(f"{number:0100}") for number in range(CHARACTERS_A_TURN // 30)]
        self.assertEqual(len(self.names()), len(self.known))
