"""Tests committed offsets and their metadata, read by any client and after restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from logbus.testing import Broker
from tests.interop.conftest import MakeBroker
from tests.interop.consumers import KINDS, LIBRARIES, SECONDS, Consumer, Place, Record, Settings
from tests.interop.group_workload import PARTITIONS, places_of, produce
from tests.interop.member_groups import Group
from tests.interop.test_offsets import create
from tests.interop.test_restart import STOPS

#: aiokafka keeps the note to itself.
NOTES = [kind for kind in LIBRARIES if not kind.startswith("aiokafka")]


@contextmanager
def simple_consumer(broker: Broker, kind: str, group_id: str) -> Iterator[Consumer]:
    """A consumer that joins nothing: it takes partitions by itself, and keeps its offsets under the group's name."""
    consumer = KINDS[kind](Settings(broker.bootstrap, group_id), lambda word, places: None)
    try:
        yield consumer
    finally:
        consumer.close()


def poll(consumer: Consumer, count: int) -> list[Record]:
    """So many messages, or what came in time."""
    found: list[Record] = []
    for _ in range(SECONDS * 10):
        if len(found) >= count:
            break
        found += consumer.poll(0.1)
    return found


@pytest.mark.parametrize("kind", LIBRARIES)
def test_simple_consumer(broker: Broker, topic: str, kind: str) -> None:
    """The next consumer begins at the offsets that one consumer committed of 20 partitions."""
    create(broker, topic, 20)
    places = places_of(topic, 20)
    first = produce(broker, "first", topic, 20)
    with simple_consumer(broker, kind, f"group-{topic}") as consumer:
        consumer.assign(places)
        assert {record.value for record in poll(consumer, 200)} == first
        assert {place: consumer.committed(place) for place in places} == dict.fromkeys(places)
        consumer.commit()
        for place in places:
            assert consumer.committed(place) == (10, "")
            assert consumer.position(place) == 10
    second = produce(broker, "second", topic, 20, each=3)
    with simple_consumer(broker, kind, f"group-{topic}") as consumer:
        consumer.assign(places)
        assert {record.value for record in poll(consumer, 60)} == second
        consumer.commit({place: (place[1], "") for place in places})
    for other in LIBRARIES:
        with simple_consumer(broker, other, f"group-{topic}") as consumer:
            # confluent-kafka ends every note with a NUL, which the others show.
            found = {place: consumer.committed(place) or (-1, "") for place in places}
            assert {place: offset for place, (offset, _) in found.items()} == {place: place[1] for place in places}


@pytest.mark.parametrize("kind", NOTES)
def test_notes(broker: Broker, topic: str, kind: str) -> None:
    """The text that goes with an offset comes back as it was; one that is too long is refused, and changes nothing."""
    create(broker, topic, 3)
    notes: dict[Place, tuple[int, str]] = {
        (topic, 0): (5, "seen by Größe 漢字"),
        (topic, 1): (6, ""),
        (topic, 2): (7, "x" * 4000),
    }
    with simple_consumer(broker, kind, f"group-{topic}") as consumer:
        consumer.assign(list(notes))
        consumer.commit(notes)
        assert {place: consumer.committed(place) for place in notes} == notes
        with pytest.raises(Exception, match=r"(?i)metadata|OffsetMetadataTooLarge|OFFSET_METADATA_TOO_LARGE"):
            consumer.commit({(topic, 0): (9, "x" * 5000)})
        assert {place: consumer.committed(place) for place in notes} == notes


@pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS)
def test_restart(make_broker: MakeBroker, stop: Callable[[Broker], None]) -> None:
    """Offsets and notes outlive the broker: a consumer goes back to what was committed and reads on from there."""
    broker = make_broker()
    groups: dict[str, dict[Place, tuple[int, str]]] = {}
    for kind in LIBRARIES:
        create(broker, kind, PARTITIONS)
        produce(broker, "before", kind)
        groups[kind] = {place: (place[1] + 2, f"note {place}" if kind in NOTES else "") for place in places_of(kind)}
        with simple_consumer(broker, kind, f"group-{kind}") as consumer:
            consumer.assign(places_of(kind))
            consumer.commit(dict.fromkeys(groups[kind], (1, "overwritten")))
            consumer.commit(groups[kind])
    stop(broker)
    broker.start()
    for kind, committed in groups.items():
        with simple_consumer(broker, kind, f"group-{kind}") as consumer:
            consumer.assign(committed)
            assert {place: consumer.committed(place) for place in committed} == committed
            left = sum(10 - offset for offset, _ in committed.values())
            assert len(poll(consumer, left)) == left
            place = (kind, 3)
            held = consumer.committed(place)
            assert held is not None
            consumer.seek(place, held[0])
            assert [record.offset for record in poll(consumer, 5)] == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("kind", LIBRARIES)
def test_automatic_commit(broker: Broker, topic: str, kind: str) -> None:
    """A member that leaves commits what it has processed, quickly, and the next goes on there."""
    create(broker, topic, PARTITIONS)
    with Group(broker.bootstrap, f"group-{topic}", [topic]) as group:
        first = group.join(kind, commits=False, auto_commit=True)
        group.until_processed(produce(broker, "first", topic))
        assert group.close(first) < 3
        later = produce(broker, "later", topic)
        second = group.join(kind, commits=False, auto_commit=True)
        group.until_processed(later)
        assert {record.value for record in second.records} == later


@pytest.mark.parametrize("kind", LIBRARIES)
def test_group_with_members_is_theirs(broker: Broker, topic: str, kind: str) -> None:
    """While a group has members, nobody else commits in its name."""
    create(broker, topic, PARTITIONS)
    with Group(broker.bootstrap, f"group-{topic}", [topic]) as group:
        member = group.join(kind)
        group.until_processed(produce(broker, "before", topic))
        group.until_committed(dict.fromkeys(places_of(topic), 10))
        with simple_consumer(broker, kind, f"group-{topic}") as stranger:
            stranger.assign(places_of(topic))
            with pytest.raises(Exception, match=r"(?i)unknown.?member|CommitFailed|stale"):
                stranger.commit({(topic, 0): (1, "")})
        assert group.call(member, "committed", (topic, 0))[0] == 10
