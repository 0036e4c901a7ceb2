"""Incremental fetch sessions (KIP-227), on a complete broker and by themselves."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import patch

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.fetch import FetchHandlers
from logbus.handlers.fetch_sessions import EVICTION_SECONDS, MAX_EPOCH, CachedPartition, FetchSessionCache
from logbus.model import LeaderAndIsr
from logbus.storage.log import Log
from logbus.wire.messages.records import FetchResponse, ForgottenTopic
from tests.handlers.kit import MemoryBroker, a_batch, content, fetch_request


class SessionCase(SynchronousTestCase):
    """A broker with topics ``t`` and ``u``, of three partitions each, and one client."""

    version = 12

    def setUp(self) -> None:
        self.server = MemoryBroker().start()
        self.addCleanup(self.server.close)
        self.server.create("t", 3)
        self.server.create("u", 3)
        self.client = self.server.connect()
        self.sessions = self.server.broker.kafka_server.router.find(FetchHandlers).sessions

    @property
    def by_id(self) -> MemoryBroker | None:
        return self.server if self.version >= 13 else None

    def request(self, *wants: tuple[str, int, int], session: tuple[int, int] = (0, 0), **given: Any) -> Any:
        return fetch_request(wants, self.by_id, session_id=session[0], session_epoch=session[1], **given)

    def ask(self, *wants: tuple[str, int, int], session: tuple[int, int] = (0, 0), **given: Any) -> FetchResponse:
        response: FetchResponse = self.client.ask(self.request(*wants, session=session, **given), self.version)
        return response

    def told(self, response: FetchResponse) -> list[tuple[str, int, int, int]]:
        """Topic, partition, error and high watermark of all that is in a response."""
        self.assertEqual(response.error_code, 0)
        names = {self.server.topic_id(name): name for name in self.server.broker.plugin_services.topics()}
        return [
            (topic.topic or names.get(topic.topic_id, "?"), p.partition_index, p.error_code, p.high_watermark)
            for topic in response.responses
            for p in topic.partitions
        ]

    def test_full_fetch_creates_a_session(self) -> None:
        """The first response has every partition, and the session id."""
        response = self.ask(("t", 0, 0), ("t", 2, 0), ("u", 1, 0))
        self.assertEqual(self.told(response), [("t", 0, 0, 0), ("t", 2, 0, 0), ("u", 1, 0, 0)])
        self.assertGreater(response.session_id, 0)

    def test_incremental_fetch(self) -> None:
        """It returns partitions with news only, and repeats records that were not fetched yet."""
        session = self.ask(("t", 0, 0), ("t", 1, 0), ("u", 0, 0)).session_id
        self.assertEqual(self.told(self.ask(session=(session, 1))), [])
        self.client.produce(partition=1)
        other = self.server.connect()
        other.produce(topic="u", partition=2)
        self.assertEqual(self.told(self.ask(session=(session, 2))), [("t", 1, 0, 1)])
        again = self.ask(session=(session, 3))
        self.assertEqual(self.told(again), [("t", 1, 0, 1)], "it was not said to be fetched")
        self.assertNotEqual(content(again.responses[0].partitions[0]), b"")
        self.assertEqual(self.told(self.ask(("t", 1, 1), session=(session, 4))), [])
        self.assertEqual(self.told(self.ask(session=(session, 5))), [])

    def test_partitions_are_added_and_removed(self) -> None:
        """A request adds partitions, moves offsets, and forgets."""
        session = self.ask(("t", 0, 0)).session_id
        self.client.produce(partition=0)
        self.client.produce(topic="u", partition=0)
        joined = self.ask(("u", 0, 0), session=(session, 1))
        self.assertEqual(sorted(self.told(joined)), [("t", 0, 0, 1), ("u", 0, 0, 1)])
        forgotten = [ForgottenTopic(topic="t", topic_id=self.server.topic_id("t"), partitions=[0, 2])]
        left = self.ask(session=(session, 2), forgotten_topics_data=forgotten)
        self.assertEqual(self.told(left), [("u", 0, 0, 1)])
        self.client.produce(partition=0)
        self.assertEqual(self.told(self.ask(session=(session, 3))), [("u", 0, 0, 1)])
        self.assertEqual(self.server.watchers, 1)

    def test_wrong_sessions(self) -> None:
        """Unknown ids (70) and epochs (71) are errors of the whole answer; the session is as it was."""
        session = self.ask(("t", 0, 0)).session_id
        unknown = self.ask(session=(session + 1, 1))
        self.assertEqual((unknown.error_code, unknown.responses), (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, []))
        for epoch in (2, 7, -2):
            wrong = self.ask(session=(session, epoch))
            self.assertEqual((wrong.error_code, wrong.responses), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, []))
        self.assertEqual(self.ask(session=(session, 1)).error_code, 0)
        self.assertEqual(self.ask(session=(session, 1)).error_code, ErrorCode.INVALID_FETCH_SESSION_EPOCH)

    def test_names_and_ids_cannot_be_mixed(self) -> None:
        """A session that began with names goes on with names (106), and the other way round."""
        session = self.ask(("t", 0, 0)).session_id
        request = fetch_request([], session_id=session, session_epoch=1)
        response = self.client.ask(request, 13 if self.version < 13 else 12)
        self.assertEqual(response.error_code, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)

    def test_closed(self) -> None:
        """Epoch -1 ends a session, and with it everything that was watched."""
        session = self.ask(("t", 0, 0), ("t", 1, 0)).session_id
        self.assertEqual((len(self.sessions), self.server.watchers), (1, 2))
        self.assertEqual(self.told(self.ask(("t", 0, 0), session=(session, -1))), [("t", 0, 0, 0)])
        self.assertEqual((len(self.sessions), self.server.watchers), (0, 0))
        self.assertEqual(self.ask(session=(session, 1)).error_code, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def test_restarted_session(self) -> None:
        """Epoch 0 with an id closes that session and opens another."""
        first = self.ask(("t", 0, 0)).session_id
        second = self.ask(("t", 1, 0), session=(first, 0)).session_id
        self.assertNotIn(second, (0, first))
        self.assertEqual((len(self.sessions), self.server.watchers), (1, 1))

    def test_empty_full_fetch(self) -> None:
        """A full fetch of no partitions has no session."""
        self.assertEqual(self.ask().session_id, 0)
        self.assertEqual(len(self.sessions), 0)

    def test_no_partition_starves(self) -> None:
        """If a response holds one batch only, partitions with records take turns."""
        for partition in range(3):
            for _ in range(2):
                self.client.produce(partition=partition)
        response = self.ask(*(("t", n, 0) for n in range(3)), max_bytes=1)
        session, served = response.session_id, []
        for epoch in range(1, 7):
            fetched = [p for topic in response.responses for p in topic.partitions if content(p)]
            self.assertEqual(len(fetched), 1)
            served.append(fetched[0].partition_index)
            response = self.ask(session=(session, epoch), max_bytes=1)
        self.assertEqual(served, [0, 1, 2, 0, 1, 2])

    def test_errors_are_repeated(self) -> None:
        """A partition with an error is in every response, and once more when the error is gone."""
        session = self.ask(("t", 0, 0), current_leader_epoch=2).session_id
        replica = self.server.broker.replication.replicas.get("t", 0)
        for epoch in (1, 2):
            told = self.told(self.ask(session=(session, epoch)))
            self.assertEqual(told, [("t", 0, ErrorCode.UNKNOWN_LEADER_EPOCH, -1)])
        replica.take_role(LeaderAndIsr(leader=0, leader_epoch=2, isr=(0,)))
        self.assertEqual(self.told(self.ask(session=(session, 3))), [("t", 0, 0, 0)])
        self.assertEqual(self.told(self.ask(session=(session, 4))), [])

    def test_a_waiting_fetch_is_woken(self) -> None:
        """A long poll in a session ends with the record that comes, and says nothing of the rest."""
        session = self.ask(*(("t", n, 0) for n in range(3))).session_id
        self.client.send(self.request(session=(session, 1), max_wait_ms=10_000), self.version)
        self.assertEqual(self.client.frames(), [])
        self.server.connect().produce(partition=2)
        self.client.turn()
        self.client.turn()
        (response,) = self.client.answers()
        self.assertEqual(self.told(response), [("t", 2, 0, 1)])

    def test_idle_session_is_cheap(self) -> None:
        """A hundred partitions without news cost no look at a log, nor a look at a session's partition."""
        self.server.create("wide", 100)
        session = self.ask(*(("wide", n, 0) for n in range(100))).session_id
        self.assertEqual(self.told(self.ask(session=(session, 1))), [])
        found = ReplicaManager.find
        with (
            patch.object(Log, "read", side_effect=AssertionError("read")),
            patch.object(ReplicaManager, "find") as finds,
        ):
            finds.side_effect = lambda *_: self.fail("looked at")
            for epoch in range(2, 10):
                self.assertEqual(self.told(self.ask(session=(session, epoch))), [])
        self.client.produce(topic="wide", partition=77)
        with patch.object(ReplicaManager, "find", autospec=True, side_effect=found) as finds:
            self.assertEqual(self.told(self.ask(session=(session, 10))), [("wide", 77, 0, 1)])
        self.assertEqual(finds.call_count, 1)

    def test_deleted_topics(self) -> None:
        """A topic that goes away is an error in its sessions, and nothing watches what is gone."""
        session = self.ask(("t", 0, 0), ("u", 0, 0)).session_id
        self.server.now(self.server.broker.control.topic_admin.delete_topics(["t"]))
        response = self.ask(session=(session, 1))
        codes = [p.error_code for topic in response.responses for p in topic.partitions]
        self.assertEqual(codes, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
        self.assertEqual(self.server.watchers, 1)


class SessionByIdTests(SessionCase):
    """The same with topic ids."""

    version = 13

    def test_recreated_topic(self) -> None:
        """An old id gets none of the records that the new topic of its name has."""
        self.client.produce()
        session = self.ask(("t", 0, 0)).session_id
        self.server.now(self.server.broker.control.topic_admin.delete_topics(["t"]))
        self.server.create("t", 3)
        self.client.produce(a_batch(b"secret"))
        response = self.ask(session=(session, 1))
        (answer,) = response.responses[0].partitions
        self.assertEqual((answer.error_code, content(answer)), (ErrorCode.UNKNOWN_TOPIC_ID, b""))

    def test_the_new_id_takes_the_place_of_the_old(self) -> None:
        """A client that replaces the old topic id by the new one in one request gets new records."""
        old_id = self.server.topic_id("t")
        session = self.ask(("t", 0, 0)).session_id
        self.server.now(self.server.broker.control.topic_admin.delete_topics(["t"]))
        self.server.create("t", 3)
        forgotten = [ForgottenTopic(topic_id=old_id, partitions=[0])]
        response = self.ask(("t", 0, 0), session=(session, 1), forgotten_topics_data=forgotten)
        self.assertEqual(self.told(response), [("t", 0, 0, 0)])
        self.assertEqual(self.told(self.ask(session=(session, 2))), [])
        self.client.produce()
        self.assertEqual(self.told(self.ask(session=(session, 3))), [("t", 0, 0, 1)])

    def test_unknown_ids_are_looked_up_again(self) -> None:
        """
        An id the broker has not heard of yet is looked for again when there is news; the client does not name it twice.
        """
        metadata = self.server.broker.member.metadata
        find = type(metadata).topic_by_id
        with patch.object(type(metadata), "topic_by_id", return_value=None) as asked:
            response = self.ask(("t", 0, 0), ("u", 0, 0))
            again = self.ask(session=(response.session_id, 1))
            asked.reset_mock()
            self.assertEqual(self.told(self.ask(session=(response.session_id, 2)))[0][2], ErrorCode.UNKNOWN_TOPIC_ID)
            asked.assert_not_called()
        with metadata.changing():
            pass
        for each in (response, again):
            codes = [p.error_code for topic in each.responses for p in topic.partitions]
            self.assertEqual(codes, [ErrorCode.UNKNOWN_TOPIC_ID] * 2)
        self.assertIs(type(metadata).topic_by_id, find)
        self.client.produce()
        found = self.ask(session=(response.session_id, 3))
        self.assertEqual(self.told(found), [("t", 0, 0, 1), ("u", 0, 0, 0)])
        self.assertEqual(self.server.watchers, 2)


def remembered(count: int) -> list[CachedPartition]:
    """The first partitions of a topic."""
    return [CachedPartition(topic="t", partition=n, offset=0, max_bytes=100, topic_key="t") for n in range(count)]


class SessionLimitTests(SynchronousTestCase):
    """Limits of sessions."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.server = MemoryBroker()
        self.replicas = self.server.broker.replication.replicas
        self.sessions = FetchSessionCache(self.replicas, self.clock.seconds, random.Random(1), 2)

    def create(self) -> int:
        session = self.sessions.create(by_id=False)
        assert session is not None
        return session.session_id

    def test_sessions_in_use_are_not_given_up(self) -> None:
        """When all slots are in use, a client goes without; it is not an error."""
        self.create()
        self.create()
        self.assertIsNone(self.sessions.create(by_id=False))
        self.assertEqual(len(self.sessions), 2)

    def test_least_recently_used_session_is_dropped(self) -> None:
        """After two minutes without a fetch, a session makes room for another."""
        first, second = self.create(), self.create()
        self.clock.advance(EVICTION_SECONDS - 1)
        self.sessions.resume(first, 1, by_id=False)
        self.clock.advance(2)
        third = self.create()
        self.assertNotIn(third, (first, second))
        self.assertRaises(ApiError, self.sessions.resume, second, 1, by_id=False)
        self.sessions.resume(first, 2, by_id=False)
        self.assertIsNone(self.sessions.create(by_id=False))

    def test_no_slots_no_sessions(self) -> None:
        """Zero slots switch sessions off."""
        self.assertIsNone(FetchSessionCache(self.replicas, self.clock.seconds, random.Random(1), 0).create(by_id=True))

    def test_partitions_are_bounded_over_all_sessions(self) -> None:
        """
        However many sessions there may be, they remember so many partitions together, and one of a consumer a tenth.
        """
        sessions = FetchSessionCache(self.replicas, self.clock.seconds, random.Random(1), 1000, 100)
        self.assertIsNone(sessions.create(by_id=False, partitions=11))
        for _ in range(10):
            session = sessions.create(by_id=False, partitions=10)
            assert session is not None
            sessions.update(session, remembered(10), [])
        self.assertEqual(sessions.cached, 100)
        self.assertIsNone(sessions.create(by_id=False, partitions=1))
        self.clock.advance(EVICTION_SECONDS + 1)
        self.assertIsNotNone(sessions.create(by_id=False, partitions=1))
        self.assertEqual(sessions.cached, 90)

    def test_followers_take_precedence(self) -> None:
        """
        A follower may have more than a tenth, and consumers' sessions make room for it.
        """
        sessions = FetchSessionCache(self.replicas, self.clock.seconds, random.Random(1), 1000, 100)
        for _ in range(10):
            session = sessions.create(by_id=False, partitions=10)
            assert session is not None
            sessions.update(session, remembered(10), [])
        follower = sessions.create(by_id=False, follower=2, partitions=70)
        assert follower is not None
        sessions.update(follower, remembered(70), [])
        self.assertEqual((sessions.cached, len(sessions)), (100, 4))

    def test_session_too_large(self) -> None:
        """
        A session that would outgrow its part is given up: its client starts a new one, or none.
        """
        sessions = FetchSessionCache(self.replicas, self.clock.seconds, random.Random(1), 1000, 100)
        session = sessions.create(by_id=False, partitions=8)
        assert session is not None
        sessions.update(session, remembered(8), [])
        sessions.update(session, remembered(10), [("t", 0)])
        self.assertEqual(sessions.cached, 9)
        with self.assertRaises(ApiError) as caught:
            sessions.update(session, remembered(14), [])
        self.assertIs(caught.exception.code, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self.assertEqual((sessions.cached, len(sessions)), (0, 0))

    def test_a_client_with_many_partitions(self) -> None:
        """
        A client that wants more partitions than a session may have is answered in full, with session 0, each time.
        """
        server = MemoryBroker({"max.incremental.fetch.session.cache.partitions": "20"}).start()
        self.addCleanup(server.close)
        server.create("t", 3)
        client = server.connect()
        few, many = ([("t", number, 0) for number in range(count)] for count in (2, 3))
        self.assertNotEqual(client.ask(fetch_request(few, session_id=0, session_epoch=0), 12).session_id, 0)
        response = client.ask(fetch_request(many, session_id=0, session_epoch=0), 12)
        self.assertEqual((response.session_id, len(response.responses[0].partitions)), (0, 3))

    def test_epochs_wrap(self) -> None:
        """After the highest epoch comes 1: 0 and -1 mean other things."""
        session_id = self.create()
        session = self.sessions.resume(session_id, 1, by_id=False)
        session.epoch = MAX_EPOCH
        self.assertEqual(self.sessions.resume(session_id, MAX_EPOCH, by_id=False).epoch, 1)

    def test_a_client_in_a_full_house(self) -> None:
        """A client that finds no slot is answered in full, with session 0, each time."""
        server = MemoryBroker({"max.incremental.fetch.session.cache.slots": "1"}).start()
        self.addCleanup(server.close)
        server.create("t")
        first, second = server.connect(), server.connect()
        request = fetch_request([("t", 0, 0)], session_id=0, session_epoch=0)
        self.assertNotEqual(first.ask(request, 12).session_id, 0)
        response = second.ask(request, 12)
        self.assertEqual((response.session_id, len(response.responses)), (0, 1))
        self.assertEqual(server.watchers, 1)
