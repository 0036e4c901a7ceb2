"""Encoding of metadata updates."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.images import BrokerImage
from logbus.cluster.metadata_update import DeletedTopic, MetadataUpdate, PartitionState
from logbus.errors import DecodeError
from logbus.model import Endpoint, LeaderAndIsr, TopicPartition
from tests.cluster.encoded_updates import decode_update, update_request

NUMBERS = st.integers(-1, 2**31 - 1)
IDS = st.lists(NUMBERS, max_size=4).map(tuple)
NAMES = st.text("abc.-_", min_size=1, max_size=5)
UUIDS = st.uuids().filter(lambda uuid: uuid.int != 0)
SETTINGS = st.dictionaries(NAMES, st.text(max_size=5), max_size=3)
ENDPOINTS = st.builds(Endpoint, NAMES, NAMES, st.integers(0, 65535), st.just("kafka"))
BROKERS = st.builds(
    BrokerImage,
    NUMBERS,
    st.lists(ENDPOINTS, max_size=2).map(lambda all: {one.listener: one for one in all}),
    st.none() | NAMES,
    NUMBERS,
    st.none() | UUIDS,
    st.integers(0, 5),
)
NO_ID = UUID(int=0)
ROLES = st.builds(LeaderAndIsr, NUMBERS, NUMBERS, IDS, NUMBERS, NUMBERS, IDS, NUMBERS)


@st.composite
def topics(draw: Any) -> tuple[PartitionState, ...]:
    """States grouped by topic; the partitions of one share their overrides."""
    states: list[PartitionState] = []
    for name in draw(st.lists(NAMES, max_size=3, unique=True)):
        topic_id, overrides = draw(UUIDS), draw(SETTINGS)
        for number in draw(st.lists(NUMBERS, max_size=3, unique=True)):
            at = TopicPartition(name, number)
            states.append(PartitionState(at, topic_id, draw(IDS), draw(ROLES), draw(st.booleans()), overrides))
    return tuple(states)


ANNOUNCEMENTS = st.builds(
    MetadataUpdate,
    NUMBERS,
    NUMBERS,
    st.integers(-1, 2**63 - 1),
    brokers=st.none() | st.lists(BROKERS, max_size=3).map(lambda all: {one.broker_id: one for one in all}),
    partitions=topics(),
    deleted=st.lists(st.builds(DeletedTopic, NAMES, UUIDS, NUMBERS), max_size=2).map(tuple),
    configs=st.dictionaries(NAMES, SETTINGS, max_size=2),
    broker_configs=st.dictionaries(NAMES, SETTINGS, max_size=2),
    security_nodes=st.none() | st.dictionaries(NAMES, st.none() | st.binary(max_size=5), max_size=2),
    full=st.booleans(),
    unreadable=st.frozensets(NAMES, max_size=2),
)


class SpellingTests(SynchronousTestCase):
    """From announcements to requests and back."""

    @given(ANNOUNCEMENTS)
    def test_round_trip(self, update: MetadataUpdate) -> None:
        """A decoded update equals the one that was encoded."""
        self.assertEqual(decode_update(update_request(update)), update)

    @given(ANNOUNCEMENTS, st.data())
    def test_damage(self, update: MetadataUpdate, data: Any) -> None:
        """A body that is cut short, or too long, is refused as a whole."""
        request = update_request(update)
        whole = request.body
        request.body = whole[: data.draw(st.integers(0, len(whole) - 1))]
        self.assertRaises(DecodeError, decode_update, request)
        request.body = whole + b"x"
        self.assertRaises(DecodeError, decode_update, request)

    def test_ten_thousand_partitions(self) -> None:
        """A full announcement of a large cluster fits into one request, and is read within the budget of its own."""
        role = LeaderAndIsr(1, 7, (1, 2, 3), 9, 12)
        states = tuple(
            PartitionState(TopicPartition(f"topic-{topic}", number), UUID(int=topic + 1), (1, 2, 3), role)
            for topic in range(100)
            for number in range(100)
        )
        update = MetadataUpdate(1, 2, 3, brokers={}, partitions=states, full=True)
        request = update_request(update)
        self.assertEqual(decode_update(request), update)
        self.assertLess(len(request.body), 2**20)

    def test_receiver_is_not_in_the_body(self) -> None:
        """The same update for another broker has the same body."""
        update = MetadataUpdate(1, 2, 3, brokers={1: BrokerImage(1, {})})
        other = evolve(update, broker_epoch=4)
        self.assertEqual(update_request(update).body, update_request(other).body)
